"""Test whether two compared jobs differ in one metric. The kind of metric decides which statistical test is used.

Other functions select the metrics that a comparison shows, and its headline metrics.

Example::

    compare_metric(measure, pairs)          # a stats.Comparison
    metrics_to_compare(a, b, wanted=["ndcg@10"])       # ["ndcg_at_10"]
    headline_metrics(names, a, b, wanted=())             # the benchmark's first metric with a value on both sides

Means are compared item by item, and macro means label by label. Times are compared by their ratio. A metric without a
value per item, such as a sum, is not compared.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import sub

from bench import stats
from bench.errors import UsageError
from bench.metrics import resolve
from bench.metrics.aggregation import Macro, Mean, MeanWithPercentiles, Percentile
from bench.metrics.protocol import Measure
from bench.report.comparison.sides import Side
from bench.stats import Comparison

LEVEL = 0.95
ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedValues:
    """The values of one metric on both sides, over the same items. NaN means that an item has no value."""

    left: Sequence[float]
    right: Sequence[float]
    clusters: Sequence[Hashable] | None = None
    units: Sequence[int]
    """for each pair, the number of its cluster; without clusters, the number of its item"""
    n_units: int
    labels_in: Callable[[str], Sequence[str]]
    """function that returns the label of each pair for one item property"""
    seed: int = 0

    @classmethod
    def of(
        cls,
        left: Sequence[float],
        right: Sequence[float],
        clusters: Sequence[Hashable] | None,
        *,
        labels_in: Callable[[str], Sequence[str]] = lambda _: [],
        seed: int = 0,
    ) -> PairedValues:
        """Build the pairs from two columns, and number their clusters."""
        names = {} if clusters is None else {name: at for at, name in enumerate(dict.fromkeys(clusters))}
        units = range(len(left)) if clusters is None else [names[name] for name in clusters]
        n_units = len(left) if clusters is None else len(names)
        return cls(
            left=left, right=right, clusters=clusters, units=units, n_units=n_units, labels_in=labels_in, seed=seed
        )

    def where(self, wanted: Sequence[bool]) -> PairedValues:
        """Return only the pairs whose entry in ``wanted`` is true."""
        return replace(
            self,
            left=array("d", compress(self.left, wanted)),
            right=array("d", compress(self.right, wanted)),
            clusters=None if self.clusters is None else list(compress(self.clusters, wanted)),
            units=list(compress(self.units, wanted)),
            labels_in=lambda dimension: list(compress(self.labels_in(dimension), wanted)),
        )

    def scored(self) -> PairedValues:
        """Return only the pairs with a value on both sides."""
        total = sum(self.left) + sum(self.right)  # NaN spreads through any sum
        if total == total:
            return self
        return self.where([x == x and y == y for x, y in zip(self.left, self.right, strict=True)])


def is_time(measure: Measure) -> bool:
    """Return True if the metric is a performance metric in milliseconds. Such metrics are compared by their ratio."""
    return measure.category == "performance" and measure.unit == "ms"


def can_be_paired(measure: Measure) -> bool:
    """Return True if the metric is a mean, a percentile or a macro mean of values of items."""
    return measure.scope == "item" and isinstance(
        measure.arithmetic.fold, Mean | MeanWithPercentiles | Percentile | Macro
    )


def compare_metric(measure: Measure, pairs: PairedValues) -> Comparison:
    """Compare two sides on the pairs that have a value on both sides.

    ``can_be_paired(measure)`` must be true.
    """
    found = pairs.scored()
    excluded = len(pairs.left) - len(found.left)
    rule = measure.arithmetic.fold
    if isinstance(rule, Macro):
        return _compare_macro(found, rule, excluded)
    if isinstance(rule, Percentile):
        return _compare_percentiles(found, rule, excluded)
    if is_time(measure):
        above = _without_zeros(found)
        return _compare_times(above, rule.scale, excluded + len(found.left) - len(above.left))
    shares = measure.unit is None
    compared = stats.compare_columns(
        found.left, found.right, found.clusters, excluded=excluded, level=LEVEL, alpha=ALPHA, shares=shares
    )
    return _scaled(compared, rule.scale)


def _compare_macro(pairs: PairedValues, rule: Macro, excluded: int) -> Comparison:
    labels = pairs.labels_in(rule.dimension or "")
    groups = []
    for label in sorted(set(labels)):
        part = pairs.where([one == label for one in labels])
        groups.append((part.left, part.right, part.clusters))
    return stats.compare_macro(groups, excluded=excluded, level=LEVEL, alpha=ALPHA)


def _compare_percentiles(pairs: PairedValues, rule: Percentile, excluded: int) -> Comparison:
    found = stats.percentile_ratio(
        pairs.left, pairs.right, rule.p, pairs.clusters, excluded=excluded, level=LEVEL, alpha=ALPHA, seed=pairs.seed
    )
    if found.a is None or found.b is None:
        return found
    return replace(found, a=found.a / rule.scale, b=found.b / rule.scale)


def _without_zeros(pairs: PairedValues) -> PairedValues:
    """Return only the pairs in which both times are above 0, because 0 has no logarithm."""
    if any(x <= 0 for side in (pairs.left, pairs.right) for x in side):
        return pairs.where([x > 0 and y > 0 for x, y in zip(pairs.left, pairs.right, strict=True)])
    return pairs


def _compare_times(pairs: PairedValues, scale: int, excluded: int) -> Comparison:
    left, right = ([math.log(value / scale) for value in side] for side in (pairs.left, pairs.right))
    return stats.as_ratio(
        stats.compare_columns(left, right, pairs.clusters, excluded=excluded, level=LEVEL, alpha=ALPHA, shares=False)
    )


def has_item_differences(measure: Measure) -> bool:
    """Return True if the metric has one difference per pair.

    Percentiles and macro means have no difference per pair.
    """
    return not isinstance(measure.arithmetic.fold, Percentile | Macro)


def difference_sums(measure: Measure, pairs: PairedValues) -> Sequence[float]:
    """Return the sum of the differences in each cluster; without clusters, the difference of each item.

    For times, the differences are differences of logarithms.
    """
    found = pairs.scored()
    if is_time(measure):
        found = _without_zeros(found)
        differences = [math.log(x / y) for x, y in zip(found.left, found.right, strict=True)]
    else:
        differences = list(map(sub, found.left, found.right))
    if pairs.clusters is not None:
        members = stats.by_cluster(differences, found.units)
        return array("d", (math.fsum(members.get(unit, ())) for unit in range(pairs.n_units)))
    sums = array("d", bytes(8 * pairs.n_units))
    for unit, difference in zip(found.units, differences, strict=True):
        sums[unit] = difference
    return sums


def _scaled(found: Comparison, scale: int) -> Comparison:
    if scale == 1 or found.a is None or found.b is None or found.delta is None:
        return found
    interval = found.interval
    return replace(
        found,
        a=found.a / scale,
        b=found.b / scale,
        delta=found.delta / scale,
        se=None if found.se is None else found.se / scale,
        mde=None if found.mde is None else found.mde / scale,
        interval=interval and replace(interval, low=interval.low / scale, high=interval.high / scale),
    )


def metrics_to_compare(a: Side, b: Side, wanted: Sequence[str]) -> list[str]:
    """Return the names of the metrics to compare.

    If ``wanted`` is empty, these are all metrics of both sides that can be compared. Otherwise, these are the metrics
    in ``wanted``.

    Raises:
        UsageError: a side does not have a metric of ``wanted``, or the metric has no value per item.
    """
    shared = [name for name in a.measures if name in b.measures]
    if not wanted:
        names = [name for name in shared if can_be_paired(a.measures[name])]
        return [name for name in names if name not in incomparable_metrics(a, b, names)]
    return list(dict.fromkeys(_resolve_metric(name, a, shared) for name in wanted))


def _resolve_metric(name: str, side: Side, shared: Sequence[str]) -> str:
    info = resolve(name)
    found = next((one for one in (info.name, f"{info.name}_at_{side.record.k}") if one in shared), None)
    if found is None:
        raise UsageError(
            f"the metric {name} was not computed for both sides of {side.record.benchmark}",
            hint=(
                f"metrics of both sides: {', '.join(shared) or 'none'}; add a metric with: bench rescore "
                "RUN_ID --metrics METRIC"
            ),
        )
    if not can_be_paired(side.measures[found]):
        raise UsageError(
            f"the metric {name} has no value per item, so items cannot be paired",
            hint="choose a metric that has one value per item",
        )
    return found


def incomparable_metrics(a: Side, b: Side, names: Sequence[str]) -> list[str]:
    """Return the names of retrieval metrics to leave out because the sides count evidence on different levels.

    A level is turn, session or text. The result is empty if the levels are equal, or if neither side has answers.
    Without answers, the check of comparability refuses two sides with different levels.
    """
    if a.record.level == b.record.level or not any(_has_answers(side) for side in (a, b)):
        return []
    return [name for name in names if a.measures[name].category == "retrieval"]


def headline_metrics(names: Sequence[str], a: Side, b: Side, *, wanted: Sequence[str]) -> list[str]:
    """Return the metrics among ``names`` that answer the question of the comparison.

    If the user asked for metrics (``wanted``), return all ``names``. Otherwise, return only the first metric that both
    sides can compare. If there is no such metric, return the first of ``names``. Sides with answers can compare an
    answer metric, even if no answer was scored. Any other metric needs a value on both sides.
    """
    if wanted:
        return list(names)
    fitting = [name for name in names if _applies(name, a) and _applies(name, b)]
    return fitting[:1] or list(names[:1])


def _applies(name: str, side: Side) -> bool:
    on_answers = side.measures[name].category == "answer" and _has_answers(side)
    return on_answers or any(value == value for value in side.column(name))


def _has_answers(side: Side) -> bool:
    return side.record.models.answering is not None
