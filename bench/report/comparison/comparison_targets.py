"""Choose the jobs to compare, from ``RUN_ID:PROVIDER[:MODEL]``, whole runs, or the newest run of each provider.

Example::

    targets = [ComparisonTarget.parse("r1:bm25"), ComparisonTarget.parse("r2:chroma")]
    groups = await sides_of(Path("."), targets, benchmark=None)
    found = await newest_targets(Path("."), "locomo", ["bm25", "chroma"])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.config.builtin_providers import is_control
from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.paths import find_run
from bench.journal.results_db import JobSummary, ResultsDb
from bench.plan.job_record import JobRecord, jobs_matching, read_jobs
from bench.report.comparison.sides import Side, load_side
from bench.report.summary import RESULTS_FILE

COMPARABLE_SETTINGS = ("k", "context_budget", "selection", "dataset", "prompts", "evaluator", "epochs_reducer")
"""settings in the results database that two jobs must share to be comparable"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTarget:
    """A job to compare.

    ``job`` is the job's key if the program chose the job, and None if the user named the job.
    """

    run: str
    provider: str
    model: str | None = None
    job: str | None = None

    @classmethod
    def parse(cls, text: str) -> ComparisonTarget:
        """Parse ``RUN_ID:PROVIDER`` or ``RUN_ID:PROVIDER:ANSWERING_MODEL``.

        Raise UsageError for any other text.
        """
        run, colon, rest = text.partition(":")
        provider, _, model = rest.partition(":")
        if not (run and colon and provider):
            raise UsageError(
                f'"{text}" is not RUN_ID:PROVIDER',
                hint="write RUN_ID:PROVIDER, or use --benchmark B --providers P1 P2 for the newest results",
            )
        return cls(run=run, provider=provider, model=model or None)

    def matches(self, record: JobRecord) -> bool:
        """Return True if the target names this job."""
        if self.job is not None:
            return record.key == self.job
        return record.provider == self.provider and self.model in (None, record.models.answering)


async def sides_of(workspace: Path, targets: Sequence[ComparisonTarget], *, benchmark: str | None) -> list[list[Side]]:
    """Load the jobs that the targets name. Return one group per benchmark, with one job per target.

    A benchmark is left out if a target has no job of it. If the targets have no common benchmark, the result is one
    group with the first job of each target. The check of comparability then refuses this group.

    Raises:
        UsageError: a target names no job, or several jobs of one benchmark.
    """
    found = [await _sides_by_benchmark(workspace, target, benchmark) for target in targets]
    common = [name for name in found[0] if all(name in one for one in found)]
    if common:
        return [[one[name] for one in found] for name in common]
    return [[next(iter(one.values())) for one in found]]


def are_run_ids(pairs: Sequence[str], providers: Sequence[str]) -> bool:
    """Return True if the user gave only run ids, without providers."""
    return bool(pairs) and not providers and not any(":" in text for text in pairs)


async def sides_of_runs(workspace: Path, runs: Sequence[str], *, benchmark: str | None) -> list[list[Side]]:
    """Load the jobs of whole runs in groups to compare.

    If there are several runs, a group has the same job from each run. If there is one run, a group has all jobs of one
    benchmark.

    Raises:
        UsageError: the runs have no job in common, or the only run has one provider.
    """
    jobs = {run: await _jobs_of(workspace, run, benchmark) for run in dict.fromkeys(runs)}
    if len(jobs) > 1:
        shared = _jobs_in_all(list(jobs.values()))
        if shared:
            targets = [_exact_targets(zip(jobs, each, strict=True)) for each in shared]
            return [group for some in targets for group in await sides_of(workspace, some, benchmark=benchmark)]
        have = "; ".join(f"{run} has {_job_names(records)}" for run, records in jobs.items())
        sides = " ".join(f"{run}:{records[0].provider}" for run, records in jobs.items())
        raise UsageError(f"these runs have no job in common: {have}", hint=f"name both sides: {sides}")
    ((run, records),) = jobs.items()
    groups = [
        [one for one in records if one.benchmark == name] for name in dict.fromkeys(one.benchmark for one in records)
    ]
    several = [_without_controls(group) for group in groups if len(group) > 1]
    if not several:
        names = ", ".join(dict.fromkeys(one.provider for one in records))
        raise UsageError(
            f"run {run} has one provider only: {names}",
            hint=f"name a second run: bench compare {run} RUN_ID",
        )
    return [
        sides
        for group in several
        for sides in await sides_of(
            workspace, _exact_targets((run, one) for one in group), benchmark=group[0].benchmark
        )
    ]


