"""The sections of a benchmark config, as typed models that reject unknown keys.

Example::

    data: {type: local, path: ./datasets/notes.jsonl}                      # Data
    schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}   # SchemaSection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Protocol

from pydantic import Field, PositiveInt, field_validator, model_validator

from bench.config.benchmark.terms import (
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
    """Conditions on a value. The value must meet all conditions that are set."""

    differs: Scalar | None = Field(default=None, alias="not")
    """the value differs from this value; the two are compared as text"""
    like: str | None = None
    """the value matches this pattern, in which * matches anything"""
    above: float | None = None
    """the value is greater than this number"""
    present: bool | None = None
    """true: the value is present and not empty; false: the value is absent or empty"""

    @model_validator(mode="after")
    def _compares(self) -> Criterion:
        if all(value is None for value in (self.differs, self.like, self.above, self.present)):
            raise ValueError('a condition needs one of these keys: "not", "like", "above", "present"')
        return self


Condition = Scalar | None | tuple[Scalar, ...] | Criterion
Where = Mapping[FieldPath, Condition]


class FieldStep(ConfigModel):
    """A field that is added to each row by ``decode``, ``zip`` or ``file``."""

    decode: FieldValue | None = None
    """path of a text that is parsed as JSON, or as a Python literal if it is not JSON"""
    zip: Mapping[str, FieldValue] | None = None
    """key -> path of a list: lists of equal length become one list of objects with these keys"""
    file: str | None = None
    """another file whose rows are joined; a template may name a different file for each row"""
    rows: FieldPath | None = None
    """path of the rows in the joined file"""
    columns: tuple[str, ...] = ()
    """column names of the joined file, if it has no header"""
    where: Where = Field(default_factory=dict)
    """conditions on the rows of the joined file"""
    key: FieldValue | None = None
    """path of the key in each row of the joined file; a row is joined if its key equals the value at ``by``"""
    by: FieldValue | None = None
    """path of a value in a row of the benchmark; if the value is a list, one row per element is joined, in order"""
    many: bool = False
    """true: all rows with the key are joined, possibly none; false: exactly one row must have the key"""

    @model_validator(mode="after")
    def _one_kind(self) -> FieldStep:
        if sum(kind is not None for kind in (self.decode, self.zip, self.file)) != 1:
            raise ValueError('a step needs exactly one of these keys: "decode", "zip", "file"')
        if (self.key is None) != (self.by is None):
            raise ValueError('"key" and "by" must be used together: set both')
        if self.file is None and (self.rows or self.columns or self.where or self.key or self.many):
            raise ValueError('"rows", "columns", "where", "key", "by" and "many" can be used only together with "file"')
        return self


class Data(ConfigModel):
    """The location of the rows."""

    type: Literal["huggingface", "local", "url"]
    """local: a file on disk; huggingface and url: a file that bench download gets"""
    path: str = ""
    """huggingface: repository id; local: file; url: URL"""
    files: tuple[str, ...] = ()
    """several local files instead of a path, read one after the other"""
    file: str | None = None
    """huggingface: path of the file in the repository"""
    revision: str | None = None
    """huggingface: commit of the repository"""
    local_path: str | None = None
    """huggingface and url: path of the downloaded file, by default datasets/NAME/FILE; local: the same
    as ``path``; write it only if users must provide the data"""
    format: Format | None = None
    """file format; unset: the suffix of the file name decides"""
    sha256: Sha256 | None = None
    """SHA-256 of the data, as bench describe shows it; another digest is an error"""
    fetch: Mapping[str, str] = Field(default_factory=dict)
    """local: file in the workspace -> address from which bench download gets it (a URL, or hf:OWNER/NAME/FILE)"""
    columns: tuple[str, ...] = ()
    """column names of a csv or tsv file without a header line"""
    rows: FieldPath | None = None
    """path of the rows in a JSON document: in the whole json file, or in each line of jsonl"""
    with_: Mapping[str, FieldStep] = Field(default_factory=dict, alias="with")
    """name -> step: fields that are added to each row, in the order in which they are listed"""
    where: Where = Field(default_factory=dict)
    """path -> condition: only rows that meet all conditions are used"""

    @property
    def joins(self) -> bool:
        """Return True if the config joins other files to the rows."""
        return any(step.file is not None for step in self.with_.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the data files, in the spelling of the config."""
        if self.files:
            return self.files
        return (self.path if self.type == "local" else self.local_path or self.path,)


