"""``bench reproduce``: repeat the run of a receipt on this machine, and compare the deterministic results.

    outcome = await reproduce(path, ReproductionSettings(...))
    outcome.same, outcome.differs, outcome.items

The receipt must have the reproducibility class ``exact``. Dataset, configs, metrics and models must be the same as in
the receipt. Otherwise, nothing is run, and an error lists the differences.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.canonical import JSON
from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.engine.run_metadata import CodeState, run_meta
from bench.errors import BenchError, UsageError
from bench.journal import Reader
from bench.journal.paths import report_folder
from bench.plan import Plan, make_plan
from bench.plan.identity import changes
from bench.plan.job_record import read_jobs
from bench.receipt.base_model import format_time
from bench.receipt.build import ReceiptSettings, build
from bench.receipt.digests import config_of
from bench.receipt.log.public_log import CheckedLog
from bench.receipt.metadata import JobMetadata
from bench.receipt.metadata import environment as environment_of
from bench.receipt.schema import Receipt, Signer, items_file_name
from bench.receipt.signing.sign import SignedFile, SigningRequest, new_ulid, sign_run
from bench.receipt.signing.signature import SigningKey
from bench.receipt.verification.diff import DIFFERS, SHOWN, compare
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, verify_file
from bench.report import fold
from bench.settings import Environment

FILTERS = ("items", "items_of", "question_type", "per_type")
"""flags of bench run that select items and that a receipt may contain, besides limit and sample"""


class CannotReproduce(UsageError):
    """The error for a receipt whose run cannot be repeated on this machine; the message names the reason."""

    kind = "cannot_reproduce"
    default_hint = "make the listed parts the same as in the receipt"


class NotVerified(BenchError):
    """The error for a receipt that is not VALID. The exit code depends on the verdict of the receipt."""

    kind = "verification"
    default_hint = "list every check with: bench verify RECEIPT.json"

    def __init__(self, outcome: VerificationOutcome) -> None:
        bad = next(finding for finding in outcome.findings if finding.status == "fail")
        super().__init__(f"{outcome.verdict}: {bad.code}: {bad.detail}", where=str(outcome.file))
        self.exit_code = outcome.verdict.exit_code  # type: ignore[misc]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionSettings:
    """Settings of a reproduction; ``key`` signs a receipt of the repeated run, None = do not sign."""

    workspace: Path
    request: VerificationRequest
    environment: Environment
    key: SigningKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result of repeating a run: the differences between the repeated run and the receipt."""

    run_id: str
    level: str
    digest: str
    """the result digest of the repeated run"""
    differs: tuple[str, ...]
    items: tuple[str, ...]
    """ids of the first ten items with different gold, labels, hits, scores or states"""
    notes: tuple[str, ...]
    """differences in commit, lock file or code, which need not change the results"""
    signed: SignedFile | None = None

    @property
    def same(self) -> bool:
        """True if the repeated run has the same result digest as the receipt."""
        return not self.differs

    @property
    def exit_code(self) -> int:
        """0 if the results are the same, 8 if they differ."""
        return 0 if self.same else DIFFERS

    def value(self) -> dict[str, JSON]:
        """Return the result of the reproduction as a JSON value."""
        return {
            "level": self.level,
            "same": self.same,
            "exitCode": self.exit_code,
            "runId": self.run_id,
            "resultDigest": self.digest,
            "differs": list(self.differs),
            "items": list(self.items),
            "notes": list(self.notes),
            "receipt": None if self.signed is None else str(self.signed.file),
        }


async def reproduce(path: Path, setting: ReproductionSettings) -> Reproduction:
    """Verify a receipt, repeat its run, and compare the results.

    If ``setting.request`` has a log, also verify the entry of the receipt in this log.

    Raises:
        NotVerified: the receipt is not VALID.
        CannotReproduce: the class of the receipt is not ``exact``, the plan on this machine differs, or the repeated
            run failed.
        ConfigError: a config is not valid.
    """
    request = setting.request
    log = CheckedLog.open(request.log, request.trust) if request.log else None
    outcome = verify_file(path, request, log)
    if outcome.verdict is not ReceiptVerdict.VALID:
        raise NotVerified(outcome)
    receipt = outcome.receipt
    assert receipt is not None
    _refuse_inexact(receipt)
    environment = setting.environment
    run_id = f"reproduce-{new_ulid(datetime.now(UTC), secrets.token_bytes(10)).lower()}"
    plan = make_plan(Catalog.load(setting.workspace), request_of(receipt, run_id), environment)
    notes = _refuse_other_plan(receipt, plan, environment)
    ended = await execute(plan, environment=environment)
    if ended.exit_code:
        raise CannotReproduce(
            f"the rerun {run_id} failed: {ended.message or ended.status}",
            hint=f"list the errors with: bench failures {run_id}",
        )
    return await _compare(path, receipt, ended.folder, setting, notes)


