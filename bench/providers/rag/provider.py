"""The base class of the retrieval algorithms: it splits texts into chunks, and embeds, stores and ranks the chunks.

Example::

    class Plain(Rag):
        strategy = "vector"
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import anyio

from bench.errors import ConfigError
from bench.model import Found, Hit, Ingested, Memory, Model, Query, Readiness, Space
from bench.processor_time import cpu_timed
from bench.providers.adapters import local_of
from bench.providers.embedding import question_vector, required_embedder
from bench.providers.protocol import Durability, ProviderContext, Waiting
from bench.providers.rag.chunks import bm25, chunks, rank_fusion, ranked, scaled, weighted_sum
from bench.providers.rag.index import ChunkIndex, FileIndex, Piece, Similarities
from bench.providers.rag.settings import RagLocal

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

CONCURRENT_CHUNKS = 8
"""maximum number of chunks that a language model enriches at the same time"""

Strategy = Literal["weighted", "rrf", "vector"]
Restore = Callable[[Space, Path], Awaitable[None]]
Digest = Callable[[Space], Awaitable[str]]


class Rag:
    """A provider that splits memories into chunks and ranks the chunks by vectors.

    A subclass can let a language model write texts about each chunk, and can add a second list of scores.
    """

    strategy: ClassVar[Strategy] = "vector"
    enriches: ClassVar[bool] = False
    """True if a language model writes a text about each chunk"""

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        self.wait = Waiting()
        self.local = local_of(config, RagLocal)
        self._embedder = required_embedder(config, context.embedder)
        self._config = config
        self._context = context
        self._index = index = self._opened_index()
        if isinstance(index, FileIndex):
            self.restore: Restore = lambda space, run_dir: index.restore(space.namespace, run_dir)
            self.digest: Digest = lambda space: index.digest(space.namespace)
        self.model: Model | None = None

    @property
    def durability(self) -> Durability:
        """Return "service" if chunks are stored in PostgreSQL, "file" if they are stored in the run's folder."""
        return "service" if self.local.database.type == "postgres" else "file"

    def _opened_index(self) -> ChunkIndex:
        database = self.local.database
        if database.type == "file":
            return FileIndex(self._context.run_dir / self._config.name)
        from bench.providers.postgres import Database
        from bench.providers.rag.postgres import PostgresIndex

        where = self._config.place("local", "database", "connectionString")
        opened = Database.resolve(self._config.name, database.connection_string or "", self._context, where=where)
        return PostgresIndex(opened, self._schema(database.schema_))

    def _schema(self, file: str | None) -> str | None:
        if file is None:
            return None
        path = self._config.folder / file
        if not path.is_file():
            where = self._config.place("local", "database", "schema")
            raise ConfigError(
                f"no such file: {file}", where=where, hint="correct the path, which is relative to the config"
            )
        return path.read_text(encoding="utf-8")

    @property
    def _enriching(self) -> bool:
        return self.enriches and self.local.enhancement.enabled

    async def __aenter__(self) -> Self:
        if self._enriching and self._context.open_model is not None:
            self.model = await self._context.open_model(self.local.enhancement.model)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._index.close()

    @cpu_timed
    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Split the memories into chunks, and store the chunks. A stored memory with the same id is replaced."""
        pieces = [piece for memory in memories for piece in await self._pieces(memory)]
        await self._index.delete(space.namespace, [memory.id for memory in memories])
        await self._index.put(space.namespace, await self._embedded(pieces))
        flagged = sum(bool(piece.flags) for piece in pieces)
        captures = {"flagged_chunks": [flagged]} if flagged else {}
        return Ingested(ids={memory.id: (memory.id,) for memory in memories}, captures=captures)

    async def _pieces(self, memory: Memory) -> list[Piece]:
        texts = await chunks(memory.content, self.local.chunking, partial(self._embedder.embed, kind="document"))
        plain = [
            Piece(
                id=f"{memory.id}#{number}",
                memory=memory.id,
                text=text,
                when=memory.when.isoformat() if memory.when else None,
                session=memory.session_id,
            )
            for number, text in enumerate(texts)
        ]
        if not self._enriching:
            return plain
        if self.model is None:  # anyone who only searches or clears needs none
            raise ConfigError(
                f"{self._config.name} needs a language model",
                where=self._config.place("local"),
                hint="set local.enhancement.model",
            )
        return await self._enriched(self.model, memory, plain)

    async def _enriched(self, model: Model, memory: Memory, plain: Sequence[Piece]) -> list[Piece]:
        found = list(plain)
        free = anyio.CapacityLimiter(CONCURRENT_CHUNKS)

        async def one(index: int) -> None:
            async with free:
                found[index] = await self.enrich(model, memory, plain[index])

        try:
            async with anyio.create_task_group() as group:
                for index in range(len(plain)):
                    group.start_soon(one, index)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def enrich(self, model: Model, memory: Memory, piece: Piece) -> Piece:
        """Return the chunk with texts that ``model`` writes about the chunk. This base class adds no texts."""
        return piece

    async def _embedded(self, pieces: Sequence[Piece]) -> list[Piece]:
        texts = [text for piece in pieces for text in (piece.indexed, *piece.questions)]
        vectors = iter(await self._embedder.embed(texts, kind="document") if texts else [])
        return [
            replace(piece, vector=next(vectors), question_vectors=tuple(next(vectors) for _ in piece.questions))
            for piece in pieces
        ]

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return "ready", because a stored chunk can be found immediately."""
        return Readiness(state="ready")

    @cpu_timed
    async def search(self, space: Space, query: Query) -> Found:
        """Return at most k chunks, best first. A blank question finds nothing."""
        pieces = await self._index.pieces(space.namespace)
        if not query.text.strip() or not pieces:
            return Found(requested=query.k)
        vector = query.embedding or await question_vector(self._embedder, query.text)
        scores = self._scores(query.text, pieces, await self._index.similarities(space.namespace, vector))
        most = min(query.k, self.local.retrieval.max_results or query.k)
        hits = tuple(_hit(pieces[key], scores[key]) for key in ranked(scores)[:most])
        return Found(hits=hits, requested=query.k, returned=len(hits))

    def _scores(self, text: str, pieces: Mapping[str, Piece], similarities: Similarities) -> Mapping[str, float]:
        settings = self.local.retrieval
        match settings.strategy or self.strategy:
            case "vector":
                return similarities.chunks
            case "rrf":
                return rank_fusion(similarities.chunks, self.second_scores(text, pieces, similarities))
            case "weighted":
                shares = (settings.weights.chunk, settings.weights.questions)
                return weighted_sum(similarities.chunks, self.second_scores(text, pieces, similarities), shares)

    def second_scores(self, text: str, pieces: Mapping[str, Piece], similarities: Similarities) -> Mapping[str, float]:
        """Return the second score of each chunk: BM25 of its indexed text, divided by the largest score."""
        return scaled(bm25(text, {key: piece.indexed for key, piece in pieces.items()}))

    async def clear(self, space: Space) -> int | None:
        """Delete the namespace; return how many chunks it had."""
        return await self._index.clear(space.namespace)

    async def count(self, space: Space) -> int:
        """Return the number of memories in the namespace."""
        return len({piece.memory for piece in (await self._index.pieces(space.namespace)).values()})

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories with these ids."""
        await self._index.delete(space.namespace, memory_ids)

    async def update(self, space: Space, memories: Sequence[Memory]) -> None:
        """Replace the stored memories that have the same ids."""
        await self.ingest(space, memories)

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]:
        """Return all chunks of the namespace, or only those of one session."""
        pieces = (await self._index.pieces(space.namespace)).values()
        return [_hit(piece, None) for piece in pieces if session_id in (None, piece.session)]


def _hit(piece: Piece, score: float | None) -> Hit:
    return Hit(
        id=piece.id,
        content=piece.text,
        score=score,
        source_ids=(piece.memory,),
        when=datetime.fromisoformat(piece.when) if piece.when else None,
        metadata={"context": piece.context} if piece.context else {},
    )
