"""Which metrics a comparison shows, and which of them carry the question.

Example::

    shown_metrics(a, b, wanted=["ndcg@10"])       # ["ndcg_at_10"]
    headlines(names, a, b, wanted=())             # the benchmark's first metric with a value on both sides
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import UsageError
from bench.metrics import resolve
from bench.report.rowtests import can_be_paired
from bench.report.sides import Side


def shown_metrics(a: Side, b: Side, wanted: Sequence[str]) -> list[str]:
    """Name the rows' metrics: those asked for, else all that both sides have and that pair item by item.

    Raises:
        UsageError: a metric that is not on both sides, or that has no value an item.
    """
    shared = [name for name in a.measures if name in b.measures]
    if not wanted:
        names = [name for name in shared if can_be_paired(a.measures[name])]
        return [name for name in names if name not in apart(a, b, names)]
    return list(dict.fromkeys(_named(name, a, shared) for name in wanted))


def _named(name: str, side: Side, shared: Sequence[str]) -> str:
    info = resolve(name)
    found = next((one for one in (info.name, f"{info.name}_at_{side.record.k}") if one in shared), None)
    if found is None:
        raise UsageError(
            f"the metric {name} is not on both sides of {side.record.benchmark}",
            hint=f"both have: {', '.join(shared) or 'none'}; bench rescore adds metrics",
        )
    if not can_be_paired(side.measures[found]):
        raise UsageError(
            f"{name} is one number of all items: there is nothing to pair", hint="compare a metric that each item has"
        )
    return found


def apart(a: Side, b: Side, names: Sequence[str]) -> list[str]:
    """Retrieval metrics whose evidence counts in turns on one side and in sessions on the other.

    Answers can still be compared; where there are none, nothing is left out and the checklist refuses.
    """
    if a.record.level == b.record.level or not any(_is_answered(side) for side in (a, b)):
        return []
    return [name for name in names if a.measures[name].category == "retrieval"]


def headlines(names: Sequence[str], a: Side, b: Side, *, wanted: Sequence[str]) -> list[str]:
    """All that were asked for; else the benchmark's first metric that applies.

    Answer metrics do not apply to runs without answers. Answers that nobody could score stay the question: no other
    metric takes their place.
    """
    if wanted:
        return list(names)
    fitting = [name for name in names if _applies(name, a) and _applies(name, b)]
    return fitting[:1] or list(names[:1])


def _applies(name: str, side: Side) -> bool:
    asks_answers = side.measures[name].category == "answer" and _is_answered(side)
    return asks_answers or _has_value(side, name)


def _is_answered(side: Side) -> bool:
    return side.record.models.answering is not None


def _has_value(side: Side, name: str) -> bool:
    return any(value == value for value in side.column(name))