class ItemSchema(ConfigModel):
    """The paths of text, speaker, id and other values in a turn."""

    content: FieldValue | None = None
    """JSONPath of a turn's text"""
    role: FieldValue | None = None
    """JSONPath of the role: user or assistant"""
    speaker: FieldValue | None = None
    """JSONPath of the speaker's name"""
    text: FieldValue | None = None
    """JSONPath of the text, for turns without content"""
    dialog_id: FieldValue | None = None
    """JSONPath of the id of the turn"""
    caption: FieldValue | None = None
    """JSONPath of the caption of the turn's picture"""
    id: FieldValue | None = None
    """JSONPath of a turn's id, as ``dialogId``; if each session is one turn object, JSONPath of the session's id"""
    date: FieldValue | None = None
    """JSONPath of a turn's own date"""


class SessionParts(ConfigModel):
    """The paths of id, date and turns in an element of the list of sessions."""

    id: FieldValue | None = None
    """path of the session's id"""
    date: FieldValue | None = None
    """path of the session's date"""
    turns: FieldPath | None = None
    """path of the session's turns; unset: the element itself is the list of turns"""


class ContextSection(ConfigModel):
    """The location and structure of the history in a row."""

    field: FieldPath
    """path of the history in a row"""
    type: Literal["array", "object", "string", "session"] = "array"
    """array: list of sessions; object: one key per session; string: one text; session: one session"""
    id: FieldValue | None = None
    """types session and string: path of the session's id"""
    session: SessionParts | None = None
    """type array: paths of id, date and turns in each element"""
    date_field: FieldPath | None = None
    """type array: path of the list of session dates, one per session in the same order"""
    session_id_field: FieldPath | None = None
    """type array: path of the list of session ids, one per session in the same order"""
    session_pattern: str = "session_*"
    """type object: pattern of the keys that hold sessions; ``*`` matches digits"""
    date_pattern: str = "session_*_date_time"
    """type object: pattern of the keys that hold the dates of sessions; ``*`` matches digits"""
    item_schema: ItemSchema | None = None
    """paths of text, speaker, id and other values in a turn"""

    @field_validator("session_pattern", "date_pattern")
    @classmethod
    def _one_star(cls, value: str) -> str:
        if value.count("*") != 1:
            raise ValueError(f'"{value}" must contain exactly one "*", in place of the session number')
        return value


class Questions(ConfigModel):
    """Questions nested in a row; all of them share the history of the row."""

    field: FieldPath
    """path of the list of questions in a row"""
    where: Where = Field(default_factory=dict)
    """path -> condition: only questions that meet all conditions are used"""
    question_field: FieldValue
    """path of the question's text"""
    answer_field: FieldPaths | None = None
    """path of the expected answer; for a list of paths, each answer that is found is accepted"""
    evidence_field: FieldPaths | None = None
    """path of the evidence ids"""
    category_field: FieldValue | None = None
    """path of the question type"""
    id_field: FieldValue | None = None
    """path of the item's id"""
    date_field: FieldValue | None = None
    """path of the question's date"""
    choices_field: FieldPaths | None = None
    """path of the choices, or a list of paths, one per choice"""


class Choices(ConfigModel):
    """The choices of a question, and whether they are shuffled."""

    from_: FieldPaths = Field(alias="from")
    """path of the choices, or a list of paths, one per choice"""
    shuffle: bool = False
    """true: shuffle the choices; their order depends only on the item, so it is the same in every run"""


class RubricPoints(ConfigModel):
    """The location of rubric points that are objects."""

    from_: FieldPath = Field(alias="from")
    """path of the objects"""
    text: FieldPath
    """path of the point's text in each object"""
    where: Where = Field(default_factory=dict)
    """path -> condition: only objects that meet all conditions are used"""


