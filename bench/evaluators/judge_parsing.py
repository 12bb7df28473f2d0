"""Read the verdict in a judge's reply, or the reason why the reply has no verdict.

An unreadable reply never becomes the verdict 0.

Example::

    parse_verdict("Verdict: yes ... Final verdict: no").correct         # False: the last label counts
    parse_verdict("The answer is eyes").reason                          # "no_verdict"
    parse_object('{"correctness": 1, "verdict": "no"}', schema)         # unparsed: not the requested object
    read_objects('{"label": "WRONG", "reason": "the correct city is another"}').value      # 0.0

If the judge prompt has a schema, the reply must be exactly one object of this schema. If the judge prompt asks for a
word, the reply can be prose. Reasoning blocks and quotations are ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Literal

from bench.evaluators.judge_prose import LONGEST, bare_word, read_prose, value_of_word
from bench.fast_dataclass import dataclass
from bench.json_reply import RepeatedKey, ReplySchema, one_object, unfenced, unique_keys
from bench.patterns import pattern
from bench.reasoning_blocks import without_reasoning

KEYS = ("correctness", "score", "correct", "is_correct", "label", "verdict", "grade", "judgment",
        "judgement", "result", "answer")  # fmt: skip
"""keys of a JSON reply that can contain the verdict; the first key in this list that is present counts"""

SCALES = (
    "max", "max_score", "maxscore", "maximum", "max_points", "max_rating", "scale", "out_of", "outof", "range",
    "total", "total_points",
)  # fmt: skip
"""keys of a JSON reply that give the upper end of the score's scale"""
_DIGITS = pattern(r"\d{1,6}(?:\.\d{1,6})?")
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_INTRODUCTION = pattern(
    r"(?:(?:sure|certainly|okay|ok|of course)[!,.:]?\s*)?"
    r"(?:(?:here|is|this|below|my|the|final|json)(?:'s)?\s+){0,6}"
    r"(?:verdict|judge?ment|evaluation|grade|assessment|json|result|output|decision|answer|label|object)?\s*[:.!]?\s*",
    re.IGNORECASE,
)
LONGEST_INTRODUCTION = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonVerdict:
    """The verdict in a JSON reply: a value, or the reason why there is no value."""

    value: float | None = None
    reason: str | None = None
    faithfulness: float | None = None


def read_objects(text: str) -> JsonVerdict | None:
    """Return the verdict of a text that consists of JSON objects only; return None for any other text."""
    try:
        trees = only_objects(_without_introduction(text))
    except RepeatedKey:
        return JsonVerdict(reason="conflict")
    if not trees:
        return None
    known = [verdict for verdict in map(_read_object, trees) if verdict.reason != "no_key"]
    if not known:
        return JsonVerdict(reason="no_verdict")
    first = known[0]
    if any((v.value, v.reason) != (first.value, first.reason) for v in known):
        return JsonVerdict(reason="conflict")
    return first


def _without_introduction(text: str) -> str:
    """Return the text without an introduction such as ``Here is my verdict:`` before its JSON object."""
    start = text.find("{")
    before = text[: max(start, 0)].removesuffix("\n").removesuffix("```json").removesuffix("```")
    if not before.strip() or len(before) > LONGEST_INTRODUCTION or not _INTRODUCTION.fullmatch(before.strip()):
        return text
    return text[len(before) :]


def only_objects(text: str) -> list[dict[str, object]]:
    """Return the JSON objects of a text that contains nothing else, or an empty list.

    Raises:
        RepeatedKey: an object repeats a key.
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
        at = _skip_space(rest, at)
    return found


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _read_object(tree: dict[str, object]) -> JsonVerdict:
    lowered = {key.lower(): value for key, value in tree.items()}
    key = next((key for key in KEYS if key in lowered), None)
    faithfulness = _finite_number(lowered.get("faithfulness"))
    if faithfulness is not None and not 0 <= faithfulness <= 1:
        faithfulness = None
    if key is None:
        return JsonVerdict(reason="no_key")
    value, reason = _read_value(lowered[key], _scale_end(lowered))
    others = {_read_value(lowered[name])[0] for name in KEYS[:-1] if name in lowered and name != key}
    if value in (0.0, 1.0) and 1.0 - value in others:
        return JsonVerdict(reason="conflict")
    return JsonVerdict(value=value, reason=reason, faithfulness=faithfulness)


def _scale_end(tree: Mapping[str, object]) -> float:
    """Return the highest score on the scale that a JSON object states, or 1 if the object states no scale.

    ``"max_score": 5`` gives 5, ``"scale": "1-10"`` gives 10.
    """
    ends = [float(end) for name in SCALES if name in tree for end in _DIGITS.findall(str(tree[name])[:40])]
    return max(ends, default=1.0) or 1.0


def _read_value(given: object, top: float = 1.0) -> tuple[float | None, str | None]:
    if isinstance(given, bool):
        return float(given), None
    number = _finite_number(given)
    if number is not None:
        number /= top
        return (number, None) if 0 <= number <= 1 else (None, "out_of_range")
    if isinstance(given, str):
        word = value_of_word(bare_word(given))
        if word is not None:
            return word, None
    return None, "no_verdict"


def _finite_number(given: object) -> float | None:
    """Return a finite number from a number or its text; return None for any other value."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    if isinstance(given, str) and "_" in given:  # a number to Python alone
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


