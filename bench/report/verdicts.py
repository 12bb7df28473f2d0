"""A compared row in words: what a reader may conclude, and never more.

Example::

    verdict_of(row)                # "no detectable difference (smallest detectable: 0.05)"
    finding_of(row)                # the same in a table's cell: "none"
    conclusion(comparison)         # one sentence a headline metric: what to conclude, and why
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bench.report.rowtests import ALPHA
from bench.report.tables import number

if TYPE_CHECKING:
    from bench.report.comparison import PairComparison, Row

WATERMARK = "NOT LIKE FOR LIKE"
UNDECIDED = "cannot be decided"
WHOLE_PERCENT = 100.0
DEGENERATE = "wilson_degenerate"
"""the method of an interval around a difference that is the same everywhere"""


def verdict_of(row: Row) -> str:
    """``A higher``, ``B lower, better``, ``no detectable difference (...)``, ``cannot be decided: ...`` ..."""
    begin = "" if row.family == "headline" else "exploratory: "
    noise = f"; within judge noise ({row.noise:.3g})" if row.is_within_noise else ""
    return begin + _said(row) + noise


def _said(row: Row) -> str:
    if row.found.p is None or row.p_adjusted is None:
        return f"not testable: {_untestable(row)}"
    if row.is_detected:
        return _higher(row)
    if not row.can_be_decided:
        return f"{UNDECIDED}: {sampled(row)}"
    return f"no detectable difference (smallest detectable: {amount(row, row.mde)})"


def sampled(row: Row) -> str:
    """How many conversations the row has, or items where they are not clustered."""
    count, noun = (row.found.n_clusters, "conversation") if row.found.n_clusters else (row.found.n, "item")
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _untestable(row: Row) -> str:
    return (row.found.note or "too few items").removeprefix("not testable: ")


def _higher(row: Row) -> str:
    above = (row.found.delta or 0) > 0
    if row.lower_is_better:
        return f"{'B' if above else 'A'} lower, better"
    return f"{'A' if above else 'B'} higher"


def finding_of(row: Row) -> str:
    """The verdict of a row whose p and MDE stand beside it."""
    if row.found.p is None:
        return "not testable"
    if row.is_detected:
        return _higher(row).partition(",")[0] + (", within judge noise" if row.is_within_noise else "")
    if not row.can_be_decided:
        return UNDECIDED
    return "none (adjusted)" if row.found.p < ALPHA else "none"


def amount(row: Row, value: float | None, *, sign: bool = False) -> str:
    """A difference in the metric's unit, or a percentage where times are compared."""
    if value is None:
        return "not known"
    if row.is_ratio:
        return share(value, sign=sign)
    text = number(value, row.unit) if row.unit else f"{value:.4f}".rstrip("0").rstrip(".") or "0"
    unit = f" {row.unit}" if row.unit else ""
    text = "0" if text == "-0" else text
    return ("+" if sign and value > 0 else "") + text + unit


def share(value: float, *, sign: bool = False) -> str:
    """A ratio minus 1 as a percentage."""
    percent = value * 100
    digits = 0 if abs(percent) >= WHOLE_PERCENT else 1
    return f"{percent:{'+' if sign else ''}.{digits}f} %"


# ------------------------------------------------------------------------ one sentence


def conclusion(one: PairComparison) -> tuple[str, ...]:
    """One sentence a headline metric: what to conclude, and the numbers it rests on."""
    mark = "" if one.like_for_like.ok else f"{WATERMARK}, do not quote: "
    return tuple(mark + _concluded(one, row) for row in one.headlines)


