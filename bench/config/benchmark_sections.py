"""The sections of a benchmark config in the YAML dialect, as typed, closed models.

Here too:

* Who answers and who judges: the section ``evaluation`` of a benchmark file, and its metrics.

Example::

    data: {type: local, path: ./datasets/notes.jsonl}                      # Data
    schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}   # Schema
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, PositiveInt, field_validator

from bench.config.benchmark_terms import (
    FieldPath,
    FieldPaths,
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
from bench.config.file import ConfigModel


class Data(ConfigModel):
    """Where the rows come from."""

    type: Literal["huggingface", "local", "url"]
    """local: a file that is there; the others are fetched by bench download"""
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
    """of the file; another one is refused"""


class ItemSchema(ConfigModel):
    """Where the parts of a turn stand inside it."""

    content: FieldPath | None = None
    """JSON path of a turn's text"""
    role: FieldPath | None = None
    """JSON path of the role: user or assistant"""
    speaker: FieldPath | None = None
    """JSON path of the speaker's name"""
    text: FieldPath | None = None
    """JSON path of the text, where content is taken"""
    dialog_id: FieldPath | None = None
    """the turn's id"""
    caption: FieldPath | None = None
    """what its picture shows"""
    id: FieldPath | None = None
    """id of a session of one turn; inside sessions the turn's id"""
    date: FieldPath | None = None
    """JSON path of a turn's own date"""


class ContextSection(ConfigModel):
    """The history of a row."""

    field: FieldPath
    """path of the history in a row"""
    type: Literal["array", "object", "string"]
    """array of sessions, object with a key a session, or one string"""
    date_field: FieldPath | None = None
    """path of the list of session dates, as long as the sessions"""
    session_id_field: FieldPath | None = None
    """path of the list of session ids"""
    session_pattern: str = "session_*"
    """``*`` stands for digits"""
    date_pattern: str = "session_*_date_time"
    """keys that hold dates, * for digits; type object"""
    item_schema: ItemSchema | None = None
    """where the parts of a turn are"""

    @field_validator("session_pattern", "date_pattern")
    @classmethod
    def _one_star(cls, value: str) -> str:
        if value.count("*") != 1:
            raise ValueError(f'"{value}" must hold one "*", which stands for digits')
        return value


class Questions(ConfigModel):
    """Questions nested in a row: they share its history."""

    field: FieldPath
    """path of the list of questions in a row"""
    question_field: FieldPath
    """of the question, inside one of them"""
    answer_field: FieldPaths | None = None
    """of the expected answer; a list of paths: all answers that are there"""
    evidence_field: FieldPaths | None = None
    """of the evidence ids"""
    category_field: FieldPath | None = None
    """of the question type"""
    id_field: FieldPath | None = None
    """of the item's id"""
    date_field: FieldPath | None = None
    """of the question's date"""
    choices_field: FieldPaths | None = None
    """of the choices, or a list of paths, one for each choice"""


class SchemaSection(ConfigModel):
    """Where the parts of a row stand."""

    item_id: FieldPath
    """path of the item's id; unique over the file"""
    question: FieldPath | None = None
    """path of the question, where a row asks one"""
    answer: FieldPaths | None = None
    """path of the expected answer or answers; a list of paths: all answers that are there"""
    choices: FieldPaths | None = None
    """path of the choices, for mcq, or a list of paths, one for each choice"""
    rubric: FieldPaths | None = None
    """path of the rubric's points, or a list of paths"""
    choice_answer: FieldPath | None = None
    """path of the right choice"""
    context: ContextSection
    """where the history is"""
    questions: Questions | None = None
    """where nested questions are; they share the row's corpus"""
    metadata: Mapping[str, FieldPath] = Field(default_factory=dict)
    """``questionType`` and ``questionDate`` fill the item; the rest is carried and never sent"""


class QuestionType(ConfigModel):
    name: str
    """as items carry it"""
    evaluation_prompt: str = "default"
    """name of the judge prompt for this type"""
    allow_off_by_one: bool = False
    """adds that rule to the judge's task"""


class EvidenceFields(ConfigModel):
    """Where the gold stands."""

    session_ids_field: FieldPaths | None = None
    """path of the ids of sessions that hold the answer, or a list of paths"""
    turn_ids_field: FieldPaths | None = None
    """path of the ids of turns that do, or a list of paths"""
    turn_flag: FieldPath | None = None
    """a key of a turn that is true for gold turns"""
    parser: Parser = "direct"
    """``exact_text``: a reference is a turn once more, found by its words and who said them"""


