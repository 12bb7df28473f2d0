"""The log's folder: read it whole, append to it under a lock.

    view = read_log(folder)                      # never raises for what is in the files
    append(folder, [entry], store, key, at)      # entry, fsync, checkpoint, copy of the checkpoint

``entries.jsonl`` only ever grows; its own lock keeps two writers from giving out one index twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from bench.errors import UsageError, VerificationError
from bench.receipt.keyfiles import KeyRefused, SigningKey
from bench.receipt.log.entries import AnyEntry, KeyAdded, ReceiptLogged, read_entry, write_entry
from bench.receipt.log.note import Checkpoint, read_note, write_checkpoint
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.trusted import DEFAULT_ORIGIN, TrustStore, write_atomically

ENTRIES = "entries.jsonl"
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


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    *lines, torn = data.split(b"\n")
    return lines, torn


# ---------------------------------------------------------------------- appending


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where the entries went; ``covered`` = a new checkpoint was signed."""

    entries: tuple[AnyEntry, ...]
    lines: tuple[bytes, ...]
    covered: bool


def append(folder: Path, drafts: Sequence[AnyEntry], store: TrustStore, key: SigningKey | None, at: str) -> Appended:
    """Append entries (their index is given here) and sign a new checkpoint when a log key is at hand.

    Raises KeyRefused when the key may not sign the log, VerificationError when the log does not hold.
    """
    if key is not None:
        _refuse_wrong_key(store, key)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ENTRIES) as file:
        _mend_torn_end(file)
        view = read_log(folder)
        _refuse_broken(view)
        numbered = _number(view, [*_missing_keys(view, drafts, store, at), *drafts])
        lines = tuple(write_entry(entry) for entry in numbered)
        _write_durably(file, lines)
        if key is not None:
            _sign(folder, view, lines, store, key)
    return Appended(entries=numbered[-len(drafts) :], lines=lines[-len(drafts) :], covered=key is not None)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file closes, also by a kill
        yield file


def _mend_torn_end(file: BinaryIO) -> None:
    """Drop the cut end of an append that never returned; nobody was told about it and no root covers it."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        file.truncate(whole)


def _refuse_broken(view: LogView) -> None:
    """Never extend, and so never sign, a log that was altered."""
    if view.faults:
        raise VerificationError("log_entry", f"line {view.faults[0][0]}: {view.faults[0][1]}", where=str(view.folder))
    checkpoint = view.checkpoint()
    if checkpoint is None:
        return
    if checkpoint.size > len(view.lines):
        raise VerificationError("log_size", "the checkpoint covers more entries than there are", where=str(view.folder))
    if view.roots([checkpoint.size])[checkpoint.size] != checkpoint.root:
        raise VerificationError("log_root", "the entries are not those under the checkpoint", where=str(view.folder))


def _refuse_wrong_key(store: TrustStore, key: SigningKey) -> None:
    fingerprint = key.public.fingerprint
    entry = store.find(fingerprint)
    if entry is None:
        raise KeyRefused("key_unknown", f"the log key {fingerprint} is not in trusted.json")
    if "log" not in entry.roles:
        raise KeyRefused("key_role", f"{entry.name} has no role log", hint="bench keys new NAME --roles log")
    if entry.status != "active":
        raise KeyRefused(f"key_{entry.status}", f"{entry.name} is {entry.status}", hint="use an active log key")


def _missing_keys(view: LogView, drafts: Sequence[AnyEntry], store: TrustStore, at: str) -> list[AnyEntry]:
    """Each active key that the log does not know yet: it is introduced before anything is signed with it."""
    known = {entry.fingerprint for entry in (*view.entries, *drafts) if isinstance(entry, KeyAdded)}
    return [
        KeyAdded(index=0, at=at, fingerprint=key.fingerprint, public_key=key.public_key, roles=key.roles)
        for key in store.keys
        if key.status == "active" and key.fingerprint not in known
    ]


def _number(view: LogView, drafts: Sequence[AnyEntry]) -> tuple[AnyEntry, ...]:
    start = len(view.lines)
    return tuple(draft.model_copy(update={"index": start + offset}) for offset, draft in enumerate(drafts))


def _write_durably(file: BinaryIO, lines: Sequence[bytes]) -> None:
    file.write(b"".join(line + b"\n" for line in lines))
    file.flush()
    os.fsync(file.fileno())


def _sign(folder: Path, view: LogView, lines: Sequence[bytes], store: TrustStore, key: SigningKey) -> None:
    frontier = Frontier()
    for line in (*view.lines, *lines):
        frontier.append(leaf_hash(line))
    checkpoint = Checkpoint(origin=store.origin or DEFAULT_ORIGIN, size=frontier.size, root=frontier.root())
    note = write_checkpoint(checkpoint, key)
    write_atomically(folder / CHECKPOINT, note)
    write_atomically(folder / CHECKPOINTS / str(checkpoint.size), note)
