"""The classes of a plan: benchmarks, providers, lanes and jobs.

A lane is one benchmark with one provider or variant, one embedding model and one k. A job is one lane with one
answering model and one judge model. Lanes that differ only in their search share one build, which is one ingest of all
corpora. The first of these lanes ingests, and its key is the key of the build.

In the journal, ingest and index rows belong to the build. Search rows belong to the lane, answer rows to the lane and
its answering model, and verdicts to the job::

    for lane in plan.lanes:
        for job in lane.jobs:
            print(job.key, job.answer_owner, lane.key)

A list of disputed gold answers is called an overlay. `bench.plan.benchmark` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.overlay import DoubtedItem
from bench.config.benchmark.terms import Unit
from bench.config.model import ModelFile
from bench.config.provider.config import ProviderConfig
from bench.config.run import RunRequest
from bench.datasets import Dataset, Selection
from bench.datasets.memories import Level
from bench.evaluators.packs import PromptPack
from bench.metrics.fold_input import Reducer
from bench.model import RunIdentity
from bench.plan.prompts import Prompts
from bench.plan.ranges import Ranges
from bench.plan.scoring import Scoring


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOverlay:
    """The file of disputed gold answers (overlay) that a run uses."""

    name: str
    sha256: str
    """SHA-256 of the overlay file"""
    source: str
    """author of the file; empty if unknown"""
    items: Mapping[str, DoubtedItem]
    """item id -> disputed item"""


TRAFFIC = ("add", "search", "status", "manage")
"""kinds of requests that are sent to a provider; built-in providers get no requests"""
NONE = "none"
"""name that means "no model" in keys, flags and tables"""
BUILT_IN_EMBEDDING = "(builtin)"
"""name for the unknown embedding model of a service that embeds texts itself"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPlan:
    """The settings of one benchmark in this run."""

    name: str
    config: BenchmarkConfig
    config_sha256: str
    dataset: Dataset
    selection: Selection
    """the filters, sample, limit and ranges of the run"""
    k: int
    context_budget: int
    """maximum number of tokens of retrieved context in an answer prompt"""
    epochs: int
    epochs_reducer: Reducer
    prompts: Prompts
    scoring: Scoring
    pack: PromptPack | None
    n_selected: int
    """number of items that the run selects"""
    n_whole: int
    """number of items that the run would select without its ranges"""
    selected_types: Mapping[str, int]
    """question type -> number of items in ``n_selected``"""
    whole_types: Mapping[str, int]
    """question type -> number of items in ``n_whole``"""
    overlay: PlannedOverlay | None = None
    """the disputed gold answers of the benchmark, or None if it has no overlay file"""
    leaks: tuple[str, ...] = ()
    """messages about answer prompts that show the gold answer, the evidence or the question type"""

    def corrected_answer(self, item: str) -> str | None:
        """Return the gold answer with which the overlay corrects an item, or None if the item is not corrected."""
        disputed = None if self.overlay is None else self.overlay.items.get(item)
        return None if disputed is None else disputed.corrected_answer

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the names of the item properties by which reports break metrics down, without duplicates."""
        return tuple(dict.fromkeys(name for metric in self.scoring.metrics for name in metric.breakdown))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPlan:
    """One provider or one variant ``name@label``, after the changes by ``--set``."""

    label: str
    config: ProviderConfig
    built_in: str | None
    """name of a built-in provider, such as ``oracle`` or ``bm25``; None for other providers"""
    overrides: Mapping[str, object]
    embedding: str | None
    """full name of the embedding model that bench calls for the provider; None if bench calls no such model"""
    embedded_by: str | None = None
    """name of the embedding model in plans, results and receipts; see `bench.plan.provider.embedded_by`"""
    variant: str = ""
    """the label without the suffix for k, such as ``@k5``; prices and flags use this name"""
    enriched_by: str | None = None
    """full name of the language model that adds information to texts before they are stored; None if unused"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One lane with one answering model and one judge model. A job is one row of a results table."""

    lane: str
    answering: str
    judge: str

    @cached_property
    def answer_owner(self) -> str:
        """Return the key of lane and answering model. This key owns the answer rows in the journal."""
        return f"{self.lane}|{self.answering}"

    @cached_property
    def key(self) -> str:
        """Return the key of the job. This key owns the evaluate rows in the journal."""
        return f"{self.lane}|{self.answering}|{self.judge}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The jobs that share the same search results."""

    benchmark: BenchmarkPlan
    provider: ProviderPlan
    jobs: tuple[Job, ...]
    key: str
    unit: Unit
    """content of one memory: a whole session, a turn, or a chunk that is cut from a session"""
    text: str | None
    """format of a memory's text that the provider sets; None if the format of the benchmark is used"""
    level: Level
    """what the retrieval metrics count: turn, session or text"""
    skipped: str | None = None
    """reason why the lane is skipped, such as a missing capability; None for a lane that runs"""
    shares: str = ""
    """key of the lane whose memories this lane searches; empty if this lane ingests its own memories"""

    @property
    def build(self) -> str:
        """Return the key of the lane that ingests the memories. This key owns the corpus rows in the journal."""
        return self.shares or self.key

    @property
    def answering_models(self) -> tuple[str, ...]:
        """Return the distinct answering models, in the order of the jobs."""
        return tuple(dict.fromkeys(job.answering for job in self.jobs))

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of all models that the lane calls, in any role."""
        return tuple(dict.fromkeys(name for name, _ in self._roles()))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the names ``OWNER.KIND`` of all endpoints that the lane calls, as used by ``--rate``.

        If ``--rate`` names only the owner, the rate applies to each endpoint of the owner.
        """
        own = self.provider.config.name
        sent = () if self.provider.built_in is not None else tuple(f"{own}.{traffic}" for traffic in TRAFFIC)
        return tuple(dict.fromkeys([*sent, *(f"{name}.{role}" for name, role in self._roles())]))

    def _roles(self) -> Iterator[tuple[str, str]]:
        named = [(job.answering, "answering") for job in self.jobs] + [(job.judge, "judge") for job in self.jobs]
        named += [
            (self.provider.embedding or NONE, "embedding"),
            (self.benchmark.scoring.embedding or NONE, "embedding"),
        ]
        return (
            (name, role) for name, role in [*named, (self.provider.enriched_by or NONE, "provider")] if name != NONE
        )

    def jobs_of(self, answering: str) -> tuple[Job, ...]:
        """Return the jobs that use this answering model."""
        return tuple(job for job in self.jobs if job.answering == answering)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a run will do.

    The ``digest`` does not depend on the run id, the folder, the clock or the ranges.
    """

    request: RunRequest
    workspace: Path
    lanes: tuple[Lane, ...]
    identity: RunIdentity
    digest: str
    total: int
    """number of items of the largest benchmark, before any filter"""
    ranges: Ranges
    """the ranges of positions that the run covers; empty if the run covers all positions

    Items are selected from each range separately.
    """
    versions: Mapping[str, object]
    """versions of bench, Python, packages and plug-ins, which are recorded but not part of the identity"""
    model_files: Mapping[str, ModelFile]
    workers: int = 1
    """number of processes on this machine that share the run; one corpus is handled by one process"""
    notes: tuple[str, ...] = ()
    """notes for the user before the run starts, such as skipped jobs and warnings about configs"""

    @property
    def jobs(self) -> Iterator[Job]:
        return (job for lane in self.lanes for job in lane.jobs)

    @property
    def is_spread(self) -> bool:
        """Return True if several processes share the run, on this machine or on a cluster."""
        return self.request.cluster is not None or self.workers > 1

    @property
    def running(self) -> tuple[Lane, ...]:
        """Return the lanes that are not skipped."""
        return tuple(lane for lane in self.lanes if lane.skipped is None)

    @property
    def building(self) -> tuple[Lane, ...]:
        """Return the running lanes that ingest memories.

        Every other running lane searches the memories of one of these lanes.
        """
        return tuple(lane for lane in self.running if not lane.shares)