class SchemaSection(ConfigModel):
    """The paths of question, answer, history and other values in a row."""

    item_id: FieldValue
    """path of the item's id, which must be unique in the data"""
    question: FieldValue | None = None
    """path of the question, for data with one question per row"""
    answer: FieldPaths | None = None
    """path of the expected answer or answers; for a list of paths, each answer that is found is accepted"""
    choices: FieldPaths | Choices | None = None
    """path of the choices for the evaluator mcq, or a list of paths, one per choice. To shuffle the choices, write an
    object with ``from`` and ``shuffle``"""
    rubric: FieldPaths | RubricPoints | None = None
    """path of the rubric's points, or a list of paths. If the points are objects, write an object with ``from``,
    ``text`` and ``where``"""
    choice_answer: FieldValue | None = None
    """path of the right choice"""
    context: ContextSection | Annotated[tuple[ContextSection, ...], Field(min_length=1)]
    """location of the history. A list has the locations of several histories, which follow one after the other"""
    questions: Questions | Annotated[tuple[Questions, ...], Field(min_length=1)] | None = None
    """location of nested questions, which share the row's corpus. A list has several locations, which are read one
    after the other"""
    metadata: Mapping[str, FieldValue] = Field(default_factory=dict)
    """name -> path of a value of the item. ``questionType`` and ``questionDate`` set its type and date. Other values
    are never sent to a provider"""

    @property
    def contexts(self) -> tuple[ContextSection, ...]:
        """Return the sections that describe the history of a row."""
        return self.context if isinstance(self.context, tuple) else (self.context,)

    @property
    def question_lists(self) -> tuple[Questions, ...]:
        """Return the sections that describe nested questions; empty if each row is one question."""
        if self.questions is None:
            return ()
        return self.questions if isinstance(self.questions, tuple) else (self.questions,)

    @property
    def rubric_paths(self) -> FieldPaths | None:
        """Return the paths of the points of the rubric; None if there is no rubric."""
        return self.rubric.from_ if isinstance(self.rubric, RubricPoints) else self.rubric

    @property
    def choice_paths(self) -> FieldPaths | None:
        """Return the paths of the choices; None if there are no choices."""
        return self.choices.from_ if isinstance(self.choices, Choices) else self.choices


class QuestionType(ConfigModel):
    name: str
    """name of the type, as the items have it"""
    evaluation_prompt: str = "default"
    """name of the judge prompt for this type"""
    allow_off_by_one: bool = False
    """true: the judge is asked to accept numbers that are off by one"""


class EvidenceFields(ConfigModel):
    """The location of the gold evidence."""

    session_ids_field: FieldPaths | None = None
    """path of the ids of the evidence sessions, or a list of paths"""
    turn_ids_field: FieldPaths | None = None
    """path of the ids of turns that hold the answer, or a list of paths"""
    turn_flag: FieldPath | None = None
    """key in a turn; the value true marks the turn as evidence"""
    texts_field: FieldPaths | None = None
    """path of the sentences that hold the answer, for granularity text"""
    parser: Parser = "direct"
    """format of the evidence. ``direct``: ids; ``dialog_refs``: ``D1:3``, also several in one text; ``exact_text``:
    quoted turns; ``ranges``: ``x/1, 3-4`` for the ids x/1, x/3 and x/4; ``position``: ``SESSION#N``, turns from 0"""
    reference: FieldValue | None = None
    """template that makes an evidence id from each object at the evidence path"""
    grade: FieldValue | None = None
    """path of the relevance grade in each object: the gain in nDCG; 0 or less: not relevant"""

    @model_validator(mode="after")
    def _graded_by_object(self) -> EvidenceFields:
        if self.grade is not None and self.reference is None:
            raise ValueError('"grade" needs "reference", the template that makes an id from an object')
        if self.grade is not None and self.parser == "exact_text":
            raise ValueError('"grade" cannot be used with parser "exact_text"')
        return self


class Abstention(ConfigModel):
    """Rules for items that have no answer in the history; one matching rule is enough."""

    id_pattern: Pattern | None = None
    """regular expression; an item whose id contains a match has no answer"""
    question_types: tuple[str, ...] = ()
    """question types whose items have no answer"""
    field: FieldPath | None = None
    """path of a flag that is true when there is no answer"""
    equals: bool | int | str | None = None
    """value of ``field`` that means there is no answer, such as false for a flag ``answerable``"""
    where: Where = Field(default_factory=dict)
    """path -> condition; an item that meets all conditions has no answer. A path is read in the question, then in its
    row, then in its history, until a value is found"""
    phrases: tuple[str, ...] = ()
    """phrases that decline to answer, in addition to the built-in phrases of 31 languages; searched in the first
    sentence of an answer"""
    score_retrieval: bool = False
    """true: items without an answer also count in retrieval metrics"""


