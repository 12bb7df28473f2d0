"""Check the public log: its lines, root hash and signature, and the files of its receipts.

For each log entry of a receipt, the receipt and its items file must exist and agree with the entry. Each receipt in the
folder must have an entry.

Example::

    view = read_log(folder)
    outcome = check_log(view, store)
    outcome.verdict, [finding.code for finding in outcome.findings]
    findings = list(check_files(view))                # only the files of the receipts

The log must also contain its earlier states unchanged. An earlier state is a size and a root hash, from checkpoints/,
from a checkpoint file (``since``) or from a receipt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from bench.canonical import JSON, digest, read_object
from bench.errors import UsageError, VerificationError
from bench.receipt.log.log_store import (
    CHECKPOINTS,
    RECEIPTS,
    Checkpoint,
    KeyAdded,
    LogView,
    Note,
    ReceiptLogged,
    read_note,
)
from bench.receipt.schema import items_file_name
from bench.receipt.signing.signature import KeyRefused, PublicKey
from bench.receipt.signing.trust_store import TrustedKey, TrustStore
from bench.receipt.verification.findings import Finding, ReceiptVerdict, fail, or_ok, overall_verdict, warn
from bench.visible_text import counted


def receipt_files(view: LogView) -> list[Path]:
    """Return the paths of all receipts in a log's folder, also of receipts without an entry in the log."""
    return sorted(path for path in (view.folder / RECEIPTS).glob("*.json") if path.is_file())


def check_files(view: LogView) -> Iterator[Finding]:
    """Yield a failure for each receipt file that is missing, changed or without an entry in the log."""
    logged = {entry.receipt_id: entry for entry in view.of(ReceiptLogged)}
    for receipt_id, entry in logged.items():
        yield from _file_findings(view.folder / RECEIPTS, receipt_id, entry)
    for path in receipt_files(view):
        if path.stem not in logged:
            yield fail("log", "log_unlisted", f"{RECEIPTS}/{path.name} has no entry in the log")


def _file_findings(folder: Path, receipt_id: str, entry: ReceiptLogged) -> Iterator[Finding]:
    path, items = folder / f"{receipt_id}.json", folder / items_file_name(receipt_id)
    if not path.is_file() or not items.is_file():
        yield fail("log", "log_receipt_missing", f"{RECEIPTS}/{path.name} or its items file is missing")
        return
    document = read_object(path)
    if digest(document) != entry.receipt_sha256:
        yield fail("log", "log_receipt_mismatch", f"{RECEIPTS}/{path.name} is not the receipt that was logged")
    elif field := differing_field(entry, document):
        detail = f"entry {entry.index} has another {field} than {RECEIPTS}/{path.name}"
        yield fail("log", "log_receipt_mismatch", detail)
    if file_sha256(items) != entry.items_sha256:
        yield fail("log", "log_receipt_mismatch", f"{RECEIPTS}/{items.name} is not the items file that was logged")


def differing_field(entry: ReceiptLogged, receipt: Mapping[str, JSON]) -> str | None:
    """Return the name of the first receipt field that differs from the log entry. Return None if no field differs."""
    run, rows = receipt.get("run"), receipt.get("perQuery")
    stated = {
        "receiptId": (entry.receipt_id, receipt.get("receiptId")),
        "configDigest": (entry.config_digest, receipt.get("configDigest")),
        "resultDigest": (entry.result_digest, receipt.get("resultDigest")),
        "runId": (entry.run_id, run.get("runId") if isinstance(run, dict) else None),
        "itemsSha256": (entry.items_sha256, rows.get("sha256") if isinstance(rows, dict) else None),
    }
    return next((name for name, (logged, there) in stated.items() if logged != there), None)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hex, without reading the whole file into memory."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOutcome:
    """The findings on one log, and the verdict."""

    folder: Path
    findings: tuple[Finding, ...]
    origin: str | None
    size: int
    root_hash: str

    @property
    def verdict(self) -> ReceiptVerdict:
        """The worst verdict of the findings."""
        return overall_verdict(self.findings)

    def value(self) -> dict[str, JSON]:
        """Return the findings and the verdict as a JSON value."""
        return {
            "verdict": str(self.verdict),
            "exitCode": self.verdict.exit_code,
            "origin": self.origin,
            "size": self.size,
            "rootHash": self.root_hash,
            "checks": [finding.value() for finding in self.findings],
        }


