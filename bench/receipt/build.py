"""Build the unsigned receipt and the items file of one job, or raise ReceiptRefused.

``refuse_secrets`` checks before signing that a receipt contains no secret.

Example::

    draft = await build(reader, job, ReceiptSettings(...))
    draft.body.result_digest, draft.items
    learn_secrets(environment, workspace, ["mem0"])
    refuse_secrets(draft)                            # raises ReceiptRefused secret_in_receipt

Totals are computed from the rows of the items file, with the same code as in verification. A secret is the value of an
environment variable. Either the name of the variable ends in KEY, TOKEN or a similar word, or the config of a provider
declares the variable as secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from bench.config.builtin_providers import BUILT_IN
from bench.errors import ConfigError, UsageError, VerificationError
from bench.events import redactor
from bench.journal import CorpusKind, Reader
from bench.metrics.latency import attempt_us
from bench.model import State
from bench.plan.job_record import JobRecord
from bench.plan.shared_builds import PROVIDER_VERSION, REUSED
from bench.receipt import schema_run
from bench.receipt.base_model import format_time, json_of, schema_mismatch_of
from bench.receipt.cost_section import memory_cost
from bench.receipt.digests import config_digest, result_digest
from bench.receipt.items_file import ItemsWriter
from bench.receipt.metadata import JobMetadata, ReportedVersions, bench_version, environment
from bench.receipt.schema import Body, items_file_name
from bench.receipt.totals import CorpusTimes, JobTotals, item_rows
from bench.receipt.verification.checks import invariants
from bench.report import JobReport
from bench.report.fold import judge_notes
from bench.report.job_data import IngestTime
from bench.report.job_notes import request_notes
from bench.settings import Environment
from bench.visible_text import counted


class ReceiptRefused(VerificationError):
    """The error for a job that gets no receipt; ``code`` is the stable name of the reason."""

    kind = "receipt_refused"
    exit_code = 4
    default_hint = "show the state of the job with: bench results RUN_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptSettings:
    """The settings of the receipt that ``build`` creates."""

    receipt_id: str
    folder: Path
    issued_at: str
    gaps: bool = False
    """True if some of the run's items belong to a range that was never run"""
    allow_partial: bool = False
    with_answers: bool = False
    reproduces: str | None = None
    announced: tuple[schema_run.Preregistration, schema_run.LogHead] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDraft:
    """An unsigned receipt, and the path of the items file that was written for it."""

    body: Body
    items: Path


def refusal(job: JobReport, settings: ReceiptSettings) -> ReceiptRefused | None:
    """Return the reason why the job gets no receipt; None if a receipt can be built."""
    if not job.n_planned or job.record.skipped:
        return ReceiptRefused("zero_items", job.record.skipped or "no item was planned")
    if job.isolation.failed or job.error_kinds.get("contaminated"):
        found = next(iter(job.isolation.leaks), "")
        return ReceiptRefused(
            "isolation_failed", ": ".join(filter(None, ["a probe found foreign memories in a namespace", found]))
        )
    if job.invalid:
        return ReceiptRefused("job_invalid", "; ".join(job.invalid))
    if not job.n_ended:
        return ReceiptRefused("zero_items", "no item has ended yet")
    if not job.n_scored and not job.counts.get(State.MEASURED) and not job.n_pending:
        lost = ", ".join(f"{count} {state}" for state, count in sorted(job.counts.items()) if count)
        return ReceiptRefused("zero_items", f"no item was scored ({lost})")
    if (job.n_pending or settings.gaps) and not settings.allow_partial:
        pending = (
            "a range of items was not run" if settings.gaps else counted(job.n_pending, "item(|s) (is|are) pending")
        )
        return ReceiptRefused(
            "job_partial", pending, hint="finish the run, or use --allow-partial (the receipt cannot be published)"
        )
    return None


