"""Write a comparison as JSON, tables and Markdown.

Example::

    json.dumps(comparison_json(found))
    comparison_markdown(found)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Generic, TypedDict, TypeVar

from bench.model import IntervalDocument
from bench.report.comparison.comparability import Comparability, value_text
from bench.report.comparison.comparison_rows import (
    EXPLORATORY,
    HEADLINE,
    PERCENTILES,
    TARGET,
    WATERMARK,
    ComparisonRow,
    Comparisons,
    PairComparison,
    conclusion_sentences,
    finding_of,
    has_no_spread,
    load_difference,
    no_spread_text,
    p_text,
    percent_text,
    undecided_notes,
)
from bench.report.comparison.paired_tests import ALPHA, LEVEL
from bench.report.comparison.sides import Side
from bench.report.rendering import markdown
from bench.report.results_document import interval_json
from bench.report.tables import Grid, number
from bench.untyped_values import Json
from bench.visible_text import counted

SHOWN_FLIPS = 5
CORRECTION = {HEADLINE: "holm", EXPLORATORY: "westfall_young_maxt", PERCENTILES: "holm"}


class ComparedRow(TypedDict):
    """The comparison of one metric, over all items or over the items with one label."""

    metric: str
    definition: str
    dimension: str | None
    label: str | None
    n: int
    a: float | None
    b: float | None
    delta: float | None
    interval: IntervalDocument | None
    p: float | None
    p_adjusted: float | None
    mid_p: float | None
    test: str | None
    wins: int
    losses: int
    ties: int
    mde: float | None
    correlation: float | None
    better: str | None
    family: str
    verdict: str


class ComparedPair(TypedDict):
    """The comparison of two jobs."""

    benchmark: str
    a: Json
    b: Json
    like_for_like: Json
    items: Json
    cluster_by: str | None
    n_clusters: int | None
    judge_noise: float | None
    rows: list[ComparedRow]


Pair = TypeVar("Pair", bound=ComparedPair)


class ComparisonDocument(TypedDict, Generic[Pair]):
    """The document of ``bench compare --json``; numbers are not rounded."""

    kind: str
    version: int
    level: float
    alpha: float
    correction: Mapping[str, str]
    family_size: Mapping[str, int]
    seed: int
    forced: bool
    target: str
    comparisons: list[Pair]


def comparison_json(found: Comparisons) -> ComparisonDocument[ComparedPair]:
    """Return the document of ``bench compare --json``."""
    return {
        "kind": "comparison",
        "version": 2,
        "level": LEVEL,
        "alpha": ALPHA,
        "correction": CORRECTION,
        "family_size": found.family_size,
        "seed": found.seed,
        "forced": found.forced,
        "target": TARGET,
        "comparisons": [_pair_json(one) for one in found.comparisons],
    }


def _pair_json(one: PairComparison) -> ComparedPair:
    return {
        "benchmark": one.a.record.benchmark,
        "a": _side_json(one.a),
        "b": _side_json(one.b),
        "like_for_like": {
            "ok": one.comparability.ok,
            "checks": [
                {"name": c.name, "same": c.same, "a": c.a, "b": c.b, "affects_results": c.affects_results}
                for c in one.comparability.checks
            ],
        },
        "items": {
            "a": one.items.a,
            "b": one.items.b,
            "paired": one.items.paired,
            "excluded": {side: dict(reasons) for side, reasons in one.items.excluded.items()},
        },
        "cluster_by": one.cluster_by,
        "n_clusters": one.n_clusters,
        "judge_noise": one.judge_noise,
        "rows": [_row_json(row) for row in one.rows],
    }


def _side_json(side: Side) -> Json:
    return {"run_id": side.run_id, "provider": side.record.provider, "models": asdict(side.record.models)}


def _row_json(row: ComparisonRow) -> ComparedRow:
    found = row.found
    return {
        "metric": row.metric,
        "definition": row.definition,
        "dimension": row.dimension,
        "label": row.label,
        "n": found.n,
        "a": found.a,
        "b": found.b,
        "delta": found.delta,
        "interval": interval_json(found.interval),
        "p": found.p,
        "p_adjusted": row.p_adjusted,
        "mid_p": found.mid_p,
        "test": found.test,
        "wins": found.wins,
        "losses": found.losses,
        "ties": found.ties,
        "mde": row.mde,
        "correlation": found.correlation,
        "better": row.better,
        "family": row.family,
        "verdict": row.verdict,
    }


# ------------------------------------------------------------------------------ text


def conclusions(found: Comparisons) -> list[str]:
    """Return one sentence per headline metric of each pair of jobs."""
    several = len({one.a.record.benchmark for one in found.comparisons}) > 1
    return [
        f"{one.a.record.benchmark}: {text}" if several else text
        for one in found.comparisons
        for text in conclusion_sentences(one)
    ]


def comparison_grids(found: Comparisons) -> list[Grid]:
    """Return two tables per pair of jobs: first the headline metrics, then the exploratory rows."""
    return [
        grid
        for one in found.comparisons
        for grid in (_headline_grid(one, found), _exploratory_grid(one, found))
        if grid.rows
    ]


def _headline_grid(one: PairComparison, found: Comparisons) -> Grid:
    record = one.a.record
    mark = f"{WATERMARK} | " if not one.comparability.ok else ""
    return Grid(
        title=f"{mark}{record.benchmark} {record.benchmark_version} | A = {one.a.name}, B = {one.b.name}",
        head=HEAD,
        rows=tuple(map(_row_cells, one.headlines)),
        right=RIGHT,
        notes=(
            *(f"verdict on {row.metric}: {row.verdict}" for row in one.headlines),
            *_caveat_notes(one, one.headlines),
            _comparability_note(one.comparability),
            *_notes(one, found),
        ),
    )


def _exploratory_grid(one: PairComparison, found: Comparisons) -> Grid:
    beside = [row for row in one.rows if row.family != HEADLINE]
    rows = [row for row in beside if row.found.n]
    empty = [_row_name(row, several=True) for row in beside if not row.found.n]
    nothing = [f"no item has a value on both sides: {', '.join(empty)}"] if empty else []
    together = sum(row.family == EXPLORATORY and row.is_tested for row in rows)
    part = "" if together == len(rows) else f"{together} of them "
    corrected = f", {part}corrected together" if rows and (together > 1 or not part) else ""
    return Grid(
        title=f"exploratory | {counted(len(rows), 'row(|s)')}{corrected}",
        head=HEAD,
        rows=tuple(_row_cells(row, several=len(one.headlines) > 1) for row in rows),
        right=RIGHT,
        notes=(*_separate_correction_notes(rows), *_caveat_notes(one, rows), *nothing, *one.notes),
    )


FINDING = "difference"
DIFFERENCES = 10
"""absolute value below which a difference without a unit is shown with four decimals"""
HEAD = ("metric", "n", "A", "B", "A - B", "95% interval", "p adjusted", FINDING, "MDE", "p", "A/B/tie")
RIGHT = tuple(at for at, name in enumerate(HEAD) if at and name != FINDING)
LEGEND = (
    "A/B/tie: number of items on which A is higher, B is higher, or neither; "
    "MDE: the smallest difference that would be detected with a power of 80%, before the correction"
)


def _row_cells(row: ComparisonRow, *, several: bool = False) -> tuple[str, ...]:
    found, interval = row.found, row.found.interval
    return (
        _row_name(row, several=several),
        str(found.n),
        number(found.a, row.unit),
        number(found.b, row.unit),
        _cell(row, found.delta, sign=True),
        f"[{_cell(row, interval.low)}, {_cell(row, interval.high)}]" if interval else "-",
        p_text(row.p_adjusted),
        finding_of(row),
        _cell(row, row.mde),
        p_text(found.p),
        f"{found.wins}/{found.losses}/{found.ties}",
    )


def _cell(row: ComparisonRow, value: float | None, *, sign: bool = False) -> str:
    """Format a value with a fitting number of decimals; "-" for None."""
    if value is None:
        return "-"
    if row.is_ratio:
        return percent_text(value, sign=sign)
    text = f"{value + 0.0:.4f}" if row.unit is None and abs(value) < DIFFERENCES else number(value, row.unit)
    return ("+" if sign and value > 0 else "") + text


def _row_name(row: ComparisonRow, *, several: bool = False) -> str:
    """Return the name of the row's metric, or the row's label if the row compares one label.

    If ``several`` is true, the name of the metric precedes the label.
    """
    if row.label is not None:
        label = row.label if row.dimension == "question_type" else f"{row.dimension} {row.label}"
        return f"{row.metric}: {label}" if several else f"  {label}"
    return f"{row.metric} ({row.unit})" if row.unit else row.metric


def _notes(one: PairComparison, found: Comparisons) -> list[str]:
    differing = [check for check in one.comparability.by_design if check.name != "provider"]
    notes = [f"differs by design: {check.text}" for check in differing]
    unpaired = [f"{side.upper()}: {value_text(reasons)}" for side, reasons in one.items.excluded.items() if reasons]
    more = f"; not paired of {'; of '.join(unpaired)}" if unpaired else ""
    notes.append(f"items: A {one.items.a}, B {one.items.b}, paired {one.items.paired}{more}")
    notes += _flip_notes(one)
    if one.judge_noise is not None:
        notes.append(f"judge noise: {one.judge_noise:.3g} (larger of its false positive and false negative rate)")
    return [*notes, _test_note(one, found), LEGEND]


def _comparability_note(found: Comparability) -> str:
    if found.ok:
        return "like for like: yes, " + counted(
            sum(check.affects_results for check in found.checks), "check(|s) agree(s|)"
        )
    return f"{WATERMARK}: " + "; ".join(check.text for check in found.differences)


def _flip_notes(one: PairComparison) -> list[str]:
    found = []
    for side, items in one.items.flips.items():
        if items:
            more = f" and {len(items) - SHOWN_FLIPS} more" if len(items) > SHOWN_FLIPS else ""
            found.append(f"{side.upper()} is better on {len(items)}: {', '.join(items[:SHOWN_FLIPS])}{more}")
    return found


def _test_note(one: PairComparison, found: Comparisons) -> str:
    sizes = found.family_size
    text = f"intervals are for {TARGET}"
    counts = {row.found.n_clusters for row in one.headlines} - {None}
    if counts:
        text += f", over {counted(max(filter(None, counts)), 'cluster(|s)')} ({one.cluster_by})"
    parts = [f"Holm over {sizes[HEADLINE]} headline"]
    parts += [f"maxT over {sizes[EXPLORATORY]} exploratory"] if sizes[EXPLORATORY] else []
    parts += [f"Holm over {sizes[PERCENTILES]} percentile"] if sizes[PERCENTILES] else []
    return f"{text}; p adjusted by {' and, separately, '.join(parts)} row{'' if parts[-1].split()[2] == '1' else 's'}"


def _caveat_notes(one: PairComparison, rows: Sequence[ComparisonRow]) -> list[str]:
    """Return notes on limits of these rows: differences without variance, too few items, different loads."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        if has_no_spread(row):
            alike.setdefault(no_spread_text(row), []).append(_row_name(row, several=True))
    found = [f"{', '.join(names)}: {text}" for text, names in alike.items()]
    found += undecided_notes(rows, lambda row: _row_name(row, several=True))
    times = [row.metric for row in rows if row.is_ratio]
    load = load_difference(one)
    return [*found, *([f"{', '.join(dict.fromkeys(times))}: {load}"] if times and load else [])]


def _separate_correction_notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return a note that lists the rows of percentiles and macro means, because these are corrected separately.

    Return an empty list if there are no such rows.
    """
    names = [_row_name(row, several=True) for row in rows if row.family == PERCENTILES and row.is_tested]
    return [f"corrected separately, because they have no difference per item: {', '.join(names)}"] if names else []


def comparison_markdown(found: Comparisons) -> str:
    """Return the comparison as Markdown, with the conclusions first.

    If the comparison was forced, a warning is at the top.
    """
    head = ["# Comparison", ""]
    if found.forced:
        head += [f"**{WATERMARK}: forced. Do not quote these numbers as a comparison.**", ""]
    first = Grid(
        title="Conclusion", head=("conclusion, with its evidence",), rows=tuple((t,) for t in conclusions(found))
    )
    return "\n".join([*head, *(markdown(grid) for grid in (first, *comparison_grids(found)))])
