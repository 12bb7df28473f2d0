"""Append entries to the public log, and look up receipts in the log.

``append`` locks the log, checks the existing entries, and signs a new checkpoint. ``CheckedLog`` checks whether a
receipt is in the log, unchanged and not retracted.

Example::

    append(folder, [entry], store, key, at)      # writes the entry first, then the new checkpoint
    log = CheckedLog.open(folder, store)
    log.index_of(document, receipt), log.findings(document, receipt)

Existing entries never change.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from bench.canonical import JSON, digest, read_object, sha256_hex
from bench.errors import VerificationError
from bench.journal.paths import ENTRIES
from bench.receipt.files import write_atomically
from bench.receipt.log.log_check import LogOutcome, check_log_itself, check_own_history, differing_field, has_root
from bench.receipt.log.log_store import (
    CHECKPOINT,
    CHECKPOINTS,
    RECEIPTS,
    AnyEntry,
    Checkpoint,
    KeyAdded,
    LogView,
    ReceiptLogged,
    ReceiptRetracted,
    ReceiptSuperseded,
    RunAbandoned,
    RunStarted,
    read_log,
    write_checkpoint,
    write_entry,
)
from bench.receipt.merkle import root
from bench.receipt.schema import Receipt
from bench.receipt.signing.signature import KeyRefused, SigningKey
from bench.receipt.signing.trust_store import DEFAULT_ORIGIN, TrustStore
from bench.receipt.verification.findings import Finding, ReceiptVerdict, fail, or_ok, warn
from bench.visible_text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedEntries:
    """The entries that were appended, and the lines of these entries. ``covered`` is true if a new checkpoint was
    signed.
    """

    entries: tuple[AnyEntry, ...]
    lines: tuple[bytes, ...]
    covered: bool


def append(
    folder: Path, drafts: Sequence[AnyEntry], store: TrustStore, key: SigningKey | None, at: str
) -> AppendedEntries:
    """Append entries to the log in ``folder``, and sign a new checkpoint if a log key is given.

    The function sets the index of each entry.

    Raises:
        KeyRefused: the key may not sign the log.
        VerificationError: the existing log is not valid.
    """
    if key is not None:
        _refuse_wrong_key(store, key)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ENTRIES) as file:
        _remove_torn_end(file)
        view = read_log(folder)
        refuse_altered(view, store)
        numbered = _numbered(view, [*_missing_keys(view, drafts, store, at), *drafts])
        lines = tuple(write_entry(entry) for entry in numbered)
        _write_durably(file, lines)
        if key is not None:
            _sign(folder, view, lines, store, key)
    return AppendedEntries(entries=numbered[-len(drafts) :], lines=lines[-len(drafts) :], covered=key is not None)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file closes, also by a kill
        yield file


def _remove_torn_end(file: BinaryIO) -> None:
    """Remove an incomplete last line, which an interrupted append left. No checkpoint covers such a line."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        file.truncate(whole)


def refuse_altered(view: LogView, store: TrustStore) -> None:
    """Raise VerificationError if the existing log is not valid, because nothing may be appended to such a log.

    A checkpoint by a key that was later retired or revoked is accepted. Otherwise, no revocation could be appended.
    """
    for finding in check_own_history(view, store):
        if finding.verdict is ReceiptVerdict.INVALID or (finding.status, finding.code) == ("fail", "key_unknown"):
            raise VerificationError(
                str(finding.code),
                f"the log fails its verification, so nothing was appended: {finding.detail}",
                where=str(view.folder),
                hint="restore the published copy of the log; list every fault with: bench log verify",
            )