async def _jobs_of(workspace: Path, run: str, benchmark: str | None) -> list[JobRecord]:
    async with Reader.open(find_run(workspace, run)) as reader:
        records = read_jobs(reader.meta.extra)
    return jobs_matching(run, [one for one in records if not one.skipped], benchmark=benchmark)


def _jobs_in_all(runs: Sequence[Sequence[JobRecord]]) -> list[list[JobRecord]]:
    """Return the jobs that every run has. Each list contains one job from each run.

    Jobs of two runs are the same if their keys are equal, or if each run has only one job of their benchmark and
    provider.
    """
    found = []
    for first in runs[0]:
        each = [_same_job(first, records, only=_jobs_of_provider(first, runs[0]) == [first]) for records in runs]
        if all(each):
            found.append([one for one in each if one is not None])
    return found


def _jobs_of_provider(job: JobRecord, records: Sequence[JobRecord]) -> list[JobRecord]:
    return [one for one in records if (one.benchmark, one.provider) == (job.benchmark, job.provider)]


def _same_job(job: JobRecord, records: Sequence[JobRecord], *, only: bool) -> JobRecord | None:
    alike = _jobs_of_provider(job, records)
    same = next((one for one in alike if one.key == job.key), None)
    return same or (alike[0] if only and len(alike) == 1 else None)


def _without_controls(records: list[JobRecord]) -> list[JobRecord]:
    """Leave out the controls (such as oracle). If fewer than two jobs would be left, return all jobs."""
    real = [one for one in records if not is_control(one.provider)]
    return real if len(real) > 1 else records


def _exact_targets(jobs: Iterable[tuple[str, JobRecord]]) -> list[ComparisonTarget]:
    """Return one target per job, with the job's key.

    If the jobs have different answering models, the target also names the model.
    """
    found = list(jobs)
    differ = len({record.models.answering for _, record in found}) > 1
    return [
        ComparisonTarget(
            run=run, provider=record.provider, model=record.models.answering if differ else None, job=record.key
        )
        for run, record in found
    ]


def _job_names(records: Sequence[JobRecord]) -> str:
    return ", ".join(dict.fromkeys(f"{one.provider} on {one.benchmark}" for one in records))


async def _sides_by_benchmark(workspace: Path, target: ComparisonTarget, benchmark: str | None) -> Mapping[str, Side]:
    async with Reader.open(find_run(workspace, target.run)) as reader, reader.snapshot():
        records = read_jobs(reader.meta.extra)
        fitting = [one for one in records if target.matches(one) and benchmark in (None, one.benchmark)]
        if not fitting:
            jobs = ", ".join(f"{one.benchmark} x {one.provider}" for one in records) or "none"
            wanted = f"{benchmark} x {target.provider}" if benchmark else target.provider
            raise UsageError(f"run {target.run} has no job {wanted}", hint=f"jobs of this run: {jobs}")
        _refuse_several(target, fitting)
        named = target.model is not None
        return {one.benchmark: await load_side(reader, one, named_model=named) for one in fitting}


