"""The part of the receipt schema for results: states of items, and scores.

Example::

    receipt.scores.deterministic["recall_at_10"].value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.receipt.base_model import ClosedModel, Flag, Hex64, Name, Natural, Number, Text

State = Literal[
    "correct", "incorrect", "partial", "abstained", "error", "not_ready", "unsupported", "unscored", "measured"
]
ALWAYS_MEASURED = ("ingest_us", "search_us", "ingest_to_searchable_us")


class ByState(ClosedModel):
    """The number of items that ended in each state."""

    correct: Natural
    """the answer was accepted"""
    incorrect: Natural
    """the answer was not accepted"""
    partial: Natural
    """a part of the answer was right"""
    abstained: Natural
    """the answer was a refusal: the system does not know"""
    error: Natural
    """a call failed permanently; errorKinds has the reasons"""
    not_ready: Annotated[int, Field(strict=True, ge=0, alias="not_ready")]
    """the index was not ready in time"""
    unsupported: Natural
    """the provider lacks a required capability"""
    unscored: Natural
    """answered, but without a verdict"""
    measured: Natural
    """retrieval only, without an answer"""

    def of(self) -> dict[str, int]:
        """Return state name -> number of items in this state."""
        return {str(state): int(count) for state, count in self.model_dump(by_alias=True).items()}


class ReceiptCounts(ClosedModel):
    """The number of planned items, overall and by state."""

    planned: Natural
    """selected items times epochs"""
    pending: Natural
    """planned items that have not ended"""
    scored: Natural
    """sum of correct, incorrect, partial and abstained"""
    by_state: ByState
    """number of ended items per state; their sum plus pending is planned"""
    error_kinds: Mapping[str, Natural]
    """kind of error -> number of items; the sum is byState.error"""
    retries: Natural
    """sum of (attempts - 1) over all phases of all rows of the items file"""


class ReceiptInterval(ClosedModel):
    """The confidence interval of a score."""

    low: Number
    """lower bound"""
    high: Number
    """upper bound"""
    level: Number
    """confidence level, such as 0.95"""
    method: Name
    """method of the computation"""


class Label(ClosedModel):
    """The score of all items that have the same label."""

    value: Number | None
    """mean over these items; null if there are none"""
    n: Natural
    """number of items with a value"""


class ReceiptScore(ClosedModel):
    """One metric over the whole job. With several epochs, each repeat counts as one item."""

    definition: Name
    """id of the metric's definition; another formula has another id"""
    value: Number | None
    """the metric over the n items with a value, in full precision; null if n is 0"""
    value_failures_as_zero: Number | None
    """the metric over n + nFailed items, with 0 for each failed item; null if both numbers are 0"""
    n: Natural
    """number of items with a value"""
    n_excluded: Natural
    """number of items to which the metric does not apply"""
    n_failed: Natural
    """number of items that failed, are pending or have no verdict of the judge"""
    aggregate: Annotated[str, Field(strict=True, pattern=r"^(mean|other|macro:.+)$")]
    """mean: over items; macro:DIMENSION: mean of the label means, such as macro:question_type; other: another
    formula"""
    interval: ReceiptInterval | None
    """confidence interval of value, or null"""
    breakdown: Mapping[str, Mapping[str, Label]]
    """kind of label (such as question_type) -> label -> score of the items with this label"""


class Times(ClosedModel):
    """Durations in microseconds. The durations are null if n is 0."""

    n: Natural
    """number of measured durations"""
    min: Natural | None
    """shortest duration"""
    p50: Natural | None
    """median, nearest rank"""
    p95: Natural | None
    """95th percentile, nearest rank"""
    p99: Natural | None
    """99th percentile, nearest rank"""
    max: Natural | None
    """longest duration"""

    def ordered(self) -> tuple[int | None, ...]:
        """Return minimum, median, 95th percentile, 99th percentile and maximum, in this order."""
        return (self.min, self.p50, self.p95, self.p99, self.max)


class Pace(ClosedModel):
    """A rate per second."""

    n: Natural
    """number of measurements"""
    value: Number | None
    """rate per second; null if no time passed"""


