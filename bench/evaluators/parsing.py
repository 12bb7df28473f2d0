"""Reading a judge's text: a verdict, or why there is none. What cannot be read is never a 0.

The steps are tried in order: nothing there, JSON, a marked verdict, a line that is only a verdict, a
leading verdict word, a plain statement; then refusal, truncation, no verdict.

Example::

    parse_verdict("Verdict: yes ... Final verdict: no").correct         # False: the last marker counts
    parse_verdict("The answer is eyes").reason                          # "no_verdict"
"""

from __future__ import annotations

import re
from typing import Literal

from bench.evaluators.jsonverdict import read_objects
from bench.evaluators.words import ANY_WORD, bare_word, value_of_word
from bench.values import dataclass

Protocol = Literal["auto", "json", "longmemeval-official"]

_BLOCKS = re.compile(r"<(think|thinking|reasoning)\b[^>]*>.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_OPENED = re.compile(r"<(think|thinking|reasoning)\b[^>]*>", re.IGNORECASE)
_CLOSED = re.compile(r"\A.*</(think|thinking|reasoning)\s*>", re.IGNORECASE | re.DOTALL)

_DECORATION = r"[\s*_`\"'“”‘’\[\](){}#>~]*"
_MARKED = re.compile(
    r"\b(?:verdict|judge?ment|answer|label|grade|result|decision|evaluation)[*_`\"']*(?:\s+is)?\s*[:=]"
    rf"[ \t*_`\"'“”‘’\[\](){{}}#>~]*(?P<word>{ANY_WORD})[*_`\"'“”‘’\]}}]*(?=[ \t]*$|[.!,;:)])",
    re.IGNORECASE | re.MULTILINE,
)
_LEADING = re.compile(
    rf"\A{_DECORATION}(?P<word>{ANY_WORD})[*_`\"'“”‘’\]\)]*(?:\s*[.,:;!]|\s+[-–—]|[–—]|-+(?=\s))", re.IGNORECASE
)
_STATED = re.compile(r"\b(?:is|was)(?P<not>\s+not|n['’]t)?\s+(?P<word>correct|incorrect|wrong|right)\b", re.IGNORECASE)
_UNSURE = re.compile(r"\b(?:whether|if|cannot|can['’]t|unable|would|could|might|neither|none|nothing)\b", re.IGNORECASE)
_REFUSAL = re.compile(r"\b(?:sorry|cannot|can['’]t|unable|as an ai)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedVerdict:
    """``state`` unparsed has a reason: empty, truncated, out_of_range, no_verdict, conflict, refusal."""

    state: Literal["parsed", "unparsed"]
    correct: bool | None = None
    value: float | None = None
    faithfulness: float | None = None
    reason: str | None = None


def parse_verdict(
    text: str | None, *, protocol: str = "auto", finish_reason: str | None = None, threshold: float = 1.0
) -> ParsedVerdict:
    """Read one verdict; ``correct`` means value >= threshold.

    ``protocol``: auto; json (nothing but JSON counts); longmemeval-official (the paper's substring rule,
    for comparison only).
    """
    if protocol == "longmemeval-official":
        said_yes = "yes" in (text or "").strip().lower()
        return ParsedVerdict(state="parsed", correct=said_yes, value=float(said_yes))
    if protocol not in ("auto", "json"):
        raise ValueError(f"unknown judge protocol {protocol!r}")
    if text is None or not text.strip():
        return _unparsed("empty")
    rest = _without_reasoning(text)
    if rest is None:
        return _unparsed("truncated")
    if not rest.strip():
        return _unparsed("empty")
    found = read_objects(rest)
    if found is not None:
        if found.reason is not None or found.value is None:
            return _unparsed(found.reason or "no_verdict")
        return _parsed(found.value, threshold, found.faithfulness)
    if protocol == "json":
        return _unparsed("truncated" if finish_reason == "length" else "no_verdict")
    return _read_prose(rest, finish_reason, threshold)


def _without_reasoning(text: str) -> str | None:
    """The text without its reasoning blocks; None when one was never closed."""
    rest = _BLOCKS.sub("", text)
    if _OPENED.search(rest):
        return None
    return _CLOSED.sub("", rest)


def _read_prose(text: str, finish_reason: str | None, threshold: float) -> ParsedVerdict:
    for step in (_marked, _only_word, _leading, _stated):
        found = step(text)
        if isinstance(found, str):
            return _unparsed(found)
        if found is not None:
            return _parsed(found, threshold)
    if _REFUSAL.search(text):
        return _unparsed("refusal")
    return _unparsed("truncated" if finish_reason == "length" else "no_verdict")


def _marked(text: str) -> float | str | None:
    """``Verdict: yes``: the last one wins."""
    words = [match["word"] for match in _MARKED.finditer(text)]
    return value_of_word(words[-1]) if words else None


def _only_word(text: str) -> float | str | None:
    """The first or the last line is nothing but a verdict word."""
    lines = [line for line in text.splitlines() if line.strip()]
    values = [value_of_word(bare_word(line)) for line in (lines[0], lines[-1])]
    known = {value for value in values if value is not None}
    return "conflict" if len(known) > 1 else next(iter(known), None)


def _leading(text: str) -> float | str | None:
    """The text begins with a verdict word and goes on after a mark."""
    match = _LEADING.match(text)
    return value_of_word(match["word"]) if match else None


def _stated(text: str) -> float | str | None:
    """``is (not) correct`` as a statement of its own."""
    found: set[float] = set()
    for sentence in _SENTENCE_END.split(text):
        if _UNSURE.search(sentence):
            continue
        for match in _STATED.finditer(sentence):
            positive = match["word"].lower() in ("correct", "right")
            if match["not"] and not positive:
                return "conflict"
            found.add(float(positive and not match["not"]))
    return "conflict" if len(found) > 1 else next(iter(found), None)


def _parsed(value: float, threshold: float, faithfulness: float | None = None) -> ParsedVerdict:
    return ParsedVerdict(state="parsed", correct=value >= threshold, value=value, faithfulness=faithfulness)


def _unparsed(reason: str) -> ParsedVerdict:
    return ParsedVerdict(state="unparsed", reason=reason)
