"""The sections of a benchmark config in the YAML dialect, as typed, closed models.

Here too:

* Who answers and who judges: the section ``evaluation`` of a benchmark file, and its metrics.

Example::

    data: {type: local, path: ./datasets/notes.jsonl}                      # Data
    schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}   # SchemaSection
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from bench.config.benchmark_terms import (
    FieldPath,
    FieldPaths,
    FieldValue,
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

Scalar = bool | int | float | str


class Criterion(ConfigModel):
    """What a value must be; every key that is given must hold."""

    differs: Scalar | None = Field(default=None, alias="not")
    """not this text"""
    like: str | None = None
    """fits the pattern, in which * represents anything"""
    above: float | None = None
    """a number above this one"""
    present: bool | None = None
    """true: it is there and not empty; false: it is not"""

    @model_validator(mode="after")
    def _compares(self) -> Criterion:
        if all(said is None for said in (self.differs, self.like, self.above, self.present)):
            raise ValueError("a condition needs not, like, above or present")
        return self


Condition = Scalar | None | tuple[Scalar, ...] | Criterion
Where = Mapping[FieldPath, Condition]


class FieldStep(ConfigModel):
    """How a row gets one field more: ``decode``, ``zip`` or ``file``."""

    decode: FieldValue | None = None
    """a text that is read as JSON, else as a Python literal"""
    zip: Mapping[str, FieldValue] | None = None
    """name -> a list: one list of objects from lists side by side"""
    file: str | None = None
    """another file whose rows are joined; a template: a file a row"""
    rows: FieldPath | None = None
    """where its rows are in it"""
    columns: tuple[str, ...] = ()
    """names of its columns, where it has no header"""
    where: Where = Field(default_factory=dict)
    """which of its rows count"""
    key: FieldValue | None = None
    """a value of its rows ..."""
    by: FieldValue | None = None
    """... that equals this one of ours; a list: a row for each, in that order"""
    many: bool = False
    """all such rows, maybe none"""

    @model_validator(mode="after")
    def _one_kind(self) -> FieldStep:
        if sum(kind is not None for kind in (self.decode, self.zip, self.file)) != 1:
            raise ValueError("a step is one of decode, zip and file")
        if (self.key is None) != (self.by is None):
            raise ValueError("key and by belong together: give both")
        if self.file is None and (self.rows or self.columns or self.where or self.key or self.many):
            raise ValueError("rows, columns, where, key, by and many need a file")
        return self


class Data(ConfigModel):
    """Where the rows come from."""

    type: Literal["huggingface", "local", "url"]
    """local: a file that is there; the others are fetched by bench download"""
    path: str = ""
    """repository id, file, or URL"""
    files: tuple[str, ...] = ()
    """several files instead of a path, one after the other; local only"""
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
    fetch: Mapping[str, str] = Field(default_factory=dict)
    """file in the workspace -> its address (a URL, or hf:OWNER/NAME/FILE) for bench download; of type local"""
    columns: tuple[str, ...] = ()
    """names of the columns of a csv or tsv without a header line"""
    rows: FieldPath | None = None
    """path of the rows in a document: in a json file, else in each line"""
    with_: Mapping[str, FieldStep] = Field(default_factory=dict, alias="with")
    """name -> step: fields that each row gets, in order"""
    where: Where = Field(default_factory=dict)
    """value -> what it must be: which rows count"""

    @property
    def joins(self) -> bool:
        """True when other files belong to the rows."""
        return any(step.file is not None for step in self.with_.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The files of the rows as the config writes them."""
        if self.files:
            return self.files
        return (self.path if self.type == "local" else self.local_path or self.path,)


class ItemSchema(ConfigModel):
    """Where the parts of a turn are inside it."""

    content: FieldValue | None = None
    """JSON path of a turn's text"""
    role: FieldValue | None = None
    """JSON path of the role: user or assistant"""
    speaker: FieldValue | None = None
    """JSON path of the speaker's name"""
    text: FieldValue | None = None
    """JSON path of the text, where content is taken"""
    dialog_id: FieldValue | None = None
    """the turn's id"""
    caption: FieldValue | None = None
    """what its picture shows"""
    id: FieldValue | None = None
    """id of a session of one turn; inside sessions the turn's id"""
    date: FieldValue | None = None
    """JSON path of a turn's own date"""


