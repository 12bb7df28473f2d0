"""The result of a comparison: one row per metric for each pair of compared jobs.

``ComparisonRow.verdict`` and ``conclusion_sentences`` state the conclusion that the numbers of a row support.
``gate_outcomes`` checks ``--fail-on-regression METRIC:POINTS``: no later job may be worse than the first job by more
than these points.

Example::

    found = compare_sides([[a, b]])
    found.comparisons[0].headlines[0].better          # "a", "b" or None
    row.verdict                    # "no detectable difference (smallest detectable: 0.05)"
    finding_of(row)                # the verdict as a table cell: "none"
    conclusion_sentences(comparison)         # one sentence per headline metric: the conclusion and its evidence
    [one.text for one in gate_outcomes(found, points=2) if one.missed]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from bench.report.comparison.comparability import Comparability
from bench.report.comparison.paired_tests import ALPHA
from bench.report.comparison.sides import Side
from bench.report.tables import number
from bench.stats import Comparison
from bench.visible_text import counted

WATERMARK = "NOT LIKE FOR LIKE"
UNDECIDED = "cannot be decided"
WHOLE_PERCENT = 100.0
DEGENERATE = "wilson_degenerate"
"""name of the interval method for a difference that is the same in all items or clusters"""


def _verdict_text(row: ComparisonRow) -> str:
    if row.found.p is None or row.p_adjusted is None:
        return f"not testable: {_untestable_reason(row)}"
    if row.is_detected:
        return _higher_side(row)
    if not row.can_be_decided:
        return f"{UNDECIDED}: {sample_size(row)}"
    return f"no detectable difference (smallest detectable: {difference_text(row, row.mde)})"


def sample_size(row: ComparisonRow) -> str:
    """Return the sample size as text.

    The size is the number of clusters, which are called conversations. Without clusters, it is the number of items.
    """
    count, noun = (row.found.n_clusters, "conversation") if row.found.n_clusters else (row.found.n, "item")
    return counted(count, f"{noun}(|s)")


def _untestable_reason(row: ComparisonRow) -> str:
    return (row.found.note or "too few items").removeprefix("not testable: ")


def _higher_side(row: ComparisonRow) -> str:
    above = (row.found.delta or 0) > 0
    if row.lower_is_better:
        return f"{'B' if above else 'A'} lower, better"
    return f"{'A' if above else 'B'} higher"


def finding_of(row: ComparisonRow) -> str:
    """Return the conclusion from a row as a short table cell, without numbers."""
    if row.found.p is None:
        return "not testable"
    if row.is_detected:
        return _higher_side(row).partition(",")[0] + (", within judge noise" if row.is_within_noise else "")
    if not row.can_be_decided:
        return UNDECIDED
    return "none (adjusted)" if row.found.p < ALPHA else "none"


def difference_text(row: ComparisonRow, value: float | None, *, sign: bool = False) -> str:
    """Format a difference in the unit of the metric. A difference of times is formatted as a percentage."""
    if value is None:
        return "not known"
    if row.is_ratio:
        return percent_text(value, sign=sign)
    text = number(value, row.unit) if row.unit else f"{value:.4f}".rstrip("0").rstrip(".") or "0"
    unit = f" {row.unit}" if row.unit else ""
    text = "0" if text == "-0" else text
    return ("+" if sign and value > 0 else "") + text + unit


def percent_text(value: float, *, sign: bool = False) -> str:
    """Format a relative difference (ratio minus 1) as a percentage."""
    percent = value * 100
    digits = 0 if abs(percent) >= WHOLE_PERCENT else 1
    return f"{percent:{'+' if sign else ''}.{digits}f}%"


# ------------------------------------------------------------------------ one sentence


def conclusion_sentences(one: PairComparison) -> tuple[str, ...]:
    """Return one sentence per headline metric, with the conclusion and the numbers that support it."""
    mark = "" if one.comparability.ok else f"{WATERMARK}, do not quote: "
    return tuple(mark + _conclusion_on(one, row) for row in one.headlines)


def _conclusion_on(one: PairComparison, row: ComparisonRow) -> str:
    if row.found.p is None or row.found.delta is None:
        sample = _sample_text(one, row) + _exclusion_text(one, row)
        return f"Nothing can be concluded about {row.metric}: {_untestable_reason(row)} ({sample})."
    evidence = f"{_values_text(row)}, A - B = {_difference_with_interval(row)} over {_sample_text(one, row)}"
    evidence += f", {_p_values_text(row)}"
    if row.is_ratio and (caveat := load_difference(one)):
        evidence += f"; {caveat}"
    if row.better is None:
        return f"Neither side can be called better on {row.metric}: {evidence}{_undetected_text(row)}."
    winner, loser = ("A", "B") if row.better == "a" else ("B", "A")
    who = {"A": one.a.system, "B": one.b.system}
    noise = ", but the difference is smaller than the judge's own error" if row.is_within_noise else ""
    return f"{winner} ({who[winner]}) is better than {loser} ({who[loser]}) on {row.metric}: {evidence}{noise}."


def _values_text(row: ComparisonRow) -> str:
    a, b = number(row.found.a, row.unit), number(row.found.b, row.unit)
    unit = f" {row.unit}" if row.unit else ""
    return f"{a} against {b}{unit}" + (", lower is better" if row.lower_is_better else "")


def _difference_with_interval(row: ComparisonRow) -> str:
    interval = row.found.interval
    text = difference_text(row, row.found.delta, sign=True)
    if interval is None:
        return text
    low, high = (difference_text(row, end, sign=True) for end in (interval.low, interval.high))
    return f"{text} [{low}, {high}]"


def _sample_text(one: PairComparison, row: ComparisonRow) -> str:
    items = counted(row.found.n, "paired item(|s)")
    count = row.found.n_clusters
    return f"{items} in {counted(count, 'cluster(|s)')} ({one.cluster_by})" if count else items


def _exclusion_text(one: PairComparison, row: ComparisonRow) -> str:
    """Return the reasons why no item could be paired; "" if items were paired.

    The result is also "" if the row is not the first headline row.
    """
    if row.found.n or row is not one.headlines[0]:
        return ""
    return "".join(
        f"; {side.upper()}: " + ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.items())
        for side, reasons in one.items.excluded.items()
        if reasons
    )


def _p_values_text(row: ComparisonRow) -> str:
    if row.p_adjusted is None or row.p_adjusted == row.found.p:
        return _p(row.found.p)
    return f"{_p(row.found.p)}, adjusted {p_text(row.p_adjusted)}"


def _undetected_text(row: ComparisonRow) -> str:
    """Explain why no difference was detected.

    The text reports the first of these that applies: too few items, the smallest difference that would be detected, the
    same difference in all items. If none applies, the text is empty.
    """
    if not row.can_be_decided:
        size = sample_size(row)
        return f"; {UNDECIDED}: {size} give{'s' if size.startswith('1 ') else ''} {_smallest_p_text(row)}"
    if row.mde is None:
        return f"; {no_spread_text(row)}" if has_no_spread(row) else ""
    uncorrected = "" if row.p_adjusted == row.found.p else ", before the correction"
    return f"; a difference of {difference_text(row, row.mde)} would be detected with a power of 80%{uncorrected}"


def _smallest_p_text(row: ComparisonRow) -> str:
    """Format the smallest p value that a row with this sample size can have."""
    return f"no{'' if row.least_p == row.found.smallest_p else ' adjusted'} p below {row.least_p:.3g}"


def undecided_notes(rows: Sequence[ComparisonRow], name: Callable[[ComparisonRow], str]) -> list[str]:
    """Return one note per sample size that is too small to detect any difference.

    The note lists the names of the rows. ``name`` returns the name of a row.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.is_tested and not row.can_be_decided:
            few = f"{UNDECIDED}: {sample_size(row)} can give {_smallest_p_text(row)}"
            found.setdefault(few, []).append(name(row))
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]