async def build(reader: Reader, job: JobReport, settings: ReceiptSettings) -> ReceiptDraft:
    """Write the items file of a job and build its unsigned receipt.

    If an error is raised, the items file is removed.

    Raises:
        ReceiptRefused: the job may not get a receipt, or the built receipt is not valid.
        CanonicalError: a value cannot be signed.
    """
    refused = refusal(job, settings)
    if refused is not None:
        raise refused
    items = settings.folder / items_file_name(settings.receipt_id)
    try:
        body = await _compose(reader, job, settings, items)
        for broken in invariants(body):
            raise ReceiptRefused(str(broken.code), broken.detail)
    except BaseException as error:
        items.unlink(missing_ok=True)
        if isinstance(error, ValidationError):  # the journal holds what no receipt may say
            mismatch = schema_mismatch_of(error)
            text = f"a receipt cannot contain a value of this run: {mismatch.message}"
            raise ReceiptRefused(mismatch.code, text) from error
        raise
    return ReceiptDraft(body=body, items=items)


async def _compose(reader: Reader, job: JobReport, settings: ReceiptSettings, items: Path) -> Body:
    totals = JobTotals.of(job)
    with ItemsWriter(items) as writer:
        async for row in item_rows(
            reader, job.record, deterministic=totals.row_metrics, with_answers=settings.with_answers
        ):
            writer.add(row.item)
            totals.add(row)
    parts = [part for origin in await reader.origins() for part in origin.ranges]
    facts = JobMetadata(
        meta=reader.meta,
        record=job.record,
        resumes=tuple(reader.resumes),
        parts=tuple(parts),
        judge_notes=(
            *await judge_notes(reader, job.record, await reader.states(job.record.key)),
            *await request_notes(reader, job.record),
        ),
        build_notes=(*await _reuse_notes(reader, job.record), *(sign.text for sign in job.signs)),
        provider_versions=await _reported_versions(reader, job.record),
        reported={role: ", ".join(sorted(names)) for role, names in totals.models.items()},
    )
    corpora = await _corpus_times(reader, job.record)
    began, ended = await _time_span(reader, job.record)
    isolation = job.isolation
    proof = schema_run.ReceiptIsolation(probed=isolation.probed, passed=isolation.passed, failed=isolation.failed)
    body = Body(
        schema_="bench.receipt/1",
        receipt_id=settings.receipt_id,
        kind="partial" if job.n_pending or settings.gaps else "run",
        bench_version=bench_version(reader.meta),
        ran_at=began,
        finished_at=ended,
        issued_at=settings.issued_at,
        time_source="self-asserted",
        run=facts.run(proof, settings.announced),
        benchmark=facts.benchmark(),
        provider=facts.provider(),
        models=facts.models(),
        prompts=facts.prompts(),
        metrics=facts.metrics(),
        environment=environment(reader.meta),
        counts=totals.counts(),
        scores=totals.scores(corpora),
        per_query=writer.per_query,
        config_digest="0" * 64,
        result_digest="0" * 64,
        reproducibility=facts.reproducibility(),
        supersedes=None,
        reproduces=settings.reproduces,
        memory_cost=memory_cost(job.memory_cost),
    )
    body = body.model_copy(update={"config_digest": config_digest(body)})
    return body.model_copy(update={"result_digest": result_digest(body)})


# ----------------------------------------------------------------- what was journaled


async def _corpus_times(reader: Reader, record: JobRecord) -> CorpusTimes:
    ingest, searchable, memories = [], [], 0
    sending = IngestTime([one.at for one in reader.resumes])
    async for one in reader.corpora(record.build):
        spent, ingested = one.times_us, one.row(CorpusKind.INGESTED)
        if ingested is None or one.started_at is None or one.is_reused:
            continue
        stored = ingested.data.get("memories")
        memories += stored if isinstance(stored, int) else 0
        sending.add(one)
        if "ingest" in spent:
            ingest.append(attempt_us({**one.sending_us, "total": spent["ingest"]}) or 0)
        if "searchable" in spent:
            searchable.append(spent["searchable"])
    return CorpusTimes(
        ingest_us=tuple(ingest), searchable_us=tuple(searchable), memories=memories, wall_us=sending.us or 0
    )


