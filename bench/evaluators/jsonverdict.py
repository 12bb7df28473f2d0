"""The verdict inside JSON objects of a judge's text; words in other strings never count.

Example::

    read_objects('so: {"label": "WRONG", "reason": "the correct city is another"}').value      # 0.0
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from bench.evaluators.words import bare_word, value_of_word
from bench.values import dataclass

KEYS = (
    "correctness",
    "score",
    "correct",
    "is_correct",
    "label",
    "verdict",
    "grade",
    "judgment",
    "judgement",
    "result",
    "answer",
)
"""tried in this order, whatever the order in the object"""

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonVerdict:
    """A value, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None
    faithfulness: float | None = None


def read_objects(text: str) -> JsonVerdict | None:
    """What the objects of a text say together; None when there is no object."""
    found = [verdict for tree in objects(text) if (verdict := _read(tree)) is not None]
    if not found:
        return None
    known = [verdict for verdict in found if verdict.reason != "no_key"]
    if not known:
        return JsonVerdict(reason="no_verdict")
    first = known[0]
    if any((v.value, v.reason) != (first.value, first.reason) for v in known):
        return JsonVerdict(reason="conflict")
    return first


def objects(text: str) -> Iterator[dict[str, object]]:
    """Every outermost JSON object in a text."""
    place = text.find("{")
    while place >= 0:
        try:
            tree, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield tree
        place = text.find("{", end)


def _read(tree: dict[str, object]) -> JsonVerdict | None:
    lowered = {key.lower(): value for key, value in reversed(tree.items())}
    key = next((key for key in KEYS if key in lowered), None)
    faithfulness = _number(lowered.get("faithfulness"))
    if faithfulness is not None and not 0 <= faithfulness <= 1:
        faithfulness = None
    if key is None:
        return JsonVerdict(reason="no_key")
    value, reason = _value(lowered[key])
    return JsonVerdict(value=value, reason=reason, faithfulness=faithfulness)


def _value(said: object) -> tuple[float | None, str | None]:
    if isinstance(said, bool):
        return float(said), None
    number = _number(said)
    if number is not None:
        return (number, None) if 0 <= number <= 1 else (None, "out_of_range")
    if isinstance(said, str):
        word = value_of_word(bare_word(said))
        if word is not None:
            return word, None
    return None, "no_verdict"


def _number(said: object) -> float | None:
    """A finite number or its text."""
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    if isinstance(said, str) and "_" in said:  # a number to Python, and to nobody who grades
        return None
    try:
        number = float(said)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
