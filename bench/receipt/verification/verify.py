"""Verify a receipt: make all checks in order, and decide the verdict.

``export`` writes files with which openssl can check the signature without this program.

Example::

    outcome = verify_file(path, VerificationRequest(trust=TrustStore.load(Path("keys/trusted.json"))))
    outcome.verdict, [finding.code for finding in outcome.findings]
    print(export(outcome, request, folder))     # the openssl command

Verification needs no network. If the file is not a receipt of this schema, the other checks are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.canonical import JSON, parse_file
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.receipt.base_model import SchemaMismatch
from bench.receipt.files import write_atomically
from bench.receipt.log.log_check import LogOutcome, check_log
from bench.receipt.log.log_store import RECEIPTS, ReceiptSuperseded, has_log, read_log
from bench.receipt.log.public_log import CheckedLog
from bench.receipt.schema import Receipt, read_receipt
from bench.receipt.signing.signature import decode, signature_of, signed_bytes
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification import checks
from bench.receipt.verification.findings import CHECKS, Finding, ReceiptVerdict, fail, ok, overall_verdict, skip, worst
from bench.receipt.verification.foreign import Profile, check_foreign, foreign_signed_bytes

CHECKLIST = ("tagged_commit", "clean_tree", "container_image", "dataset_matches", "signature", "rerun_identical")
ITEMS_SUFFIX = ".items.jsonl"
NO_LOG = "there is no public log, so publication and other runs were not checked"
ChecklistAnswer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRequest:
    """The settings of a verification: trusted keys, further files, policy and profile."""

    trust: TrustStore
    items: Path | None = None
    """items file to check; None = the items file next to the receipt"""
    dataset: Path | None = None
    log: Path | None = None
    policy: Literal["default", "strict"] = "default"
    profile: Literal["bench"] | Profile = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOutcome:
    """The findings on one receipt, and the verdict."""

    file: Path
    findings: tuple[Finding, ...]
    receipt: Receipt | None = None
    document: JSON = None
    checklist: Mapping[str, ChecklistAnswer] = field(default_factory=lambda: dict.fromkeys(CHECKLIST, "unknown"))

    @property
    def verdict(self) -> ReceiptVerdict:
        """The worst verdict of the findings."""
        return overall_verdict(self.findings)

    @property
    def receipt_id(self) -> str | None:
        """The id of the receipt; None if the document has no readable id."""
        return _text(self.document, "receiptId")

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the key in the signature of the document; None if there is no readable fingerprint."""
        signature = self.document.get("signature") if isinstance(self.document, dict) else None
        return _text(signature, "publicKeyFingerprint")

    @property
    def defensible(self) -> bool:
        """True if every question in ``checklist`` has the answer yes."""
        return all(answer == "yes" for answer in self.checklist.values())

    @property
    def original_document(self) -> Mapping[str, JSON] | None:
        """The document, if it is a receipt of the original system PRZM; None otherwise."""
        fits = any((finding.check, finding.status) == ("schema", "ok") for finding in self.findings)
        return self.document if fits and self.receipt is None and isinstance(self.document, dict) else None

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The details of all findings with status ``skip``: what was not checked, and why."""
        return tuple(dict.fromkeys(finding.detail for finding in self.findings if finding.status == "skip"))

    def value(self) -> dict[str, JSON]:
        """Return the outcome as a JSON value."""
        named = {"receiptId": self.receipt_id, "fingerprint": self.fingerprint}
        return {
            "file": str(self.file),
            **{name: text for name, text in named.items() if text is not None},
            "verdict": str(self.verdict),
            "exitCode": self.verdict.exit_code,
            "checks": [finding.value() for finding in self.findings],
            "defensible": self.defensible,
            "checklist": dict(self.checklist),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The outcomes for all receipts and logs of one call."""

    outcomes: tuple[VerificationOutcome, ...]
    logs: tuple[LogOutcome, ...] = ()
    successors: Mapping[str, str] = field(default_factory=dict)
    """id of a replaced receipt -> id of the receipt that replaces it, from the logs in the given folders"""

    @property
    def verdict(self) -> ReceiptVerdict:
        """The worst verdict of all receipts and logs.

        A SUPERSEDED receipt does not count if the outcomes include a VALID receipt that replaces it.
        """
        valid = {one.receipt_id for one in self.outcomes if one.verdict is ReceiptVerdict.VALID}
        counted = (
            one.verdict
            for one in self.outcomes
            if one.verdict is not ReceiptVerdict.SUPERSEDED or self._newest(one.receipt_id) not in valid
        )
        return worst([*counted, *(log.verdict for log in self.logs)])

    def _newest(self, receipt_id: str | None) -> str | None:
        for _ in self.successors:
            receipt_id = self.successors.get(receipt_id or "", receipt_id)
        return receipt_id

    def value(self) -> dict[str, JSON]:
        """Return all outcomes as a JSON value; the key ``logs`` exists only if a log was checked."""
        document: dict[str, JSON] = {
            "verdict": str(self.verdict),
            "exitCode": self.verdict.exit_code,
            "receipts": [outcome.value() for outcome in self.outcomes],
        }
        if self.logs:
            document["logs"] = [{"folder": str(log.folder), **log.value()} for log in self.logs]
        return document


