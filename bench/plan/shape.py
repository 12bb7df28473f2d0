"""The plan as a value: lanes, jobs, prompts, what is skipped, and the identity everything hangs on.

A lane is benchmark x provider (variant) x embedding model; a job is a lane x answering model x judge model. Ingest,
index and search rows belong to the lane, answers to the lane and its answering model, verdicts to the job::

    for lane in plan.lanes:
        for job in lane.jobs:
            print(job.key, job.answer_owner, lane.key)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.config.benchmark import BenchmarkConfig
from bench.config.benchmark.terms import Unit
from bench.config.modelfile import ModelFile
from bench.config.provider import ProviderConfig
from bench.config.run import RunRequest
from bench.datasets import Dataset, Selection
from bench.datasets.levels import Level
from bench.evaluators.packs import Pack
from bench.plan.overlays import PlannedOverlay
from bench.plan.prompts import Prompts
from bench.plan.ranges import Ranges
from bench.plan.scoring import Scoring

TRAFFIC = ("add", "search", "status", "manage")
"""what goes to a provider that is no built-in"""
NONE = "none"
"""stands for "no model" in keys, flags and tables"""
BUILT_IN_EMBEDDING = "(builtin)"
"""how the embedding model of a service is shown that embeds by itself and does not say with what"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPlan:
    """One benchmark as this run uses it."""

    name: str
    config: BenchmarkConfig
    config_sha256: str
    dataset: Dataset
    selection: Selection
    """filters and range together; positions are those of the full order"""
    k: int
    context_budget: int
    """tokens"""
    epochs: int
    epochs_reducer: str
    prompts: Prompts
    scoring: Scoring
    pack: Pack | None
    n_selected: int
    """items inside the filters and the range"""
    n_whole: int
    """items inside the filters, whatever the range"""
    selected_types: Mapping[str, int]
    """question type -> how many of ``n_selected``"""
    whole_types: Mapping[str, int]
    """question type -> how many of ``n_whole``"""
    overlay: PlannedOverlay | None = None
    """golds known to be doubtful"""

    def corrected_answer(self, item: str) -> str | None:
        """What an overlay says that the answer should be."""
        suspect = None if self.overlay is None else self.overlay.overlay.items.get(item)
        return None if suspect is None else suspect.corrected_answer

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The breakdowns that metrics ask for."""
        return tuple(dict.fromkeys(name for metric in self.scoring.metrics for name in metric.breakdown))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPlan:
    """One provider, or one variant ``name@label`` of it, with ``--set`` applied."""

    label: str
    config: ProviderConfig
    built_in: str | None
    """``oracle``, ``bm25`` ... for a built-in, None for everything else"""
    overrides: Mapping[str, object]
    embedding: str | None
    """full name of the client-side embedding model"""
    embedded_by: str | None = None
    """the embedding model as plan, results and receipts name it, whoever embeds: see ``providers.embedded_by``"""
    enriched_by: str | None = None
    """full name of the language model that writes about what is stored, None = none does"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one line of a results table is about."""

    lane: str
    answering: str
    judge: str

    @property
    def answer_owner(self) -> str:
        """Who owns its answer rows: the lane and the answering model."""
        return f"{self.lane}|{self.answering}"

    @property
    def key(self) -> str:
        """Who owns its evaluate rows."""
        return f"{self.lane}|{self.answering}|{self.judge}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Work that shares one memory: ingested once, searched once an item."""

    benchmark: BenchmarkPlan
    provider: ProviderPlan
    jobs: tuple[Job, ...]
    key: str
    unit: Unit
    """what one memory is; chunks are cut out of sessions"""
    text: str | None
    """the provider's own text rule, None = the benchmark's"""
    level: Level
    """evidence level of retrieval metrics"""
    skipped: str | None = None
    """why nothing of it is run (capabilities), None for a lane that runs"""

    @property
    def answering_models(self) -> tuple[str, ...]:
        """The distinct answering models, in order."""
        return tuple(dict.fromkeys(job.answering for job in self.jobs))

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that it calls, in whatever role."""
        return tuple(dict.fromkeys(name for name, _ in self._roles()))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Every endpoint that it calls, as rates may name it; the part before the last dot means all of one owner's."""
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
        """The jobs that read one model's answers."""
        return tuple(job for job in self.jobs if job.answering == answering)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a run will do. Depends on no run id, folder or clock; ``digest`` on no range either."""

    request: RunRequest
    workspace: Path
    lanes: tuple[Lane, ...]
    identity: Mapping[str, object]
    digest: str
    total: int
    """items of the longest benchmark's full order"""
    ranges: Ranges
    """positions that the run covers, each range selected from apart; empty = all"""
    versions: Mapping[str, object]
    """recorded beside the identity: bench, python, packages"""
    model_files: Mapping[str, ModelFile]
    notes: tuple[str, ...] = ()
    """what a person should know before starting: skipped jobs, warnings of configs"""

    @property
    def jobs(self) -> Iterator[Job]:
        return (job for lane in self.lanes for job in lane.jobs)

    @property
    def running(self) -> tuple[Lane, ...]:
        """The lanes that are not skipped."""
        return tuple(lane for lane in self.lanes if lane.skipped is None)