def request_of(receipt: Receipt, run_id: str) -> RunRequest:
    """Return a run request with the settings of the receipt and with the new ``run_id``.

    Raises:
        CannotReproduce: the receipt selects its items by an unknown setting.
    """
    run, selection = receipt.run, receipt.benchmark.selection
    unknown = sorted(selection.filter.keys() - {*FILTERS, "seed"})
    if unknown:  # also what would be a flag here: a receipt chooses items, never what a run does
        raise CannotReproduce(
            f"the receipt selects its items by settings that this version of bench does not know: {', '.join(unknown)}",
            hint="use the version of bench that created the receipt",
        )
    filters = {name: value for name, value in selection.filter.items() if name in FILTERS}
    by_role = {use.role: f"{use.provider}/{use.requested}" if use.provider else use.requested for use in receipt.models}
    flags = {
        "benchmarks": (receipt.benchmark.name,),
        "providers": (receipt.provider.name,),
        "seed": run.seed,
        "epochs": run.epochs,
        "k": run.k,
        "context_budget": run.context_budget_tokens,
        "track": run.track,
        "limit": selection.limit,
        "sample": selection.sample,
        "metrics": tuple(metric.name for metric in receipt.metrics),
        "answering_model": (by_role.get("answering", "none"),),
        "judge_model": (by_role.get("judge", "none"),),
        "embedding_model": by_role.get("embedding"),
        "isolation": run.isolation,
        "run_id": run_id,
        **filters,
    }
    return RunRequest.combine(None, flags)


def _refuse_inexact(receipt: Receipt) -> None:
    if receipt.kind != "run":
        raise CannotReproduce("the receipt covers only part of a run", hint="name a receipt of the whole run")
    if receipt.reproducibility.class_ != "exact":
        reasons = "; ".join(receipt.reproducibility.reasons)
        raise CannotReproduce(
            f"a receipt of class {receipt.reproducibility.class_} cannot be run again with equal results: {reasons}",
            hint="measure again with bench run, then compare with bench diff",
        )


def _refuse_other_plan(receipt: Receipt, plan: Plan, environment: Environment) -> tuple[str, ...]:
    """Raise CannotReproduce if the configuration of the plan differs from the configuration in the receipt.

    Differences in the commit, the lock file or the code of bench raise no error. They are returned as text.
    """
    meta = run_meta(plan, "reproduce", CodeState.read(environment), environment)
    facts = JobMetadata(meta=meta, record=read_jobs(meta.extra)[0])
    other = changes(_without_version(config_of(receipt)), _without_version(facts.config_tree()))
    if other:
        lines = "\n  ".join(f"{path}: {there} -> {now}" for path, there, now in other)
        raise CannotReproduce(f"this installation differs from that of the receipt (receipt -> here):\n  {lines}")
    machine = environment_of(meta)
    code = receipt.environment
    pairs = (
        ("commit", code.git.commit, machine.git.commit),
        ("lock", code.lock_sha256, machine.lock_sha256),
        ("code", code.code_tree_sha256, machine.code_tree_sha256),
    )
    return tuple(f"{name}: {there} -> {now}" for name, there, now in pairs if there != now)


def _without_version(tree: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a config tree without the provider's version, because this version is not known before a run."""
    provider = tree["provider"]
    assert isinstance(provider, Mapping)
    return {**tree, "provider": {name: value for name, value in provider.items() if name != "version"}}


async def _compare(
    path: Path, receipt: Receipt, folder: Path, setting: ReproductionSettings, notes: tuple[str, ...]
) -> Reproduction:
    with TemporaryDirectory() as scratch:
        async with Reader.open(folder) as reader:
            job = (await fold(reader)).jobs[0]
            now = datetime.now(UTC)
            settings = ReceiptSettings(
                receipt_id=new_ulid(now, secrets.token_bytes(10)), folder=Path(scratch), issued_at=format_time(now)
            )
            draft = await build(reader, job, settings)
            run_id = reader.meta.run_id
        signer = Signer(algorithm="", public_key_fingerprint="")
        again = Receipt.model_construct(**dict(draft.body), signer=signer)
        beside = setting.request.items or path.parent / items_file_name(receipt.receipt_id)
        found = compare(receipt, again, beside if beside.is_file() else None, draft.items)
    differs = () if found.equal else tuple(f"{one.part} {one.path}: {one.a} -> {one.b}" for one in found.changes)
    return Reproduction(
        run_id=run_id,
        level="R2",
        digest=again.result_digest,
        differs=differs or (() if found.equal else ("resultDigest",)),
        items=(found.items or ())[:SHOWN],
        notes=notes,
        signed=await _signed(folder, run_id, receipt, setting),
    )


async def _signed(folder: Path, run_id: str, receipt: Receipt, setting: ReproductionSettings) -> SignedFile | None:
    if setting.key is None:
        return None
    output = report_folder(setting.workspace / "results", run_id) / "receipts"
    made = await sign_run(
        folder,
        setting.key,
        SigningRequest(
            output=output,
            reproduces=receipt.receipt_id,
            environment=setting.environment,
            workspace=setting.workspace,
        ),
    )
    return made.receipts[0] if made.receipts else None