def _concluded(one: PairComparison, row: Row) -> str:
    if row.found.p is None or row.found.delta is None:
        return (
            f"Nothing can be concluded about {row.metric}: {_untestable(row)} ({_sample(one, row)}{_lost(one, row)})."
        )
    evidence = f"{_sides(row)}, A - B = {_difference(row)} over {_sample(one, row)}, {_chance(row)}"
    if row.is_ratio and (caveat := other_load(one)):
        evidence += f"; {caveat}"
    if row.better is None:
        return f"Neither side can be called better on {row.metric}: {evidence}{_missed(row)}."
    winner, loser = ("A", "B") if row.better == "a" else ("B", "A")
    who = {"A": one.a.who, "B": one.b.who}
    noise = ", but the difference is within the judge's own error" if row.is_within_noise else ""
    return f"{winner} ({who[winner]}) is better than {loser} ({who[loser]}) on {row.metric}: {evidence}{noise}."


def _sides(row: Row) -> str:
    a, b = number(row.found.a, row.unit), number(row.found.b, row.unit)
    unit = f" {row.unit}" if row.unit else ""
    return f"{a} against {b}{unit}" + (", lower is better" if row.lower_is_better else "")


def _difference(row: Row) -> str:
    found = row.found
    told = amount(row, found.delta, sign=True)
    if found.interval is None:
        return told
    return f"{told} [{amount(row, found.interval.low, sign=True)}, {amount(row, found.interval.high, sign=True)}]"


def _sample(one: PairComparison, row: Row) -> str:
    items = f"{row.found.n} paired item{'' if row.found.n == 1 else 's'}"
    count = row.found.n_clusters
    return f"{items} in {count} cluster{'' if count == 1 else 's'} ({one.cluster_by})" if count else items


def _lost(one: PairComparison, row: Row) -> str:
    """Why nothing pairs."""
    if row.found.n or row is not one.headlines[0]:
        return ""
    return "".join(
        f"; {side.upper()}: " + ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.items())
        for side, reasons in one.items.excluded.items()
        if reasons
    )


def _chance(row: Row) -> str:
    if row.p_adjusted is None or row.p_adjusted == row.found.p:
        return _p(row.found.p)
    return f"{_p(row.found.p)}, adjusted {p_text(row.p_adjusted)}"


def _missed(row: Row) -> str:
    """What would have been found."""
    if not row.can_be_decided:
        return f"; {UNDECIDED}: {sampled(row)} give{'s' if sampled(row).startswith('1 ') else ''} {_floor(row)}"
    if row.mde is None:
        return f"; {unseen(row)}" if is_unseen(row) else ""
    uncorrected = "" if row.p_adjusted == row.found.p else ", before the correction"
    return f"; a difference of {amount(row, row.mde)} would be found about 8 times in 10{uncorrected}"


def _floor(row: Row) -> str:
    """The smallest p that could have come out."""
    return f"no{'' if row.least_p == row.found.smallest_p else ' adjusted'} p below {row.least_p:.3g}"


def undecided(rows: Sequence[Row], name: Callable[[Row], str]) -> list[str]:
    """Name the rows of which so few conversations or items can decide nothing, whatever the difference."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.is_tested and not row.can_be_decided:
            few = f"{UNDECIDED}: {sampled(row)} can give {_floor(row)}"
            found.setdefault(few, []).append(name(row))
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]


def is_unseen(row: Row) -> bool:
    """The sides differ by the same everywhere, so nothing spreads from which an interval could be had."""
    return row.found.interval is not None and row.found.interval.method == DEGENERATE


def unseen(row: Row) -> str:
    """Where the interval of such a row comes from."""
    found, of = row.found, "cluster" if row.found.n_clusters else "item"
    count = found.n_clusters or found.n
    alike = "no item differs" if found.ties == found.n else f"the difference is the same in each {of}"
    return f"{alike}: the interval is what {count} {of}{'' if count == 1 else 's'} can leave unseen"


def other_load(one: PairComparison) -> str:
    """Say that times were taken under different loads; empty where they were not, or nobody knows."""
    told = "; ".join(check.text for check in one.like_for_like.load)
    return f"not the same load, which moves times ({told})" if told else ""


def _p(p: float | None) -> str:
    text = p_text(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"


def p_text(p: float | None) -> str:
    """A p value in four digits."""
    return "-" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"