def has_no_spread(row: ComparisonRow) -> bool:
    """Return True if the difference is the same in all items or clusters, so that its variance is zero."""
    return row.found.interval is not None and row.found.interval.method == DEGENERATE


def no_spread_text(row: ComparisonRow) -> str:
    """Explain the interval of a difference that is the same in all items or clusters."""
    found, of = row.found, "cluster" if row.found.n_clusters else "item"
    count = found.n_clusters or found.n
    alike = "no item differs" if found.ties == found.n else f"the difference is the same in each {of}"
    return f"{alike}: the interval shows what {counted(count, f'{of}(|s)')} could have missed"


def load_difference(one: PairComparison) -> str:
    """Describe how concurrency and rate limits of the two sides differ; "" if they are equal or unknown."""
    differences = "; ".join(check.text for check in one.comparability.load)
    return f"the loads differ, which changes times ({differences})" if differences else ""


def _p(p: float | None) -> str:
    text = p_text(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"


def p_text(p: float | None) -> str:
    """Format a p value with four decimals; "-" for None."""
    return "-" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


HEADLINE, EXPLORATORY, PERCENTILES = "headline", "exploratory", "percentiles"
FAMILIES = (HEADLINE, EXPLORATORY, PERCENTILES)
TARGET = "conversations like these"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """The comparison of one metric over all paired items, or over the paired items with one label."""

    metric: str
    definition: str
    dimension: str | None
    label: str | None
    lower_is_better: bool
    unit: str | None
    is_ratio: bool
    """True if delta, interval and mde are relative differences (ratio minus 1)"""
    family: str
    found: Comparison
    noise: float | None = None
    """error rate of the judge, if the metric is computed from the judge's verdicts; else None"""
    p_adjusted: float | None = None
    least_p: float = 0.0
    """smallest adjusted p value that is possible with this number of pairs or clusters"""
    sums: Sequence[float] = field(default=(), repr=False, compare=False)
    """sum of the differences in each cluster; without clusters, the difference of each item"""

    @property
    def is_detected(self) -> bool:
        """True if the adjusted p value is significant and the sides differ."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA and bool(self.found.delta)

    @property
    def better(self) -> str | None:
        """The better side, ``a`` or ``b``; None if no difference is detected."""
        if not self.is_detected or self.found.delta is None:
            return None
        return "a" if (self.found.delta > 0) != self.lower_is_better else "b"

    @property
    def verdict(self) -> str:
        """The conclusion as text, such as ``A higher`` or ``cannot be decided: 3 items``."""
        begin = "" if self.family == HEADLINE else "exploratory: "
        noise = f"; within judge noise ({self.noise:.3g})" if self.is_within_noise else ""
        return begin + _verdict_text(self) + noise

    @property
    def is_tested(self) -> bool:
        """True if the row has a p value. Only such rows count in the correction of p values."""
        return self.found.p is not None

    @property
    def can_be_decided(self) -> bool:
        """True if an adjusted p value below alpha is possible with this number of pairs or clusters."""
        return self.is_detected or self.least_p < ALPHA

    @property
    def mde(self) -> float | None:
        """The smallest difference that would be detected; None if no difference could be detected."""
        return self.found.mde if self.is_tested and self.can_be_decided else None

    @property
    def is_within_noise(self) -> bool:
        """True if the difference is smaller than the judge's error rate."""
        return self.noise is not None and self.found.delta is not None and abs(self.found.delta) < self.noise


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedItems:
    """Counts of paired and unpaired items, for the first headline metric."""

    a: int
    b: int
    paired: int
    excluded: Mapping[str, Mapping[str, int]]
    """side -> reason -> number of items that could not be paired"""
    flips: Mapping[str, tuple[str, ...]]
    """side -> ids of the items on which this side has the better value"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparison:
    """The comparison of two jobs, side a and side b, on one benchmark."""

    a: Side
    b: Side
    comparability: Comparability
    items: PairedItems
    cluster_by: str | None
    n_clusters: int | None
    judge_noise: float | None
    rows: tuple[ComparisonRow, ...]
    is_against_first: bool = True
    """True if ``a`` is the side that the user named first, which is the baseline of ``--fail-on-regression``"""
    notes: tuple[str, ...] = ()

    @property
    def headlines(self) -> tuple[ComparisonRow, ...]:
        """The rows of the headline metrics, which answer the question of the comparison."""
        return self.rows_of(HEADLINE)

    def rows_of(self, family: str) -> tuple[ComparisonRow, ...]:
        """Return the rows of one correction group, such as ``headline``. Their p values are corrected together."""
        return tuple(row for row in self.rows if row.family == family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """The comparisons of all pairs of sides; their p values are corrected together."""

    comparisons: tuple[PairComparison, ...]
    forced: bool
    seed: int

    @property
    def family_size(self) -> dict[str, int]:
        """Correction group, such as ``headline`` -> number of rows with a p value."""
        sizes = Counter(row.family for one in self.comparisons for row in one.rows if row.is_tested)
        return {family: sizes[family] for family in FAMILIES}


ROUNDING = 1e-12
"""tolerance for rounding errors when floats are compared: 0.8 - 0.5 must not count as more than 0.3"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """The result of the check ``--fail-on-regression`` for one metric of one later side."""

    missed: bool
    text: str


def gate_outcomes(found: Comparisons, points: float) -> Iterator[GateOutcome]:
    """Check that no later side is worse than the first side by more than ``points`` / 100.

    For a metric of times, ``points`` / 100 is a share of the first side's time. Each headline metric is checked. If the
    difference of a metric cannot be computed, the check of this metric fails.
    """
    for one in found.comparisons:
        if one.is_against_first:
            yield from (_gate_outcome(one, row, points) for row in one.headlines)


def _gate_outcome(one: PairComparison, row: ComparisonRow, points: float) -> GateOutcome:
    who = f"{row.metric} of {one.b.name} against {one.a.name}"
    delta, interval = row.found.delta, row.found.interval
    if delta is None:
        return GateOutcome(missed=True, text=f"gate failed: {who}: {row.found.note or 'no number'}")
    bounds: tuple[float, ...] = (interval.low, interval.high) if interval else ()
    if row.is_ratio:
        label, unit = "B / A - 1", "%"
        delta, bounds = _seen_from_first(delta), tuple(_seen_from_first(bound) for bound in reversed(bounds))
    else:
        label, unit = "A - B", " points"
    rise = delta if row.is_ratio else -delta
    worse = rise if row.lower_is_better else -rise
    missed = worse > points / 100 + ROUNDING
    span = f" [{', '.join(difference_text(row, bound) for bound in bounds)}]" if bounds else ""
    text = f"{who}: {label} = {difference_text(row, delta, sign=True)}{span}, allowed {points:g}{unit}"
    few = f"; {UNDECIDED}: {sample_size(row)}" if row.is_tested and not row.can_be_decided else ""
    return GateOutcome(missed=missed, text=f"{'regression' if missed else 'no regression'}: {text}{few}")


def _seen_from_first(change: float) -> float:
    """Return B / A - 1, the change of the later side B relative to the first side A. ``change`` is A / B - 1."""
    return inf if change <= -1 else -change / (1 + change)
