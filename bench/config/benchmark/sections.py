"""The sections of a benchmark config in the YAML dialect, as typed, closed models.

::

    data: {type: local, path: ./datasets/notes.jsonl}                      # Data
    schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}   # Schema
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from bench.config.benchmark.terms import (
    FieldPath,
    Format,
    Granularity,
    Method,
    Milliseconds,
    Mode,
    Parser,
    Pattern,
    Positive,
    PythonClass,
    Sha256,
    Temperature,
)
from bench.config.source import ConfigModel


class Data(ConfigModel):
    """Where the rows come from."""

    type: Literal["huggingface", "local", "url"]
    path: str
    """repository id, file, or URL"""
    file: str | None = None
    """the file inside the repository"""
    revision: str | None = None
    """pinned commit"""
    local_path: str | None = None
    """where the file lies; beside a ``local`` path: the same path, and it is the user who brings the file"""
    format: Format | None = None
    """by suffix where it is not given"""
    sha256: Sha256 | None = None


class ItemSchema(ConfigModel):
    """Where the parts of a turn stand inside it."""

    content: FieldPath | None = None
    role: FieldPath | None = None
    speaker: FieldPath | None = None
    text: FieldPath | None = None
    dialog_id: FieldPath | None = None
    """the turn's id"""
    caption: FieldPath | None = None
    """what its picture shows"""
    id: FieldPath | None = None
    """id of a session of one turn; inside sessions the turn's id"""
    date: FieldPath | None = None


class Context(ConfigModel):
    """The history of a row."""

    field: FieldPath
    type: Literal["array", "object", "string"]
    date_field: FieldPath | None = None
    session_id_field: FieldPath | None = None
    session_pattern: str = "session_*"
    """``*`` stands for digits"""
    date_pattern: str = "session_*_date_time"
    item_schema: ItemSchema | None = None

    @field_validator("session_pattern", "date_pattern")
    @classmethod
    def _one_star(cls, value: str) -> str:
        if value.count("*") != 1:
            raise ValueError(f'"{value}" must hold one "*", which stands for digits')
        return value


class Questions(ConfigModel):
    """Questions nested in a row: they share its history."""

    field: FieldPath
    question_field: FieldPath
    answer_field: FieldPath | None = None
    evidence_field: FieldPath | None = None
    category_field: FieldPath | None = None
    id_field: FieldPath | None = None
    date_field: FieldPath | None = None
    choices_field: FieldPath | None = None


class Schema(ConfigModel):
    """Where the parts of a row stand."""

    item_id: FieldPath
    question: FieldPath | None = None
    answer: FieldPath | None = None
    choices: FieldPath | None = None
    rubric: FieldPath | None = None
    choice_answer: FieldPath | None = None
    context: Context
    questions: Questions | None = None
    metadata: Mapping[str, FieldPath] = Field(default_factory=dict)
    """``questionType`` and ``questionDate`` fill the item; the rest is carried and never sent"""


class QuestionType(ConfigModel):
    name: str
    evaluation_prompt: str = "default"
    allow_off_by_one: bool = False
    """adds that rule to the judge's task"""


class EvidenceFields(ConfigModel):
    """Where the gold stands."""

    session_ids_field: FieldPath | None = None
    turn_ids_field: FieldPath | None = None
    turn_flag: FieldPath | None = None
    """a key of a turn that is true for gold turns"""
    parser: Parser = "direct"
    """``exact_text``: a reference is a turn once more, found by its words and who said them"""


class Abstention(ConfigModel):
    """Which items ask for something that is not in the history; any match counts."""

    id_pattern: Pattern | None = None
    question_types: tuple[str, ...] = ()
    field: FieldPath | None = None
    score_retrieval: bool = False


class QuestionDate(ConfigModel):
    source: Literal["none", "last_session"] = Field(default="none", alias="from")


class FieldOnly(ConfigModel):
    """A section that only names a field."""

    field: FieldPath


class Preprocessing(ConfigModel):
    escape_html: bool = False
    """changes the stored text; the run is marked altered"""
    remove_roles: tuple[str, ...] = ()
    remove_fields: tuple[str, ...] = ()
    format_template: str | None = None
    """text of a session memory"""


class Ingestion(ConfigModel):
    mode: Mode = "session-based"
    date_header: Literal["session", "always", "never"] = "session"
    batch_size: Positive = 1
    delay_between_batches: Milliseconds = 0
    preprocessing: Preprocessing = Preprocessing()


class Search(ConfigModel):
    default_limit: Positive = 10
    default_threshold: float | None = None
    include_chunks: bool = False


class ModelChoice(ConfigModel):
    model: str | None = None
    temperature: Temperature = 0


class AnswerPrompt(ConfigModel):
    default: str | None = None
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    user_override: bool = True
    prompt_fields: tuple[str, ...] = ()
    """metadata names that the prompt may use"""


class JudgePrompts(ConfigModel):
    source: Literal["custom", "paper"] = "custom"
    paper_reference: str | None = None
    default: str | None = None
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    abstention: str | None = None
    user_override: bool = True


class Evaluation(ConfigModel):
    method: Method
    answering_model: ModelChoice = ModelChoice()
    answer_prompt: AnswerPrompt = AnswerPrompt()
    judge: ModelChoice = ModelChoice()
    judge_prompts: JudgePrompts = JudgePrompts()
    pack: str | None = None
    """NAME@VERSION"""
    granularity: Granularity = "auto"
    custom_evaluator: PythonClass | None = None

    @field_validator("method", mode="before")
    @classmethod
    def _aliases(cls, value: object) -> object:
        """Some names have a second spelling."""
        return _METHOD_ALIASES.get(value, value) if isinstance(value, str) else value


_METHOD_ALIASES = {"llm-as-judge": "llm-judge", "locomo_qa_score": "locomo-f1", "code_correctness": "code-correctness"}


class MetricEntry(ConfigModel):
    """A metric with parameters."""

    name: str
    method: str | None = None
    config: Mapping[str, object] = Field(default_factory=dict)
    breakdown: tuple[str, ...] = ()
    evaluator: PythonClass | None = None


class Runtime(ConfigModel):
    checkpointing: bool = True
    resumable: bool = True
    checkpoint_granularity: Literal["item", "batch", "session"] = "item"
