"""The log's folder, read whole.

view = read_log(folder)                      # never raises for what is in the files
view.roots([view.covered])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.canonical import JSON, parse_file
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.journal.places import ENTRIES
from bench.receipt.log.entries import AnyEntry, ReceiptLogged, read_entry
from bench.receipt.log.note import Checkpoint, read_note
from bench.receipt.merkle import Frontier, leaf_hash

CHECKPOINT = "checkpoint"
CHECKPOINTS = "checkpoints"
RECEIPTS = "receipts"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """A log as it lies there: readable entries, unreadable lines, the checkpoint's bytes."""

    folder: Path
    lines: tuple[bytes, ...]
    entries: tuple[AnyEntry, ...]
    """the readable ones, in order"""
    faults: tuple[tuple[int, str], ...]
    """line number (0-based) and what is wrong with it"""
    torn: bytes
    """an end without LF: an append that was cut"""
    note: bytes | None

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        """The entries of one type."""
        return (entry for entry in self.entries if isinstance(entry, kind))

    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, None when there is none; raise ``log_signature`` when it is malformed."""
        return None if self.note is None else read_note(self.note).checkpoint()

    @property
    def covered(self) -> int:
        """How many entries the checkpoint says to cover; 0 when it cannot be read."""
        try:
            checkpoint = self.checkpoint()
        except VerificationError:
            return 0
        return checkpoint.size if checkpoint else 0

    def roots(self, sizes: Iterable[int]) -> dict[int, bytes]:
        """The root over the first n lines, for each n that there is."""
        wanted = set(sizes)
        frontier = Frontier()
        found = {0: frontier.root()} if 0 in wanted else {}
        for line in self.lines:
            frontier.append(leaf_hash(line))
            if frontier.size in wanted:
                found[frontier.size] = frontier.root()
        return found

    def receipt_entry(self, receipt_id: str) -> ReceiptLogged | None:
        """The first entry of a receipt id."""
        return next((entry for entry in self.of(ReceiptLogged) if entry.receipt_id == receipt_id), None)


def has_log(folder: Path) -> bool:
    """Whether a folder holds a log, be it an empty one."""
    return (folder / ENTRIES).is_file()


def read_log(folder: Path) -> LogView:
    """Read a log folder; raise UsageError when there is no log in it."""
    if not has_log(folder):
        raise UsageError(f"no {ENTRIES} in {folder}", hint="name the folder of a log, such as results/published")
    lines, torn = _split((folder / ENTRIES).read_bytes())
    note = folder / CHECKPOINT
    entries: list[AnyEntry] = []
    faults: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        try:
            entries.append(read_entry(line))
        except VerificationError as error:
            faults.append((number, error.message))
    return LogView(
        folder=folder,
        lines=tuple(lines),
        entries=tuple(entries),
        faults=tuple(faults),
        torn=torn,
        note=note.read_bytes() if note.is_file() else None,
    )


def read_document(path: Path) -> JSON:
    """A receipt of a log's folder as it lies there; None when there is none that can be admitted."""
    try:
        return parse_file(path)
    except (OSError, CanonicalError):
        return None


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    *lines, torn = data.split(b"\n")
    return lines, torn