class SessionParts(ConfigModel):
    """Where the parts of a session are in the element that it is."""

    id: FieldValue | None = None
    """its id"""
    date: FieldValue | None = None
    """its date"""
    turns: FieldPath | None = None
    """its turns; the element itself where it is a list"""


class ContextSection(ConfigModel):
    """The history of a row."""

    field: FieldPath
    """path of the history in a row"""
    type: Literal["array", "object", "string", "session"] = "array"
    """array of sessions, object with a key a session, one string, or session: the field is one session"""
    id: FieldValue | None = None
    """id of the one session of type session or string"""
    session: SessionParts | None = None
    """where id, date and turns are in each element of an array"""
    date_field: FieldPath | None = None
    """path of the list of session dates, as long as the sessions"""
    session_id_field: FieldPath | None = None
    """path of the list of session ids"""
    session_pattern: str = "session_*"
    """``*`` represents digits"""
    date_pattern: str = "session_*_date_time"
    """keys that hold dates, * for digits; type object"""
    item_schema: ItemSchema | None = None
    """where the parts of a turn are"""

    @field_validator("session_pattern", "date_pattern")
    @classmethod
    def _one_star(cls, value: str) -> str:
        if value.count("*") != 1:
            raise ValueError(f'"{value}" must hold one "*", which represents digits')
        return value


class Questions(ConfigModel):
    """Questions nested in a row: they share its history."""

    field: FieldPath
    """path of the list of questions in a row"""
    where: Where = Field(default_factory=dict)
    """value of a question -> what it must be: which of them count"""
    question_field: FieldValue
    """of the question, inside one of them"""
    answer_field: FieldPaths | None = None
    """of the expected answer; a list of paths: all answers that are there"""
    evidence_field: FieldPaths | None = None
    """of the evidence ids"""
    category_field: FieldValue | None = None
    """of the question type"""
    id_field: FieldValue | None = None
    """of the item's id"""
    date_field: FieldValue | None = None
    """of the question's date"""
    choices_field: FieldPaths | None = None
    """of the choices, or a list of paths, one for each choice"""


class Choices(ConfigModel):
    """Choices whose order is not the file's."""

    from_: FieldPaths = Field(alias="from")
    """path of the choices, or a list of paths"""
    shuffle: bool = False
    """true: an order that is fixed for an item and does not tell the right one"""


class RubricPoints(ConfigModel):
    """Points that are objects."""

    from_: FieldPath = Field(alias="from")
    """path of the objects"""
    text: FieldPath
    """what a point says, in one of them"""
    where: Where = Field(default_factory=dict)
    """value of an object -> what it must be: which of them count"""


class SchemaSection(ConfigModel):
    """Where the parts of a row are."""

    item_id: FieldValue
    """path of the item's id; unique over the file"""
    question: FieldValue | None = None
    """path of the question, where a row asks one"""
    answer: FieldPaths | None = None
    """path of the expected answer or answers; a list of paths: all answers that are there"""
    choices: FieldPaths | Choices | None = None
    """path of the choices, for mcq, or a list of paths, one for each choice; with shuffle: from and shuffle"""
    rubric: FieldPaths | RubricPoints | None = None
    """path of the rubric's points, or a list of paths; of points that are objects: from, text and where"""
    choice_answer: FieldValue | None = None
    """path of the right choice"""
    context: ContextSection | Annotated[tuple[ContextSection, ...], Field(min_length=1)]
    """where the history is; a list: histories one after the other"""
    questions: Questions | Annotated[tuple[Questions, ...], Field(min_length=1)] | None = None
    """where nested questions are; they share the row's corpus; a list: several lists, one after the other"""
    metadata: Mapping[str, FieldValue] = Field(default_factory=dict)
    """``questionType`` and ``questionDate`` fill the item; the rest is carried and never sent"""

    @property
    def contexts(self) -> tuple[ContextSection, ...]:
        """The histories of a row."""
        return self.context if isinstance(self.context, tuple) else (self.context,)

    @property
    def question_lists(self) -> tuple[Questions, ...]:
        """The lists of nested questions; none where a row asks one."""
        if self.questions is None:
            return ()
        return self.questions if isinstance(self.questions, tuple) else (self.questions,)

    @property
    def rubric_paths(self) -> FieldPaths | None:
        """Where the points of a rubric are."""
        return self.rubric.from_ if isinstance(self.rubric, RubricPoints) else self.rubric

    @property
    def choice_paths(self) -> FieldPaths | None:
        """Where the choices are."""
        return self.choices.from_ if isinstance(self.choices, Choices) else self.choices


