"""Which jobs a comparison means: ``RUN_ID:PROVIDER[:MODEL]``, or the newest run of each provider by name.

Example::

    groups = await sides_of(Path("."), [Target.parse("r1:bm25"), Target.parse("r2:chroma")], benchmark=None)
    targets = await newest_targets(Path("."), "locomo", ["bm25", "chroma"])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.errors import UsageError
from bench.journal import Reader
from bench.journal.places import find_run
from bench.journal.results_db import JobSummary, ResultsDb
from bench.plan.record import JobRecord, read
from bench.report.sides import Side, load_side
from bench.report.summary import FILE

SHARED = ("k", "context_budget", "selection", "dataset", "prompts")
"""what the derived database knows of a job's settings"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One side as it was named; ``job`` is known where the derived database chose it."""

    run: str
    provider: str
    model: str | None = None
    job: str | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``RUN_ID:PROVIDER`` or ``RUN_ID:PROVIDER:ANSWERING_MODEL``; UsageError for anything else."""
        run, colon, rest = text.partition(":")
        provider, _, model = rest.partition(":")
        if not (run and colon and provider):
            raise UsageError(
                f'"{text}" names no job', hint="write RUN_ID:PROVIDER, or --benchmark B --providers P P for the newest"
            )
        return cls(run=run, provider=provider, model=model or None)

    def fits(self, record: JobRecord) -> bool:
        """The record is what was named."""
        if self.job is not None:
            return record.key == self.job
        return record.provider == self.provider and self.model in (None, record.models.answering)


async def sides_of(workspace: Path, targets: Sequence[Target], *, benchmark: str | None) -> list[list[Side]]:
    """Load the named jobs, a group a benchmark that all of them have.

    A target that names several jobs of one benchmark is refused; targets without a common benchmark are one group,
    which the like-for-like check then refuses.
    """
    found = [await _benchmarks_of(workspace, target, benchmark) for target in targets]
    common = [name for name in found[0] if all(name in one for one in found)]
    if common:
        return [[one[name] for one in found] for name in common]
    return [[next(iter(one.values())) for one in found]]


async def _benchmarks_of(workspace: Path, target: Target, benchmark: str | None) -> Mapping[str, Side]:
    async with Reader.open(find_run(workspace, target.run)) as reader, reader.snapshot():
        records = read(reader.meta.extra)
        fitting = [one for one in records if target.fits(one) and benchmark in (None, one.benchmark)]
        if not fitting:
            jobs = ", ".join(f"{one.benchmark} x {one.provider}" for one in records) or "none"
            wanted = f"{benchmark} x {target.provider}" if benchmark else target.provider
            raise UsageError(f"run {target.run} has no job {wanted}", hint=f"its jobs: {jobs}")
        _refuse_several(target, fitting)
        named = target.model is not None
        return {one.benchmark: await load_side(reader, one, named_model=named) for one in fitting}


def _refuse_several(target: Target, records: Sequence[JobRecord]) -> None:
    names = [one.benchmark for one in records]
    if len(set(names)) < len(names):
        models = dict.fromkeys(str(one.models.answering) for one in records)
        judges = dict.fromkeys(str(one.models.judge) for one in records)
        raise UsageError(
            f"run {target.run} has several jobs of {target.provider}: "
            f"answering models {', '.join(models)}; judges {', '.join(judges)}",
            hint=f"name the model: {target.run}:{target.provider}:{next(iter(models))}",
        )


# ---------------------------------------------------------------------------- by name


async def chosen_targets(
    workspace: Path, pairs: Sequence[str], *, benchmark: str | None, providers: Sequence[str]
) -> list[tuple[Target, JobSummary | None]]:
    """Read what was asked for: RUN_ID:PROVIDER each, or providers by name with the job that was chosen for each.

    Raises:
        UsageError: neither or both of them, fewer than two sides, or a name of which nothing is known.
    """
    hint = "RUN_ID:PROVIDER RUN_ID:PROVIDER, or --benchmark B --providers P P"
    if pairs and providers:
        raise UsageError("RUN_ID:PROVIDER and --providers name the same thing", hint="give one of them")
    if not pairs and not (providers and benchmark):
        raise UsageError("what is to be compared?", hint=hint)
    if len(pairs or set(providers)) < 2:
        raise UsageError("a comparison needs two sides", hint="name a second one")
    if pairs:
        return [(Target.parse(text), None) for text in pairs]
    return [(target, job) for target, job in await newest_targets(workspace, benchmark or "", providers)]


async def newest_targets(workspace: Path, benchmark: str, providers: Sequence[str]) -> list[tuple[Target, JobSummary]]:
    """The newest complete valid job of each provider; of several, those whose settings all providers share.

    Raises:
        UsageError: a provider has no such job.
    """
    path = workspace / "results" / FILE
    if not path.is_file():
        raise UsageError("this workspace has no results yet", hint="bench run makes some; bench results --rebuild")
    async with ResultsDb.open(path) as database:
        jobs = await database.newest(benchmark)
    by_provider = {name: [job for job in jobs if job.provider == name] for name in providers}
    for name, found in by_provider.items():
        if not found:
            known = ", ".join(dict.fromkeys(job.provider for job in jobs)) or "none"
            raise UsageError(
                f"{name} has no complete valid run of {benchmark}",
                hint=f"providers that have one: {known} (bench results --rebuild reads the journals anew)",
            )
    chosen = _together(list(by_provider.values()))
    return [(Target(run=job.run_id, provider=job.provider, job=job.job), job) for job in chosen]


def _together(by_provider: Sequence[Sequence[JobSummary]]) -> list[JobSummary]:
    """The newest of each, under the settings that all share and that are newest where they are oldest."""
    shared = set.intersection(*({_settings(job) for job in jobs} for jobs in by_provider))
    if not shared:
        return [max(jobs, key=_age) for jobs in by_provider]
    sets = [[max((j for j in jobs if _settings(j) == one), key=_age) for jobs in by_provider] for one in sorted(shared)]
    return max(sets, key=lambda jobs: min(map(_age, jobs)))


def _age(job: JobSummary) -> tuple[datetime, str]:
    return job.created_at, job.run_id


def _settings(job: JobSummary) -> tuple[str, ...]:
    """What two jobs must share to be like for like, as far as the database knows."""
    shared = {name: job.data.get(name) for name in SHARED}
    return (str(job.answering_model), str(job.judge_model), job.track, json.dumps(shared, sort_keys=True))
