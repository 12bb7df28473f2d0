"""Union journals of one plan: order does not matter, the same shard twice is harmless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """What a merge made: the file, its rows, and the positions that no source covers."""

    path: Path
    phases: int
    gaps: tuple[tuple[int, int], ...]
    """1-based inclusive"""


async def merge(sources: Sequence[Path], into: Path, *, run_id: str) -> MergeOutcome:
    """Union ``sources`` into the new run folder ``into``.

    Raises IdentityError (another plan digest) and MergeConflict (one item, two outcomes; names every such
    item); nothing is left behind then.
    """
    ...