def check_log(view: LogView, store: TrustStore, since: Path | None = None) -> LogOutcome:
    """Check a whole log and report every finding; ``since`` is a checkpoint file that the user kept."""
    origin = store.origin or _origin(view)
    findings = [*_line_findings(view), *_checkpoint_findings(view, store)]
    findings += _history_findings(view, _heads(view, origin, since))
    findings += check_files(view)
    return _outcome(view, findings)


def check_log_itself(view: LogView, store: TrustStore) -> LogOutcome:
    """Check only the lines, the root hash and the signature of a log. Do not check its earlier states and receipt
    files.
    """
    return _outcome(view, [*_line_findings(view), *_checkpoint_findings(view, store)])


def check_own_history(view: LogView, store: TrustStore) -> list[Finding]:
    """Check a log before entries are appended: its lines, root hash, signature, and the checkpoints in its folder."""
    return [
        *_line_findings(view),
        *_checkpoint_findings(view, store),
        *_history_findings(view, _checkpoint_heads(view, store.origin)),
    ]


def _outcome(view: LogView, findings: list[Finding]) -> LogOutcome:
    size = len(view.lines)
    return LogOutcome(
        folder=view.folder,
        findings=tuple(or_ok("log", findings, counted(size, "entr(y|ies)"))),
        origin=_origin(view),
        size=size,
        root_hash=view.roots([size])[size].hex(),
    )


def _fail(code: str, detail: str) -> Finding:
    return fail("log", code, detail)


# -------------------------------------------------------------------- lines, root


def _line_findings(view: LogView) -> Iterator[Finding]:
    for number, detail in view.faults:
        yield _fail("log_entry", f"entry {number}: {detail}")
    if not view.faults:
        wrong = [place for place, entry in enumerate(view.entries) if entry.index != place]
        if wrong:
            yield _fail(
                "log_index",
                f"line {wrong[0] + 1} of the log has index {view.entries[wrong[0]].index}, expected {wrong[0]}",
            )
    for key in view.of(KeyAdded):
        if not _names_its_key(key):
            yield _fail("log_entry", f"entry {key.index}: the fingerprint does not match the key")
    hashes: dict[str, str] = {}
    for entry in view.of(ReceiptLogged):
        if hashes.setdefault(entry.receipt_id, entry.receipt_sha256) != entry.receipt_sha256:
            yield _fail("receipt_id_reused", f"the log contains two different receipts with the id {entry.receipt_id}")


def _names_its_key(entry: KeyAdded) -> bool:
    try:
        return PublicKey.from_pem(entry.public_key.encode()).fingerprint == entry.fingerprint
    except KeyRefused:
        return False


def _checkpoint_findings(view: LogView, store: TrustStore) -> Iterator[Finding]:
    size = len(view.lines)
    if view.note is None:
        if any(_checkpoint_files(view)):
            yield _fail("log_size", "there are old checkpoints but no current one")
        elif size or view.torn:
            yield warn("log", "log_pending", counted(size, "entr(y is|ies are) not covered by a checkpoint"))
        return
    try:
        note = read_note(view.note)
        checkpoint = note.checkpoint()
    except VerificationError as error:
        yield _fail(error.code, error.message)
        return
    if checkpoint.size > size:
        yield _fail(
            "log_size", f"the checkpoint covers {counted(checkpoint.size, 'entr(y|ies)')}, but the log has only {size}"
        )
    elif view.roots([checkpoint.size])[checkpoint.size] != checkpoint.root:
        yield _fail(
            "log_root",
            f"the first {counted(checkpoint.size, 'entr(y does|ies do)')} not match the root of the checkpoint",
        )
    if checkpoint.size < size or view.torn:
        cut = "; the last line is incomplete" if view.torn else ""
        pending = max(0, size - checkpoint.size)
        yield warn("log", "log_pending", counted(pending, f"entr(y is|ies are) not covered by a checkpoint{cut}"))
    yield from _signature_findings(note, checkpoint, store)


