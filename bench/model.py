"""The data types that several packages of bench use: frozen values without behavior.

There are three groups of types, which must never mix:

* Types of the dataset (``Corpus``, ``Item``, ``Evidence``) contain the gold data and stay inside the engine.
* Types for providers (``Memory``, ``Space``, ``Query``, ``Hit``) have no field for gold data.
* Types of results (``ScoredItem``, ``Verdict``, ``Row``, ``Measurement``) are for evaluators and metrics.

``Prompt`` is the request to a model, and ``Completion`` is the reply. ``Call`` is one attempt of a request.

Durations are integers in microseconds (``*_us``). Times are datetimes in UTC with a time zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol, TypedDict

from bench.fast_dataclass import dataclass


class RunIdentity(TypedDict):
    """The part of a plan that can change a result. The digest of the plan covers this part."""

    schema: str
    benchmarks: Mapping[str, Mapping[str, object]]
    providers: Mapping[str, Mapping[str, object]]
    models: Mapping[str, Mapping[str, object]]
    jobs: Mapping[str, Mapping[str, object]]
    settings: Mapping[str, object]


class Phase(StrEnum):
    """The phases of a run. Ingest and index run once per corpus, the other phases once per item."""

    INGEST = "ingest"
    INDEX = "index"
    SEARCH = "search"
    ANSWER = "answer"
    EVALUATE = "evaluate"


class State(StrEnum):
    """The final state of an item; a pending item has no state."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    PARTIAL = "partial"
    ABSTAINED = "abstained"
    ERROR = "error"
    NOT_READY = "not_ready"
    UNSUPPORTED = "unsupported"
    UNSCORED = "unscored"
    MEASURED = "measured"


SCORED_STATES = frozenset({State.CORRECT, State.INCORRECT, State.PARTIAL, State.ABSTAINED})
FAILED_STATES = frozenset({State.ERROR, State.NOT_READY})
JUDGED = frozenset(
    {"llm-judge", "rubric", "rubric-points", "order-agreement", "labels", "memory-audit", "faithfulness"}
)
"""names of the evaluators whose verdicts come from a judge model"""


