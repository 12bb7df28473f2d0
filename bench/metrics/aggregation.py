"""Combine the values of many items into one number with an interval.

Each result has a second number, in which a failed item counts as 0. The order of the values has no effect, because
sums are exact (``math.fsum``).

Example::

    MEAN.fold(Sample(values=Tally.of([1.0, 0.0, 1.0]), n_failed=1)).value_failures_as_zero        # 0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from bench import stats
from bench.model import Interval
from bench.stats import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The input of a `FoldRule`: the values of one metric over many items, and facts about the job."""

    values: Tally
    n_failed: int = 0
    n_correct: int = 0
    failed_values: Tally = field(default_factory=Tally)
    """values that are known for failed items, such as the cost of a failed item"""
    corpus_values: Sequence[float] = ()
    """costs of corpora, of calls that no item includes, and of items whose whole cost is unknown; a sum over the whole
    job adds them to the values of items"""
    wall_us: int | None = None
    """wall time of the job's ingest in microseconds"""
    concurrency: int | None = None
    groups: Mapping[str, Sample] = field(default_factory=dict)
    """label (such as a question type) -> the sample of the items with this label; only a macro mean reads it"""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldResult:
    """The number that a rule computes from a sample.

    ``value_failures_as_zero`` is the same number with each failed item counted as 0. It is None where 0 has no meaning,
    such as for a time.
    """

    value: float | None
    value_failures_as_zero: float | None = None
    interval: Interval | None = None
    note: str = ""


class FoldRule(Protocol):
    """A rule that combines the values of many items; ``name`` is ``mean``, ``macro:DIMENSION`` or ``other``.

    ``dimension`` is the name by which the items are grouped, such as ``question_type``. It is None if the rule needs no
    groups. The result is divided by ``scale``: 1000 converts stored microseconds into milliseconds.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> str | None: ...
    @property
    def scale(self) -> int: ...
    def fold(self, sample: Sample) -> FoldResult: ...


ONE_CLUSTER = "one conversation: the interval is over its items and is not valid for other conversations"


def one_cluster_note(values: Tally) -> str:
    """Return a warning if all values are from one cluster (one corpus), else an empty text."""
    return ONE_CLUSTER if values.clusters == 1 else ""


def quotient(total: float, n: int) -> float | None:
    """Return total / n, or None when n is 0."""
    return total / n if n else None


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the values, divided by ``scale``: 1000 converts microseconds into milliseconds.

    With ``shares=True`` the interval is limited to 0..1. With ``shares=False`` the values are amounts without a limit.
    """

    scale: int = 1
    failures_as_zero: bool = True
    shares: bool = True
    name: str = "mean"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        values, everything = sample.values, sample.values.n + sample.n_failed
        zero = quotient(values.total, everything) if self.failures_as_zero else None
        found = stats.interval_of(values, shares=self.shares)
        return FoldResult(
            value=quotient(values.total, values.n * self.scale),
            value_failures_as_zero=zero,
            interval=scale_interval(found, self.scale),
            note=one_cluster_note(values),
        )


@dataclass(frozen=True, slots=True)
class Macro:
    """The macro mean: first one mean per label, such as a question type, then the mean of these means.

    Labels without any value are left out.
    """

    scale: ClassVar[int] = 1
    dimension: str | None

    @property
    def name(self) -> str:
        return f"macro:{self.dimension}"

    def fold(self, sample: Sample) -> FoldResult:
        groups = [sample.groups[label] for label in sorted(sample.groups)]
        means = [g.values.total / g.values.n for g in groups if g.values]
        zeros = [g.values.total / (g.values.n + g.n_failed) for g in groups if g.values.n + g.n_failed]
        found = stats.interval_macro_of([g.values for g in groups])
        return FoldResult(
            value=stats.mean(means),
            value_failures_as_zero=stats.mean(zeros),
            interval=found,
            note=one_cluster_note(sample.values),
        )