def verify(paths: Sequence[Path], request: VerificationRequest) -> Verification:
    """Check receipt files and folders. In a folder, check all ``*.json`` receipts and the log, if any.

    Raises:
        UsageError: a path does not exist, a folder has nothing to check, or ``items`` is given for several receipts.
    """
    outcomes: list[VerificationOutcome] = []
    logs: list[LogOutcome] = []
    successors: dict[str, str] = {}
    log = CheckedLog.open(request.log, request.trust) if request.log else None
    for path in paths:
        if not path.is_dir():
            outcomes.append(verify_file(path, request, log))
            continue
        files, own_log = _files_of(path)
        if own_log is not None:
            view = read_log(own_log)
            logs.append(check_log(view, request.trust))
            successors |= {entry.old: entry.new for entry in view.of(ReceiptSuperseded)}
        inside = CheckedLog.open(own_log, request.trust) if own_log and log is None else log
        outcomes += [verify_file(file, request, inside) for file in files]
    if request.items is not None and len(outcomes) > 1:
        raise UsageError(
            f"--items can be used with one receipt only, but {len(outcomes)} receipts were checked",
            hint="name one receipt file",
        )
    return Verification(outcomes=tuple(outcomes), logs=tuple(logs), successors=successors)


def _files_of(folder: Path) -> tuple[list[Path], Path | None]:
    own_log = folder if has_log(folder) else None
    is_run = (folder / "report.json").is_file()  # its receipts lie below, and its report is none
    files = _json_files(folder / RECEIPTS if is_run else folder)
    if own_log is not None:
        files += _json_files(folder / RECEIPTS)
    if not files and own_log is None:
        hint = (
            f"create the receipts with: bench sign {folder.name}"
            if is_run
            else "name a receipt file, or a folder of receipts"
        )
        raise UsageError(f"there is no receipt in {folder}", hint=hint)
    return files, own_log


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if path.is_file())


