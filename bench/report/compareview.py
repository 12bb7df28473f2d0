"""A comparison as JSON, tables and Markdown.

Example::

    json.dumps(comparison_json(found))
    comparison_markdown(found)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from bench.report.compare import ALPHA, LEVEL, TARGET, Comparisons, PairComparison, Row, name_of
from bench.report.likeforlike import LikeForLike, shown
from bench.report.sides import Side
from bench.report.tables import Grid, markdown, number
from bench.report.verdicts import amount, conclusion, p_text
from bench.report.wire import interval_json

WATERMARK = "NOT LIKE FOR LIKE"
SHOWN_FLIPS = 5


def comparison_json(found: Comparisons) -> dict[str, object]:
    """The document of ``bench compare --json``; values are full doubles."""
    return {
        "kind": "comparison",
        "version": 1,
        "level": LEVEL,
        "alpha": ALPHA,
        "correction": "holm",
        "family_size": found.family_size,
        "seed": found.seed,
        "forced": found.forced,
        "target": TARGET,
        "comparisons": [_pair_json(one) for one in found.comparisons],
    }


def _pair_json(one: PairComparison) -> dict[str, object]:
    return {
        "benchmark": one.a.record.benchmark,
        "a": _side_json(one.a),
        "b": _side_json(one.b),
        "like_for_like": {"ok": one.like_for_like.ok, "checks": [_check_json(c) for c in one.like_for_like.checks]},
        "items": {
            "a": one.items.a,
            "b": one.items.b,
            "paired": one.items.paired,
            "excluded": {side: dict(reasons) for side, reasons in one.items.excluded.items()},
        },
        "cluster_by": one.cluster_by,
        "n_clusters": one.n_clusters,
        "judge_noise": one.judge_noise,
        "rows": [row_json(row) for row in one.rows],
    }


def _side_json(side: Side) -> dict[str, object]:
    return {"run_id": side.run_id, "provider": side.record.provider, "models": asdict(side.record.models)}


def _check_json(check: object) -> dict[str, object]:
    names = ("name", "same", "a", "b", "affects_results")
    return {name: getattr(check, name) for name in names}


def row_json(row: Row) -> dict[str, object]:
    """One row of the document."""
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
        "p_holm": row.p_holm,
        "mid_p": found.mid_p,
        "test": found.test,
        "wins": found.wins,
        "losses": found.losses,
        "ties": found.ties,
        "mde": found.mde,
        "correlation": found.correlation,
        "better": row.better,
        "family": row.family,
        "verdict": row.verdict,
    }


# ------------------------------------------------------------------------------ text


def comparison_grids(found: Comparisons) -> list[Grid]:
    """Two grids a pair: the numbers under both sides' names, then what they say and everything beside it."""
    return [grid for one in found.comparisons for grid in (_numbers(one), _sayings(one, found))]


def _numbers(one: PairComparison) -> Grid:
    record = one.a.record
    mark = f"{WATERMARK} | " if not one.like_for_like.ok else ""
    return Grid(
        title=f"{mark}{record.benchmark} {record.benchmark_version} | A = {name_of(one.a)}, B = {name_of(one.b)}",
        head=("metric", "n", "A", "B", "A - B", "95 % interval", "p (Holm)"),
        rows=tuple(_number_row(row) for row in one.rows),
        right=tuple(range(1, 7)),
        notes=(*(f"conclusion: {text}" for text in conclusion(one)), _like_for_like(one.like_for_like)),
    )


def _number_row(row: Row) -> tuple[str, ...]:
    found, interval = row.found, row.found.interval
    return (
        _named(row),
        str(found.n),
        number(found.a, row.unit),
        number(found.b, row.unit),
        "-" if found.delta is None else amount(row, found.delta, sign=True),
        f"[{amount(row, interval.low)}, {amount(row, interval.high)}]" if interval else "-",
        p_text(row.p_holm),
    )


def _named(row: Row) -> str:
    if row.label is not None:
        return f"  {row.label}" if row.dimension == "question_type" else f"  {row.dimension} {row.label}"
    return f"{row.metric} ({row.unit})" if row.unit else row.metric