@dataclass(frozen=True, slots=True)
class Percentile:
    """The nearest-rank percentile ``p`` (0 to 100) of integer values, divided by ``scale``."""

    p: float
    scale: int = 1
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        n = sample.values.n
        alone = one_cluster_note(sample.values)
        if n > stats.ORDER_STATISTIC_FROM:
            values = sample.values.ordered()
            at = stats.percentile(values, self.p)
            reached = None if alone or at is None else sample.values.at_most(at)
            found = stats.order_statistic_interval(values, self.p, reached)
        else:
            values, clusters = (sample.values.ordered(), None) if alone else sample.values.pairs()
            found = stats.percentile_interval(values, self.p, clusters, seed=sample.seed)
        notes = []
        if self.p == 99 and 0 < n < 100:
            notes.append("with n < 100, p99 is the maximum")
        if found is not None and n < 200:
            notes.append("n < 200: the interval only describes these items")
        if found is not None and alone:
            notes.append(alone)
        return FoldResult(value=self._at(values), interval=scale_interval(found, self.scale), note="; ".join(notes))

    def _at(self, values: Sequence[float]) -> float | None:
        found = stats.percentile(values, self.p)
        return None if found is None else found / self.scale


@dataclass(frozen=True, slots=True)
class MeanWithPercentiles:
    """The mean, divided by ``scale``. The note of the result lists p50, p90, p95, p99 and the maximum."""

    scale: int = 1
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        values = sample.values.ordered()
        points = {f"p{p}": stats.percentile(values, p) for p in (50, 90, 95, 99)}
        points["max"] = values[-1] if values else None
        note = ", ".join(f"{name} {v / self.scale:g}" for name, v in points.items() if v is not None)
        note = "; ".join(filter(None, (note, one_cluster_note(sample.values))))
        found = stats.interval_of(sample.values, shares=False)
        value = quotient(sample.values.total, sample.values.n * self.scale)
        return FoldResult(value=value, interval=scale_interval(found, self.scale), note=note)


@dataclass(frozen=True, slots=True)
class Total:
    """The total cost: the sum over all items (failed items too), all corpora, and calls that no item includes."""

    scale: ClassVar[int] = 1
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        if not (sample.values or sample.failed_values or sample.corpus_values):
            return FoldResult(value=None)
        spent = sample.values.exact_total + sample.failed_values.exact_total + stats.exact_sum(sample.corpus_values)
        return FoldResult(value=stats.from_units(spent))


@dataclass(frozen=True, slots=True)
class PerCorrect:
    """The total cost divided by the number of correct items. It has no value if no item is correct."""

    scale: ClassVar[int] = 1
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        spent = Total().fold(sample).value
        if spent is None or not sample.n_correct:
            return FoldResult(value=None, note="" if sample.n_correct else "no item is correct")
        return FoldResult(value=spent / sample.n_correct)


@dataclass(frozen=True, slots=True)
class PerSecond:
    """The sum of the values, divided by the wall time of the job's ingest in seconds."""

    scale: ClassVar[int] = 1
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        if not sample.values or not sample.wall_us:
            return FoldResult(value=None)
        note = "" if sample.concurrency is None else f"at ingest concurrency {sample.concurrency}"
        return FoldResult(value=sample.values.total * 1_000_000 / sample.wall_us, note=note)


@dataclass(frozen=True, slots=True)
class PluginAggregate:
    """A rule that calls the ``aggregate`` function of a plug-in metric with the sorted values."""

    scale: ClassVar[int] = 1
    function: Callable[[Sequence[float]], float | None]
    name: str = "other"
    dimension: str | None = None

    def fold(self, sample: Sample) -> FoldResult:
        if not sample.values:
            return FoldResult(value=None)
        try:
            found: object = self.function(sample.values.ordered())
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            return FoldResult(value=None, note=f"the metric's aggregate failed: {type(error).__name__}: {error}")
        if found is None or (isinstance(found, int | float) and math.isfinite(found)):
            return FoldResult(value=None if found is None else float(found))
        return FoldResult(value=None, note=f"the metric's aggregate returned {found!r}, expected a finite number")


def scale_interval(found: Interval | None, scale: int) -> Interval | None:
    """Return the interval with both limits divided by ``scale``; None if ``found`` is None."""
    if found is None or scale == 1:
        return found
    return Interval(low=found.low / scale, high=found.high / scale, level=found.level, method=found.method)


MEAN = Mean()