async def _time_span(reader: Reader, record: JobRecord) -> tuple[str, str]:
    """Return the times at which a job began and ended, as text.

    The job began with its first corpus or call. It ended with the last change of its corpora, calls or run status.
    """
    began: list[datetime] = []
    ended: list[datetime] = []
    async for corpus in reader.corpora(record.build):
        if corpus.started_at is not None:
            began.append(corpus.started_at)
            ended.append(corpus.last[-1].at)
    async for call in reader.calls(record.lane):
        began.append(call.started_at)
        ended.append(call.started_at)
    status = await reader.status()
    ended.append(status.at)
    first = min(began, default=reader.meta.created_at)
    return format_time(first), format_time(max(*ended, first))


async def _reuse_notes(reader: Reader, record: JobRecord) -> tuple[str, ...]:
    """Return one note if the job reused the memories of another run, else an empty tuple.

    The note names that run and the fingerprint of its build.
    """
    taken = [event for event in await reader.events(REUSED) if event.scope == record.build]
    return tuple(f"{event.message}; fingerprint {event.data['fingerprint']}" for event in taken[-1:])


async def _reported_versions(reader: Reader, record: JobRecord) -> ReportedVersions:
    version: str | None = None
    upstream: str | None = None
    for event in await reader.events(PROVIDER_VERSION):
        if event.scope == record.build:
            stored_version, stored_upstream = event.data.get("version"), event.data.get("upstream")
            version = stored_version if isinstance(stored_version, str) else version
            upstream = stored_upstream if isinstance(stored_upstream, str) else upstream
    return ReportedVersions(version=version, upstream=upstream)


SECRET_SUFFIXES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS")
MIN_SECRET_LENGTH = 6


def learn_secrets(environment: Environment, workspace: Path | None, providers: Iterable[str]) -> None:
    """Register every secret that these providers may have used, so that ``refuse_secrets`` can find them."""
    for value in environment.values_of(lambda name: name.upper().endswith(SECRET_SUFFIXES)):
        if len(value) >= MIN_SECRET_LENGTH:
            redactor.learn(value)
    configured = {provider.partition("@")[0] for provider in providers} - BUILT_IN.keys()
    if workspace is not None and configured:
        for name in _secret_variables(workspace, configured):
            environment.secret(name)


def _secret_variables(workspace: Path, providers: Iterable[str]) -> Iterator[str]:
    """Yield the names of the variables that the configs of these providers declare as secret.

    A provider whose config does not exist any longer is skipped.
    """
    from bench.config.catalog import Catalog  # the models of a config take longer to load than a small run to sign
    from bench.providers.description import secret_variables

    catalog = Catalog.load(workspace)
    for provider in sorted(providers):
        try:
            yield from secret_variables(catalog.provider(provider))
        except (ConfigError, UsageError):
            continue


def refuse_secrets(draft: ReceiptDraft) -> None:
    """Raise ReceiptRefused if the receipt or its items file contains a registered secret."""
    for place, text in _texts(draft):
        plain = text.replace('\\"', '"').replace("\\\\", "\\")  # a secret may hold what JSON escapes
        if redactor.holds_secret(text) or redactor.holds_secret(plain):
            raise ReceiptRefused(
                "secret_in_receipt",
                f"{place} contains the value of a configured secret",
                hint="remove the secret from the config, prompt or data, then start a new run",
            )


def _texts(draft: ReceiptDraft) -> Iterator[tuple[str, str]]:
    yield "the receipt", json.dumps(json_of(draft.body), ensure_ascii=False)
    with draft.items.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            yield f"line {number} of the items file", line
