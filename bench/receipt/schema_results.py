"""Schema of the results: states of items, and scores by class.

Example::

    receipt.scores.deterministic["recall_at_10"].value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.receipt.base_model import Flag, Hex64, Name, Natural, Number, Text, Wire

State = Literal[
    "correct", "incorrect", "partial", "abstained", "error", "not_ready", "unsupported", "unscored", "measured"
]
ALWAYS_MEASURED = ("ingest_us", "search_us", "ingest_to_searchable_us")


class ByState(Wire):
    """How many items ended in each state."""

    correct: Natural
    """the answer was accepted"""
    incorrect: Natural
    """the answer was not accepted"""
    partial: Natural
    """some of what was asked for was there"""
    abstained: Natural
    """the system answered that it does not know"""
    error: Natural
    """a call failed for good; errorKinds states why"""
    not_ready: Annotated[int, Field(strict=True, ge=0, alias="not_ready")]
    """what was added could not be found in time"""
    unsupported: Natural
    """the provider lacks what the benchmark needs"""
    unscored: Natural
    """answered, but no verdict could be had"""
    measured: Natural
    """retrieval only; no answer was asked for"""

    def of(self) -> dict[str, int]:
        """The counts by state name."""
        return {str(state): int(count) for state, count in self.model_dump(by_alias=True).items()}


class ReceiptCounts(Wire):
    """How the planned items ended."""

    planned: Natural
    """items of the selection times epochs"""
    pending: Natural
    """planned and not ended yet"""
    scored: Natural
    """correct, incorrect, partial and abstained together"""
    by_state: ByState
    """ended items by how they ended; with pending they add up to planned"""
    error_kinds: Mapping[str, Natural]
    """kind of error -> items; adds up to byState.error"""
    retries: Natural
    """attempts beyond the first, over all rows"""


class ReceiptInterval(Wire):
    """Where the true mean plausibly lies."""

    low: Number
    """lower bound"""
    high: Number
    """upper bound"""
    level: Number
    """confidence, as 0.95"""
    method: Name
    """how it was computed"""


class Label(Wire):
    """A score over the items with one label."""

    value: Number | None
    """mean over these items; null when there is none"""
    n: Natural
    """items with a value"""


class ReceiptScore(Wire):
    """One metric over the whole job."""

    definition: Name
    """id of the metric's exact definition; another formula has another id"""
    value: Number | None
    """mean over n, in full precision; null when n is 0"""
    value_failures_as_zero: Number | None
    """mean over n and nFailed with a failure as 0; null when there is neither"""
    n: Natural
    """items with a value"""
    n_excluded: Natural
    """items to which it does not apply"""
    n_failed: Natural
    """items that failed, are pending or lack a verdict of the judge"""
    aggregate: Annotated[str, Field(strict=True, pattern=r"^(mean|other|macro:.+)$")]
    """mean; macro:DIMENSION, the mean of its labels' means; or other"""
    interval: ReceiptInterval | None
    """confidence interval of value; null where none was computed"""
    breakdown: Mapping[str, Mapping[str, Label]]
    """dimension -> label -> score of its items"""


class Times(Wire):
    """Durations in microseconds; null where n is 0."""

    n: Natural
    """durations measured"""
    min: Natural | None
    """the shortest"""
    p50: Natural | None
    """median, nearest rank"""
    p95: Natural | None
    """95th percentile, nearest rank"""
    p99: Natural | None
    """99th percentile, nearest rank"""
    max: Natural | None
    """the longest"""

    def ordered(self) -> tuple[int | None, ...]:
        """From the least to the greatest."""
        return (self.min, self.p50, self.p95, self.p99, self.max)


class Pace(Wire):
    """Something a second."""

    n: Natural
    """measurements behind it"""
    value: Number | None
    """how many a second; null where no time passed"""


class ReceiptUsage(Wire):
    """Calls, tokens and money; null money = not known."""

    calls: Natural
    """requests to models or to a priced service"""
    prompt_tokens: Natural
    """all input, cached input included"""
    completion_tokens: Natural
    """all output, reasoning included"""
    usd_micros: Natural | None
    """millionths of a US dollar; null when any price is not known"""


class Cost(ReceiptUsage):
    """Usage of the whole job, and by role."""

    price_table: Text | None
    """which prices were used; null when nothing cost anything"""
    by_role: Mapping[str, ReceiptUsage]
    """role -> its part of the four figures"""


class ReceiptTotals(Wire):
    """Calls, tokens, money and time of one side of the bill."""

    calls: Natural
    """requests to models and to the memory system"""
    tokens: Natural
    """input and output, as reported or counted"""
    usd_micros: Natural | None
    """millionths of a US dollar; null when the price of a call that ended well is not known"""
    time_us: Natural
    """without the waiting of our own queue and limiter"""


class ReceiptBuild(Wire):
    """The ingest that was searched, and who paid for it."""

    fingerprint: Hex64 | None
    """of its memories in order, settings and versions; null where a part is not known"""
    paid_by: Name
    """run that ingested; another one than run.runId where the build was reused"""
    lane: Name
    """benchmark and provider of that run"""
    corpora: Natural | None
    """corpora in it; null where the journal does not state it"""
    memories: Natural
    """memories in it"""
    paid: ReceiptTotals
    """what this job's lane paid; nothing where another run or another lane did"""
    price: ReceiptTotals
    """what it cost, no matter which run paid"""


class ReceiptContext(Wire):
    """How much of its corpus the answering model read, by estimate (chars/4)."""

    answers: Natural
    """answers that a model gave"""
    tokens: Natural
    """of their contexts together"""
    corpus_tokens: Natural | None
    """of the corpus of each of them, together; null where the journal does not state it"""
    corpora: Natural
    """how many corpora that are"""
    share: Number | None
    """tokens / corpusTokens"""


class ReceiptBreakEven(Wire):
    """When the memory is cheaper than the whole corpus in each prompt."""

    questions: Natural | None
    """questions on one corpus after which it is; null = never, or not known"""
    never: Flag
    """true where a question to the memory is not cheaper"""
    reason: Text
    """why there is no number; empty where there is one"""


class ReceiptMemoryCost(Wire):
    """The build, paid once, and the query, paid for each question; the judge is not in it."""

    build: ReceiptBuild
    """the ingest of every corpus"""
    questions: Natural
    """items times epochs that were searched"""
    query: ReceiptTotals
    """search and answer of all of them"""
    usd_micros_per_correct: Number | None
    """price of the build and of all queries, divided by the correct items"""
    context: ReceiptContext | None
    """null where no model answered"""
    break_even: ReceiptBreakEven | None
    """null where no model answered, and for a control"""


def _timed(measured: Mapping[str, Times | Pace]) -> Mapping[str, Times | Pace]:
    missing = [name for name in ALWAYS_MEASURED if name not in measured]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for name, value in measured.items():
        if not name.endswith("_us" if isinstance(value, Times) else "_per_s"):
            raise ValueError(f"{name} does not carry the unit of its fields")
    return measured


class Scores(Wire):
    """By class: computable from rows alone, given by a model, or measured with a clock."""

    deterministic: Mapping[str, ReceiptScore]
    """metric -> score that the rows alone give, without any model"""
    judged: Mapping[str, ReceiptScore]
    """metric -> score in which a model gave verdicts"""
    measured: Annotated[Mapping[str, Times | Pace], AfterValidator(_timed)]
    """NAME_us -> durations, NAME_per_s -> pace; by the clock, never the same twice"""
    cost: Cost
    """calls, tokens and money"""
