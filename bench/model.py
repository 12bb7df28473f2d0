"""The frozen value types that all packages exchange, without behavior.

What is here is known to more than one room; what one room alone knows is in that room. It is long because it is
one vocabulary, read from top to bottom: a line a field. Three sides must never mix:

* *dataset side* (``Corpus``, ``Item``, ``Evidence``) holds the gold and stays inside the engine;
* *provider side* (``Memory``, ``Space``, ``Query``, ``Hit``) has no gold field at all;
* *result side* (``ScoredItem``, ``Verdict``, ``Row``, ``Measurement``) is what evaluators and metrics speak.

Between them ``Prompt`` and ``Completion`` are what a model is asked and states, and ``Call`` is the result of a call.
Durations are integer microseconds (``*_us``), instants are aware UTC datetimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from bench.values import dataclass


class Phase(StrEnum):
    """ingest and index happen once a corpus, the others once an item."""

    INGEST = "ingest"
    INDEX = "index"
    SEARCH = "search"
    ANSWER = "answer"
    EVALUATE = "evaluate"


class State(StrEnum):
    """How an item ended; an item that has not ended is pending, which is not a state."""

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
"""evaluators whose verdicts a model gives"""


# ---------------------------------------------------------------- dataset side


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a session; ``id`` is unique in the corpus."""

    id: str
    text: str
    role: str | None = None
    speaker: str | None = None
    caption: str | None = None
    when: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A dated conversation; ``date_text`` is the date as it is in the file."""

    id: str
    turns: tuple[Turn, ...] = ()
    when: datetime | None = None
    date_text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    """goes to ``Memory.metadata``; never gold"""
    fields: Mapping[str, object] = field(default_factory=dict)
    """what the text of a session memory names; never sent by itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The sessions that live in one memory, in true order."""

    id: str
    sessions: tuple[Session, ...]
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where the answer is; turn evidence always implies its sessions."""

    sessions: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """sentences that hold the answer, as the dataset quotes them"""
    grades: Mapping[str, float] = field(default_factory=dict)
    """session id or turn id -> how relevant it is; empty where all are equally so"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The delete step of an add-delete-verify item."""

    target: str
    """id of the session (row) whose memories are deleted"""
    verify_query: str
    deleted_content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that is scored. Carries gold: never handed to a provider."""

    id: str
    position: int
    """1-based, in file order, before any filter"""
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
    """the cut-off (index or date) of what the item may see"""


# --------------------------------------------------------------- provider side


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn as a provider may see it."""

    content: str
    role: str | None = None
    speaker: str | None = None
    when: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is sent to ``ingest``. Every id is opaque and the type has no gold field."""

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
    """One corpus attempt at one provider; ``captures`` come back from the journal on resume."""

    namespace: str
    run_id: str
    benchmark: str
    corpus: str
    attempt: int = 1
    captures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question as a provider sees it; ``key`` is opaque and the same in every run."""

    text: str
    k: int
    when: datetime | None = None
    embedding: tuple[float, ...] | None = None
    key: str = ""
    threshold: float | None = None
    include_chunks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What a provider gave back for a batch: its ids by memory id, job ids to poll, refusals."""

    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    captures: Mapping[str, object] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The answer of one round of status calls."""

    state: Literal["ready", "pending", "failed"]
    detail: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    captures: Mapping[str, object] = field(default_factory=dict)
    """what only the status calls show; merged into the namespace's captures like those of a batch"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory that a provider returned; ``source_ids`` are memory ids, empty = unmapped."""

    id: str
    content: str
    score: float | None = None
    source_ids: tuple[str, ...] = ()
    when: datetime | None = None
    chunks: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    marks: Iterable[str] = field(default=(), compare=False, repr=False)
    """ids, tags and other short texts beside the content of an unmapped hit: they may show whose it is; not stored"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Hits in the provider's order, at most k unless the provider is unbounded."""

    hits: tuple[Hit, ...] = ()
    requested: int = 0
    returned: int = 0
    """how many the provider sent before the cut"""
    unmapped: int = 0
    ids_available: bool = True
    """False: this provider has no way back to memory ids, retrieval metrics do not apply"""
    flags: tuple[str, ...] = ()
    """what was odd: `QUERY_CUT`, `UNREADABLE`"""


QUERY_CUT = "query_cut"
"""the question was longer than the provider takes"""
DATES_RESTORED = "dates_restored"
"""hits without a date have that of the memory they map to"""
DATES_MISSING = "dates_missing"
"""hits of dated memories have no date, and nothing states which memory they are"""
DATES_DIFFER = "dates_differ"
"""a hit is dated on another day than the memory that it maps to"""
REPEATED = "hits_repeated"
"""a flag of a search: a hit came more than once"""
WITHOUT_TEXT = "without_text"
"""a hit has no text: the answering model sees nothing of it"""
IN_ORDER = "in_order"
"""the hits come in the order in which their memories were written, or in its reverse"""
QUESTION_FOUND = "question_found"
"""flag of a search: the question itself is among the hits, and leads to no memory"""
TEXT_SPOILED = "text_spoiled"
"""flag of a search: the text of a hit is that of its memory with broken characters"""
TEXT_CUT = "text_cut"
"""every hit that is shorter than its memory is the beginning of it"""
TEXT_FOLDED = "text_folded"
"""flag of a search: the text of a hit is that of its memory in another case"""
TEXT_WIDER = "text_wider"
"""flag of a search: each hit holds the memory that it maps to and much more"""
NO_HITS = "no_hits"
"""flag of a search: a service that holds memories returned none"""
SHARED_MEMORY = "duplicates"
"""flag of a search: several hits map to one and the same memory"""
TEXT_DIFFERS = "text_differs"
"""a hit shares no word with the memory that it maps to"""
MORE_HITS = "more_hits"
"""fewer than k hits came, and the answer says that there are more"""
SCORES_RISE = "scores_rise"
"""the scores of the hits rise with rank, although higher is better"""
SCORES_FALL = "scores_fall"
"""the scores of the hits fall with rank, although lower is better"""
UNREADABLE = "unreadable_values"
"""a score or date of a hit could not be read and counts as unknown"""