def _refuse_wrong_key(store: TrustStore, key: SigningKey) -> None:
    fingerprint = key.public.fingerprint
    entry = store.find(fingerprint)
    if entry is None:
        raise KeyRefused(
            "key_unknown",
            f"the log key {fingerprint} is not in trusted.json",
            hint="add the public key with: bench keys trust FILE",
        )
    if "log" not in entry.roles:
        raise KeyRefused(
            "key_role",
            f'the key {entry.name} has no role "log"',
            hint="create a log key: bench keys new NAME --roles log",
        )
    if entry.status != "active":
        raise KeyRefused(
            f"key_{entry.status}", f"the log key {entry.name} is {entry.status}", hint="use an active log key"
        )


def _missing_keys(view: LogView, drafts: Sequence[AnyEntry], store: TrustStore, at: str) -> list[AnyEntry]:
    """Return an entry for each active trusted key that is neither in the log nor in ``drafts``."""
    known = {entry.fingerprint for entry in (*view.entries, *drafts) if isinstance(entry, KeyAdded)}
    return [KeyAdded.of(key, at) for key in store.keys if key.status == "active" and key.fingerprint not in known]


def _numbered(view: LogView, drafts: Sequence[AnyEntry]) -> tuple[AnyEntry, ...]:
    start = len(view.lines)
    return tuple(draft.model_copy(update={"index": start + offset}) for offset, draft in enumerate(drafts))


def _write_durably(file: BinaryIO, lines: Sequence[bytes]) -> None:
    file.write(b"".join(line + b"\n" for line in lines))
    file.flush()
    os.fsync(file.fileno())


