"""Read the recorded and documented calls of the shared folder.

Example::

    for name, capture in captures(shared, "mem0"):
        capture.method, capture.path, capture.status, capture.answer
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FREE = frozenset({"metadata", "data", "input", "ctx", "features", "config", "overrides", "updates"})
"""names below which each system stores arbitrary values"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One call."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: object
    status: int
    answer: object


def captures(shared: Path, system: str) -> Iterator[Capture]:
    """Yield the calls of one system in order."""
    for file in sorted((shared / "captures" / system).glob("*.json")):
        tree = json.loads(file.read_text(encoding="utf-8"))
        request, response = tree["request"], tree["response"]
        yield Capture(
            name=file.stem,
            method=request["method"],
            path=request["path"],
            headers=request["headers"],
            body=request["body"],
            status=response["status"],
            answer=response["body"],
        )


def misfits(ours: object, theirs: object, place: str = "$") -> Iterator[str]:
    """Yield the places where our tree has a key or type that the captured tree lacks; missing keys are accepted."""
    if ours is None or theirs is None:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                yield f"{place}.{key} is not in the capture"
            elif key not in FREE:
                yield from misfits(value, theirs[key], f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if ours and theirs:  # the first of ours must be like one of theirs
            yield from min((list(misfits(ours[0], one, f"{place}[0]")) for one in theirs), key=len)
    elif _kind(ours) is not _kind(theirs):
        yield f"{place} is {type(ours).__name__}, captured {type(theirs).__name__}"


def _kind(value: object) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def identities(ours: object, theirs: object) -> Iterator[tuple[str, str]]:
    """Yield pairs of captured and own ids at the same place, to translate later calls."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            other = theirs.get(key)
            if isinstance(value, str) and isinstance(other, str) and (key == "id" or key.endswith(("_id", "uuid"))):
                yield other, value
            else:
                yield from identities(value, other)
    elif isinstance(ours, list) and isinstance(theirs, list):
        for mine, other in zip(ours, theirs, strict=False):
            yield from identities(mine, other)