# ------------------------------------------------------------------ model side


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens with one fixed meaning: input holds cache reads and writes, output holds reasoning."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request to a model. ``question`` and ``context`` serve readers that need no prompt."""

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    json_schema: Mapping[str, object] | None = None
    question: str = ""
    context: tuple[str, ...] = ()
    template_sha256: str = ""
    """digest of the template that it was made from; empty = it has none"""
    stable: int = 0
    """characters at the start of the first message that other prompts of the run begin with too; not sent"""
    epoch: int = 1
    """the repeat of the item that it belongs to; not sent"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's answer, with the model id as the endpoint returned it."""

    text: str
    model: str
    finish: Literal["stop", "length", "refusal", "other"] = "stop"
    fingerprint: str | None = None
    usage: Usage | None = None
    cost_usd: str | None = None
    """decimal text, None = unknown"""
    saved_usd: str | None = None
    """how much less it cost than the same call sent alone and remembered by no one; None = unknown, or nothing"""
    latency_us: int = 0
    attempts: int = 1
    ignored: tuple[str, ...] = ()
    """parameters that were requested and that the model refused"""
    raw: str | None = None
    """the text as it was sent, where reasoning was taken out of it"""
    reasoning: str = ""
    """what the endpoint sent as reasoning, apart from the text"""
    native_finish: str = ""
    """the finish as the endpoint names it"""
    flags: tuple[str, ...] = ()
    """``usage_unreadable``: a count of the usage is not a whole number; ``prompt_cut``: the endpoint read far fewer
    tokens than were sent; ``cached``: it comes from the call cache, and nothing was called;
    ``batched``: it came in a batch; ``prompt_cached``: the vendor's cache of prompts had a part of it, or took it"""
    sent_tokens: int | None = None
    """our own estimate of the prompt; None = not sent"""


class Model(Protocol):
    """A reader or judge: built-in or behind HTTP, the caller cannot tell."""

    @property
    def name(self) -> str: ...

    async def complete(self, prompt: Prompt) -> Completion: ...


class Embedder(Protocol):
    """Texts to unit-free vectors, in order, all of one dimension."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]: ...


# ---------------------------------------------------------------- call records


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt of one request, as the ledger keeps it. The four times add up to the whole."""

    endpoint: str
    """limiter name, e.g. ``chroma.add`` or ``openai/gpt-4o.judge``"""
    role: Literal["provider", "answering", "judge", "embedding"]
    attempt: int
    status: int | None
    """HTTP status, None = no answer"""
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


# ----------------------------------------------------------------- result side


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItem:
    """What an evaluator may see of an item: the gold, never the provider."""

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
    """what the provider lists of its history; None = it was not asked, or cannot say"""
    refusals: tuple[str, ...] = ()
    """phrases by which an answer declines, beside those that are known in many languages"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An evaluator's outcome. ``value`` None = not scored, and ``reason`` states why."""

    evaluator: str
    value: float | None
    correct: bool | None
    reason: str = ""
    judged: bool = False
    """True when a model gave it"""
    abstained: bool = False
    """the answer is a refusal to answer"""
    faithfulness: float | None = None
    model: str | None = None
    fingerprint: str | None = None
    prompt_name: str | None = None
    prompt_sha256: str | None = None
    raw: str | None = None
    """the judge's full text"""
    ignored: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    """numbers beside the value, by name; metrics read them, and they are not stored"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Everything a metric may know of one item of one job (one epoch). Built by the engine, once."""

    benchmark: str
    corpus: str
    item_id: str
    epoch: int = 1
    state: State | None = None
    """None = pending"""
    error_kind: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """dimension -> label, e.g. question_type"""
    answerable: bool = True
    adversarial: bool = False
    abstained: bool = False
    retrieved: tuple[tuple[str, ...], ...] | None = None
    """ids that each kept hit represents, in the provider's order; None = no search result or no ids"""
    returned_scores: tuple[float | None, ...] = ()
    relevant: tuple[str, ...] = ()
    """evidence ids at the job's evidence level; empty = excluded from retrieval metrics"""
    grades: tuple[float, ...] = ()
    """the grade of each of them; empty = all are 1"""
    prediction: str | None = None
    references: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    category: str | None = None
    """the dataset's own category id where a protocol needs it (LoCoMo 1-5)"""
    times_us: Mapping[str, int] = field(default_factory=dict)
    """PHASE or PHASE.PART (queue, limiter, network, provider) of the successful last attempt"""
    tokens: Mapping[str, int | None] = field(default_factory=dict)
    costs_usd: Mapping[str, str | None] = field(default_factory=dict)
    reason: str = ""
    """why retrieval does not apply, e.g. no_source_ids, no_evidence"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A metric's outcome over many rows: ``n + n_excluded + n_failed`` = planned items."""

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
    """mean within-item standard deviation over epochs"""