def _sign(folder: Path, view: LogView, lines: Sequence[bytes], store: TrustStore, key: SigningKey) -> None:
    whole = (*view.lines, *lines)
    checkpoint = Checkpoint(origin=store.origin or DEFAULT_ORIGIN, size=len(whole), root=root(whole))
    note = write_checkpoint(checkpoint, key)
    write_atomically(folder / CHECKPOINT, note)
    write_atomically(folder / CHECKPOINTS / str(checkpoint.size), note)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLog:
    """A log that was read and checked once, to look up many receipts in the log."""

    view: LogView
    outcome: LogOutcome

    @classmethod
    def open(cls, folder: Path, store: TrustStore) -> Self:
        """Read the log in ``folder``, and check its lines, root and signature."""
        view = read_log(folder)
        return cls(view=view, outcome=check_log_itself(view, store))

    def index_of(self, document: Mapping[str, JSON], receipt: Receipt) -> int | None:
        """Return the log index of a receipt.

        Return None if the log has no entry for exactly this document, or if no valid checkpoint covers the entry.
        """
        entry = self.view.receipt_entry(receipt.receipt_id)
        if entry is None or not self._is_covered(entry):
            return None
        return entry.index if entry.receipt_sha256 == digest(document) else None

    def _is_covered(self, entry: AnyEntry) -> bool:
        """Return True if the check of the log found no failure and the checkpoint of the log covers the entry."""
        broken = any(finding.status == "fail" for finding in self.outcome.findings)
        return not broken and entry.index < self.view.covered

    def findings(self, document: Mapping[str, JSON], receipt: Receipt) -> list[Finding]:
        """Return the findings of the check ``log`` for one receipt: first those on the whole log, then those on its
        entry.
        """
        found = [finding for finding in self.outcome.findings if finding.status != "ok"]
        found += self._entry_findings(document, receipt)
        found += self._withdrawal_findings(receipt.receipt_id)
        found += self._head_findings(receipt)
        found += self._preregistration_findings(receipt)
        return or_ok("log", found, f"in the log of {counted(self.outcome.size, 'entr(y|ies)')}")

    def _entry_findings(self, document: Mapping[str, JSON], receipt: Receipt) -> Iterator[Finding]:
        same_id = [entry for entry in self.view.of(ReceiptLogged) if entry.receipt_id == receipt.receipt_id]
        if same_id and all(entry.receipt_sha256 != digest(document) for entry in same_id):
            yield fail("log", "log_mismatch", "the log contains another receipt with this id")
        elif not same_id:
            yield warn("log", "not_logged", "the receipt is not in the log")
        elif same_id[0].index >= self.view.covered:
            yield warn("log", "not_logged", "no signed checkpoint covers the entry of the receipt yet")
        for entry in same_id[:1]:
            field = differing_field(entry, document)
            if field and entry.receipt_sha256 == digest(document):
                yield fail("log", "log_mismatch", f"entry {entry.index} has another {field} than the receipt")

    def _withdrawal_findings(self, receipt_id: str) -> Iterator[Finding]:
        for replaced in self.view.of(ReceiptSuperseded):
            if replaced.old == receipt_id:
                yield fail("log", "superseded", f"by {replaced.new}: {replaced.reason}")
        for taken_back in self.view.of(ReceiptRetracted):
            if taken_back.receipt_id == receipt_id:
                yield fail("log", "retracted", taken_back.reason)

    def _head_findings(self, receipt: Receipt) -> Iterator[Finding]:
        head = receipt.run.log
        if head is None or head.origin != self.outcome.origin:
            return
        if not has_root(self.view, head.size, head.root_hash):
            yield fail(
                "log",
                "log_inconsistent",
                f"the first {counted(head.size, 'entr(y of the log has|ies of the log have)')} changed since the run",
            )

    def _preregistration_findings(self, receipt: Receipt) -> Iterator[Finding]:
        stated = receipt.run.preregistration
        if stated is None:
            return
        started = next((entry for entry in self.view.of(RunStarted) if entry.index == stated.log_index), None)
        if (
            started is None
            or sha256_hex(write_entry(started)) != stated.entry_sha256
            or (started.run_id, started.plan_digest) != (receipt.run.run_id, receipt.run.plan_digest)
        ):
            yield fail("log", "log_mismatch", f"entry {stated.log_index} does not announce this run")
            return
        published = self.view.receipt_entry(receipt.receipt_id)
        if started.index >= self.view.covered or (published is not None and published.index < started.index):
            yield fail("log", "log_mismatch", f"entry {started.index} was logged too late to announce the run")

    def attempt_findings(self, receipt: Receipt) -> list[Finding]:
        """Return a warning if announced runs of this configuration were not published, else the finding ``ok``."""
        runs = {
            entry.run_id
            for entry in self.view.of(RunStarted)
            if receipt.config_digest in entry.config_digests or receipt.run.plan_digest == entry.plan_digest
        }
        published = {
            entry.run_id
            for entry in self.view.of(ReceiptLogged)
            if entry.index < self.view.covered  # a line that no one signed publishes nothing
            and (entry.config_digest == receipt.config_digest or entry.run_id == receipt.run.run_id)
        }
        abandoned = {entry.run_id for entry in self.view.of(RunAbandoned)}
        if runs <= published:
            return or_ok("runs", [])
        shown = f"{counted(len(runs), 'run(|s)')} of this config registered, {len(runs & published)} published"
        return [warn("runs", "unpublished_attempts", f"{shown}, {len(runs & abandoned - published)} abandoned")]

    def is_reproduced(self, receipt: Receipt) -> bool:
        """Return True if the log has another receipt that reproduces ``receipt`` with the same result digest."""
        same = (entry for entry in self.view.of(ReceiptLogged) if entry.result_digest == receipt.result_digest)
        return any(self._is_rerun(entry, receipt) for entry in same)

    def _is_rerun(self, entry: ReceiptLogged, receipt: Receipt) -> bool:
        """Return True if the logged receipt states that it reproduces ``receipt``, and was not retracted or
        replaced.
        """
        if not self._is_covered(entry) or list(self._withdrawal_findings(entry.receipt_id)):
            return False
        document = read_object(self.view.folder / RECEIPTS / f"{entry.receipt_id}.json")
        if document.get("reproduces") != receipt.receipt_id:
            return False
        return entry.receipt_sha256 == digest(document) and differing_field(entry, document) is None