class QuestionType(ConfigModel):
    name: str
    """as items carry it"""
    evaluation_prompt: str = "default"
    """name of the judge prompt for this type"""
    allow_off_by_one: bool = False
    """adds that rule to the judge's task"""


class EvidenceFields(ConfigModel):
    """Where the gold is."""

    session_ids_field: FieldPaths | None = None
    """path of the ids of sessions that hold the answer, or a list of paths"""
    turn_ids_field: FieldPaths | None = None
    """path of the ids of turns that do, or a list of paths"""
    turn_flag: FieldPath | None = None
    """a key of a turn that is true for gold turns"""
    texts_field: FieldPaths | None = None
    """path of sentences that hold the answer, for granularity text"""
    parser: Parser = "direct"
    """``direct``: a turn's id; ``dialog_refs``: ids such as ``D1:3``, also several in one text; ``exact_text``: the
    turn's own text; ``ranges``: numbers and ranges at its end, ``1, 3-5``; ``position``: ``SESSION#N``, from 0"""
    reference: FieldValue | None = None
    """a template that makes an id of each object that the evidence path finds"""
    grade: FieldValue | None = None
    """how relevant each of these objects is: a number, the gain of nDCG; 0 or less is not relevant"""

    @model_validator(mode="after")
    def _graded_by_object(self) -> EvidenceFields:
        if self.grade is not None and (self.reference is None or self.parser == "exact_text"):
            raise ValueError("grade needs reference: both are fields of the objects at the evidence path")
        return self


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
    where: Where = Field(default_factory=dict)
    """value -> what it must be, of the question, its row or its history"""
    phrases: tuple[str, ...] = ()
    """texts by which an answer declines, in its first sentence; refusals in 19 languages are known"""
    score_retrieval: bool = False
    """true: their evidence counts in retrieval metrics"""


class QuestionDate(ConfigModel):
    source: Literal["none", "last_session"] = Field(default="none", alias="from")
    """none, or last_session: the date of the newest session"""


class PublicFacts(ConfigModel):
    """What is known of a public benchmark beside its files; shown, and part of no digest."""

    page: str | None = None
    """its page in the documentation; the name where it is not given"""
    split: str | None = None
    """which part of the data this config reads"""
    items: Positive | None = None
    """questions in it"""
    memories: Positive | None = None
    """memories that are stored for them"""
    memory_tokens: Positive | None = None
    """tokens of one memory, on average"""
    size: str | None = None
    """the same in words, with where it is from"""
    score: str | None = None
    """how the official score is computed"""
    differs: str | None = None
    """what is computed here instead, or besides, and why"""
    baselines: tuple[str, ...] = ()
    """published results, each with where it is from"""


class FieldOnly(ConfigModel):
    """A section that only names a field."""

    field: FieldPath
    """path of the value"""


class Visibility(FieldOnly):
    """The cut-off of an item."""

    through: bool = False
    """true: the session or date of the cut-off itself is seen"""


class ChunkSection(ConfigModel):
    words: Positive
    """so many words at most, cut at sentence and line ends"""


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
    chunk: ChunkSection | None = None
    """pieces of a context of type string: each is a turn"""


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
    methods: Mapping[str, Method] = Field(default_factory=dict)
    """value of methodsBy, * for anything -> the evaluator of those items instead"""
    methods_by: str = "question_type"
    """question_type, a metadata key, or choices (present, absent)"""
    values: tuple[float, ...] = ()
    """what a rubric point may be worth, for rubric-points; 0, 0.5 and 1"""
    labels: Mapping[str, float] = Field(default_factory=dict)
    """for labels: what the judge may say -> its value"""
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
    """level of evidence: turn, session, auto, or text: a hit represents the sentences that its text holds"""
    custom_evaluator: PythonClass | None = None
    """./file.py:Class beside this file, for method custom"""

    @property
    def every_method(self) -> tuple[str, ...]:
        """The evaluator, then those that some items have instead."""
        return tuple(dict.fromkeys((self.method, *self.methods.values())))

    @field_validator("values", "labels")
    @classmethod
    def _in_range(cls, value: Mapping[str, float] | tuple[float, ...]) -> Mapping[str, float] | tuple[float, ...]:
        for one in value.values() if isinstance(value, Mapping) else value:
            if not 0 <= one <= 1:
                raise ValueError(f"{one:g} is not in 0..1")
        return value

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