# ---------------------------------------------------------------- dataset side


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a session. ``id`` is unique in the corpus."""

    id: str
    text: str
    role: str | None = None
    speaker: str | None = None
    caption: str | None = None
    when: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A dated conversation. ``date_text`` is the date as the dataset writes it."""

    id: str
    turns: tuple[Turn, ...] = ()
    when: datetime | None = None
    date_text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    """metadata of the memories of this session; never contains gold data"""
    fields: Mapping[str, object] = field(default_factory=dict)
    """values that the template of a session memory can insert. They are not sent in any other way"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """All sessions that are stored together in one namespace, in chronological order."""

    id: str
    sessions: tuple[Session, ...]
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The gold evidence of an item: the sessions and turns with the answer.

    ``sessions`` also contains the session of each turn in ``turns``.
    """

    sessions: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """the sentences with the answer, as quoted in the dataset"""
    grades: Mapping[str, float] = field(default_factory=dict)
    """session id or turn id -> grade of relevance; empty if all are equally relevant"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A test of deletion: the memories of a session are deleted, then a search must not find their content."""

    target: str
    """id of the session whose memories are deleted"""
    verify_query: str
    deleted_content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of a dataset with its gold data. It is never passed to a provider."""

    id: str
    position: int
    """position in the data file, counted from 1 before any filter"""
    corpus: str
    question: str
    answers: tuple[str, ...] = ()
    question_type: str | None = None
    question_date: datetime | None = None
    abstention: bool = False
    evidence: Evidence = Evidence()
    choices: tuple[str, ...] = ()
    choice_answer: str | None = None
    rubric: tuple[str, ...] = ()
    deletion: Deletion | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    visible_until: str | None = None
    """the end of the part of the corpus that this item may use, as a session index or a date"""


# --------------------------------------------------------------- provider side


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn in the form that a provider receives."""

    content: str
    role: str | None = None
    speaker: str | None = None
    when: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory that is sent to a provider. It has no gold data, and its ids reveal nothing about the dataset."""

    id: str
    content: str
    when: datetime | None = None
    role: str | None = None
    speaker: str | None = None
    session_id: str | None = None
    messages: tuple[Message, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The namespace in which a provider stores one corpus. Each attempt to ingest the corpus has its own namespace.

    ``captures`` are values from responses of the provider. A resumed run reads these values from the journal.
    """

    namespace: str
    run_id: str
    benchmark: str
    corpus: str
    attempt: int = 1
    captures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One search at a provider. ``key`` identifies the question in all runs, but does not reveal its dataset id."""

    text: str
    k: int
    when: datetime | None = None
    embedding: tuple[float, ...] | None = None
    key: str = ""
    threshold: float | None = None
    include_chunks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The result of adding a batch of memories.

    ``ids`` is memory id -> the provider's ids. ``jobs`` are the ids of the provider's background tasks, whose status
    bench must request. ``rejected`` is memory id -> reason.
    """

    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    captures: Mapping[str, object] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The result of asking a provider whether stored memories can be searched."""

    state: Literal["ready", "pending", "failed"]
    detail: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    captures: Mapping[str, object] = field(default_factory=dict)
    """values from responses to status calls; they are added to the captures of the namespace"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory that a provider returned.

    ``source_ids`` are the ids of the sent memories that the hit maps to; empty = the hit maps to no memory.
    """

    id: str
    content: str
    score: float | None = None
    source_ids: tuple[str, ...] = ()
    when: datetime | None = None
    chunks: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    marks: Iterable[str] = field(default=(), compare=False, repr=False)
    """short texts, such as ids and tags, that can reveal the corpus of a hit that maps to no memory; not stored"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search: the hits in the order of the provider.

    There are at most k hits, unless the provider has no limit (full-context).
    """

    hits: tuple[Hit, ...] = ()
    requested: int = 0
    """number of hits that the search asked for; 0 in the result of a plug-in = the k of the query"""
    returned: int = 0
    """number of hits in the response, before the list is cut to k; in the result of a plug-in at least the hits"""
    unmapped: int = 0
    ids_available: bool = True
    """false: hits of this provider cannot be mapped to memories, so retrieval metrics do not apply"""
    flags: tuple[str, ...] = ()
    """observations about the search, such as `QUERY_CUT`"""
    replied: str = ""
    """text that the response contained instead of hits, such as ``code: 7``, or a warning next to the hits"""


QUERY_CUT = "query_cut"
"""flag: the question was longer than the provider accepts"""
DATES_RESTORED = "dates_restored"
"""flag: hits had no date and got the date of their memory"""
DATES_MISSING = "dates_missing"
"""flag: hits have no date and cannot be mapped to a memory, although the memories have dates"""
DATES_DIFFER = "dates_differ"
"""flag: the date of a hit differs from the date of its memory"""
REPEATED = "hits_repeated"
"""flag of a search: a hit was returned more than once"""
WITHOUT_TEXT = "without_text"
"""flag: a hit has no text, so the answering model gets nothing from it"""
IN_ORDER = "in_order"
"""flag: the hits are in the order in which their memories were written, or in the reverse of this order"""
QUESTION_FOUND = "question_found"
"""flag of a search: the question itself is among the hits and maps to no memory"""
TEXT_SPOILED = "text_spoiled"
"""flag of a search: the text of a hit is the text of its memory with broken characters"""
TEXT_CUT = "text_cut"
"""flag: hits are shorter than their memories, and each of these hits is the beginning of its memory"""
TEXT_FOLDED = "text_folded"
"""flag of a search: the text of a hit is the text of its memory in another letter case"""
TEXT_WIDER = "text_wider"
"""flag of a search: each hit contains the text of its memory and much more text"""
NO_HITS = "no_hits"
"""flag of a search: a service with memories returned no hits"""
SHARED_MEMORY = "duplicates"
"""flag of a search: several hits map to the same memory"""
TEXT_DIFFERS = "text_differs"
"""flag: the text of a hit and the text of its memory have no common word"""
TEXT_CONSTANT = "text_constant"
"""flag of a search: hits map to different memories, but all hits have the same text"""
ERROR_HIT = "error_hit"
"""flag: the only hit maps to no memory and reads like an error message"""
WARNED = "warned"
"""flag: the response has hits and also a warning"""
MORE_HITS = "more_hits"
"""flag: fewer than k hits were returned, although the response reports more"""
PAGE_REPEATED = "page_repeated"
"""flag of a search: the request for the next page returned the same page again"""
SCORES_MISSING = "scores_missing"
"""flag of a search: no hit has a value at the path of the score"""
SCORES_RISE = "scores_rise"
"""flag: the scores rise with rank, although a higher score should be better"""
SCORES_FALL = "scores_fall"
"""flag: the scores fall with rank, although a lower score should be better"""
UNREADABLE = "unreadable_values"
"""flag: a score or date of a hit could not be read and counts as unknown"""


# ------------------------------------------------------------------ model side


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts that mean the same for all vendors.

    Input tokens include cache reads and writes. Output tokens include reasoning.
    """

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both; it is marked as estimated if one of the two is estimated."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request to a model.

    The model ``builtin/extractive`` reads ``question`` and ``context``. All other models read ``messages``.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    json_schema: Mapping[str, object] | None = None
    question: str = ""
    context: tuple[str, ...] = ()
    template_sha256: str = ""
    """SHA-256 of the template from which the prompt was made; empty = no template"""
    stable: int = 0
    """number of characters at the start of the first message that other prompts of the run also start with; not sent"""
    epoch: int = 1
    """the epoch of the item; not sent"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The reply of a model. ``model`` is the model id that the endpoint returned."""

    text: str
    model: str
    finish: Literal["stop", "length", "refusal", "other"] = "stop"
    fingerprint: str | None = None
    usage: Usage | None = None
    cost_usd: str | None = None
    """decimal text, None = unknown"""
    saved_usd: str | None = None
    """USD that caches or a batch saved, compared to the price without them; None = unknown, or nothing saved"""
    latency_us: int = 0
    attempts: int = 1
    ignored: tuple[str, ...] = ()
    """requested parameters that the model rejected"""
    raw: str | None = None
    """the text before reasoning was removed; None if nothing was removed"""
    reasoning: str = ""
    """reasoning that the endpoint sent separately from the text"""
    native_finish: str = ""
    """the reason for the end of the reply, in the words of the endpoint"""
    flags: tuple[str, ...] = ()
    """``usage_unreadable``: a count of the usage is not a whole number; ``prompt_cut``: the endpoint read far fewer
    tokens than were sent; ``cached``: the reply is from the call cache, and no call was made; ``batched``: the reply
    came in a batch; ``prompt_cached``: the vendor's prompt cache had a part of the prompt, or stored it"""
    sent_tokens: int | None = None
    """estimated tokens of the prompt; None = the prompt was not sent"""


