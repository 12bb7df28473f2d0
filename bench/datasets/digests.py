"""Digests of a dataset: of its bytes, and of its content whatever the white space.

``content_sha256`` is the SHA-256 over the 32-byte SHA-256 of each row's RFC 8785 form, in file order::

    digest = ContentDigest()
    digest.add({"id": "q1", "answer": 12})
    digest.hexdigest()
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_CHUNK = 1 << 20
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_LARGEST_EXACT = 2**53


def file_sha256(path: Path) -> str:
    """SHA-256 of the file's bytes, streamed."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ContentDigest:
    """Folds rows into ``content_sha256``."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, row: Mapping[str, object]) -> None:
        """Take the next row."""
        self._digest.update(hashlib.sha256(canonical(row)).digest())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def canonical(row: Mapping[str, object]) -> bytes:
    """The RFC 8785 form of a row; OutOfRange for a number, another ValueError for half of a surrogate pair.

    Rows without fractions, huge integers or keys beyond the BMP have the same form in the standard library, which is
    twenty times faster; all others go through rfc8785.
    """
    text = _ENCODER.encode(row)
    if _has_number_risk(row) or (_BEYOND_BMP.search(text) and _has_astral_key(row)):
        return _by_rfc8785(row)
    return text.encode()


class OutOfRange(ValueError):
    """A number that no IEEE double can hold."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _has_number_risk(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return False
    if isinstance(value, dict):
        return any(map(_has_number_risk, value.values()))
    if isinstance(value, list):
        return any(map(_has_number_risk, value))
    return isinstance(value, float) or (kind is int and abs(value) >= _LARGEST_EXACT)  # type: ignore[arg-type]


def _has_astral_key(value: object) -> bool:
    if isinstance(value, dict):
        return any(_BEYOND_BMP.search(key) or _has_astral_key(child) for key, child in value.items())
    return isinstance(value, list) and any(map(_has_astral_key, value))


def _by_rfc8785(row: object) -> bytes:
    import rfc8785

    return rfc8785.dumps(_as_doubles(row))  # type: ignore[arg-type]


def _as_doubles(value: object) -> object:
    """Numbers as RFC 8785 sees them: IEEE doubles, exact integers kept."""
    if isinstance(value, dict):
        return {key: _as_doubles(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_as_doubles(child) for child in value]
    if isinstance(value, float) or (type(value) is int and abs(value) >= _LARGEST_EXACT):
        return _double(value)
    return value


def _double(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OutOfRange("a number is beyond the range of a double")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What tells cheaply that a file is still the one that was checked."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        return cls(size=status.st_size, mtime_ns=status.st_mtime_ns, inode=status.st_ino)


def remembered_sha256(path: Path) -> str:
    """The digest of a downloaded file: computed once, then remembered beside it by (size, mtime, inode)."""
    stamp = Stamp.of(path)
    note = path.with_name(path.name + ".checked")
    if (known := _read_note(note, stamp)) is not None:
        return known
    sha256 = file_sha256(path)
    write_note(path, sha256)
    return sha256


def write_note(path: Path, sha256: str) -> None:
    """Remember a digest; a folder that cannot be written only costs another check next time."""
    note = path.with_name(path.name + ".checked")
    try:
        note.write_text(json.dumps({**asdict(Stamp.of(path)), "sha256": sha256}), encoding="utf-8")
    except OSError:
        return


def _read_note(note: Path, stamp: Stamp) -> str | None:
    try:
        values = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(values, dict) or {**asdict(stamp)} != {key: values.get(key) for key in asdict(stamp)}:
        return None
    sha256 = values.get("sha256")
    return sha256 if isinstance(sha256, str) else None