class ReceiptUsage(ClosedModel):
    """Calls, tokens and money. Unknown money is null."""

    calls: Natural
    """requests to models or to a service with a price"""
    prompt_tokens: Natural
    """all input tokens, including cached input"""
    completion_tokens: Natural
    """all output tokens, including reasoning"""
    usd_micros: Natural | None
    """millionths of a US dollar; null if a price is unknown"""


class Cost(ReceiptUsage):
    """Usage of the whole job, and by role."""

    price_table: Text | None
    """source of the prices; null if nothing had a price"""
    by_role: Mapping[str, ReceiptUsage]
    """role -> calls, tokens and money of this role"""


class ReceiptTotals(ClosedModel):
    """Sum of calls, tokens, money and time."""

    calls: Natural
    """requests to models and to the memory system"""
    tokens: Natural
    """input and output tokens, reported by the endpoint or counted locally"""
    usd_micros: Natural | None
    """millionths of a US dollar; null if the price of a successful call is unknown"""
    time_us: Natural
    """microseconds, without the time that calls wait inside bench"""


class ReceiptBuild(ClosedModel):
    """The ingest whose memories were searched, and the run that paid for this ingest."""

    fingerprint: Hex64 | None
    """SHA-256 over the memories in their order, the settings, and the versions of provider and embedding model; null if
    any of these is unknown"""
    paid_by: Name
    """id of the run that ingested the memories; differs from run.runId if the build was reused"""
    lane: Name
    """benchmark and provider of the build"""
    corpora: Natural | None
    """number of corpora; null if the journal lacks this number"""
    memories: Natural
    """number of memories"""
    paid: ReceiptTotals
    """cost that this job's lane paid; zero if another run or lane paid"""
    price: ReceiptTotals
    """cost of the build, no matter which run paid"""


class ReceiptContext(ClosedModel):
    """The part of the corpus that the answering model read, in tokens estimated with chars/4."""

    answers: Natural
    """number of answers of a model"""
    tokens: Natural
    """sum of the context tokens of these answers"""
    corpus_tokens: Natural | None
    """tokens of the whole corpus of an answer, summed over all answers; null if the journal lacks a number"""
    corpora: Natural
    """number of different corpora of these answers"""
    share: Number | None
    """tokens / corpusTokens; null if corpusTokens is null or 0"""


class ReceiptBreakEven(ClosedModel):
    """The number of questions after which the memory system costs less than prompts with the whole corpus."""

    questions: Natural | None
    """number of questions on one corpus; null: never, or unknown"""
    never: Flag
    """true: a question with the memory is not cheaper than a question with the whole corpus in the prompt"""
    reason: Text
    """reason why there is no number; empty if there is one"""


class ReceiptMemoryCost(ClosedModel):
    """The cost of the build and of all queries (searches and answers), without the judge."""

    build: ReceiptBuild
    """ingest of all corpora"""
    questions: Natural
    """number of searched items, times epochs"""
    query: ReceiptTotals
    """sum over the searches and answers of all questions"""
    usd_micros_per_correct: Number | None
    """millionths of a US dollar for the build and all queries, per correct item; null if unknown or none is correct"""
    context: ReceiptContext | None
    """part of the corpus that the model read; null if no model answered"""
    break_even: ReceiptBreakEven | None
    """number of questions after which the memory system is cheaper than the whole corpus in each prompt; null if no
    model answered, or if the provider is a control (no memory system)"""


def _timed(measured: Mapping[str, Times | Pace]) -> Mapping[str, Times | Pace]:
    missing = [name for name in ALWAYS_MEASURED if name not in measured]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for name, value in measured.items():
        unit = "_us" if isinstance(value, Times) else "_per_s"
        if not name.endswith(unit):
            raise ValueError(f"the name {name} must end with {unit}, the unit of its fields")
    return measured


class Scores(ClosedModel):
    """Scores by class: computed from the rows, judged by a model, or measured with a clock."""

    deterministic: Mapping[str, ReceiptScore]
    """metric -> score that is computed from the rows without a model"""
    judged: Mapping[str, ReceiptScore]
    """metric -> score from verdicts of a model"""
    measured: Annotated[Mapping[str, Times | Pace], AfterValidator(_timed)]
    """NAME_us -> durations, NAME_per_s -> rate; the values differ in each run"""
    cost: Cost
    """calls, tokens and money"""
