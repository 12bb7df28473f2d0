"""Does the best hit come first? What the scores of a provider's hits say of their order.

Example::

    reversed_scores(config, hits)      # "scores_rise", "scores_fall", or None where nothing is odd
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bench.model import SCORES_FALL, SCORES_RISE, Hit

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
