"""Split long memories into pieces, and group all memories into batches for ``ingest`` calls.

Example::

    for batch in batches(pieces(memories, provider.batching), provider.batching, wanted=benchmark_batch_size):
        await provider.ingest(space, batch)

The engine splits memories itself, so that a batch has the same number and contents before and after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bench.config.provider.sections import IngestSection
from bench.model import Memory
from bench.providers.protocol import Batching
from bench.tokens import CHARS_PER_TOKEN

PIECE_MARK = "#"
MAX_ITEMS = 10_000
"""maximum number of memories in a batch, for any provider"""
_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"(?<=[.!?])\s+"), re.compile(r"\s+"))
"""ends of paragraphs, sentences and words, at which a text may be split; paragraphs are tried first, words last"""


def whole_id(memory_id: str) -> str:
    """Return the id of the memory that a piece belongs to: ``a#3`` -> ``a``. The id of a whole memory is unchanged."""
    if PIECE_MARK not in memory_id:
        return memory_id
    whole, _, number = memory_id.rpartition(PIECE_MARK)
    return whole if number.isdigit() else memory_id


def with_split_rule(rule: IngestSection, batching: Batching) -> Batching:
    """Add the config's rule for splitting long memories to ``batching``.

    The rule is in the section ``chunk`` for ``unit: chunk``, otherwise in the section ``split``. If the config has no
    rule, return ``batching`` unchanged.
    """
    if rule.unit == "chunk" and rule.chunk is not None:
        size, overlap = rule.chunk.size * CHARS_PER_TOKEN, rule.chunk.overlap * CHARS_PER_TOKEN
        return replace(batching, split_chars=size, split_overlap=overlap)
    if rule.split is not None:
        return replace(batching, split_chars=rule.split.max_chars, split_overlap=rule.split.overlap)
    return batching


def pieces(memories: Iterable[Memory], batching: Batching) -> Iterator[Memory]:
    """Split each memory that is longer than ``split_chars`` into pieces with the ids ``ID#0``, ``ID#1``, ...

    Yield shorter memories unchanged.
    """
    for memory in memories:
        if batching.split_chars is None or len(memory.content) <= batching.split_chars:
            yield memory
            continue
        texts = split_text(memory.content, batching.split_chars, batching.split_overlap)
        for number, text in enumerate(texts):
            yield replace(memory, id=f"{memory.id}{PIECE_MARK}{number}", content=text, messages=())


def split_text(text: str, size: int, overlap: int = 0) -> list[str]:
    """Split a text into pieces of at most ``size`` characters.

    A piece ends at a paragraph, sentence or word if possible. Without overlap, the joined pieces are the text.
    """
    found: list[str] = []
    start = 0
    while len(text) - start > size:
        end = _cut(text, start, start + size)
        found.append(text[start:end])
        start = max(end - overlap, start + 1)
    return [*found, text[start:]]


def _cut(text: str, start: int, limit: int) -> int:
    """Return the position at which the piece that begins at ``start`` should end.

    This is the end of a paragraph, sentence or word in the second half of the piece, or ``limit`` if there is none.
    """
    half = start + (limit - start) // 2
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(text, half, limit)]
        if ends:
            return ends[-1]
    return limit


def batch_size(wanted: int | None, max_items: int | None) -> int:
    """Return the number of memories in a batch: the benchmark's batch size, limited to the provider's maximum.

    If only one of these two numbers is set, return this number. If neither is set, return 1.
    """
    return min(wanted or max_items or 1, max_items or MAX_ITEMS, MAX_ITEMS)


def batches(
    memories: Iterable[Memory], batching: Batching, *, wanted: int | None = None
) -> Iterator[tuple[Memory, ...]]:
    """Group memories into batches within the provider's limits, in order.

    ``wanted`` is the batch size that the benchmark sets, or None. It is ignored for a provider inside this process.
    """
    most = MAX_ITEMS if batching.in_process else batch_size(wanted, batching.max_items)
    most = min(most, batching.max_items or MAX_ITEMS)
    batch: list[Memory] = []
    chars = octets = 0
    for memory in memories:
        long, heavy = len(memory.content), len(memory.content.encode("utf-8", "replace"))
        full = (
            len(batch) >= most or _over(chars + long, batching.max_chars) or _over(octets + heavy, batching.max_bytes)
        )
        if batch and full:
            yield tuple(batch)
            batch, chars, octets = [], 0, 0
        batch.append(memory)
        chars, octets = chars + long, octets + heavy
    if batch:
        yield tuple(batch)


def _over(size: int, limit: int | None) -> bool:
    return limit is not None and size > limit
