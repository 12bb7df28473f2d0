"""Build the report of a run: compute counts, metrics and notes from its journal.

The report uses the newest scores in the journal. A receipt computes its totals separately
(``bench/receipt/totals.py``), so that an error in one of the two computations is detected::

    report = await fold(reader, by=("speaker",))
    report.job("demo", "bm25").valid
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from bench.errors import UsageError
from bench.journal import Event, ProbeRow, Reader, RunState
from bench.journal.records import ErrorCount, HitCounts, UsageTotals
from bench.metrics.aggregation import ONE_CLUSTER
from bench.metrics.fold import DIMENSIONS
from bench.metrics.fold import fold as fold_metrics
from bench.metrics.fold_input import FoldRow, FoldTable, JobFacts
from bench.metrics.overlay import GoldScores
from bench.metrics.protocol import Measure
from bench.model import FAILED_STATES, SCORED_STATES, Measurement, State
from bench.plan.job_record import JobRecord, jobs_matching, read_jobs
from bench.plan.leftover_namespaces import NOT_CLEARED, unresolved_events
from bench.plan.ranges import gaps_of
from bench.plan.shared_builds import BUILD, REUSED
from bench.plan.stored_builds import BuildTotals
from bench.plan.validity import (
    JudgeCalibration,
    calibrations,
    deciding_probes,
    invalid_reasons,
    missing_verdicts,
    probe_text,
    same_family_note,
    useless_judge,
)
from bench.report.job_data import (
    OutcomeCounts,
    cutoff_notes,
    job_facts,
    open_measures,
    read_items,
    version_notes,
)
from bench.report.job_notes import answer_notes, event_notes, gold_notes, gold_scores, timeout_notes
from bench.report.judges.review import read_review
from bench.report.memory_cost import MemoryCost, read_memory_cost
from bench.report.replies import reply_notes
from bench.report.sanity import WarningSign, sanity_signs
from bench.report.searches import flag_notes, probe_notes, unmapped_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationProof:
    """The results of the isolation checks of a lane.

    The checks show whether a new namespace is empty, and whether a search finds memories of another corpus.
    """

    level: str
    probed: int = 0
    passed: int = 0
    failed: int = 0
    sentinels: int = 0
    """number of corpora in which a search found a stored memory after the ingest"""
    not_cleared: int = 0
    leaks: tuple[str, ...] = ()
    """one sentence per failed check, with the corpora and namespaces if they are known"""
    hits: int = 0
    """number of hits; 0 if the provider's hits cannot be mapped to memories"""
    unmapped_hits: int = 0
    """number of hits that match no memory of the searched corpus"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The results of one job: its plan, the states of its items, and its metrics."""

    record: JobRecord
    n_planned: int
    """number of planned items; an item counts once, even if it has several repeats"""
    counts: Mapping[State, int]
    failed_repeats: int
    """number of failed repeats of items, including repeats of items that succeeded in another repeat"""
    error_kinds: Mapping[str, int]
    metrics: Mapping[str, Measurement]
    spent: Mapping[str, Mapping[str, UsageTotals]]
    """owner of journal rows (a lane, its answers, or a job) -> role -> totals of the calls; several jobs can share an
    owner
    """
    isolation: IsolationProof
    gold: Mapping[str, GoldScores] = field(default_factory=dict)
    """metric -> score with and without doubtful gold answers; empty if the benchmark has no overlay"""
    invalid: tuple[str, ...] = ()
    """reasons why the job is INVALID and has no headline number; empty for a valid job"""
    commonest: ErrorCount | None = None
    """the most common error of a job that is INVALID; None for a valid job"""
    notes: tuple[str, ...] = ()
    signs: tuple[WarningSign, ...] = ()
    """suspicious properties that many items share; their texts are also in ``notes``"""
    calibration: tuple[JudgeCalibration, ...] = ()
    """error rates of the job's judge on the built-in test questions, one entry per judge prompt; empty if not
    measured
    """
    reused: Mapping[str, object] = field(default_factory=dict)
    """data on the run that ingested the corpora, with the cost of the ingest; empty if this run ingested the corpora"""
    memory_cost: MemoryCost | None = None
    """cost of building the memory and of each question; None if nothing was searched"""

    @property
    def usage(self) -> dict[str, UsageTotals]:
        """Role -> calls and tokens of the job.

        Calls that several jobs share are counted in full for each of them.
        """
        return usage_by_role(self.spent)

    @property
    def n_ended(self) -> int:
        return sum(self.counts.values())

    @property
    def n_pending(self) -> int:
        return max(0, self.n_planned - self.n_ended)

    @property
    def n_scored(self) -> int:
        return sum(self.counts.get(state, 0) for state in SCORED_STATES)

    @property
    def valid(self) -> bool:
        return not self.invalid

    @property
    def headline(self) -> Measurement | None:
        """The measurement that ranks the job: the benchmark's first metric with a value, or the first metric.

        None if the job is INVALID or has no metrics.
        """
        found = list(self.metrics.values()) if self.valid else []
        return next((one for one in found if one.n), found[0] if found else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run in its current state."""

    run_id: str
    status: RunState
    reason: str
    plan_digest: str
    gaps: tuple[tuple[int, int], ...]
    """(first, last) item positions, counted from 1, that the run does not cover"""
    jobs: tuple[JobReport, ...]
    notes: tuple[str, ...] = ()
    stored: bool = True
    """False if the journal is deleted after the report is shown, so that no later command can read the run"""

    @property
    def partial(self) -> bool:
        """True if the run is not complete, so that its numbers can still change."""
        return self.status is not RunState.COMPLETE

    def job(self, benchmark: str, provider: str) -> JobReport:
        """Return the first job of a benchmark and provider; raise UsageError if there is none."""
        for one in self.jobs:
            if (one.record.benchmark, one.record.provider) == (benchmark, provider):
                return one
        raise UsageError(
            f"run {self.run_id} has no job {benchmark} x {provider}",
            hint="list the jobs of the run with: bench results RUN_ID",
        )


def usage_by_role(spent: Mapping[str, Mapping[str, UsageTotals]]) -> dict[str, UsageTotals]:
    """Return role -> totals over all owners of calls. An owner is a lane, its answers, or a job."""
    found: dict[str, UsageTotals] = {}
    for by_role in spent.values():
        for role, one in by_role.items():
            found[role] = found.get(role, UsageTotals()) + one
    return found


async def fold(reader: Reader, *, by: Sequence[str] = (), benchmark: str | None = None) -> Report:
    """Aggregate the rows of a journal into a report.

    ``benchmark`` restricts the jobs. ``by`` adds item properties by which the metrics are broken down.

    Raises:
        UsageError: a property in ``by`` is unknown to all items, or no job has this benchmark.
    """
    async with reader.snapshot():
        return await _fold(reader, by=by, benchmark=benchmark)


async def _fold(reader: Reader, *, by: Sequence[str], benchmark: str | None) -> Report:
    status = await reader.status()
    events = await reader.events()
    standing = await unresolved_events(reader, events)
    jobs = []
    every = read_jobs(reader.meta.extra)
    for record in jobs_matching(reader.meta.run_id, every, benchmark=benchmark) if benchmark else every:
        scoped = [event for event in standing if event.scope in (record.build, record.lane, record.key)]
        uncleared = sum(event.kind == NOT_CLEARED for event in standing if event.scope == record.build)
        jobs.append(await _fold_job(reader, record, events, by=by, standing=scoped, uncleared=uncleared))
    _refuse_unknown_dimension(jobs, by)
    return Report(
        run_id=reader.meta.run_id,
        status=status.state,
        reason=status.reason,
        plan_digest=reader.meta.plan_digest,
        gaps=gaps_of(reader.meta.ranges, reader.meta.total),
        jobs=tuple(_with_level_notes(jobs)),
    )


def _with_level_notes(jobs: Sequence[JobReport]) -> Iterator[JobReport]:
    """Yield all jobs. Add a note to each job whose retrieval metrics are not comparable with those of another job.

    Retrieval metrics are not comparable if the jobs find evidence on different levels (turn, session or text).
    """
    for job in jobs:
        others = [
            other.record
            for other in jobs
            if other.record.benchmark == job.record.benchmark and other.record.level != job.record.level
        ]
        if not others or all(one.category != "retrieval" for one in job.record.metrics):
            yield job
            continue
        names = ", ".join(dict.fromkeys(other.provider for other in others))
        levels = ", ".join(dict.fromkeys(other.level for other in others))
        note = (
            f"evidence is found by {job.record.level}, but for {names} by {levels}: these retrieval metrics are "
            "not comparable; "
            "give ingest.unit of both configs the same value"
        )
        yield replace(job, notes=(*job.notes, note))


async def _fold_job(
    reader: Reader,
    record: JobRecord,
    events: Sequence[Event],
    *,
    by: Sequence[str],
    standing: Sequence[Event],
    uncleared: int,
) -> JobReport:
    metrics, notes = open_measures(record)
    counts, rows = await read_items(reader, record, metrics)
    spent = {owner: await reader.spent(owner) for owner in record.owners}
    totals = BuildTotals(_newest_event_data(events, BUILD, record.build))
    probes, facts = await reader.probes(record.build), await job_facts(reader, record, spent, totals)
    reused = _newest_event_data(events, REUSED, record.build)
    repeats = await repeats_of(reader, record, counts)
    cost = await read_memory_cost(reader, record, totals, reused=reused, n_correct=repeats.get(State.CORRECT, 0))
    hits = await reader.hit_counts(record.lane)
    proof = isolation_proof(reader, hits, probes, uncleared)
    measured = _fold_metrics(record, metrics, rows, facts, by)
    invalid = await job_invalid_reasons(reader, record, counts, probes, repeats)
    gold, signs = await gold_scores(reader, record, metrics), await sanity_signs(reader, record, facts)
    return JobReport(
        record=record,
        gold=gold,
        n_planned=record.n_selected,
        counts=counts.states,
        failed_repeats=_n_failed(repeats),
        error_kinds=counts.error_kinds,
        metrics=measured,
        spent=spent,
        memory_cost=cost,
        reused=reused,
        isolation=proof,
        invalid=invalid,
        signs=tuple(signs),
        commonest=next(iter(await reader.error_counts(record.key)), None) if invalid else None,
        calibration=tuple(calibrations(events, record)),
        notes=(
            *event_notes(standing, counts.error_kinds, pending=sum(counts.states.values()) < record.n_selected),
            *timeout_notes(usage_by_role(spent)),
            *version_notes(events, record),
            *record.prompt_leaks,
            *_build_notes(record),
            *record.data_notes,
            *unmapped_notes(proof.hits, proof.unmapped_hits),
            *probe_notes(probes),
            *flag_notes(hits),
            *_repeat_notes(record, _n_failed(repeats)),
            *(note for note in await judge_notes(reader, record, repeats) if not any(note in why for why in invalid)),
            *await answer_notes(reader, record, counts.error_kinds),
            *await reply_notes(reader, record),
            *(one.text for one in signs),
            *_cluster_notes(measured.values()),
            *cutoff_notes(record, facts, metrics),
            *notes,
            *gold_notes(gold),
            *([record.skipped] if record.skipped else []),
        ),
    )


def _fold_metrics(
    record: JobRecord, metrics: Sequence[Measure], rows: FoldTable | list[FoldRow], facts: JobFacts, by: Sequence[str]
) -> Mapping[str, Measurement]:
    return fold_metrics(
        metrics,
        rows,
        job=facts,
        by=(*DIMENSIONS, *by),
        clustered=record.cluster_by is not None,
        epochs=record.epochs,
        epochs_reducer=record.epochs_reducer,
        seed=record.seed,
    )


def _newest_event_data(events: Sequence[Event], kind: str, scope: str) -> Mapping[str, object]:
    return next((event.data for event in reversed(events) if (event.kind, event.scope) == (kind, scope)), {})


def _build_notes(record: JobRecord) -> tuple[str, ...]:
    if record.n_sharing == 1:
        return ()
    return (
        f"build {record.build} (shared): one ingest is used by {record.n_sharing} searches; it was paid once, but "
        "cost_ingest and cost_total of each search include it completely",
    )


async def repeats_of(reader: Reader, record: JobRecord, counts: OutcomeCounts) -> Mapping[State, int]:
    """Return state -> number of item repeats in this state.

    If items are not repeated in epochs, each item has one repeat.
    """
    return counts.states if record.epochs == 1 else await reader.states(record.key)


async def job_invalid_reasons(
    reader: Reader, record: JobRecord, counts: OutcomeCounts, probes: Sequence[ProbeRow], repeats: Mapping[State, int]
) -> tuple[str, ...]:
    """Return the reasons why a job is INVALID and has no headline number; empty for a valid job."""
    events = await reader.events()
    return invalid_reasons(
        repeats,
        counts.error_kinds,
        record.n_repeats,
        _max_error_rate(reader),
        probes,
        epochs=record.epochs,
        unscored=await reader.missing_verdicts(record.key),
        useless_judge=useless_judge(calibrations(events, record), record),
    )


async def judge_notes(reader: Reader, record: JobRecord, repeats: Mapping[State, int]) -> list[str]:
    """Return notes on a job's judge; [] if the job has no judge.

    There can be notes on a judge of the same model family as the answering model, on missing verdicts, on error rates
    from built-in test questions, and on labels by people.
    """
    judge = record.models.judge
    if judge in (None, "none"):
        return []
    events = await reader.events()
    missing = missing_verdicts(await reader.missing_verdicts(record.key), repeats, record.n_repeats)
    same, reviewed = same_family_note(record.models.answering, judge), await read_review(reader, record)
    measured = [one.text(str(judge)) for one in calibrations(events, record)]
    return [*filter(None, (same, missing)), *measured, *([reviewed.text] if reviewed is not None else [])]


def _cluster_notes(measured: Iterable[Measurement]) -> list[str]:
    """Return a note if an interval is based on a single conversation; else an empty list."""
    alone = (one.interval.method for one in measured if one.interval is not None and ONE_CLUSTER in one.note)
    return [f"{ONE_CLUSTER} ({method})" for method in islice(alone, 1)]


def _n_failed(states: Mapping[State, int]) -> int:
    return sum(states.get(state, 0) for state in FAILED_STATES)


def _repeat_notes(record: JobRecord, failed: int) -> tuple[str, ...]:
    """Return a note with the number of failed repeats of items. Return () if no repeat failed or items are not
    repeated.
    """
    if record.epochs == 1 or not failed:
        return ()
    return (f"{failed} of {record.n_repeats} repeats failed; an item counts as failed if all of its repeats failed",)


def _max_error_rate(reader: Reader) -> float:
    """Return the share of failed items above which a job is INVALID.

    The value is the setting of the run's last process.
    """
    latest = reader.resumes[-1].data.get("operation") if reader.resumes else None
    settings = {**reader.meta.request, **(latest if isinstance(latest, Mapping) else {})}
    return float(str(settings.get("max_error_rate", 0.02)))


def isolation_proof(reader: Reader, counts: HitCounts, probes: Sequence[ProbeRow], uncleared: int) -> IsolationProof:
    """Count the passed and failed isolation checks of a job's lane."""
    checks = deciding_probes(probes)
    return IsolationProof(
        level=str(reader.meta.request.get("isolation", "probe")),
        probed=len(checks),
        passed=sum(probe.passed for probe in checks),
        failed=sum(not probe.passed for probe in checks),
        sentinels=sum(probe.passed for probe in probes if probe.kind == "sentinel"),
        not_cleared=uncleared,
        leaks=tuple(probe_text(probe) for probe in checks if not probe.passed),
        hits=max(counts.hits, counts.unmapped),
        unmapped_hits=counts.unmapped,
    )


def _refuse_unknown_dimension(jobs: Sequence[JobReport], by: Sequence[str]) -> None:
    known = {name for job in jobs for measured in job.metrics.values() for name in measured.breakdown}
    for dimension in by:
        if dimension not in known:
            raise UsageError(
                f'no item has the dimension "{dimension}"',
                hint=f"dimensions of this run: {', '.join(sorted(known)) or 'none'}",
            )
