"""Coverage: the text of every evidence turn must be in what is sent, captions included.

::

    gaps = coverage_gaps(items, corpus, [rendered.memory.content for rendered in memories(config, corpus)])
    # [Gap(item="conv-26_3", turn="D1:14", text="[shares a photo ...]")]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.errors import DataError
from bench.model import Corpus, Item, Turn

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An evidence turn whose text was not in what is sent."""

    item: str
    turn: str
    text: str


def coverage_gaps(items: Iterable[Item], corpus: Corpus, contents: Sequence[str]) -> list[Gap]:
    """Every evidence turn of the items that the contents do not hold. A piece may be split over contents."""
    turns = {turn.id: turn for session in corpus.sessions for turn in session.turns}
    whole = "\n".join(contents)
    known: dict[str, str | None] = {}
    gaps = []
    for item in items:
        for turn_id in item.evidence.turns:
            if turn_id not in known:
                known[turn_id] = _absent(turns.get(turn_id), whole)
            absent = known[turn_id]
            if absent is not None:
                gaps.append(Gap(item=item.id, turn=turn_id, text=absent))
    return gaps


def _absent(turn: Turn | None, whole: str) -> str | None:
    """The first part of the turn that is not there, or None."""
    if turn is None:
        return "(not ingested)"
    parts = [turn.text, *([turn.caption] if turn.caption else [])]
    return next((part for part in parts if part.strip() and not _holds(whole, part)), None)


def _holds(whole: str, part: str) -> bool:
    """The text as it is, or as JSON writes it."""
    return part in whole or json.dumps(part, ensure_ascii=False)[1:-1] in whole


def require_coverage(gaps: Sequence[Gap], *, benchmark: str, where: str | None = None) -> None:
    """Raise a DataError that lists the items; nothing when there is no gap."""
    if not gaps:
        return
    listed = ", ".join(f"{gap.item} ({gap.turn})" for gap in gaps[:_SHOWN])
    more = f" and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    items = len({gap.item for gap in gaps})
    raise DataError(
        f"evidence of {items} items of {benchmark} is not in what would be sent: {listed}{more}",
        where=where,
        hint="map the missing field (a caption?), or correct formatTemplate",
    )
