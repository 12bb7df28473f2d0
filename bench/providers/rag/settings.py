"""The settings under ``local:`` of the retrieval algorithms, including the keys of older configs.

Example::

    local:
      database: {type: postgres, connectionString: "${DATABASE_URL}"}
      chunking: {size: 1024, overlap: 96, strategy: paragraph}
      enhancement: {enabled: true, model: openai/gpt-4o-mini, questionsPerChunk: 10}
      retrieval: {strategy: weighted, weights: {chunk: 0.5, questions: 0.5}}
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from bench.config.file import ConfigModel


class ChunkDatabase(ConfigModel):
    """The store of chunks and vectors."""

    type: Literal["file", "postgres"] = "file"
    """file: in the run's folder, searched exactly; postgres: needs the vector extension"""
    connection_string: str | None = None
    schema_: str | None = Field(default=None, alias="schema")
    """SQL file next to the config; bench runs it once before it creates the tables (extensions, a search path)"""

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        if self.type == "postgres" and self.connection_string is None:
            raise ValueError('a database of type "postgres" needs "connectionString"')
        return self


class Chunking(ConfigModel):
    """The rule for splitting memories into chunks. All sizes are numbers of tokens."""

    size: PositiveInt = 1024
    overlap: NonNegativeInt = 96
    strategy: Literal["fixed", "semantic", "paragraph"] = "fixed"
    tokenizer: Literal["chars/4"] = "chars/4"

    @model_validator(mode="after")
    def _moves_on(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError('"overlap" must be smaller than "size"')
        return self


class Embedding(ConfigModel):
    """The embedding model in an older config. It is converted to ``client_embeddings`` when the config is loaded."""

    provider: str | None = None
    model: str
    dimensions: PositiveInt | None = None


class Enhancement(ConfigModel):
    """The texts that a language model adds to each chunk."""

    enabled: bool = True
    model: str = "openai/gpt-4o-mini"
    generate_questions: bool = True
    questions_per_chunk: PositiveInt = 10


class Weights(ConfigModel):
    """Weights of the two lists of scores for ``strategy: weighted``."""

    chunk: NonNegativeFloat = 0.5
    questions: NonNegativeFloat = 0.5
    """weight of the second list: the scores of generated questions, or of BM25"""


class Retrieval(ConfigModel):
    """The ranking of chunks."""

    strategy: Literal["weighted", "rrf", "vector"] | None = None
    """None = the strategy of the algorithm itself"""
    max_results: PositiveInt | None = None
    """maximum number of hits if it is below k; None = k"""
    weights: Weights = Weights()


class RagLocal(ConfigModel):
    """The settings under ``local:`` of a retrieval algorithm."""

    database: ChunkDatabase = ChunkDatabase()
    chunking: Chunking = Chunking()
    embedding: Embedding | None = None
    enhancement: Enhancement = Enhancement()
    retrieval: Retrieval = Retrieval()