def _signature_findings(note: Note, checkpoint: Checkpoint, store: TrustStore) -> Iterator[Finding]:
    if store.origin is not None and checkpoint.origin != store.origin:
        yield _fail(
            "log_signature", f"the checkpoint belongs to the log {checkpoint.origin!r}, not to {store.origin!r}"
        )
        return
    claims = [(key, note.signed_by(checkpoint.origin, key.key)) for key in store.keys]
    signers = [key for key, held in claims if held]
    if not signers and any(held is False for _, held in claims):
        yield _fail("log_signature", "the checkpoint was altered after it was signed")
    elif not signers:
        yield _fail("key_unknown", "no trusted key signed the checkpoint")
    else:
        yield from _best_signer(signers, checkpoint, store)


def _best_signer(signers: list[TrustedKey], checkpoint: Checkpoint, store: TrustStore) -> Iterator[Finding]:
    last = max(checkpoint.size - 1, 0)
    decisions = [store.decide(key.fingerprint, "log", last) for key in signers]
    best = next((decision for decision in decisions if decision.trusted), decisions[0])
    if not best.trusted:
        yield _fail(str(best.code), best.detail)
    elif best.code is not None:
        yield warn("log", best.code, best.detail)


# ------------------------------------------------------------------------ the past


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierHead:
    """The size and root of a log at an earlier time, and the file in which they were recorded."""

    seen_in: str
    size: int
    root: bytes


def _checkpoint_files(view: LogView) -> Iterator[Path]:
    folder = view.folder / CHECKPOINTS
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return (path for path in found if path.name.isascii() and path.name.isdigit())


def _checkpoint_heads(view: LogView, origin: str | None) -> Iterator[EarlierHead | Finding]:
    for path in _checkpoint_files(view):
        yield _head(path, f"{CHECKPOINTS}/{path.name}", origin, size=int(path.name))


def _heads(view: LogView, origin: str | None, since: Path | None) -> Iterator[EarlierHead | Finding]:
    yield from _checkpoint_heads(view, origin)
    if since is not None:
        if not since.is_file():
            raise UsageError(f"no such file: {since}", hint="name a checkpoint file that you kept")
        yield _head(since, str(since), origin)
    for path in receipt_files(view):
        yield from _head_in_receipt(path, origin)


def _origin(view: LogView) -> str | None:
    try:
        checkpoint = view.checkpoint()
    except VerificationError:
        return None
    return checkpoint.origin if checkpoint else None


def _head(path: Path, seen_in: str, origin: str | None, size: int | None = None) -> EarlierHead | Finding:
    """Return the size and root that a checkpoint file records.

    If the file is unreadable, or its origin or size is wrong, return a failure.
    """
    try:
        checkpoint = read_note(path.read_bytes()).checkpoint()
    except OSError as error:
        return _fail("log_inconsistent", f"{seen_in}: {error.strerror}")
    except VerificationError as error:
        return _fail("log_inconsistent", f"{seen_in}: {error.message}")
    if origin not in (None, checkpoint.origin):
        return _fail("log_inconsistent", f"{seen_in} belongs to the log {checkpoint.origin!r}, not to {origin!r}")
    if size not in (None, checkpoint.size):
        return _fail("log_inconsistent", f"{seen_in} contains a checkpoint of size {checkpoint.size}")
    return EarlierHead(seen_in=seen_in, size=checkpoint.size, root=checkpoint.root)


def _head_in_receipt(path: Path, origin: str | None) -> Iterator[EarlierHead]:
    run = read_object(path).get("run")
    head = run.get("log") if isinstance(run, dict) else None
    if not isinstance(head, dict) or (origin is not None and head.get("origin") != origin):
        return
    size, root = head.get("size"), head.get("rootHash")
    if isinstance(size, int) and isinstance(root, str) and len(root) == 64:
        yield EarlierHead(seen_in=f"{RECEIPTS}/{path.name}", size=size, root=_unhex(root))


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _history_findings(view: LogView, heads: Iterator[EarlierHead | Finding]) -> Iterator[Finding]:
    seen = list(heads)
    yield from (head for head in seen if isinstance(head, Finding))
    known = [head for head in seen if isinstance(head, EarlierHead)]
    roots = view.roots(head.size for head in known)
    for head in known:
        if roots.get(head.size) != head.root:
            yield _fail(
                "log_inconsistent",
                f"{head.seen_in}: the first {counted(head.size, 'entr(y of the log has|ies of the log have)')} changed "
                "since then",
            )


def has_root(view: LogView, size: int, root_hash: str) -> bool:
    """Return True if ``root_hash`` (hex) is the Merkle root over the log's first ``size`` entries."""
    return view.roots([size]).get(size) == _unhex(root_hash)
