"""One byte string for one JSON value: strict admission, then RFC 8785 (JCS).

What is signed, hashed or compared goes through here, so two readers can never see two documents::

    >>> parse(b'{"b": 1.0, "a": "\\u00e9"}')
    {'b': 1, 'a': 'é'}
    >>> dumps({"b": 1.0, "a": "é"})
    b'{"a":"\\xc3\\xa9","b":1}'
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    bench.errors.CanonicalError: a: the key occurs twice in one object

Both raise :class:`CanonicalError` with ``.code`` (stable) and ``.path`` (``scores.judged.n``, ``a[1].b``).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from bench.canonical.admission import MAX_BYTES, parse, parse_file
from bench.canonical.lines import read_line
from bench.canonical.refusing import JSON, MAX_DEPTH, MAX_INTEGER
from bench.canonical.writing import dumps, dumps_with_part
from bench.errors import CanonicalError

__all__ = [
    "JSON",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INTEGER",
    "CanonicalError",
    "digest",
    "dumps",
    "dumps_with_part",
    "parse",
    "parse_file",
    "read_line",
    "sha256_hex",
    "without",
]


def sha256_hex(data: bytes) -> str:
    """Hash bytes to 64 lower-case hex digits."""
    return sha256(data).hexdigest()


def digest(value: object) -> str:
    """Hash the canonical bytes of a value to 64 lower-case hex digits."""
    return sha256_hex(dumps(value))


def without(document: Mapping[str, JSON], *keys: str) -> dict[str, JSON]:
    """Copy an object without some of its top-level members."""
    return {key: value for key, value in document.items() if key not in keys}
