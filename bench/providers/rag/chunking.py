"""Cutting a text into chunks: fixed windows, whole paragraphs, or where the subject changes.

Example::

    await chunks(text, Chunking(size=200, overlap=20, strategy="paragraph"), embed)

A token is four characters. No strategy loses text: what is too long for a chunk is cut in fixed windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

from bench.model import CHARS_PER_TOKEN
from bench.providers.batching import split_text
from bench.providers.embedding import Vector, normalised
from bench.providers.rag.settings import Chunking

PARAGRAPH = re.compile(r"(?<=\n)\s*\n")
SENTENCE = re.compile(r"(?<=[.!?\n])\s+")

Embed = Callable[[Sequence[str]], Awaitable[list[Vector]]]


async def chunks(text: str, settings: Chunking, embed: Embed) -> list[str]:
    """The chunks of a text in order; a text that fits is one chunk, as it is."""
    size, overlap = settings.size * CHARS_PER_TOKEN, settings.overlap * CHARS_PER_TOKEN
    if len(text) <= size:
        return [text]
    match settings.strategy:
        case "fixed":
            return split_text(text, size, overlap)
        case "paragraph":
            return pack(cut(text, PARAGRAPH), size, overlap)
        case "semantic":
            return [piece for part in await subjects(text, embed) for piece in pack([part], size, overlap)]


def cut(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Cut behind each match; joined again, the parts are the text."""
    ends = [match.end() for match in pattern.finditer(text)]
    starts = [0, *ends]
    return [part for start, end in zip(starts, [*ends, len(text)], strict=True) if (part := text[start:end])]


def pack(parts: Sequence[str], size: int, overlap: int) -> list[str]:
    """Put neighbours together while they fit; cut what does not fit alone."""
    found: list[str] = []
    held = ""
    for part in parts:
        if held and len(held) + len(part) > size:
            found.append(held)
            held = ""
        if len(part) > size:
            found += split_text(part, size, overlap)
        else:
            held += part
    return [*found, held] if held else found


async def subjects(text: str, embed: Embed) -> list[str]:
    """Runs of sentences about one thing: a new one starts where two neighbours are unusually unlike.

    Unusual is a cosine more than one standard deviation below the mean of all neighbours.
    """
    sentences = cut(text, SENTENCE)
    if len(sentences) < 3:
        return sentences
    vectors = [normalised(vector) for vector in await embed(sentences)]
    likeness = [math.fsum(x * y for x, y in zip(left, right, strict=True)) for left, right in pairwise(vectors)]
    mean = math.fsum(likeness) / len(likeness)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in likeness) / len(likeness))
    found = [sentences[0]]
    for sentence, like in zip(sentences[1:], likeness, strict=True):
        if like < mean - spread:
            found.append(sentence)
        else:
            found[-1] += sentence
    return found
