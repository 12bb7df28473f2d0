"""Check the order and the texts of the hits of a search.

Example::

    reversed_scores(config, hits)      # "scores_rise", "scores_fall", or None
    in_order([2, 5, 9, 11])            # True: the hits are in the order in which their memories were stored
    text_flags([("She likes tea and", "She likes tea and coffee")])     # ["text_cut"]
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bench.metrics.answers.text_normalization import search_words
from bench.model import (
    SCORES_FALL,
    SCORES_RISE,
    TEXT_CONSTANT,
    TEXT_CUT,
    TEXT_DIFFERS,
    TEXT_FOLDED,
    TEXT_SPOILED,
    TEXT_WIDER,
    Hit,
)

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig


def reversed_scores(config: ProviderConfig, hits: Sequence[Hit]) -> str | None:
    """Return a flag if the hits are in reverse order: from one hit to the next, the score never gets worse.

    Return None for any other order. Also return None if the config lets bench sort the hits by score.
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
    """Return 1 if a higher score is better, and -1 if a lower score is better.

    Return 0 if the config sets an order of the scores, so that ``bench`` sorts the hits itself.
    """
    if config.endpoints is None:
        return 1
    rule = config.endpoints.search.response.score
    if rule.order != "as_returned":
        return 0
    return 1 if (rule.kind == "distance") == (rule.transform != "none") else -1


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
MIN_ORDERED = 4
"""minimum number of hits whose order is checked; three hits are in order by chance in one of three cases"""
MUCH_MORE = 2
SHORTEST_CUT = 12
"""minimum length, in characters, of a text that is recognized as the beginning of a longer text"""


def in_order(places: Sequence[int]) -> bool:
    """Return True if the hits are in the order in which their memories were stored, or in the reverse order.

    ``places`` are the positions of the memories, in the order of the hits. Fewer than four hits give False.
    """
    if len(places) < MIN_ORDERED:
        return False
    return all(one < other for one, other in pairwise(places)) or all(one > other for one, other in pairwise(places))


def text_flags(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Compare the text of each hit with the text of its memory; return one flag for each kind of difference."""
    changed = [
        (hit.strip(), memory) for hit, memory in pairs if hit != memory and hit.strip() not in ("", memory.strip())
    ]
    if not changed:
        return []
    shorter = [(hit.rstrip(".… "), memory.lstrip()) for hit, memory in changed if len(hit) < len(memory.strip())]
    constant = len({hit for hit, _ in pairs}) == 1 < len({memory for _, memory in pairs})
    cut = bool(shorter) and all(len(hit) >= SHORTEST_CUT and memory.startswith(hit) for hit, memory in shorter)
    spoiled = any(_is_spoiled(hit, memory) for hit, memory in changed)
    other = not (spoiled or constant) and any(_shares_nothing(hit, memory) for hit, memory in changed)
    folded = not spoiled and any(_is_folded(hit, memory) for hit, memory in changed)
    wider = len(changed) == len(pairs) and all(_holds_more(hit, memory) for hit, memory in changed)
    flags = (
        (TEXT_CONSTANT, constant),
        (TEXT_CUT, cut),
        (TEXT_SPOILED, spoiled),
        (TEXT_DIFFERS, other),
        (TEXT_FOLDED, folded),
        (TEXT_WIDER, wider),
    )
    return [name for name, holds in flags if holds]


def _is_folded(hit: str, memory: str) -> bool:
    """Return True if the memory contains the hit's text only when upper and lower case are ignored."""
    one, other = " ".join(hit.split()), " ".join(memory.split())
    return one not in other and one.casefold() in other.casefold()


def _holds_more(hit: str, memory: str) -> bool:
    return len(hit) >= MUCH_MORE * len(memory) and memory.strip() in hit


def _is_spoiled(hit: str, memory: str) -> bool:
    """Return True if the memory contains the hit's text only when broken characters in the hit are repaired.

    A hit with U+FFFD always counts as broken if its memory has no U+FFFD.
    """
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
    """Repair a UTF-8 text that was decoded in the encoding ``wrong``.

    If this is impossible, return the NUL character, which matches no stored text.
    """
    try:
        return text.encode(wrong).decode("utf-8")
    except UnicodeError:
        return "\0"


def _shares_nothing(hit: str, memory: str) -> bool:
    if hit in memory or memory in hit:
        return False
    wanted = set(search_words(memory))
    return bool(wanted) and wanted.isdisjoint(search_words(hit))
