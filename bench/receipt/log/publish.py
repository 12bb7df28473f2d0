"""Announce a run, publish its receipt, or retract a receipt. No log entry is ever deleted.

A run is announced before its first call to a provider. The announcement contains the config digests that the receipts
of the run will have. A child process, ``python -m bench.receipt.log.publish``, signs the announcement, so that the
process of the run never reads the log key.

Example::

    published = publish(path, ring, at=format_time(now))
    published.index, published.is_new        # is_new is False if the same receipt was published before
    index = announce_in_child(workspace, announcement_of(plan, meta), environment)    # used by bench run --publishable
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.canonical import digest, read_object, sha256_hex
from bench.errors import UsageError, VerificationError
from bench.journal import RunMeta
from bench.plan import Plan
from bench.plan.job_record import read_jobs
from bench.receipt.base_model import commit_or_none, format_time, json_of, validate
from bench.receipt.log.log_store import (
    RECEIPTS,
    AnyEntry,
    ReceiptLogged,
    ReceiptRetracted,
    ReceiptSuperseded,
    RunAbandoned,
    RunStarted,
    has_log,
    read_log,
)
from bench.receipt.log.public_log import CheckedLog, append
from bench.receipt.metadata import JobMetadata
from bench.receipt.schema import items_file_name
from bench.receipt.schema_run import LogHead, Preregistration
from bench.receipt.signing.keyring import PUBLISHED, Keyring, Message, ask_passphrase, run_in_child, serve_parent
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, verify_file
from bench.settings import Environment


class NotPublishable(VerificationError):
    """The error for a receipt that cannot be published. The exit code depends on the verdict of the receipt."""

    kind = "not_publishable"

    def __init__(
        self, code: str, message: str, verdict: ReceiptVerdict, *, where: str, hint: str | None = None
    ) -> None:
        super().__init__(
            code, message, where=where, hint=hint or 'publish a receipt with the verdict VALID and the kind "run"'
        )
        self.exit_code = verdict.exit_code or ReceiptVerdict.INVALID.exit_code  # type: ignore[misc]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEntry:
    """The log index of an entry; ``is_new`` is False if the log had the entry already."""

    index: int
    is_new: bool
    folder: Path


def publish(
    path: Path, ring: Keyring, *, at: str, supersedes: str | None = None, reason: str | None = None
) -> PublishedEntry:
    """Copy a VALID receipt and its items file into the log's folder, and append a log entry.

    If this receipt is already published, return its existing entry. ``supersedes`` is the id of the older receipt that
    this receipt replaces.

    Raises:
        NotPublishable: the receipt is not VALID, is partial, or its items file is missing.
        UsageError: the receipt of ``supersedes`` is not in the log, or ``reason`` is missing.
        KeyRefused: no key may sign the log.
    """
    folder = ring.workspace / PUBLISHED
    known = _existing_entry(path, folder)
    if supersedes is not None:
        _refuse_unknown(folder, supersedes)
        _refuse_empty(reason)
    if known is not None:
        _restore_files(path, folder, known)
        return _publish_again(known, ring, supersedes, reason, at)
    outcome = _verified(path, ring, folder)
    key = ring.signing_key("log")
    entry = _entry(outcome, at)
    copied = _copy(path, folder, entry.receipt_id)
    drafts: list[AnyEntry] = [entry]
    if supersedes is not None:
        drafts.append(ReceiptSuperseded(index=0, at=at, old=supersedes, new=entry.receipt_id, reason=str(reason)))
    try:
        made = append(folder, drafts, ring.trusted(), key, at)
    except BaseException:
        for target in copied:  # a file without an entry would be a fault of the log
            target.unlink()
        raise
    return PublishedEntry(index=made.entries[0].index, is_new=True, folder=folder)


def _publish_again(
    known: ReceiptLogged, ring: Keyring, supersedes: str | None, reason: str | None, at: str
) -> PublishedEntry:
    """Record in the log that the published receipt ``known`` replaces the receipt ``supersedes``.

    Do nothing if the log already records this.
    """
    folder = ring.workspace / PUBLISHED
    superseded = {(entry.old, entry.new) for entry in read_log(folder).of(ReceiptSuperseded)}
    if supersedes is None or (supersedes, known.receipt_id) in superseded:
        return PublishedEntry(index=known.index, is_new=False, folder=folder)
    if supersedes == known.receipt_id:
        raise UsageError(f"receipt {supersedes} cannot replace itself", hint="give the id of the older receipt")
    _refuse_circle(superseded, old=supersedes, new=known.receipt_id)
    entry = ReceiptSuperseded(index=0, at=at, old=supersedes, new=known.receipt_id, reason=str(reason))
    return _append_one(ring, entry, at)


def _refuse_circle(superseded: set[tuple[str, str]], *, old: str, new: str) -> None:
    """Raise UsageError if receipt ``old`` already replaces receipt ``new``, directly or through other receipts."""
    later, reached = {new}, {new}
    while later:
        later = {after for before, after in superseded if before in later} - reached
        reached |= later
    if old in reached:
        raise UsageError(
            f"receipt {new} cannot replace receipt {old}, because {old} has already replaced {new}",
            hint="publish a new receipt that supersedes both",
        )


def retract(receipt_id: str, ring: Keyring, *, reason: str | None, at: str) -> PublishedEntry:
    """Append an entry that retracts a published receipt.

    Raises:
        UsageError: the receipt is not in the log, or ``reason`` is missing.
    """
    _refuse_unknown(ring.workspace / PUBLISHED, receipt_id)
    _refuse_empty(reason)
    return _append_one(ring, ReceiptRetracted(index=0, at=at, receipt_id=receipt_id, reason=str(reason)), at)


def abandon(run_id: str, ring: Keyring, *, reason: str | None, at: str) -> PublishedEntry:
    """Append an entry that marks an announced run as abandoned. If the log already has such an entry, return this
    entry.

    Raises:
        UsageError: the run was not announced, its receipt is published, or ``reason`` is missing.
    """
    folder = ring.workspace / PUBLISHED
    log = read_log(folder) if has_log(folder) else None
    if log is None or run_id not in {entry.run_id for entry in log.of(RunStarted)}:
        raise UsageError(
            f"run {run_id} was never announced in the log",
            hint="start runs with --publishable, so that they are announced",
        )
    _refuse_empty(reason)
    for gone in log.of(RunAbandoned):
        if gone.run_id == run_id:
            return PublishedEntry(index=gone.index, is_new=False, folder=folder)
    for kept in log.of(ReceiptLogged):
        if kept.run_id == run_id:
            raise UsageError(
                f"run {run_id} cannot be marked as abandoned: its receipt {kept.receipt_id} is published",
                hint=f"retract the receipt with: bench publish --retract {kept.receipt_id}",
            )
    return _append_one(ring, RunAbandoned(index=0, at=at, run_id=run_id, reason=str(reason)), at)


def announce(ring: Keyring, started: RunStarted) -> PublishedEntry:
    """Append the entry ``run-started``, which announces a run; do this before the first call to a provider."""
    return _append_one(ring, started, started.at)


def find_announcement(folder: Path, run_id: str, plan_digest: str) -> tuple[Preregistration, LogHead] | None:
    """Return the announcement of a run, and the size and root of the log just after that entry.

    Return None if the log has no such announcement, or if its checkpoint does not cover the announcement.
    """
    if not has_log(folder):
        return None
    view = read_log(folder)
    checkpoint = view.checkpoint()
    for entry in view.of(RunStarted):
        if (entry.run_id, entry.plan_digest) != (run_id, plan_digest) or checkpoint is None:
            continue
        size = entry.index + 1
        if size <= checkpoint.size:
            stated = Preregistration(log_index=entry.index, entry_sha256=sha256_hex(view.lines[entry.index]))
            root = view.roots([size])[size].hex()
            return stated, LogHead(origin=checkpoint.origin, size=size, root_hash=root)
    return None


# ------------------------------------------------------------------------- inside


def _append_one(ring: Keyring, entry: AnyEntry, at: str) -> PublishedEntry:
    folder = ring.workspace / PUBLISHED
    made = append(folder, [entry], ring.trusted(), ring.signing_key("log"), at)
    return PublishedEntry(index=made.entries[0].index, is_new=True, folder=folder)


def _existing_entry(path: Path, folder: Path) -> ReceiptLogged | None:
    """Return the log entry of the receipt at ``path``; None if the log has no such entry.

    Raises:
        NotPublishable: the log has another document with the id of this receipt.
    """
    if not has_log(folder):
        return None
    document = read_object(path)  # the verification that follows states what is wrong
    receipt_id = document.get("receiptId")
    entry = read_log(folder).receipt_entry(receipt_id) if isinstance(receipt_id, str) else None
    if entry is not None and entry.receipt_sha256 != digest(document):
        raise NotPublishable(
            "receipt_id_reused",
            f"the log already contains a different receipt with the id {receipt_id}",
            ReceiptVerdict.INVALID,
            where=str(path),
            hint="publish the original receipt",
        )
    return entry


def _verified(path: Path, ring: Keyring, folder: Path) -> VerificationOutcome:
    request = VerificationRequest(trust=ring.trusted())
    log = CheckedLog.open(folder, request.trust) if has_log(folder) else None
    outcome = verify_file(path, request, log)
    if outcome.verdict is not ReceiptVerdict.VALID:
        bad = next(finding for finding in outcome.findings if finding.status == "fail")
        raise NotPublishable(
            str(bad.code), f"the receipt is {outcome.verdict}: {bad.detail}", outcome.verdict, where=str(path)
        )
    receipt = outcome.receipt
    assert receipt is not None
    if receipt.kind != "run":
        raise NotPublishable(
            "partial",
            "the receipt covers only part of a run and cannot be published",
            ReceiptVerdict.INVALID,
            where=str(path),
            hint="publish a receipt of the whole run",
        )
    if any(finding.code == "items_missing" for finding in outcome.findings):
        raise NotPublishable(
            "items_missing",
            "the items file of the receipt is missing",
            ReceiptVerdict.INVALID,
            where=str(path),
            hint="put the items file next to the receipt",
        )
    return outcome


def _entry(outcome: VerificationOutcome, at: str) -> ReceiptLogged:
    receipt = outcome.receipt
    assert receipt is not None
    return ReceiptLogged(
        index=0,
        at=at,
        receipt_id=receipt.receipt_id,
        receipt_sha256=digest(outcome.document),
        items_sha256=receipt.per_query.sha256,
        config_digest=receipt.config_digest,
        result_digest=receipt.result_digest,
        run_id=receipt.run.run_id,
    )


def _copy(path: Path, folder: Path, receipt_id: str) -> list[Path]:
    """Copy a receipt and its items file to the log's folder; return the paths of the copies."""
    made = []
    (folder / RECEIPTS).mkdir(parents=True, exist_ok=True)
    for source, name in (
        (path.with_name(items_file_name(receipt_id)), items_file_name(receipt_id)),
        (path, f"{receipt_id}.json"),
    ):
        target = folder / RECEIPTS / name
        if source.resolve() != target.resolve():
            shutil.copyfile(source, target)
            made.append(target)
    return made


