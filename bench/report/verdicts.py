"""A compared row in words: what a reader may conclude, and never more.

Example::

    verdict_of(row)                # "no detectable difference (smallest detectable: 0.05)"
    conclusion(comparison)         # one sentence: what to conclude, and why
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report.rowtests import ALPHA
from bench.report.tables import number

if TYPE_CHECKING:
    from bench.report.compare import PairComparison, Row


def verdict_of(row: Row) -> str:
    """``A higher``, ``B lower, better``, ``no detectable difference (...)`` or ``not testable: ...``."""
    begin = "" if row.family == "headline" else f"{row.family}: "
    return begin + _said(row) + _noise(row)


def _said(row: Row) -> str:
    found = row.found
    if found.p is None or row.p_holm is None:
        return f"not testable: {(found.note or 'too few items').removeprefix('not testable: ')}"
    if row.p_holm >= ALPHA or not found.delta:
        return f"no detectable difference (smallest detectable: {amount(row, found.mde)})"
    if row.lower_is_better:
        return f"{'A' if found.delta < 0 else 'B'} lower, better"
    return f"{'A' if found.delta > 0 else 'B'} higher"


def _noise(row: Row) -> str:
    if row.noise is None or row.found.delta is None or abs(row.found.delta) >= row.noise:
        return ""
    return f"; within judge noise ({row.noise:.3g})"


def amount(row: Row, value: float | None, *, sign: bool = False) -> str:
    """A difference in the metric's unit, or a share where times are compared."""
    if value is None:
        return "not known"
    if row.is_ratio:
        return f"{value * 100:{'+' if sign else ''}.1f} %"
    text = number(value, row.unit) if row.unit else f"{value:.4f}".rstrip("0").rstrip(".") or "0"
    unit = f" {row.unit}" if row.unit else ""
    return ("+" if sign and value > 0 else "") + text + unit


def conclusion(one: PairComparison) -> tuple[str, ...]:
    """One sentence a headline metric."""
    return tuple(_concluded(one, row) for row in one.headlines)


def _concluded(one: PairComparison, row: Row) -> str:
    found, pairs = row.found, f"{row.found.n} paired items"
    if found.p is None or found.delta is None:
        why = (found.note or "too few items").removeprefix("not testable: ")
        return f"Nothing can be concluded about {row.metric}: {why} ({pairs})."
    span = ""
    if found.interval is not None:
        low, high = (amount(row, bound, sign=True) for bound in (found.interval.low, found.interval.high))
        span = f" [{low}, {high}]"
    difference = f"A - B = {amount(row, found.delta, sign=True)}{span} over {pairs}"
    if row.better is not None:
        winner, loser = ("A", "B") if row.better == "a" else ("B", "A")
        who = {"A": one.a.record.provider, "B": one.b.record.provider}
        names = f"{winner} ({who[winner]}) is better than {loser} ({who[loser]})"
        noise = ", but the difference is within the judge's own error" if _noise(row) else ""
        return f"{names} on {row.metric}: {difference}, p = {p_text(row.p_holm)} after Holm{noise}."
    smallest = "" if found.mde is None else f"; only a difference of {amount(row, found.mde)} or more would be found"
    return (
        f"Neither side can be called better on {row.metric}: {difference}, "
        f"p = {p_text(row.p_holm)} after Holm{smallest}{' (80 % power)' if smallest else ''}."
    )


def p_text(p: float | None) -> str:
    """A p value in four digits."""
    return "-" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"
