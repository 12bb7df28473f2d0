"""What stands on the board: the newest complete valid job of each provider, models and benchmark.

Example::

    board = await load_board(Path("."), ["locomo"])
    board[0].headline.value, board[0].task
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UsageError
from bench.journal.results_db import JobSummary, MetricSummary, ResultsDb
from bench.providers.names import is_bound
from bench.report.summary import FILE

SETTINGS = ("k", "context_budget", "level", "selection", "prompts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One job on the board."""

    job: JobSummary
    metrics: tuple[MetricSummary, ...]

    @property
    def headline(self) -> MetricSummary | None:
        """The benchmark's first metric that has a value over all items."""
        names = self.job.data.get("metrics")
        found = {one.metric: one for one in self.metrics if not one.dimension and one.value is not None}
        order = names if isinstance(names, list) else sorted(found)
        return next((found[name] for name in order if name in found), None)

    @property
    def bound(self) -> bool:
        """A bound (oracle, no-memory, random, full-context) is shown and does not rank."""
        return is_bound(self.job.provider)

    @property
    def name(self) -> str:
        """The provider, marked where it does not rank."""
        return f"{self.job.provider} (bound)" if self.bound else self.job.provider

    @property
    def search_ms(self) -> float | None:
        """The median search in milliseconds."""
        found = self.job.data.get("search_p50_ms")
        return float(found) if isinstance(found, int | float) else None

    @property
    def cost(self) -> str:
        """US dollars; ``>=`` where some calls have no known price."""
        usd, unknown = self.job.cost_usd, self.job.data.get("cost_unknown_calls")
        return "-" if usd is None else f">= {float(usd):.4f}" if unknown else f"{float(usd):.4f}"

    @property
    def lower_is_better(self) -> bool:
        """The headline ranks upwards from the least."""
        names = self.job.data.get("lower_is_better")
        return self.headline is not None and isinstance(names, list) and self.headline.metric in names

    def by_type(self) -> dict[str, MetricSummary]:
        """The headline by question type."""
        name = self.headline.metric if self.headline else None
        return {one.label: one for one in self.metrics if one.dimension == "question_type" and one.metric == name}

    @property
    def models(self) -> tuple[str, str, str]:
        """Answering, judge, track."""
        return self.job.answering_model or "none", self.job.judge_model or "none", self.job.track

    @property
    def task(self) -> str:
        """Everything but provider and models that must be equal where values stand under one another."""
        job, dataset = self.job, self.job.data.get("dataset")
        content = dataset.get("content_sha256") if isinstance(dataset, Mapping) else None
        shared = [job.benchmark, job.benchmark_version, job.track, content, *(job.data.get(name) for name in SETTINGS)]
        return json.dumps([*shared, self.headline.definition if self.headline else None], sort_keys=True, default=str)


async def load_board(workspace: Path, benchmarks: Sequence[str] = ()) -> list[Place]:
    """Read the derived database; an absent one is an empty board.

    Raises:
        UsageError: a benchmark of which no run is known.
    """
    path = workspace / "results" / FILE
    if not path.is_file():
        return []
    async with ResultsDb.open(path) as database:
        known = await database.benchmarks()
        for name in benchmarks:
            if name not in known:
                raise UsageError(f"no run of {name} is known", hint=f"there are runs of: {', '.join(known) or 'none'}")
        jobs = [job for name in known if not benchmarks or name in benchmarks for job in await database.newest(name)]
        return [Place(job=job, metrics=await database.metrics(job)) for job in jobs]