def _restore_files(path: Path, folder: Path, entry: ReceiptLogged) -> None:
    """Copy the receipt and its items file again if they are missing in the log's folder after a crash."""
    there = (folder / RECEIPTS / f"{entry.receipt_id}.json").is_file()
    if not there and path.with_name(items_file_name(entry.receipt_id)).is_file():
        _copy(path, folder, entry.receipt_id)


def _refuse_unknown(folder: Path, receipt_id: str) -> None:
    if not has_log(folder) or read_log(folder).receipt_entry(receipt_id) is None:
        raise UsageError(f"the log contains no receipt {receipt_id}", hint="name the id of a published receipt")


def _refuse_empty(reason: str | None) -> None:
    if not (reason or "").strip():
        raise UsageError("a reason is missing", hint="give a reason with --reason TEXT")


def announcement_of(plan: Plan, meta: RunMeta) -> RunStarted:
    """Return the announcement of a planned run; ``meta`` is the metadata for the journal of that run."""
    jobs = read_jobs(meta.extra)
    return RunStarted(
        index=0,
        at=format_time(datetime.now(UTC)),
        run_id=meta.run_id,
        plan_digest=plan.digest,
        config_digests=tuple(sorted({digest(JobMetadata(meta=meta, record=job).config_tree()) for job in jobs})),
        items_planned=sum(job.n_repeats for job in jobs),
        seed=plan.request.seed,
        code_commit=commit_or_none(meta.code_state.get("commit")),
    )


def announce_in_child(workspace: Path, started: RunStarted, environment: Environment) -> int:
    """Append the announcement of a run to the log of the workspace in a child process; return its log index.

    Raises:
        UsageError: the child process reported an error.
    """
    question = {"workspace": str(workspace.resolve()), "entry": json_of(started)}
    return int(str(run_in_child("bench.receipt.log.publish", question, environment)["logIndex"]))


def append_started(question: Message) -> Message:
    """Append the announcement that the parent process sent; this function runs in the child process."""
    ring = Keyring(workspace=Path(str(question["workspace"])), environ=os.environ, prompt=ask_passphrase)
    return {"logIndex": announce(ring, validate(RunStarted, question["entry"])).index}


if __name__ == "__main__":
    sys.exit(serve_parent(append_started))
