"""The verdict inside the JSON that a judge's text is; words in other strings never count.

Example::

    read_objects('{"label": "WRONG", "reason": "the correct city is another"}').value      # 0.0

An object inside of prose is a quote and no verdict; two equal objects are one, an object with a repeated key is none.
"""

from __future__ import annotations

import json
import math
import re

from bench.evaluators.words import bare_word, value_of_word
from bench.structured import RepeatedKey, distinct, unfenced
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

_DECODER = json.JSONDecoder(object_pairs_hook=distinct)
_INTRODUCTION = re.compile(
    r"(?:(?:sure|certainly|okay|ok|of course)[!,.:]?\s*)?"
    r"(?:(?:here|is|this|below|my|the|final|json)(?:'s)?\s+){0,6}"
    r"(?:verdict|judge?ment|evaluation|grade|assessment|json|result|output|decision|answer|label|object)?\s*[:.!]?\s*",
    re.IGNORECASE,
)
LONGEST_INTRODUCTION = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonVerdict:
    """A value, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None
    faithfulness: float | None = None


def read_objects(text: str) -> JsonVerdict | None:
    """What the objects that a text is say together; None when it is something else."""
    try:
        trees = objects(_without_introduction(text))
    except RepeatedKey:
        return JsonVerdict(reason="conflict")
    if not trees:
        return None
    known = [verdict for verdict in map(_read, trees) if verdict.reason != "no_key"]
    if not known:
        return JsonVerdict(reason="no_verdict")
    first = known[0]
    if any((v.value, v.reason) != (first.value, first.reason) for v in known):
        return JsonVerdict(reason="conflict")
    return first


def _without_introduction(text: str) -> str:
    """The text without a line such as ``Here is my verdict:`` before its object."""
    start = text.find("{")
    before = text[: max(start, 0)].removesuffix("\n").removesuffix("```json").removesuffix("```")
    if not before.strip() or len(before) > LONGEST_INTRODUCTION or not _INTRODUCTION.fullmatch(before.strip()):
        return text
    return text[len(before) :]


def objects(text: str) -> list[dict[str, object]]:
    """Every outermost object of a text that is JSON objects and nothing else; none of any other text.

    Raises:
        RepeatedKey: an object holds one key twice.
    """
    rest = unfenced(text)
    found: list[dict[str, object]] = []
    at = 0
    while at < len(rest):
        try:
            tree, at = _DECODER.raw_decode(rest, at)
        except RepeatedKey:
            raise
        except (ValueError, RecursionError):
            return []
        listed = tree if isinstance(tree, list) else [tree]
        if not all(isinstance(one, dict) for one in listed):
            return []
        found.extend(listed)
        at = _after_space(rest, at)
    return found


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _read(tree: dict[str, object]) -> JsonVerdict:
    lowered = {key.lower(): value for key, value in tree.items()}
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
    if isinstance(said, str) and "_" in said:  # a number to Python alone
        return None
    try:
        number = float(said)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
