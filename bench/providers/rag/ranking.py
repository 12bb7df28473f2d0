"""Orders of chunks: by BM25, by two scores weighted, by two ranks fused.

Example::

    words = bm25("Where does Ana live?", {"c1": "Ana lives in Lisbon.", "c2": "Bruno runs."})      # {"c1": 1.4}
    fused({"c1": 0.9, "c2": 0.3}, words)                                                        # {"c1": 0.0328, ...}
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from bench.metrics.words import search_words

K1 = 1.2
B = 0.75
RANK_CONSTANT = 60
"""k of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)"""

Scores = Mapping[str, float]
"""chunk id -> score, in the order of writing"""


def tokens(text: str) -> list[str]:
    """Lower-cased words; of scripts without spaces characters and pairs of neighbors."""
    return search_words(text)


def bm25(query: str, texts: Mapping[str, str]) -> dict[str, float]:
    """Okapi BM25 (k1 1.2, b 0.75, idf never negative) of the texts with a word of the query."""
    counts = {key: Counter(tokens(text)) for key, text in texts.items()}
    lengths = {key: count.total() for key, count in counts.items()}
    mean = (sum(lengths.values()) / len(lengths) if lengths else 0) or 1.0
    found: dict[str, float] = {}
    for word in dict.fromkeys(tokens(query)):
        holders = [key for key, count in counts.items() if word in count]
        idf = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key in holders:
            often = counts[key][word]
            share = often * (K1 + 1) / (often + K1 * (1 - B + B * lengths[key] / mean))
            found[key] = found.get(key, 0.0) + idf * share
    return {key: found[key] for key in texts if key in found}


def weighted(first: Scores, second: Scores, shares: tuple[float, float]) -> dict[str, float]:
    """``shares[0] * first + shares[1] * second``; a chunk that the second list does not know counts by the first."""
    return {
        key: shares[0] * score + shares[1] * second[key] if key in second else sum(shares) * score
        for key, score in first.items()
    }


def fused(*lists: Scores) -> dict[str, float]:
    """Reciprocal rank fusion: the sum of ``1 / (60 + rank)`` over the lists that hold a chunk."""
    found: dict[str, float] = {}
    for scores in lists:
        for rank, key in enumerate(ordered(scores), 1):
            found[key] = found.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
    return found


def scaled(scores: Scores) -> dict[str, float]:
    """Scores divided by the largest, so that they can stand beside a cosine."""
    largest = max(scores.values(), default=0.0)
    return {key: score / largest for key, score in scores.items()} if largest > 0 else dict(scores)


def ordered(scores: Scores) -> list[str]:
    """Best first; equal scores keep the order of writing."""
    return sorted(scores, key=lambda key: -scores[key])
