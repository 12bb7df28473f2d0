"""What a journal must know of each job so that a report needs neither config nor dataset.

``records(plan)`` is written into the journal once, under ``RunMeta.extra["jobs"]``; ``read`` gives it back::

    jobs = read(reader.meta.extra)
    jobs[0].benchmark, jobs[0].provider, jobs[0].models.answering      # "demo", "bm25", "builtin/extractive"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    from bench.plan.shape import Job, Lane, Plan

EXTRA_KEY = "jobs"
BUILT_IN_EMBEDDING = "(builtin)"
"""an outside service that embeds by itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """The three models of a job; None where none is used."""

    embedding: str | None
    answering: str | None
    judge: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """A metric as the job computed it."""

    name: str
    definition: str
    category: str
    unit: str | None
    lower_is_better: bool
    breakdown: tuple[str, ...] = ()
    spec: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """its config entry, so that a report can fold it without the config"""
    folder: str | None = None
    """where a plug-in file beside the config is looked for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job as a report shows it."""

    key: str
    lane: str
    answer_owner: str
    benchmark: str
    benchmark_version: str
    benchmark_title: str
    provider: str
    """label, a variant as ``name@label``"""
    provider_type: str
    models: ModelNames
    track: str
    k: int
    context_budget: int | None
    epochs: int
    epochs_reducer: str
    seed: int
    unit: str
    level: str
    """evidence level: turn or session"""
    n_selected: int
    """items inside the range and the filters"""
    n_items: int
    """items of the benchmark's full order"""
    metrics: tuple[MetricRecord, ...]
    evaluators: tuple[str, ...]
    cluster_by: str | None
    groups: Mapping[str, tuple[str, ...]]
    selection: Mapping[str, object]
    """filters, sample and limit; empty = everything"""
    dataset: Mapping[str, object]
    """path, sha256, content_sha256, bytes, source, license"""
    prompts: Mapping[str, str]
    """role.name -> sha256"""
    config_sha256: Mapping[str, str]
    """benchmark and provider"""
    keeps_store: bool
    marks: tuple[str, ...] = ()
    """why the result is not publishable"""
    skipped: str | None = None


_JOBS: TypeAdapter[tuple[JobRecord, ...]] = TypeAdapter(tuple[JobRecord, ...])


def read(extra: Mapping[str, object]) -> tuple[JobRecord, ...]:
    """The jobs of a journal, in the plan's order."""
    return _JOBS.validate_python(extra.get(EXTRA_KEY, ()))


def dump(jobs: Sequence[JobRecord]) -> list[dict[str, object]]:
    """The jobs as JSON data."""
    found: list[dict[str, object]] = _JOBS.dump_python(tuple(jobs), mode="json")
    return found
