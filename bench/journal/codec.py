"""Convert values to SQLite columns and back. The stored forms are JSON, zstd data, packed doubles and microseconds.

Example::

    encode({"returned": 10})          # '{"returned":10}'; a long text becomes zstd bytes
    decode('{"returned":10}')         # {"returned": 10}

The journal encodes values in SQLite's thread.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import zstandard

from bench.errors import JournalError
from bench.model import Phase, Usage
from bench.untyped_values import Json

INLINE_BYTES = 1024
"""size up to which a payload is stored inside its row instead of a table of its own"""
PLAIN_CHARS = 2048
"""length up to which JSON is stored as text; longer JSON is compressed"""

PHASES = {Phase.INGEST: 1, Phase.INDEX: 2, Phase.SEARCH: 3, Phase.ANSWER: 4, Phase.EVALUATE: 5}
PHASE_OF = {number: phase for phase, number in PHASES.items()}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COMPRESSOR = zstandard.ZstdCompressor(level=3)
_encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_decode_json = json.JSONDecoder().raw_decode


def micros(instant: datetime) -> int:
    """Return microseconds since 1970; the time must be timezone-aware."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Return the UTC time for microseconds since 1970."""
    return _EPOCH + value * _MICROSECOND


def clean(text: str) -> str:
    """Return a text that SQLite can store; each unpaired surrogate is replaced by its escape, such as ``\\ud800``."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def to_json(value: object) -> str:
    """Return compact ASCII JSON; any str, including unpaired surrogates, can be read back unchanged."""
    return _encode_json(value)


def from_json(text: str) -> Any:
    """Parse JSON that ``to_json`` has written; leading white space is not allowed.

    This is twice as fast as json.loads.
    """
    return _decode_json(text)[0]


def encode(value: Mapping[str, object]) -> str | bytes | None:
    """Return the column value of a JSON mapping: text if it is short, zstd bytes if it is long, None if it is empty."""
    if not value:
        return None
    text = to_json(value)
    return text if len(text) <= PLAIN_CHARS else compress(text.encode("ascii"))


def decode(column: str | bytes | None) -> Json:
    """Return the mapping from which ``encode`` made the column value."""
    if column is None:
        return {}
    mapping: Json = from_json(column if isinstance(column, str) else decompress(column).decode("ascii"))
    return mapping


def decompress(body: bytes) -> bytes:
    """Decompress data that ``compress`` has returned."""
    return zstandard.ZstdDecompressor().decompress(body)


def compress(raw: bytes) -> bytes:
    """Compress bytes with zstd, level 3."""
    return _COMPRESSOR.compress(raw)


def reference(raw: bytes) -> str:
    """Return the reference of a payload: ``=`` and the JSON itself if it is small, otherwise ``#`` and its hash."""
    if len(raw) <= INLINE_BYTES:
        return "=" + raw.decode("ascii")
    return "#" + blake2b(raw, digest_size=16).hexdigest()


def pack(values: Sequence[float | None]) -> bytes:
    """Return the values as little-endian doubles; None becomes NaN."""
    doubles = array("d", [float("nan") if value is None else value for value in values])
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles.tobytes()


def unpack(packed: bytes) -> array[float]:
    """Unpack the output of ``pack``, or several such outputs joined together; NaN stays NaN."""
    doubles = array("d")
    doubles.frombytes(packed)
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles


def usage_column(usage: Usage | None) -> str | None:
    """Return token counts as a JSON array; None if there are none."""
    if usage is None:
        return None
    return (
        f"[{usage.input_tokens},{usage.cache_read_tokens},{usage.cache_write_tokens},"
        f"{usage.output_tokens},{usage.reasoning_tokens},{usage.total_tokens},{int(usage.estimated)}]"
    )


def usage_of(column: str | None) -> Usage | None:
    """Return the token counts from which ``usage_column`` made the column value."""
    if column is None:
        return None
    numbers: list[int] = json.loads(column)
    return Usage(
        input_tokens=numbers[0],
        cache_read_tokens=numbers[1],
        cache_write_tokens=numbers[2],
        output_tokens=numbers[3],
        reasoning_tokens=numbers[4],
        total_tokens=numbers[5],
        estimated=bool(numbers[6]),
    )


@contextmanager
def storable(path: Path) -> Iterator[None]:
    """Raise JournalError if a row in the ``with`` block has a value that JSON cannot represent."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise JournalError(
            f"a row cannot be stored: {error}", where=str(path), hint="this is a bug in bench: report it"
        ) from error
