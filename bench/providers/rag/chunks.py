"""Split a text into chunks, and rank chunks.

A text is split into fixed windows, at paragraphs, or where the subject changes. Chunks are ranked by BM25, by the
weighted sum of two scores, or by the fusion of two rankings.

Example::

    await chunks(text, Chunking(size=200, overlap=20, strategy="paragraph"), embed)
    words = bm25("Where does Ana live?", {"c1": "Ana lives in Lisbon.", "c2": "Bruno runs."})      # {"c1": 0.61}
    rank_fusion({"c1": 0.9, "c2": 0.3}, words)                                                # {"c1": 0.0328, ...}

A token is four characters, or one character of a script without spaces. No text is lost: a paragraph that is too long
for a chunk is split into fixed windows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise

from bench.metrics.answers.text_normalization import search_words
from bench.providers.batching import split_text
from bench.providers.embedding import Vector, normalized
from bench.providers.rag.settings import Chunking
from bench.tokens import chars_for_tokens

PARAGRAPH = re.compile(r"(?<=\n)\s*\n")
SENTENCE = re.compile(r"(?<=[.!?\n])\s+")

Embed = Callable[[Sequence[str]], Awaitable[list[Vector]]]


async def chunks(text: str, settings: Chunking, embed: Embed) -> list[str]:
    """Split a text into chunks, in order. A text that fits into one chunk is not changed."""
    size, overlap = (
        chars_for_tokens(settings.size, text),
        chars_for_tokens(settings.overlap, text) if settings.overlap else 0,
    )
    if len(text) <= size:
        return [text]
    match settings.strategy:
        case "fixed":
            return split_text(text, size, overlap)
        case "paragraph":
            return join_parts(split_after(text, PARAGRAPH), size, overlap)
        case "semantic":
            return [
                piece for part in await split_by_subject(text, embed) for piece in join_parts([part], size, overlap)
            ]


def split_after(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Split a text after each match of ``pattern``. The parts, joined together, give the text again."""
    ends = [match.end() for match in pattern.finditer(text)]
    starts = [0, *ends]
    return [part for start, end in zip(starts, [*ends, len(text)], strict=True) if (part := text[start:end])]


def join_parts(parts: Sequence[str], size: int, overlap: int) -> list[str]:
    """Join neighboring parts into chunks of at most ``size`` characters; split a part that is longer."""
    found: list[str] = []
    joined = ""
    for part in parts:
        if joined and len(joined) + len(part) > size:
            found.append(joined)
            joined = ""
        if len(part) > size:
            found += split_text(part, size, overlap)
        else:
            joined += part
    return [*found, joined] if joined else found


async def split_by_subject(text: str, embed: Embed) -> list[str]:
    """Split a text where its subject changes: between two neighboring sentences that have an unusually low cosine.

    A cosine is unusually low if it is more than one standard deviation below the mean cosine of all neighbors.
    """
    sentences = split_after(text, SENTENCE)
    if len(sentences) < 3:
        return sentences
    vectors = [normalized(vector) for vector in await embed(sentences)]
    similarities = [math.fsum(x * y for x, y in zip(left, right, strict=True)) for left, right in pairwise(vectors)]
    mean = math.fsum(similarities) / len(similarities)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in similarities) / len(similarities))
    found = [sentences[0]]
    for sentence, similarity in zip(sentences[1:], similarities, strict=True):
        if similarity < mean - spread:
            found.append(sentence)
        else:
            found[-1] += sentence
    return found


K1 = 1.2
B = 0.75
RANK_CONSTANT = 60
"""the constant k of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)"""

Scores = Mapping[str, float]
"""chunk id -> score; the chunks are in the order in which they were stored"""


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case.

    In a script without spaces, these are the single characters and all pairs of adjacent characters.
    """
    return search_words(text)


def bm25(query: str, texts: Mapping[str, str]) -> dict[str, float]:
    """Return the Okapi BM25 score of each text that has a word of the query (k1 1.2, b 0.75, idf at least 0)."""
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


def weighted_sum(first: Scores, second: Scores, shares: tuple[float, float]) -> dict[str, float]:
    """Return ``shares[0] * first + shares[1] * second`` for each chunk.

    For a chunk without a second score, the first score is used in place of the second.
    """
    return {
        key: shares[0] * score + shares[1] * second[key] if key in second else sum(shares) * score
        for key, score in first.items()
    }


def rank_fusion(*lists: Scores) -> dict[str, float]:
    """Fuse rankings by their ranks: a chunk's score is the sum of ``1 / (60 + rank)`` over the lists that have it."""
    found: dict[str, float] = {}
    for scores in lists:
        for rank, key in enumerate(ranked(scores), 1):
            found[key] = found.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
    return found


def scaled(scores: Scores) -> dict[str, float]:
    """Divide all scores by the largest score, so that they can be compared with cosines."""
    largest = max(scores.values(), default=0.0)
    return {key: score / largest for key, score in scores.items()} if largest > 0 else dict(scores)


def ranked(scores: Scores) -> list[str]:
    """Return the chunk ids, best score first. Chunks with equal scores keep their order."""
    return sorted(scores, key=lambda key: -scores[key])