class Abstention(ConfigModel):
    """Which items ask for something that is not in the history; any match counts."""

    id_pattern: Pattern | None = None
    """regular expression found in the item's id"""
    question_types: tuple[str, ...] = ()
    """types whose items have no answer"""
    field: FieldPath | None = None
    """path of a flag that is true where there is no answer"""
    equals: bool | int | str | None = None
    """value of ``field`` that means there is no answer: false for a flag such as ``answerable``"""
    phrases: tuple[str, ...] = ()
    """texts by which an answer declines, in its first sentence; refusals in 19 languages are known"""
    score_retrieval: bool = False
    """true: their evidence counts in retrieval metrics"""


class QuestionDate(ConfigModel):
    source: Literal["none", "last_session"] = Field(default="none", alias="from")
    """none, or last_session: the date of the newest session"""


class FieldOnly(ConfigModel):
    """A section that only names a field."""

    field: FieldPath
    """path of the value"""


class Preprocessing(ConfigModel):
    escape_html: bool = False
    """changes the stored text; the run is marked altered"""
    remove_roles: tuple[str, ...] = ()
    """turns of these roles are not ingested"""
    remove_fields: tuple[str, ...] = ()
    """keys dropped from each turn before it is rendered"""
    format_template: str | None = None
    """text of a session memory"""


class Ingestion(ConfigModel):
    mode: Mode = "session-based"
    """session-based: a memory a session; incremental: a memory a turn; bulk: everything at once"""
    date_header: Literal["session", "always", "never"] = "session"
    """where a memory begins with its date: session unit only, always, never"""
    batch_size: Positive | None = None
    """memories per add call, never more than the provider takes; unset: as many as it takes"""
    delay_between_batches: Milliseconds = 0
    """ms between two adds of a corpus"""
    preprocessing: Preprocessing = Preprocessing()
    """what is changed before a memory is made"""


class Search(ConfigModel):
    default_limit: Positive = 10
    """k; -k wins"""
    default_threshold: float | None = None
    """given to providers that map $.threshold"""
    include_chunks: bool = False
    """ask for chunks where they are supported"""


class Runtime(ConfigModel):
    checkpointing: bool = True
    """false has no effect and is noted"""
    resumable: bool = True
    """false has no effect and is noted"""
    checkpoint_granularity: Literal["item", "batch", "session"] = "item"
    """has no effect: a run keeps every phase"""


_METHOD_ALIASES = {"llm-as-judge": "llm-judge", "locomo_qa_score": "locomo-f1", "code_correctness": "code-correctness"}


class ModelChoice(ConfigModel):
    model: str | None = None
    """provider/model; the flag wins, neither means none"""
    temperature: Temperature = 0
    """0 = as deterministic as the model can be"""
    max_tokens: PositiveInt | None = None
    """tokens of a reply, reasoning included; the flag wins, neither means 1024"""


class AnswerPrompt(ConfigModel):
    default: str | None = None
    """text, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """question type -> text, or @file"""
    user_override: bool = True
    """false: --answer-prompt is refused"""
    prompt_fields: tuple[str, ...] = ()
    """metadata names that the prompt may use"""


class JudgePromptFiles(ConfigModel):
    source: Literal["custom", "paper"] = "custom"
    """custom, or paper: the prompts of the benchmark's paper"""
    paper_reference: str | None = None
    """where in the paper"""
    default: str | None = None
    """text, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """name -> text, or @file"""
    abstention: str | None = None
    """for items that must not be answered; wins over the type's"""
    user_override: bool = True
    """false: --judge-prompt is refused"""


class Evaluation(ConfigModel):
    method: Method
    """the evaluator that decides right or wrong"""
    answering_model: ModelChoice = ModelChoice()
    """who answers"""
    answer_prompt: AnswerPrompt = AnswerPrompt()
    """what it is asked"""
    judge: ModelChoice = ModelChoice()
    """who judges, for methods that need a judge"""
    judge_prompts: JudgePromptFiles = JudgePromptFiles()
    """what the judge is asked"""
    pack: str | None = None
    """NAME@VERSION"""
    granularity: Granularity = "auto"
    """level of evidence: turn, session, or auto"""
    custom_evaluator: PythonClass | None = None
    """./file.py:Class beside this file, for method custom"""

    @field_validator("method", mode="before")
    @classmethod
    def _aliases(cls, value: object) -> object:
        """Some names have a second spelling."""
        return _METHOD_ALIASES.get(value, value) if isinstance(value, str) else value


class MetricEntry(ConfigModel):
    """A metric with parameters."""

    name: str
    """a name or alias of bench list metrics"""
    method: str | None = None
    """which evaluator's verdicts it reads"""
    config: Mapping[str, object] = Field(default_factory=dict)
    """parameters of the metric"""
    breakdown: tuple[str, ...] = ()
    """dimensions: question_type, or a metadata key"""
    evaluator: PythonClass | None = None
    """./file.py:Class of a metric or evaluator of your own"""