class QuestionDate(ConfigModel):
    source: Literal["none", "last_session"] = Field(default="none", alias="from")
    """last_session: an item without a date gets the date of its newest session; none: such an item has no date"""


class PublicFacts(ConfigModel):
    """Published facts about a benchmark. They are only displayed, and are not part of any digest."""

    page: str | None = None
    """name of the benchmark's documentation page; by default the benchmark's name"""
    split: str | None = None
    """the part of the data that this config reads"""
    items: Positive | None = None
    """number of questions"""
    memories: Positive | None = None
    """number of memories that are stored for the questions"""
    memory_tokens: Positive | None = None
    """mean number of tokens of a memory"""
    size: str | None = None
    """size of the data as a text, with its source"""
    score: str | None = None
    """rule that computes the official score"""
    differs: str | None = None
    """differences from the official score, and the reasons"""
    baselines: tuple[str, ...] = ()
    """published results, each with its source"""


class FieldOnly(ConfigModel):
    """A section with one key, which is the path of a value."""

    field: FieldPath
    """path of the value"""


class Visibility(FieldOnly):
    """The end of the history that an item can use: an index of a session, or a date."""

    field: FieldPath
    """path of the end: an index from 0, or a date"""
    through: bool = False
    """true: the session or date at this end is included"""


class ChunkSection(ConfigModel):
    words: Positive
    """maximum words per chunk; chunks end at sentence and line ends"""


class Preprocessing(ConfigModel):
    escape_html: bool = False
    """true: HTML in the stored text is escaped, and the run is marked as altered"""
    remove_roles: tuple[str, ...] = ()
    """roles whose turns are not ingested"""
    remove_fields: tuple[str, ...] = ()
    """keys that are removed from each turn before the text of the turn is made"""
    format_template: str | None = None
    """template for the text of a session memory"""


class Ingestion(ConfigModel):
    mode: Mode = "session-based"
    """session-based: one memory per session; incremental: one memory per turn; bulk: one memory per corpus"""
    date_header: Literal["session", "always", "never"] = "session"
    """session: only session memories begin with their date; always: all memories; never: none"""
    batch_size: Positive | None = None
    """maximum memories per add call; a lower limit of the provider takes precedence; unset: the provider's limit"""
    delay_between_batches: Milliseconds = 0
    """minimum milliseconds between two add calls of a corpus"""
    preprocessing: Preprocessing = Preprocessing()
    """changes to sessions and turns before memories are made"""
    chunk: ChunkSection | None = None
    """rule that splits a history that is a text or a list of texts into pieces, which become turns"""


class Search(ConfigModel):
    default_limit: Positive = 10
    """k, the number of hits to request; -k of a run takes precedence"""
    default_threshold: float | None = None
    """minimum score of a hit, for providers whose config sends $.threshold"""
    include_chunks: bool = False
    """true: request the matching chunks from providers that support this"""


class Runtime(ConfigModel):
    checkpointing: bool = True
    """false has no effect and gives a note"""
    resumable: bool = True
    """false has no effect and gives a note"""
    checkpoint_granularity: Literal["item", "batch", "session"] = "item"
    """has no effect: a run stores every phase of every item"""


_METHOD_ALIASES = {"llm-as-judge": "llm-judge", "locomo_qa_score": "locomo-f1", "code_correctness": "code-correctness"}


class ModelChoice(ConfigModel):
    model: str | None = None
    """full model name, provider/model. A flag of the run takes precedence. If flag and key are unset, no model is
    used"""
    temperature: Temperature = 0
    """sampling temperature; 0 makes replies as deterministic as the model allows"""
    max_tokens: PositiveInt | None = None
    """maximum tokens of a reply, reasoning included; a flag of the run takes precedence; by default 1024"""


