"""Appending to a log: under a lock, onto a history that still holds, under a new checkpoint.

    append(folder, [entry], store, key, at)      # entry, fsync, checkpoint, copy of the checkpoint

``entries.jsonl`` only ever grows; its own lock keeps two writers from giving out one index twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bench.errors import VerificationError
from bench.journal.places import ENTRIES
from bench.receipt.findings import Verdict
from bench.receipt.keyfiles import KeyRefused, SigningKey
from bench.receipt.log.check import check_own_past
from bench.receipt.log.entries import AnyEntry, KeyAdded, write_entry
from bench.receipt.log.note import Checkpoint, write_checkpoint
from bench.receipt.log.store import CHECKPOINT, CHECKPOINTS, LogView, read_log
from bench.receipt.merkle import Frontier, leaf_hash
from bench.receipt.trusted import DEFAULT_ORIGIN, TrustStore
from bench.receipt.written import write_atomically


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
        refuse_altered(view, store)
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


def refuse_altered(view: LogView, store: TrustStore) -> None:
    """Never extend, and so never sign, a log that was altered: its signed past must stand, signature and all.

    A checkpoint by a key that went since is no fault: after a revocation the log must still be able to say so.
    """
    for finding in check_own_past(view, store):
        if finding.verdict is Verdict.INVALID or (finding.status, finding.code) == ("fail", "key_unknown"):
            raise VerificationError(
                str(finding.code),
                f"nothing is appended to a log that does not hold: {finding.detail}",
                where=str(view.folder),
                hint="bench log verify shows every fault; restore the log from where it was published",
            )


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
    return [KeyAdded.of(key, at) for key in store.keys if key.status == "active" and key.fingerprint not in known]


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
