"""Checks of hits: whether the best hit comes first, and whether its text equals the stored text.

Example::

    reversed_scores(config, hits)      # "scores_rise", "scores_fall", or None where nothing is odd
    in_order([2, 5, 9])                # True: the places of their memories rise
    text_flags([("She likes", "She likes tea and coffee")])     # ["text_cut"]
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bench.metrics.text_normalization import search_words
from bench.model import (
    SCORES_FALL,
    SCORES_RISE,
    TEXT_CUT,
    TEXT_DIFFERS,
    TEXT_FOLDED,
    TEXT_SPOILED,
    TEXT_WIDER,
    Hit,
)

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig


def reversed_scores(config: ProviderConfig, hits: Sequence[Hit]) -> str | None:
    """Name the way in which every score is as bad as the one before it or worse; None for any other order.

    A config that orders the hits by their scores itself has decided.
    """
    if len(hits) < 2:
        return None
    first, last = hits[0].score, hits[-1].score
    if first is None or last is None or first == last:
        return None
    sign = _sign(config)
    if sign * (last - first) <= 0 or any(hit.score is None for hit in hits):
        return None
    scores = [sign * hit.score for hit in hits if hit.score is not None]
    if all(one <= other for one, other in pairwise(scores)):
        return SCORES_RISE if sign > 0 else SCORES_FALL
    return None


def _sign(config: ProviderConfig) -> int:
    """1 where a higher score is better, -1 where a lower one is, 0 where the config sorts by it."""
    if config.endpoints is None:
        return 1
    rule = config.endpoints.search.response.score
    if rule.order != "as_returned":
        return 0
    return 1 if (rule.kind == "distance") == (rule.transform != "none") else -1


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
MIN_ORDERED = 4
"""three hits are in order by chance once in three times"""
MUCH_MORE = 2
SHORTEST_CUT = 12
"""characters of a text of which it is plain that it is the beginning of another"""


def in_order(places: Sequence[int]) -> bool:
    """Say whether each memory was written after the one before it, or each before it."""
    if len(places) < MIN_ORDERED:
        return False
    return all(one < other for one, other in pairwise(places)) or all(one > other for one, other in pairwise(places))


def text_flags(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Compare the text of each hit with that of the one memory that it maps to."""
    changed = [
        (hit.strip(), memory) for hit, memory in pairs if hit != memory and hit.strip() not in ("", memory.strip())
    ]
    if not changed:
        return []
    shorter = [(hit.rstrip(".… "), memory.lstrip()) for hit, memory in changed if len(hit) < len(memory.strip())]
    cut = bool(shorter) and all(len(hit) >= SHORTEST_CUT and memory.startswith(hit) for hit, memory in shorter)
    spoiled = any(_is_spoiled(hit, memory) for hit, memory in changed)
    other = not spoiled and any(_shares_nothing(hit, memory) for hit, memory in changed)
    folded = not spoiled and any(_is_folded(hit, memory) for hit, memory in changed)
    wider = len(changed) == len(pairs) and all(_holds_more(hit, memory) for hit, memory in changed)
    flags = (
        (TEXT_CUT, cut),
        (TEXT_SPOILED, spoiled),
        (TEXT_DIFFERS, other),
        (TEXT_FOLDED, folded),
        (TEXT_WIDER, wider),
    )
    return [name for name, holds in flags if holds]


def _is_folded(hit: str, memory: str) -> bool:
    """Say whether a text is the memory's, or a part of it, in another case."""
    one, other = " ".join(hit.split()), " ".join(memory.split())
    return one not in other and one.casefold() in other.casefold()


def _holds_more(hit: str, memory: str) -> bool:
    return len(hit) >= MUCH_MORE * len(memory) and memory.strip() in hit


def _is_spoiled(hit: str, memory: str) -> bool:
    """Say whether a text is the memory's, or a part of it, once what breaks characters on the way is undone."""
    if hit in memory:
        return False
    if "\ufffd" in hit and "\ufffd" not in memory:
        return True
    if "&" in hit and html.unescape(hit).replace("\xa0", " ") in memory.replace("\xa0", " "):
        return True
    if memory.isascii():
        return False
    if "?" in hit and hit in _BEYOND_ASCII.sub("?", memory):
        return True
    return any(_recoded(hit, wrong) in memory for wrong in ("latin-1", "cp1252"))


def _recoded(text: str, wrong: str) -> str:
    """The text that was sent, where its UTF-8 was read as another encoding; else one that no memory holds."""
    try:
        return text.encode(wrong).decode("utf-8")
    except UnicodeError:
        return "\0"


def _shares_nothing(hit: str, memory: str) -> bool:
    if hit in memory or memory in hit:
        return False
    wanted = set(search_words(memory))
    return bool(wanted) and wanted.isdisjoint(search_words(hit))