def _sayings(one: PairComparison, found: Comparisons) -> Grid:
    return Grid(
        title="What may be said",
        head=("metric", "p", "A/B/tie", "MDE", "verdict"),
        rows=tuple(_saying(row) for row in one.rows),
        right=(1, 2, 3),
        notes=tuple(_notes(one, found)),
    )


def _saying(row: Row) -> tuple[str, ...]:
    found = row.found
    return (
        _named(row),
        p_text(found.p),
        f"{found.wins}/{found.losses}/{found.ties}",
        "-" if found.mde is None else amount(row, found.mde),
        row.verdict,
    )


def _notes(one: PairComparison, found: Comparisons) -> list[str]:
    notes = [f"differs by design: {check.text}" for check in one.like_for_like.by_design]
    notes.append(f"items: A {one.items.a}, B {one.items.b}, paired {one.items.paired}{_left_out(one)}")
    notes += _flips(one)
    if one.judge_noise is not None:
        notes.append(f"judge noise: {one.judge_noise:.3g} (larger of its false positive and false negative rate)")
    notes += _testing(one, found)
    return [*notes, *one.notes]


def _like_for_like(found: LikeForLike) -> str:
    if found.ok:
        return f"like for like: yes, {sum(check.affects_results for check in found.checks)} checks agree"
    return f"{WATERMARK}: " + "; ".join(check.text for check in found.differences)


def _left_out(one: PairComparison) -> str:
    parts = [f"{side.upper()}: {shown(reasons)}" for side, reasons in one.items.excluded.items() if reasons]
    return f"; left out of {'; of '.join(parts)}" if parts else ""


def _flips(one: PairComparison) -> list[str]:
    found = []
    for side, items in one.items.flips.items():
        if items:
            more = f" and {len(items) - SHOWN_FLIPS} more" if len(items) > SHOWN_FLIPS else ""
            found.append(f"{side.upper()} is better on {len(items)}: {', '.join(items[:SHOWN_FLIPS])}{more}")
    return found


def _testing(one: PairComparison, found: Comparisons) -> list[str]:
    sizes = found.family_size
    text = f"intervals are for {TARGET}"
    if one.cluster_by is not None:
        text += f", over {one.n_clusters} clusters ({one.cluster_by})"
    text += f"; Holm over {sizes['headline']} headline and, apart, {sizes['exploratory']} exploratory rows"
    least = [row.found.smallest_p for row in one.headlines if row.found.smallest_p]
    if least:
        text += f"; the smallest p that these pairs can give: {max(least):.2g}"
    return [text]


def comparison_markdown(found: Comparisons) -> str:
    """The whole comparison as Markdown, marked where it is not like for like."""
    head = ["# Comparison", ""]
    if found.forced:
        head += [f"**{WATERMARK}: forced. Do not quote these numbers as a comparison.**", ""]
    return "\n".join([*head, *(markdown(grid) for grid in comparison_grids(found))])


# ------------------------------------------------------------------------------ gate


def regressions(found: Comparisons, points: float) -> list[str]:
    """Why the gate ``--fail-on-regression`` is missed: a side worse than the first by more than ``points``.

    The headline rows are gated. A row that has no number misses the gate too; equal results never do.
    """
    told: list[str] = []
    for one in found.comparisons:
        if one.is_against_first:
            told += [text for row in one.headlines for text in _regression(one, row, points)]
    return told


def _regression(one: PairComparison, row: Row, points: float) -> Sequence[str]:
    who = f"{name_of(one.b)} against {name_of(one.a)}"
    if row.found.delta is None:
        return [f"gate missed: {row.metric} of {who}: no paired item has a value"]
    worse = -row.found.delta if row.lower_is_better else row.found.delta
    if worse <= points / 100:
        return []
    interval = row.found.interval
    span = f" [{amount(row, interval.low)}, {amount(row, interval.high)}]" if interval else ""
    delta = amount(row, row.found.delta, sign=True)
    return [f"regression: {row.metric} of {who}: A - B = {delta}{span}, allowed {points:g} points"]