Protocol = Literal["auto", "json", "longmemeval-official"]

_REFUSAL = pattern(r"\b(?:sorry|cannot|can['’]t|unable|as an ai)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedVerdict:
    """A verdict, or the reason why there is no verdict.

    The reason is ``empty``, ``truncated``, ``out_of_range``, ``no_verdict``, ``conflict`` or ``refusal``.
    """

    state: Literal["parsed", "unparsed"]
    correct: bool | None = None
    value: float | None = None
    faithfulness: float | None = None
    reason: str | None = None


def parse_verdict(
    text: str | None,
    *,
    protocol: str = "auto",
    finish_reason: str | None = None,
    threshold: float = 1.0,
    answer: str = "",
) -> ParsedVerdict:
    """Read the verdict in a judge's reply. A value of at least ``threshold`` is correct.

    ``answer`` is the judged answer. ``protocol`` is auto (JSON or prose), json (only JSON is read) or
    longmemeval-official (the LongMemEval paper's rule: right if the reply contains "yes"; for comparison only).
    """
    if protocol not in ("auto", "json", "longmemeval-official"):
        raise ValueError(f"unknown judge protocol {protocol!r}")
    rest, reason = judge_text(text, finish_reason)
    if protocol == "longmemeval-official" and reason in ("", "empty"):
        return parsed(float("yes" in rest.lower()), threshold)
    if reason:
        return unparsed(reason)
    found = read_objects(rest)
    if found is not None:
        if found.reason is not None or found.value is None:
            return unparsed(found.reason or "no_verdict")
        return parsed(found.value, threshold, found.faithfulness)
    value = read_prose(rest, answer) if protocol == "auto" else None
    if isinstance(value, str):
        return unparsed(value)
    return parsed(value, threshold) if value is not None else unparsed(_missing_reason(rest, finish_reason, protocol))


def parse_object(
    text: str | None, schema: ReplySchema, *, finish_reason: str | None = None, threshold: float = 1.0
) -> ParsedVerdict:
    """Return the verdict of a reply that is one JSON object of the schema.

    The object has ``correctness`` and optionally ``faithfulness``. Any other text gives an unparsed verdict.
    """
    tree, reason = read_object(text, schema, deciding="correctness", finish_reason=finish_reason)
    if tree is None:
        return unparsed(reason)
    value, faithfulness = tree["correctness"], tree.get("faithfulness")
    assert isinstance(value, int | float)
    return parsed(float(value), threshold, float(faithfulness) if isinstance(faithfulness, int | float) else None)


def read_object(
    text: str | None, schema: ReplySchema, *, deciding: str, finish_reason: str | None = None
) -> tuple[Mapping[str, object] | None, str]:
    """Return (object, "") for a text that is one JSON object of the schema, or (None, reason) for any other text.

    ``deciding`` is the only key that the schema requires. If the object does not fit the schema, the reason is usually
    ``no_verdict``. If the value of ``deciding`` must be a number and is outside 0..1, the reason is ``out_of_range``.
    """
    rest, reason = judge_text(text, finish_reason)
    if reason:
        return None, reason
    tree = one_object(rest)
    if tree is None:
        return None, _missing_reason(rest, finish_reason, "json")
    if schema.accepts(tree):
        return tree, ""
    return None, _misfit_reason(tree.get(deciding), schema, deciding)


def _misfit_reason(value: object, schema: ReplySchema, deciding: str) -> str:
    properties = schema.get("properties")
    wanted = properties.get(deciding) if isinstance(properties, Mapping) else None
    number = isinstance(wanted, Mapping) and wanted.get("type") == "number"
    plain = value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    return "out_of_range" if number and plain == plain and not 0 <= plain <= 1 else "no_verdict"


def judge_text(text: str | None, finish_reason: str | None) -> tuple[str, str]:
    """Return (text, "") for a judge's reply. The text does not contain the reasoning block.

    If the reply cannot be read, return ("", reason).
    """
    nothing = "truncated" if finish_reason == "length" else "empty"
    if text is None or not text.strip():
        return "", nothing
    rest = without_reasoning(text)
    if rest is None:
        return "", "truncated"
    if not rest.strip():
        return "", nothing
    return ("", "no_verdict") if len(rest) > LONGEST else (rest, "")


def _missing_reason(text: str, finish_reason: str | None, protocol: str) -> str:
    if finish_reason == "length":
        return "truncated"
    return "refusal" if protocol == "auto" and _REFUSAL.search(text) else "no_verdict"


def parsed(value: float, threshold: float, faithfulness: float | None = None) -> ParsedVerdict:
    """Create a verdict from a value. The value is correct if it is at least ``threshold``."""
    return ParsedVerdict(state="parsed", correct=value >= threshold, value=value, faithfulness=faithfulness)


def unparsed(reason: str) -> ParsedVerdict:
    """Create a verdict without a value. ``reason`` says why the judge's reply could not be read."""
    return ParsedVerdict(state="unparsed", reason=reason)
