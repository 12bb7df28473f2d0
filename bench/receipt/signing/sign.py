"""``bench sign``: write, sign and verify one receipt for each job of a run.

``existing_receipt`` finds an equal receipt of the same key, so that no second receipt is written. Two receipts are
equal if they differ only in id, time, signature and name of the items file.

Example::

    outcome = await sign_run(Path("checkpoints/r1"), key, SigningRequest(output=Path("results/r1/receipts")))
    outcome.receipts, outcome.refused
    existing_receipt(folder.glob("*.json"), body, key)         # the file of a valid equal receipt, else None
    new_ulid(datetime.now(UTC), secrets.token_bytes(10))     # "01JDQ3V5H0..."
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.canonical import JSON, read_object, without_members
from bench.errors import CanonicalError, UsageError, VerificationError
from bench.journal import Reader
from bench.plan.job_record import jobs_matching
from bench.receipt.base_model import format_time, json_of
from bench.receipt.build import ReceiptRefused, ReceiptSettings, build, learn_secrets, refuse_secrets
from bench.receipt.files import write_atomically
from bench.receipt.items_file import rare_garbage_collection
from bench.receipt.log.publish import find_announcement
from bench.receipt.signing.dsse import envelope, open_envelope
from bench.receipt.signing.signature import SigningKey, sign
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationRequest, verify_file
from bench.report import JobReport, Report, fold
from bench.settings import Environment
from bench.untyped_values import object_or_empty

STATEMENT_SUFFIX = ".intoto.jsonl"
UNCOMPARED = ("receiptId", "issuedAt", "signer", "signature")


def existing_receipt(files: Iterable[Path], body: Mapping[str, JSON], key: SigningKey) -> Path | None:
    """Return the first file that is a valid receipt by ``key`` with the content of ``body``.

    The result is None if none of ``files`` is such a receipt.
    """
    trust = VerificationRequest(trust=TrustStore.pin([key.public]))
    return next(
        (path for path in sorted(files) if _content(read_object(path)) == _content(body) and _is_valid(path, trust)),
        None,
    )


def items_of(path: Path) -> Path:
    """Return the path of the items file that the receipt at ``path`` names, in the folder of the receipt."""
    return path.parent / str(object_or_empty(read_object(path).get("perQuery")).get("file"))


def _content(document: Mapping[str, JSON]) -> dict[str, JSON]:
    rows = document.get("perQuery")
    kept = {name: value for name, value in document.items() if name not in UNCOMPARED}
    return {**kept, "perQuery": without_members(rows, "file") if isinstance(rows, dict) else rows}


def _is_valid(path: Path, trust: VerificationRequest) -> bool:
    return items_of(path).is_file() and verify_file(path, trust).verdict is ReceiptVerdict.VALID


ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_LENGTH = 26


def new_ulid(when: datetime, entropy: bytes) -> str:
    """Return a ULID of 26 characters: the milliseconds of ``when`` and 80 random bits.

    ``when`` must have a time zone. ``entropy`` is 10 random bytes.
    """
    number = int(when.timestamp() * 1000) << 80 | int.from_bytes(entropy, "big")
    return "".join(ULID_ALPHABET[number >> shift & 31] for shift in range(5 * (ULID_LENGTH - 1), -1, -5))


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """The settings of ``sign_run``: which jobs to sign, and where to write the receipts.

    If ``output`` ends in .json, ``output`` is the file of the only receipt. Otherwise ``output`` is a folder.
    """

    output: Path
    benchmark: str | None = None
    provider: str | None = None
    with_answers: bool = False
    allow_partial: bool = False
    reproduces: str | None = None
    dsse: bool = False
    """True = also write an in-toto statement for each receipt"""
    log: Path | None = None
    """folder of the public log that may contain the announcement of the run"""
    environment: Environment
    """environment variables whose secret values must not be in a receipt"""
    workspace: Path | None = None
    """workspace whose provider configs name secret variables"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFile:
    """One signed and verified receipt: the paths of its files and its main fields."""

    receipt_id: str
    file: Path
    items_file: Path
    benchmark: str
    provider: str
    result_digest: str
    statement: Path | None = None
    """path of the in-toto statement; None if none was requested"""
    is_new: bool = True
    """False if no receipt was written because a receipt with the same content existed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedJob:
    """One job for which no receipt was written, with the reason."""

    benchmark: str
    provider: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOutcome:
    """The result of ``sign_run``: the receipts, and the jobs for which no receipt was written."""

    receipts: tuple[SignedFile, ...]
    refused: tuple[RefusedJob, ...]

    @property
    def exit_code(self) -> int:
        """4 if at least one job was refused, else 0."""
        return ReceiptRefused.exit_code if self.refused else 0

    def value(self) -> dict[str, JSON]:
        """Return the receipts and the refused jobs as a JSON value."""
        return {
            "receipts": [
                {
                    "receiptId": one.receipt_id,
                    "file": str(one.file),
                    "itemsFile": str(one.items_file),
                    "benchmark": one.benchmark,
                    "provider": one.provider,
                    "resultDigest": one.result_digest,
                    **({"dsse": str(one.statement)} if one.statement else {}),
                }
                for one in self.receipts
            ],
            "refused": [
                {"benchmark": one.benchmark, "provider": one.provider, "code": one.code, "message": one.message}
                for one in self.refused
            ],
        }


async def sign_run(run: Path, key: SigningKey, request: SigningRequest) -> SignOutcome:
    """Sign each job of the run folder ``run`` that the request selects.

    A job that cannot be signed is listed as refused. The other jobs are signed anyway.

    Raises:
        UsageError: no job matches, or ``output`` is one file for several jobs.
        Locked: a running process writes to the journal of the run.
    """
    with rare_garbage_collection():
        return await _sign_jobs(run, key, request)


async def _sign_jobs(run: Path, key: SigningKey, request: SigningRequest) -> SignOutcome:
    async with Reader.open(run) as reader:
        await reader.refuse_held()
        report = await fold(reader)
        jobs = _chosen(report, request)
        learn_secrets(request.environment, request.workspace, [job.record.provider for job in jobs])
        announced = find_announcement(request.log, reader.meta.run_id, reader.meta.plan_digest) if request.log else None
        receipts: list[SignedFile] = []
        refused: list[RefusedJob] = []
        for job in jobs:
            now = datetime.now(UTC)
            settings = ReceiptSettings(
                receipt_id=new_ulid(now, secrets.token_bytes(10)),
                folder=_folder(request.output),
                issued_at=format_time(now),
                gaps=bool(report.gaps),
                allow_partial=request.allow_partial,
                with_answers=request.with_answers,
                reproduces=request.reproduces,
                announced=announced,
            )
            try:
                signed = await _sign_job(reader, job, settings, key, request.output)
                receipts.append(_with_statement(signed, key) if request.dsse else signed)
            except (VerificationError, CanonicalError) as error:
                refused.append(
                    RefusedJob(
                        benchmark=job.record.benchmark,
                        provider=job.record.provider,
                        code=error.code,
                        message=str(error),
                        hint=error.hint,
                    )
                )
    return SignOutcome(receipts=tuple(receipts), refused=tuple(refused))


def _chosen(report: Report, request: SigningRequest) -> list[JobReport]:
    records = [job.record for job in report.jobs]
    chosen = jobs_matching(report.run_id, records, benchmark=request.benchmark, provider=request.provider)
    found = [job for job in report.jobs if job.record in chosen]
    if request.output.suffix == ".json" and len(found) != 1:
        raise UsageError(
            f"--output is one file, but {len(found)} jobs would be signed",
            hint="name a folder, or choose one job with --benchmark and --provider",
        )
    return found


def _folder(output: Path) -> Path:
    folder = output.parent if output.suffix == ".json" else output
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def _sign_job(
    reader: Reader, job: JobReport, settings: ReceiptSettings, key: SigningKey, output: Path
) -> SignedFile:
    path = output if output.suffix == ".json" else settings.folder / f"{settings.receipt_id}.json"
    draft = await build(reader, job, settings)
    try:
        refuse_secrets(draft)
        body = json_of(draft.body)
        there = existing_receipt([path] if path == output else settings.folder.glob("*.json"), body, key)
        if there is not None:
            draft.items.unlink()
            return _signed_file(there, job, is_new=False)
        _write(path, sign(body, key))
        _verify_own(path, key)
    except BaseException:
        draft.items.unlink(missing_ok=True)
        raise
    return _signed_file(path, job, is_new=True)


def _with_statement(signed: SignedFile, key: SigningKey) -> SignedFile:
    """Write and verify the in-toto statement of a receipt, unless the statement already exists."""
    path = signed.file.with_suffix(STATEMENT_SUFFIX)
    if not path.exists():
        line = envelope(read_object(signed.file), signed.items_file.read_bytes(), key)
        open_envelope(line, key.public)
        write_atomically(path, line)
    return replace(signed, statement=path)


def _signed_file(path: Path, job: JobReport, *, is_new: bool) -> SignedFile:
    document = read_object(path)
    return SignedFile(
        receipt_id=str(document["receiptId"]),
        file=path,
        items_file=items_of(path),
        benchmark=job.record.benchmark,
        provider=job.record.provider,
        result_digest=str(document["resultDigest"]),
        is_new=is_new,
    )


def _write(path: Path, document: Mapping[str, JSON]) -> None:
    if path.exists():
        raise UsageError(f"{path} already exists", hint="name another file")
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _verify_own(path: Path, key: SigningKey) -> None:
    """Verify the new receipt at ``path``. If the receipt is not VALID, delete the file and raise VerificationError."""
    outcome = verify_file(path, VerificationRequest(trust=TrustStore.pin([key.public])))
    if outcome.verdict is not ReceiptVerdict.VALID:
        bad = next(finding for finding in outcome.findings if finding.status == "fail")
        path.unlink()
        raise VerificationError(
            str(bad.code),
            f"the receipt does not verify: {bad.detail}",
            where=str(path),
            hint="the receipt was deleted; compute the scores again with: bench rescore RUN_ID",
        )