class Model(Protocol):
    """An answering model or judge, built-in or behind HTTP."""

    @property
    def name(self) -> str: ...

    async def complete(self, prompt: Prompt) -> Completion: ...


class Embedder(Protocol):
    """An embedding model.

    It returns one vector per text, in the order of the texts. All vectors have the same length.
    """

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]: ...


# ---------------------------------------------------------------- call records


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt of one request, as the call log stores it. The four durations add up to the total."""

    endpoint: str
    """name of the rate limiter that the call used, such as ``chroma.add`` or ``openai/gpt-4o.judge``"""
    role: Literal["provider", "answering", "judge", "embedding"]
    attempt: int
    status: int | None
    """HTTP status; None = no response"""
    outcome: str
    """``ok`` or the error kind"""
    started_at: datetime
    queue_us: int = 0
    limiter_us: int = 0
    network_us: int = 0
    provider_us: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    model: str | None = None
    usage: Usage | None = None
    cost_usd: str | None = None

    @property
    def reports_usage(self) -> bool:
        """Return True if the response reports a usage or a cost, so that the call is billed even if it failed."""
        return self.usage is not None or self.cost_usd is not None


# ----------------------------------------------------------------- result side


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItem:
    """The data that an evaluator receives about an item, including gold data."""

    id: str
    question: str
    answers: tuple[str, ...]
    question_type: str | None = None
    question_date: datetime | None = None
    abstention: bool = False
    choices: tuple[str, ...] = ()
    choice_answer: str | None = None
    rubric: tuple[str, ...] = ()
    deletion: Deletion | None = None
    evidence_texts: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    stored: tuple[str, ...] | None = None
    """the memories that the provider lists for the corpus of the item; None = not requested, or not supported"""
    refusals: tuple[str, ...] = ()
    """phrases that decline to answer, in addition to the built-in phrases"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of an evaluator for one item.

    ``value`` is None if nothing was scored. ``reason`` explains the result.
    """

    evaluator: str
    value: float | None
    correct: bool | None
    reason: str = ""
    judged: bool = False
    """true: a judge model gave the verdict"""
    abstained: bool = False
    """true: the answer declines to answer"""
    faithfulness: float | None = None
    model: str | None = None
    fingerprint: str | None = None
    prompt_name: str | None = None
    prompt_sha256: str | None = None
    raw: str | None = None
    """the full reply of the judge"""
    ignored: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    """name -> additional number that metrics read; these numbers are not stored"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The data that metrics read about one item in one epoch. The engine builds it once."""

    benchmark: str
    corpus: str
    item_id: str
    epoch: int = 1
    state: State | None = None
    """None = pending"""
    error_kind: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """property of the item, such as ``question_type``, -> its value"""
    answerable: bool = True
    adversarial: bool = False
    abstained: bool = False
    retrieved: tuple[tuple[str, ...], ...] | None = None
    """for each of the first k hits, its ids, in the order of the provider; None = no search result or no ids"""
    returned_scores: tuple[float | None, ...] = ()
    relevant: tuple[str, ...] = ()
    """ids of the relevant evidence: turns, sessions or texts, as the job counts them; empty = excluded from retrieval
    metrics"""
    grades: tuple[float, ...] = ()
    """grade of each id in ``relevant``; empty = all grades are 1"""
    prediction: str | None = None
    references: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    category: str | None = None
    """category id of the dataset, if a metric needs it (LoCoMo 1-5)"""
    times_us: Mapping[str, int] = field(default_factory=dict)
    """phase, or phase and component such as ``search.network`` -> microseconds of the last attempt, which succeeded.
    Components: queue, limiter, network, provider"""
    tokens: Mapping[str, int | None] = field(default_factory=dict)
    costs_usd: Mapping[str, str | None] = field(default_factory=dict)
    reason: str = ""
    """the reason why retrieval metrics do not apply, such as no_source_ids or no_evidence"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    low: float
    high: float
    level: float
    method: str

    def to_json(self) -> IntervalDocument:
        """Return the interval as JSON."""
        return {"low": self.low, "high": self.high, "level": self.level, "method": self.method}


class IntervalDocument(TypedDict):
    """An interval as JSON."""

    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The value of a metric over many rows. ``n + n_excluded + n_failed`` is the number of planned items."""

    metric: str
    definition: str
    value: float | None
    value_failures_as_zero: float | None
    n: int
    n_excluded: int = 0
    n_failed: int = 0
    interval: Interval | None = None
    breakdown: Mapping[str, Mapping[str, Measurement]] = field(default_factory=dict)
    unit: str | None = None
    n_unknown: int = 0
    method: str | None = None
    estimated: bool = False
    excluded_reasons: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    spread: float | None = None
    """standard deviation between the epochs of an item, averaged over the items"""