def _refuse_several(target: ComparisonTarget, records: Sequence[JobRecord]) -> None:
    names = [one.benchmark for one in records]
    if len(set(names)) < len(names):
        models = dict.fromkeys(one.models.answering or "none" for one in records)
        judges = dict.fromkeys(one.models.judge or "none" for one in records)
        raise UsageError(
            f"run {target.run} has several jobs of {target.provider}: "
            f"answering models {', '.join(models)}; judges {', '.join(judges)}",
            hint=f"name the model: {target.run}:{target.provider}:{next(iter(models))}"
            if len(models) > 1
            else "compare runs that have one judge each",
        )


async def parse_targets(
    workspace: Path, pairs: Sequence[str], *, benchmark: str | None, providers: Sequence[str]
) -> list[tuple[ComparisonTarget, JobSummary | None]]:
    """Return the jobs to compare, each with its summary.

    Each text ``RUN_ID:PROVIDER`` in ``pairs`` is one job, and its summary is None. If ``pairs`` is empty, the result
    is the newest job of each provider in ``providers``.

    Raises:
        UsageError: ``pairs`` and ``providers`` are both given or both empty, there are fewer than two jobs, or a
            provider has no result.
    """
    hint = "write RUN_ID:PROVIDER RUN_ID:PROVIDER, or use --benchmark B --providers P1 P2"
    if pairs and providers:
        raise UsageError("RUN_ID:PROVIDER and --providers cannot be used together", hint="give one of them")
    if not pairs and not (providers and benchmark):
        raise UsageError("no sides to compare were given", hint=hint)
    if len(pairs or set(providers)) < 2:
        raise UsageError("a comparison needs two sides", hint="name a second side")
    if pairs:
        return [(ComparisonTarget.parse(text), None) for text in pairs]
    return [(target, job) for target, job in await newest_targets(workspace, benchmark or "", providers)]


async def newest_targets(
    workspace: Path, benchmark: str, providers: Sequence[str]
) -> list[tuple[ComparisonTarget, JobSummary]]:
    """Return the newest complete valid job of each provider.

    If possible, the jobs share the settings that make them comparable.

    Raises:
        UsageError: the workspace has no results, or a provider has no such job.
    """
    path = workspace / "results" / RESULTS_FILE
    if not path.is_file():
        raise UsageError(
            "this workspace has no results yet",
            hint="start a run with: bench run; read existing journals with: bench results --rebuild",
        )
    async with ResultsDb.open(path) as database:
        jobs = await database.newest(benchmark)
    by_provider = {name: [job for job in jobs if job.provider == name] for name in providers}
    for name, found in by_provider.items():
        if not found:
            known = ", ".join(dict.fromkeys(job.provider for job in jobs)) or "none"
            raise UsageError(
                f"provider {name} has no complete valid run of {benchmark}",
                hint=f"providers with such a run: {known} (read the journals again with: bench results --rebuild)",
            )
    chosen = _newest_comparable(list(by_provider.values()))
    return [(ComparisonTarget(run=job.run_id, provider=job.provider, job=job.job), job) for job in chosen]


def _newest_comparable(by_provider: Sequence[Sequence[JobSummary]]) -> list[JobSummary]:
    """Return the newest job of each provider, if possible with settings that all providers share.

    If the providers share several sets of settings, each set gives one job per provider. The set whose oldest job is
    most recent is used.
    """
    shared = set.intersection(*({_comparable_settings(job) for job in jobs} for jobs in by_provider))
    if not shared:
        return [max(jobs, key=_creation) for jobs in by_provider]
    sets = [
        [max((j for j in jobs if _comparable_settings(j) == one), key=_creation) for jobs in by_provider]
        for one in sorted(shared)
    ]
    return max(sets, key=lambda jobs: min(map(_creation, jobs)))


def _creation(job: JobSummary) -> tuple[datetime, str]:
    return job.created_at, job.run_id


def _comparable_settings(job: JobSummary) -> tuple[str, ...]:
    """Return the settings that comparable jobs must share, as far as the results database has them."""
    shared = {name: job.data.get(name) for name in COMPARABLE_SETTINGS}
    return (str(job.answering_model), str(job.judge_model), job.track, json.dumps(shared, sort_keys=True))
