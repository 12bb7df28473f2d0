"""How the items ended, and the scores by class.

Example::

    receipt.scores.deterministic["recall_at_10"].value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.receipt.wire import Name, Natural, Number, Text, Wire

State = Literal[
    "correct", "incorrect", "partial", "abstained", "error", "not_ready", "unsupported", "unscored", "measured"
]
ALWAYS_MEASURED = ("ingest_us", "search_us", "ingest_to_searchable_us")


class ByState(Wire):
    """How many items ended in each state."""

    correct: Natural
    incorrect: Natural
    partial: Natural
    abstained: Natural
    error: Natural
    not_ready: Annotated[int, Field(strict=True, ge=0, alias="not_ready")]
    unsupported: Natural
    unscored: Natural
    measured: Natural

    def of(self) -> dict[str, int]:
        """The counts by state name."""
        return {str(state): int(count) for state, count in self.model_dump(by_alias=True).items()}


class Counts(Wire):
    """How the planned items ended."""

    planned: Natural
    pending: Natural
    scored: Natural
    by_state: ByState
    error_kinds: Mapping[str, Natural]
    retries: Natural


class Interval(Wire):
    """Where the true mean plausibly lies."""

    low: Number
    high: Number
    level: Number
    method: Name


class Label(Wire):
    """A score over the items with one label."""

    value: Number | None
    n: Natural


class Score(Wire):
    """One metric over the whole job."""

    definition: Name
    value: Number | None
    value_failures_as_zero: Number | None
    n: Natural
    n_excluded: Natural
    n_failed: Natural
    aggregate: Annotated[str, Field(strict=True, pattern=r"^(mean|other|macro:.+)$")]
    interval: Interval | None
    breakdown: Mapping[str, Mapping[str, Label]]


class Times(Wire):
    """Durations in microseconds; null where n is 0."""

    n: Natural
    min: Natural | None
    p50: Natural | None
    p95: Natural | None
    p99: Natural | None
    max: Natural | None

    def ordered(self) -> tuple[int | None, ...]:
        """From the least to the greatest."""
        return (self.min, self.p50, self.p95, self.p99, self.max)


class Pace(Wire):
    """Something a second."""

    n: Natural
    value: Number | None


class Usage(Wire):
    """Calls, tokens and money; null money = not known."""

    calls: Natural
    prompt_tokens: Natural
    completion_tokens: Natural
    usd_micros: Natural | None


class Cost(Usage):
    """Usage of the whole job, and by role."""

    price_table: Text | None
    by_role: Mapping[str, Usage]


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

    deterministic: Mapping[str, Score]
    judged: Mapping[str, Score]
    measured: Annotated[Mapping[str, Times | Pace], AfterValidator(_timed)]
    cost: Cost