def verify_file(path: Path, request: VerificationRequest, log: CheckedLog | None = None) -> VerificationOutcome:
    """Check one receipt file and its items file. If ``log`` is given, also check the entry of the receipt in this log.

    Raises:
        UsageError: the file cannot be read, or is an items file.
    """
    if path.name.endswith(ITEMS_SUFFIX):
        raise _rows_not_receipt(path)
    try:
        document = parse_file(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a receipt file, or a folder of receipts") from error
    except CanonicalError as error:
        return VerificationOutcome(file=path, findings=_failed_early("parse", [fail("parse", error.code, str(error))]))
    if request.profile == "bench":
        findings, receipt = _check_receipt(path, document, request, log)
    else:
        findings, receipt = check_foreign(document, request.profile, request.trust), None
    findings = [ok("parse"), *findings]
    if request.policy == "strict":
        findings = checks.strict(findings)
    return VerificationOutcome(
        file=path,
        findings=tuple(findings),
        receipt=receipt,
        document=document,
        checklist=_checklist(findings, receipt, request, log),
    )


def _rows_not_receipt(path: Path) -> UsageError:
    receipt = path.with_name(path.name.removesuffix(ITEMS_SUFFIX) + ".json")
    hint = f"verify the receipt with: bench verify {receipt}" if receipt.is_file() else "name the receipt of these rows"
    return UsageError(f"{path}: this file contains the rows of a receipt, not the receipt", hint=hint)


def _check_receipt(
    path: Path, document: JSON, request: VerificationRequest, log: CheckedLog | None
) -> tuple[list[Finding], Receipt | None]:
    try:
        receipt = read_receipt(document)
    except SchemaMismatch as mismatch:
        faults = [fail("schema", problem.code, str(problem)) for problem in mismatch.problems]
        return list(_failed_early("schema", faults)), None
    assert isinstance(document, dict)
    index = log.index_of(document, receipt) if log else None
    findings = [
        ok("schema", receipt.schema_),
        *checks.signature_and_trust(document, receipt, request.trust, index),
        *checks.items_and_scores(receipt, request.items or path.parent / receipt.per_query.file),
        *checks.digests(receipt, request.dataset),
        *checks.invariants_of(receipt),
        *(log.findings(document, receipt) if log else [skip("log", NO_LOG)]),
        *(log.attempt_findings(receipt) if log else [skip("runs", NO_LOG)]),
        *checks.policy(receipt),
    ]
    return findings, receipt


def _failed_early(check: str, faults: list[Finding]) -> tuple[Finding, ...]:
    """Return ``faults`` and, for each later check, the finding that this check was skipped."""
    later = CHECKS[CHECKS.index(check) + 1 :]
    return (*faults, *(skip(name, f"not checked, because {check} failed") for name in later))


# ----------------------------------------------------------------------- checklist


def _checklist(
    findings: Sequence[Finding], receipt: Receipt | None, request: VerificationRequest, log: CheckedLog | None
) -> dict[str, ChecklistAnswer]:
    answers: dict[str, ChecklistAnswer] = dict.fromkeys(CHECKLIST, "unknown")
    answers["signature"] = _signature_answer(findings)
    if receipt is None:
        return answers
    git = receipt.environment.git
    if git.commit is not None:
        answers["tagged_commit"] = "yes" if git.tag else "no"
    if git.dirty is not None:
        answers["clean_tree"] = "no" if git.dirty else "yes"
    answers["container_image"] = "yes" if receipt.environment.container_digest else "no"
    if request.dataset is not None:
        answers["dataset_matches"] = _dataset_answer(findings)
    if log is not None:
        answers["rerun_identical"] = "yes" if log.is_reproduced(receipt) else "no"
    return answers


def _dataset_answer(findings: Sequence[Finding]) -> ChecklistAnswer:
    codes = {finding.code for finding in findings}
    if codes & {"dataset_mismatch", "dataset_files"}:
        return "no"
    return "unknown" if "dataset_partial" in codes else "yes"


def _signature_answer(findings: Sequence[Finding]) -> ChecklistAnswer:
    states = {finding.status for finding in findings if finding.check == "signature"}
    if "fail" in states:
        return "no"
    return "yes" if "ok" in states else "unknown"


def _text(document: object, name: str) -> str | None:
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else None


COMMAND = "openssl pkeyutl -verify -rawin -in canonical.bin -sigfile sig.bin -pubin -inkey pub.pem"


def export(outcome: VerificationOutcome, request: VerificationRequest, folder: Path) -> str:
    """Write canonical.bin, sig.bin and pub.pem to ``folder``; return the openssl command to run there.

    Raises:
        VerificationError: the check parse, schema or signature did not pass, or the key is unknown.
    """
    key = _verified_key(outcome, request.trust)
    assert isinstance(outcome.document, dict)
    if request.profile == "bench":
        body = signed_bytes(outcome.document)
    else:
        body = foreign_signed_bytes(outcome.document, request.profile)
    write_atomically(folder / "canonical.bin", body)
    write_atomically(folder / "sig.bin", decode(signature_of(outcome.document).get("value")))
    write_atomically(folder / "pub.pem", key.encode())
    return COMMAND


def _verified_key(outcome: VerificationOutcome, store: TrustStore) -> str:
    good = {finding.check for finding in outcome.findings if finding.status == "ok"}
    bad = {finding.check for finding in outcome.findings if finding.status == "fail"}
    known = store.find(outcome.fingerprint or "")
    if known is None or not {"parse", "schema", "signature"} <= good - bad:
        raise VerificationError(
            "signature_invalid",
            "nothing was exported: the receipt must pass the checks parse, schema and signature with a known key",
            where=str(outcome.file),
            hint=f"list every check with: bench verify {outcome.file}",
        )
    return known.public_key
