"""Build the evidence sheet of a run or receipt: 19 facts that a reviewer needs.

Example::

    for sheet in await run_sheets(reader, Catalog.load(folder)):
        sheet.known, sheet.missing                   # 16, 3
    receipt_sheet(verify_file(path, request), path)

An unknown fact is listed as missing, with the step that makes it known. No provider or model is called.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.canonical import JSON
from bench.config.catalog import Catalog
from bench.journal import Reader
from bench.journal.pages import sampled_times
from bench.journal.paths import report_folder
from bench.metrics.latency import attempt_us
from bench.model import Phase, State
from bench.plan.job_record import JobRecord, jobs_matching
from bench.plan.validity import is_judged
from bench.report.cost_text import cost_sentence, usd_text
from bench.report.fold import JobReport, fold
from bench.report.job_data import job_facts, reported_versions
from bench.report.memory_cost import ContextSize, MemoryCost
from bench.report.tables import Grid, job_texts, models_text, number, with_interval
from bench.stats import percentile
from bench.visible_text import counted

FACTS = (
    "dataset", "items", "score", "memory system", "configs", "answer prompt", "prompt check", "judge prompt", "k",
    "context share", "models", "judge error", "isolation", "readiness", "failures", "cost of build", "cost per query",
    "repeats", "signature",
)  # fmt: skip
NO_PRICE = "the price of some calls; set prices in the run file"
NO_SIZE = "the share, because the size of the corpora is not known"
ABSTENTION = "judge.abstention"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFact:
    """One fact. ``missing`` describes what is unknown and the step that would find it; "" if nothing is unknown."""

    name: str
    value: str = ""
    missing: str = ""

    @property
    def text(self) -> str:
        """The fact as text for a table: first what is missing, then the known value."""
        return "; known: ".join(filter(None, (f"missing: {self.missing}" if self.missing else "", self.value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSheet:
    """The facts of one job that a reviewer needs."""

    source: str
    benchmark: str
    provider: str
    facts: tuple[EvidenceFact, ...]
    job: str = ""
    """text that distinguishes this job from the other jobs of the run: its provider and the models that differ; "" for
    a receipt
    """

    @property
    def known(self) -> int:
        """The number of facts that are completely known."""
        return sum(not fact.missing for fact in self.facts)

    @property
    def missing(self) -> int:
        """The number of facts that are not completely known."""
        return len(self.facts) - self.known

    def to_json(self) -> dict[str, JSON]:
        """Return the sheet as JSON, as ``bench sheet --json`` prints it."""
        return {
            "source": self.source,
            "benchmark": self.benchmark,
            "provider": self.provider,
            "n_known": self.known,
            "n_missing": self.missing,
            "facts": [
                {"name": one.name, "known": not one.missing, "value": one.value or None, "missing": one.missing or None}
                for one in self.facts
            ],
        }

    def grid(self) -> Grid:
        """Return the sheet as a table."""
        rows = [(str(at), fact.name, fact.text) for at, fact in enumerate(self.facts, 1)]
        return Grid(
            title=f"Evidence sheet: {self.benchmark} x {self.job or self.provider}, {self.source}",
            head=("", "fact", "value"),
            rows=tuple(rows),
            right=(0,),
            notes=(f"{self.known} of {len(self.facts)} facts are known, {counted(self.missing, '(is|are) missing')}",),
        )


def sheet_of(
    source: str, benchmark: str, provider: str, facts: Mapping[str, tuple[str, str]], *, job: str = ""
) -> EvidenceSheet:
    """Return a sheet with the facts in the order of ``FACTS``; ``facts`` maps name -> (value, what is missing)."""
    listed = tuple(EvidenceFact(name=name, value=facts[name][0], missing=facts[name][1]) for name in FACTS)
    return EvidenceSheet(source=source, benchmark=benchmark, provider=provider, facts=listed, job=job)


def fact(value: str | None, missing: str, lacks: str = "") -> tuple[str, str]:
    """Return (value, what is missing) for one fact of a sheet.

    The result is (``value``, ``lacks``) if ``value`` is not empty. Otherwise it is ("", ``missing``).
    """
    return (value, lacks) if value else ("", missing)


# ------------------------------------------------------------------------------ of a run


async def run_sheets(
    reader: Reader, catalog: Catalog, *, benchmark: str | None = None, provider: str | None = None
) -> list[EvidenceSheet]:
    """Return one sheet for each job of a run; ``benchmark`` and ``provider`` select jobs, None = all.

    Raises:
        UsageError: no job matches.
    """
    report = await fold(reader, benchmark=benchmark)
    chosen = jobs_matching(report.run_id, [job.record for job in report.jobs], provider=provider)
    named = zip(report.jobs, job_texts(report.jobs), strict=True)
    return [await _job_sheet(reader, catalog, report.run_id, job, name) for job, name in named if job.record in chosen]


async def _job_sheet(reader: Reader, catalog: Catalog, run_id: str, job: JobReport, name: str) -> EvidenceSheet:
    record = job.record
    facts = {
        **_plan_facts(record),
        **_outcome_facts(job),
        "context share": _share_of_job(job),
        "memory system": await _system_fact(reader, record),
        **await _cost_facts(reader, job),
        "signature": fact(_signatures(catalog.workspace, run_id, record), f"bench sign {run_id}"),
    }
    return sheet_of(f"run {run_id}", record.benchmark, record.provider, facts, job=name)


def _plan_facts(record: JobRecord) -> dict[str, tuple[str, str]]:
    """Return the facts that are known from the plan of a job, before its first call."""
    answering = record.models.answering is not None
    prompts = {role: _prompts(record, role) for role in ("answer", "judge")}
    digest = str(record.dataset.get("sha256") or "")
    data = f"{record.benchmark} {record.benchmark_version}, sha256 {digest}"
    return {
        "dataset": fact(data if digest else "", "no digest"),
        "configs": fact(
            ", ".join(f"{name} sha256 {value}" for name, value in sorted(record.config_sha256.items())), "no digest"
        ),
        "answer prompt": fact(prompts["answer"] if answering else "no model answers", "no digest"),
        "judge prompt": fact(prompts["judge"] if is_judged(record) else "no judge: scored by rule", "no digest"),
        "prompt check": ("; ".join(record.prompt_leaks) or "contains neither the gold answer nor question type", ""),
        "k": (str(record.k), ""),
        "models": (models_text(record.models), ""),
    }  # fmt: skip


def _prompts(record: JobRecord, role: str) -> str:
    return prompts_text((name, value) for name, value in record.prompts.items() if name.startswith(f"{role}."))


def prompts_text(prompts: Iterable[tuple[str, str]]) -> str:
    """Format prompts as text, with the default prompt first. Each prompt is (role.name, SHA-256)."""
    ordered = sorted(prompts, key=lambda one: (not one[0].endswith(".default"), one))
    return ", ".join(
        f"{name.partition('.')[2]} sha256 {value}"
        + (" (of questions without an answer in the data)" if name == ABSTENTION else "")
        for name, value in ordered
    )


def _share_of_job(job: JobReport) -> tuple[str, str]:
    record, size = job.record, None if job.memory_cost is None else job.memory_cost.context
    if record.models.answering is None:
        return "no model answers", ""
    return share_fact(size, record.context_budget, "this run has no answer")


def share_fact(size: ContextSize | None, budget: int | None, missing: str) -> tuple[str, str]:
    """Return the fact "context share": what the answering model read, and its context budget in tokens."""
    text = context_text(size) + (f", budget {budget} tokens" if size is not None and budget else "")
    return fact(text, missing, NO_SIZE if size is not None and size.share is None else "")


def context_text(size: ContextSize | None) -> str:
    """Format the mean share of the corpus and the mean number of tokens in the context of a question.

    The result is "" if ``size`` is None.
    """
    if size is None:
        return ""
    shown = f"{size.tokens / size.answers:.0f} tokens of context per question"
    corpora = counted(size.corpora, "corp(us|ora)")
    return shown if size.share is None else f"{size.share:.1%} of the corpus, {shown} ({corpora})"


def _outcome_facts(job: JobReport) -> dict[str, tuple[str, str]]:
    """Return the facts about items, scores, judge, isolation, failures and repeats of a job."""
    record, proof, headline = job.record, job.isolation, job.headline
    states = ", ".join(f"{count} {state}" for state, count in sorted(job.counts.items()))
    spread = None if headline is None or headline.spread is None else f", spread within an item {headline.spread:.4f}"
    checks = (
        f"level {proof.level}, {proof.passed} of {counted(proof.probed, 'check(|s)')} passed, "
        f"{counted(proof.sentinels, 'sentinel(|s)')} found"
    )
    return {
        "items": (f"{job.n_planned} planned, {job.n_scored} scored, {job.n_pending} pending", ""),
        "score": fact(
            None if headline is None else f"{headline.definition} {with_interval(headline)}, n {headline.n}",
            "; ".join(job.invalid) or "no metric has a value",
        ),
        "judge error": _judge_error(job),
        "isolation": fact(checks if proof.probed else None, "no namespace was probed; use --isolation probe"),
        "failures": (_failure_text(states, job), ""),
        "repeats": fact(
            f"{record.epochs} per item, reduced by {record.epochs_reducer}{spread or ''}" if record.epochs > 1 else "",
            "each item ran once; use --epochs 3",
        ),
    }


def _failure_text(states: str, job: JobReport) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(job.error_kinds.items()))
    zero = None if job.headline is None else job.headline.value_failures_as_zero
    return f"{states or 'nothing has ended'}; errors: {kinds or 'none'}; score with failures as 0: {number(zero)}"


def _judge_error(job: JobReport) -> tuple[str, str]:
    if not is_judged(job.record):
        return "no judge: scored by rule", ""
    texts = [one.text(str(job.record.models.judge)) for one in job.calibration]
    texts += [note for note in job.notes if note.startswith("human review, ")]
    return fact("; ".join(texts), "the judge was not measured; use --judge-calibration or bench review RUN --n 50")


async def _system_fact(reader: Reader, record: JobRecord) -> tuple[str, str]:
    named = " and ".join(reported_versions(await reader.events(), record))
    kind = f"{record.provider} ({record.provider_type})"
    return fact(f"{kind} {named}" if named else "", "no version was reported; set version in the provider's config")


async def _cost_facts(reader: Reader, job: JobReport) -> dict[str, tuple[str, str]]:
    """Return the facts about the cost of ingest, the time until memories are searchable, and the cost per query."""
    record, cost = job.record, job.memory_cost
    facts = await job_facts(reader, record, {owner: await reader.spent(owner) for owner in record.owners})
    ready = sorted(one.times_us["searchable"] for one in facts.corpora if "searchable" in one.times_us)
    not_ready = job.counts.get(State.NOT_READY, 0)
    _, sample = await sampled_times(reader, record.lane, Phase.SEARCH)
    return {
        "cost of build": fact(build_cost_text(cost), "no corpus was ingested", build_lacks(cost)),
        "readiness": fact(
            f"{counted(len(ready), '(corpus was|corpora were)')} found searchable, the slowest after "
            f"{ready[-1] / 1e6:.2f} s; "
            f"{counted(not_ready, 'item(|s)')} not ready" if ready else "",
            "no time from the last add to searchable was measured",
        ),
        "cost per query": fact(
            _search_text(sample) + query_cost_text(cost, valid=job.valid), "no search has ended", query_lacks(cost)
        ),
    }  # fmt: skip


def build_cost_text(cost: MemoryCost | None) -> str:
    """Format the size and the price of the ingested memories; "" if nothing was ingested.

    If this job did not pay the whole price, the text also names the run that paid.
    """
    if cost is None or not (cost.build.corpora or cost.build.memories):
        return ""
    build, price = cost.build, cost.build.price
    number_of = "corpora" if build.corpora is None else counted(build.corpora, "corp(us|ora)")
    ours = f"{build.paid.calls} of the calls" if build.paid.calls else "none of the calls"
    paid = "" if build.paid == price else f"; paid by {build.lane} of run {build.paid_by}, this job paid {ours}"
    name = "" if build.fingerprint is None else f"; fingerprint {build.fingerprint}"
    return (
        f"{number_of}, {counted(build.memories, 'memor(y|ies)')}, {price.time_us / 1e6:.2f} s in all, "
        f"{counted(price.calls, 'call(|s)')}, "
        f"{counted(price.tokens, 'token(|s)')}, {usd_text([(price, 1)])}{paid}{name}"
    )


def _search_text(sample: Sequence[Mapping[str, int]]) -> str:
    times = [us for one in sample if (us := attempt_us(one)) is not None]
    p50, p95 = ((percentile(times, p) or 0) / 1000 for p in (50, 95))
    return f"search p50 {p50:.2f} ms, p95 {p95:.2f} ms; " if times else ""


def query_cost_text(cost: MemoryCost | None, *, valid: bool = True) -> str:
    """Format the cost of one question as text. If it cannot be computed, format the cost of all questions.

    The text is "" if ``cost`` is None.

    The cost per correct answer and the break-even number of questions are added if they are known and the job is valid.
    """
    if cost is None:
        return ""
    query, each = cost.query, cost_sentence(cost) if valid else ""
    whole = f"for the searches and answers of {counted(query.questions, 'question(|s)')}"
    price = (
        f"{usd_text(query.parts)} for search and answer" if query.parts else f"{usd_text([(query.totals, 1)])} {whole}"
    )
    return "; ".join(filter(None, (price, each)))


def build_lacks(cost: MemoryCost | None) -> str:
    """Return what is missing in the cost of the ingest, such as a price; "" if nothing is missing."""
    return NO_PRICE if cost is not None and cost.build.price.usd is None else ""


def query_lacks(cost: MemoryCost | None) -> str:
    """Return what is missing in the cost of a question, such as a price; "" if nothing is missing."""
    return NO_PRICE if cost is not None and cost.query.totals.usd is None else ""


def _signatures(workspace: Path, run_id: str, record: JobRecord) -> str:
    """List the receipts of this job and the keys that signed them, as text; "" if there is no receipt."""
    found = []
    for path in sorted((report_folder(workspace / "results", run_id) / "receipts").glob("*.json")):
        try:
            receipt = json.loads(path.read_text(encoding="utf-8"))
            mine = (receipt["benchmark"]["name"], receipt["provider"]["name"]) == (record.benchmark, record.provider)
            if mine:
                found.append(f"receipt {receipt['receiptId']} by key {receipt['signer']['publicKeyFingerprint']}")
        except (ValueError, KeyError, TypeError, OSError):
            continue
    return "; ".join(found)