class AnswerPrompt(ConfigModel):
    default: str | None = None
    """text of the prompt, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """question type -> text of the prompt, or @file"""
    user_override: bool = True
    """false: --answer-prompt is an error"""
    prompt_fields: tuple[str, ...] = ()
    """names of metadata that the prompts can insert"""


class JudgePromptFiles(ConfigModel):
    source: Literal["custom", "paper"] = "custom"
    """custom: your own prompts; paper: the prompts of the benchmark's paper"""
    paper_reference: str | None = None
    """location of the prompts in the paper, such as a section"""
    default: str | None = None
    """text of the prompt, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """question type or prompt name -> text of the prompt, or @file"""
    abstention: str | None = None
    """prompt for items without an answer, as text or @file. It takes precedence over the prompt of the question type"""
    user_override: bool = True
    """false: --judge-prompt is an error"""


class Routable(Protocol):
    """The properties of an item that select its evaluator."""

    @property
    def question_type(self) -> str | None: ...
    @property
    def choices(self) -> Sequence[str]: ...
    @property
    def metadata(self) -> Mapping[str, object]: ...


def is_routed(item: Routable, by: str, pattern: str) -> bool:
    """Return True if the pattern matches the property ``by`` of the item.

    The key ``methodsBy`` of a config names the property. The value of the property ``choices`` is ``present`` or
    ``absent``.
    """
    if by == "choices":
        return fnmatchcase("present" if item.choices else "absent", pattern)
    return fnmatchcase(str((item.question_type if by == "question_type" else item.metadata.get(by)) or ""), pattern)


class Evaluation(ConfigModel):
    method: Method
    """evaluator that decides whether an answer is right"""
    methods: Mapping[str, Method] = Field(default_factory=dict)
    """question type -> evaluator of the items of this type; * in the type matches any text. With ``methodsBy``, the
    values of another property take the place of the question types"""
    methods_by: str = "question_type"
    """property of an item that selects its evaluator from ``methods``: question_type, a key of schema.metadata, or
    choices (present or absent)"""
    values: tuple[float, ...] = ()
    """possible values of a rubric point from 0 to 1, for method rubric-points; by default 0, 0.5 and 1"""
    labels: Mapping[str, float] = Field(default_factory=dict)
    """label that the judge can return -> its value from 0 to 1, for method labels"""
    answering_model: ModelChoice = ModelChoice()
    """the model that answers"""
    answer_prompt: AnswerPrompt = AnswerPrompt()
    """the prompt for answers"""
    judge: ModelChoice = ModelChoice()
    """the judge model, for methods that need one"""
    judge_prompts: JudgePromptFiles = JudgePromptFiles()
    """the prompts for the judge"""
    pack: str | None = None
    """NAME@VERSION of a pack: prompts, judge model and the rule that reads the judge's reply, as published"""
    granularity: Granularity = "auto"
    """unit of evidence in retrieval metrics. session: sessions; text: the evidence sentences that a hit contains; auto,
    turn, memory: turns if memories and evidence are turns, else sessions"""
    custom_evaluator: PythonClass | None = None
    """./file.py:Class next to this file, for method custom"""

    @property
    def every_method(self) -> tuple[str, ...]:
        """Return the names of all evaluators that can score an item. The name of the main evaluator comes first."""
        return tuple(dict.fromkeys((self.method, *self.methods.values())))

    def method_of(self, item: Routable) -> str:
        """Return the name of the evaluator that scores this item."""
        return next((name for one, name in self.methods.items() if is_routed(item, self.methods_by, one)), self.method)

    @field_validator("values", "labels")
    @classmethod
    def _in_range(cls, value: Mapping[str, float] | tuple[float, ...]) -> Mapping[str, float] | tuple[float, ...]:
        for share in value.values() if isinstance(value, Mapping) else value:
            if not 0 <= share <= 1:
                raise ValueError(f"expected a number from 0 to 1, got {share:g}")
        return value

    @field_validator("method", mode="before")
    @classmethod
    def _aliases(cls, value: object) -> object:
        """Replace an alias of a method with the name of the method."""
        return _METHOD_ALIASES.get(value, value) if isinstance(value, str) else value


class MetricEntry(ConfigModel):
    """A metric with parameters."""

    name: str
    """name or alias of a metric, as bench list metrics shows it"""
    method: str | None = None
    """the evaluator whose verdicts the metric reads"""
    config: Mapping[str, object] = Field(default_factory=dict)
    """parameters of the metric"""
    breakdown: tuple[str, ...] = ()
    """properties of items by which the metric is also grouped: question_type, or a metadata key"""
    evaluator: PythonClass | None = None
    """./file.py:Class of a custom metric or evaluator"""
