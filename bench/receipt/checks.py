"""One function a check: from a receipt to findings. The order and the verdict are ``verify``'s.

Example::

    findings = [*signature_and_trust(document, receipt, store, log_index), *items_and_scores(receipt, path)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.canonical import JSON
from bench.errors import VerificationError
from bench.receipt.bulk import collecting_rarely
from bench.receipt.digests import config_digest, result_digest
from bench.receipt.findings import Finding, fail, ok, or_ok, skip, warn
from bench.receipt.invariants import invariants
from bench.receipt.items import ItemRow, ReadLine, Seal, Sealed, read_items
from bench.receipt.keyfiles import PublicKey
from bench.receipt.log.files import file_sha256
from bench.receipt.recompute import Recompute
from bench.receipt.schema import Receipt
from bench.receipt.signature import check_form, holds, signed_bytes
from bench.receipt.trusted import TrustStore

MAX_ERROR_RATE = 0.02
SHOWN = 5

# -------------------------------------------------------------- signature and trust


def signature_and_trust(
    document: Mapping[str, JSON], receipt: Receipt, store: TrustStore, log_index: int | None
) -> Iterator[Finding]:
    """Form first; the signature is judged only when its key is known."""
    fingerprint = receipt.signer.public_key_fingerprint
    known = store.find(fingerprint)
    yield _signature(document, known.key if known else None)
    decision = store.decide(fingerprint, "receipt", log_index)
    if not decision.trusted:
        yield fail("trust", str(decision.code), decision.detail)
    elif decision.code is not None:
        yield warn("trust", decision.code, decision.detail)
    else:
        yield ok("trust", decision.detail)


def _signature(document: Mapping[str, JSON], key: PublicKey | None) -> Finding:
    try:
        raw = check_form(document)
    except VerificationError as error:
        return fail("signature", error.code, str(error))
    if key is None:
        return skip("signature", "not judged: the key is not known")
    if not holds(key, raw, signed_bytes(document)):
        return fail("signature", "signature_invalid", "the signature does not fit the document: it was altered")
    return ok("signature", f"by {key.fingerprint}")


# ------------------------------------------------------------------ items and scores


def items_and_scores(receipt: Receipt, path: Path) -> Iterator[Finding]:
    """One pass over the items file: its digests, its rows, and what follows from them."""
    if not path.is_file():
        told = f"{path.name} is not there, and no score can be checked without it (--items FILE)"
        yield warn("items", "items_missing", told)
        yield skip("recompute", "items file not found, scores not recomputed")
        return
    recompute = Recompute(receipt)
    rows = _Rows(receipt.run.epochs)
    seal = Seal()
    with path.open("rb") as file, collecting_rarely():
        for line in read_items(file, seal):
            rows.look_at(line)
            if line.row is not None:
                recompute.add(line.row)
    yield from or_ok("items", [*rows.findings(), *_compare_seal(receipt, seal.sealed())], path.name)
    yield from recompute.findings()
    yield from recompute.hit_findings()


class _Rows:
    """Order and form of the lines; the first few faults are kept, however many a file has."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._last: tuple[bytes, int] | None = None
        self._disorder: list[int] = []
        self._bad: list[str] = []

    def look_at(self, line: ReadLine) -> None:
        row, problem = line.row, line.problem
        if row is not None:
            self._follow(line.number, row)
            if row.epoch > self._epochs:
                problem = f"epoch {row.epoch} of {self._epochs}"
        if problem is not None and len(self._bad) < SHOWN:
            self._bad.append(f"line {line.number}: {problem}")

    def _follow(self, number: int, row: ItemRow) -> None:
        if self._last is not None and row.order <= self._last and len(self._disorder) < SHOWN:
            self._disorder.append(number)
        self._last = row.order

    def findings(self) -> Iterator[Finding]:
        for detail in self._bad:
            yield fail("items", "items_row", detail)
        if self._disorder:
            numbers = ", ".join(map(str, self._disorder))
            yield fail("items", "items_order", f"not sorted by itemId and epoch, or not unique: line {numbers}")


def _compare_seal(receipt: Receipt, sealed: Sealed) -> Iterator[Finding]:
    stated = receipt.per_query
    if (sealed.sha256, sealed.bytes) != (stated.sha256, stated.bytes):
        yield fail("items", "items_sha256", "the items file is not the one that was signed")
    if sealed.count != stated.count:
        yield fail("items", "items_count", f"{sealed.count} rows, not {stated.count}")
    if sealed.merkle_root != stated.merkle_root:
        yield fail("items", "items_root", "the rows do not hash to perQuery.merkleRoot")
    if sealed.deterministic_root != stated.deterministic_root:
        yield fail("items", "deterministic_root", "the rows do not hash to perQuery.deterministicRoot")


# -------------------------------------------------------------- digests, invariants


def digests(receipt: Receipt, dataset: Path | None) -> list[Finding]:
    """Both digests from the receipt's own fields, and the dataset file where it was given."""
    found = []
    if receipt.config_digest != config_digest(receipt):
        found.append(fail("digest", "config_digest", "configDigest does not follow from the receipt"))
    if receipt.result_digest != result_digest(receipt):
        found.append(fail("digest", "result_digest", "resultDigest does not follow from the receipt"))
    if dataset is not None and file_sha256(dataset) != receipt.benchmark.dataset.sha256:
        found.append(fail("digest", "dataset_mismatch", f"{dataset.name} is not the dataset that was measured on"))
    return or_ok("digest", found)


def invariants_of(receipt: Receipt) -> list[Finding]:
    """What cannot be false in an honest receipt."""
    return or_ok("invariants", list(invariants(receipt)))


# -------------------------------------------------------------------------- policy


def policy(receipt: Receipt) -> list[Finding]:
    """What a publication should not lack; only warnings, until a strict reader asks for more."""
    return or_ok("policy", [warn("policy", code, detail) for code, detail in _policy_faults(receipt)])


def _policy_faults(receipt: Receipt) -> Iterator[tuple[str, str]]:
    git, counts = receipt.environment.git, receipt.counts
    if git.dirty:
        yield "dirty", "the work tree had changes that are in no commit"
    if git.commit is None:
        yield "commit_unknown", "no commit is named"
    if receipt.run.preregistration is None:
        yield "not_preregistered", "the run was not announced before it began"
    if receipt.kind == "partial":
        yield "partial", "not every item of the selection has ended"
    failed = counts.by_state.error + counts.by_state.not_ready
    if counts.planned and failed / counts.planned > MAX_ERROR_RATE:
        yield "error_rate", f"{failed} of {counts.planned} items failed"
    if receipt.reproducibility.class_ == "none":
        yield "reproducibility_none", "; ".join(receipt.reproducibility.reasons) or "a rerun proves nothing"


def strict(findings: list[Finding]) -> list[Finding]:
    """Turn every warning into a failed policy; the finding it came from stays beside it."""
    return [
        *(finding for finding in findings if (finding.check, finding.status) != ("policy", "warn")),
        *(fail("policy", str(finding.code), finding.detail) for finding in findings if finding.status == "warn"),
    ]
