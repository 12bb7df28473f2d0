"""Record each job in the journal, so that a report needs neither the config nor the dataset.

Example::

    jobs = read_jobs(reader.meta.extra)
    jobs[0].benchmark, jobs[0].provider, jobs[0].models.answering      # "demo", "bm25", "builtin/extractive"
    merged_jobs([(ranges_of_a, extra_of_a), (ranges_of_b, extra_of_b)], shared={})    # for RunMeta.extra["jobs"]

``records(plan)`` is written to the journal once, under ``RunMeta.extra["jobs"]``. ``read_jobs`` reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from bench.errors import JournalError, UsageError
from bench.journal.rows import Chain
from bench.model import Phase
from bench.plan.ranges import Ranges
from bench.untyped_values import Json

if TYPE_CHECKING:
    from bench.metrics import Measure
    from bench.plan.model import BenchmarkPlan, Job, Lane, Plan


EXTRA_KEY = "jobs"
RESCORED = "rescored"
"""kind of the event that records a rescore of the run"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """The names of the three models of a job. A name is None if the model is not used."""

    embedding: str | None
    answering: str | None
    judge: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """One metric of the job: its name and its definition."""

    name: str
    definition: str
    category: str
    unit: str | None
    lower_is_better: bool
    breakdown: tuple[str, ...] = ()

    @property
    def is_score(self) -> bool:
        """Return True if the metric is a score, and False for other metrics such as a time or a cost."""
        return self.category in ("retrieval", "answer", "custom")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayRecord:
    """The file of disputed gold answers (overlay) that the run used."""

    name: str
    sha256: str
    """SHA-256 of the overlay file"""
    source: str
    items: Mapping[str, str]
    """item id -> kind of doubt about the item's gold answer"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """The settings of one job, as reports show them."""

    key: str
    lane: str
    answer_owner: str
    benchmark: str
    benchmark_version: str
    benchmark_title: str
    provider: str
    """label of the provider; a variant is ``name@label``"""
    provider_type: str
    models: ModelNames
    track: str
    k: int
    context_budget: int | None
    epochs: int
    epochs_reducer: Literal["mean", "mode", "max"]
    seed: int
    unit: str
    level: str
    """what the retrieval metrics count: turn, session or text"""
    n_selected: int
    """number of items that the run selects; a merged run selects the items of all its ranges together"""
    n_whole: int
    """number of items that the run would select without its ranges"""
    n_items: int
    """number of items of the benchmark"""
    metrics: tuple[MetricRecord, ...]
    metric_entries: tuple[object, ...]
    """the requested metrics as JSON, from which a report opens the metrics again"""
    metric_folder: str
    """folder of the config file that sets the metrics, and of the code files of custom metrics"""
    evaluators: tuple[str, ...]
    """names of the evaluators, each with the version of its rule if the version is above 1"""
    cluster_by: str | None
    groups: Mapping[str, tuple[str, ...]]
    selection: Mapping[str, object]
    """filters, sample and limit; empty if all items are selected"""
    dataset: Mapping[str, object]
    """properties of the dataset: path, sha256, content_sha256, files, bytes, source, license"""
    prompts: Mapping[str, str]
    """``ROLE.NAME`` of a prompt -> SHA-256 of the prompt"""
    config_sha256: Mapping[str, str]
    """``benchmark`` or ``provider`` -> SHA-256 of its config"""
    marks: tuple[str, ...] = ()
    """reasons why the result is not publishable"""
    skipped: str | None = None
    overlay: OverlayRecord | None = None
    selected_types: Mapping[str, int] = field(default_factory=dict)
    """question type -> number of items in ``n_selected``; empty if not counted"""
    whole_types: Mapping[str, int] = field(default_factory=dict)
    """question type -> number of items in ``n_whole``"""
    data_notes: tuple[str, ...] = ()
    """notes on problems of the data that affect scores"""
    asked_with: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """role -> settings of the role's model calls: temperature, token limit, seed, length of vectors"""
    prompt_leaks: tuple[str, ...] = ()
    """messages about answer prompts that show the gold answer, the evidence or the question type"""
    shares: str = ""
    """key of the lane whose memories are searched; empty if the job's own lane ingests"""
    n_sharing: int = 1
    """number of lanes that search the same ingested memories, including the job's own lane"""
    input_usd: str | None = None
    """price in USD of a million input tokens of the answering model at planning time; None if unknown"""

    @property
    def build(self) -> str:
        """Return the key of the lane that ingested the corpora. This key owns the corpus rows in the journal."""
        return self.shares or self.lane

    @property
    def owners(self) -> tuple[str, str, str]:
        """Return the keys that own the job's search rows, answer rows and evaluate rows."""
        return self.lane, self.answer_owner, self.key

    @property
    def chain(self) -> Chain:
        """Return the owners of the job's rows in the journal: of its search, answer and evaluate rows."""
        return Chain(lane=self.lane, answering=self.answer_owner, job=self.key)

    @property
    def n_repeats(self) -> int:
        """Return the number of selected items, multiplied by the number of epochs."""
        return self.n_selected * self.epochs

    @property
    def suspects(self) -> Mapping[str, str]:
        """Return a map from item id to kind of doubt, for the items with a disputed gold answer."""
        return {} if self.overlay is None else self.overlay.items


def records(plan: Plan) -> tuple[JobRecord, ...]:
    """Return the record of every job of a plan, including skipped jobs."""
    sizes = Counter(lane.build for lane in plan.lanes)
    return tuple(_record(plan, lane, job, sizes[lane.build]) for lane in plan.lanes for job in lane.jobs)


def _record(plan: Plan, lane: Lane, job: Job, n_sharing: int) -> JobRecord:
    # it knows the evaluators, and who reads a journal needs none
    from bench.plan.model_settings import call_settings, input_price

    benchmark, config = lane.benchmark, lane.benchmark.config
    return JobRecord(
        key=job.key,
        lane=lane.key,
        answer_owner=job.answer_owner,
        benchmark=benchmark.name,
        benchmark_version=config.version,
        benchmark_title=config.title,
        provider=lane.provider.label,
        provider_type=lane.provider.config.type,
        models=ModelNames(
            embedding=lane.provider.embedded_by, answering=_name_or_none(job.answering), judge=_name_or_none(job.judge)
        ),
        track=plan.request.track,
        k=benchmark.k,
        context_budget=benchmark.context_budget,
        epochs=benchmark.epochs,
        epochs_reducer=benchmark.epochs_reducer,
        seed=plan.request.seed,
        unit=lane.unit,
        level=lane.level,
        n_selected=benchmark.n_selected,
        n_whole=benchmark.n_whole,
        n_items=len(benchmark.dataset),
        metrics=tuple(_metric(metric) for metric in benchmark.scoring.metrics),
        metric_entries=benchmark.scoring.metric_entries,
        metric_folder=str(config.folder_of("metrics") or ""),
        evaluators=benchmark.scoring.rules,
        cluster_by=config.cluster_by,
        groups=config.groups,
        selection=_selection(plan),
        dataset=_dataset(benchmark),
        prompts={
            f"{role}.{name}": sha256
            for role, named in benchmark.prompts.digests.items()
            for name, sha256 in named.items()
        },
        config_sha256={"benchmark": _digest_of(plan, benchmark.name), "provider": lane.provider.config.sha256},
        marks=config.marks,
        data_notes=benchmark.dataset.data_notes,
        skipped=lane.skipped,
        overlay=_overlay(benchmark),
        selected_types=benchmark.selected_types,
        whole_types=benchmark.whole_types,
        asked_with=call_settings(plan, lane, job),
        prompt_leaks=benchmark.leaks if _name_or_none(job.answering) else (),
        shares=lane.shares,
        n_sharing=n_sharing,
        input_usd=input_price(plan.request, job.answering) if _name_or_none(job.answering) else None,
    )


def _overlay(benchmark: BenchmarkPlan) -> OverlayRecord | None:
    planned = benchmark.overlay
    if planned is None:
        return None
    return OverlayRecord(
        name=planned.name,
        sha256=planned.sha256,
        source=planned.source,
        items={item: disputed.kind for item, disputed in planned.items.items()},
    )


def _digest_of(plan: Plan, benchmark: str) -> str:
    return str(plan.identity["benchmarks"][benchmark]["config_sha256"])


def _metric(metric: Measure) -> MetricRecord:
    return MetricRecord(
        name=metric.name,
        definition=metric.definition,
        category=metric.category,
        unit=metric.unit,
        lower_is_better=metric.lower_is_better,
        breakdown=metric.breakdown,
    )


def _name_or_none(model: str) -> str | None:
    return None if model == "none" else model


def _selection(plan: Plan) -> Json:
    request = plan.request
    flags = {
        "items": list(request.items),
        "items_of": list(request.items_of),
        "question_type": list(request.question_type),
        "sample": request.sample,
        "per_type": request.per_type or None,
        "seed": request.seed if request.sample else None,
        "limit": request.limit,
    }
    return {name: value for name, value in flags.items() if value}


def _dataset(benchmark: BenchmarkPlan) -> Json:
    dataset, config = benchmark.dataset, benchmark.config
    return {
        "path": config.data.path,
        "sha256": dataset.sha256,
        "content_sha256": dataset.content_sha256,
        **({"files": dict(dataset.files)} if dataset.files else {}),
        "bytes": dataset.size,
        "source": config.source,
        "license": config.license,
    }


_JOBS: TypeAdapter[tuple[JobRecord, ...]] = TypeAdapter(tuple[JobRecord, ...])


def read_jobs(extra: Mapping[str, object]) -> tuple[JobRecord, ...]:
    """Return the jobs of a journal in the order of the plan.

    Raises:
        JournalError: the jobs are in a format that this version cannot read.
    """
    try:
        return _JOBS.validate_python(extra.get(EXTRA_KEY, ()))
    except ValidationError as error:
        text = "the journal describes its jobs in a format that this version cannot read"
        raise JournalError(text, hint="use the version of bench that started the run") from error


def jobs_matching(
    run_id: str, jobs: Sequence[JobRecord], *, benchmark: str | None = None, provider: str | None = None
) -> list[JobRecord]:
    """Return the jobs of a benchmark and a provider; None matches every name. A provider includes its variants.

    Raises:
        UsageError: no job matches.
    """
    found = [
        one
        for one in jobs
        if (benchmark or one.benchmark).lower() == one.benchmark.lower()
        and provider in (None, one.provider, one.provider.partition("@")[0])
    ]
    if not found:
        target = " on ".join(one for one in (provider, benchmark) if one) or "any provider"
        known = ", ".join(dict.fromkeys(f"{one.benchmark} x {one.provider}" for one in jobs)) or "none"
        raise UsageError(f"run {run_id} has no job of {target}", hint=f"jobs of this run: {known}")
    return found


def dump_jobs(jobs: Sequence[JobRecord]) -> list[Json]:
    """Return the job records as JSON data."""
    found: list[Json] = _JOBS.dump_python(tuple(jobs), mode="json")
    return found


def selects_per_range(names: Container[str]) -> bool:
    """Return True if ``names`` contains sample or limit.

    Both flags select items separately in each range of the run.
    """
    return "sample" in names or "limit" in names


def merged_jobs(
    parts: Sequence[tuple[Ranges, Mapping[str, object]]], shared: Mapping[tuple[str, Phase], int]
) -> list[Json]:
    """Return the jobs of merged runs as JSON data.

    A merged job has every item that the filters select, even if no range covers the item. With ``--sample`` or
    ``--limit``, it has only the items that were selected in the ranges.

    ``shared`` maps (owner, phase) to the number of duplicate items: an item in n ranges counts n - 1 times.
    """
    by_job: dict[str, dict[Ranges, JobRecord]] = {}
    for ranges, extra in parts:
        for job in read_jobs(extra):
            by_job.setdefault(job.key, {}).setdefault(ranges, job)
    return dump_jobs([_merged_job(list(found.values()), shared) for found in by_job.values()])


def _merged_job(found: Sequence[JobRecord], shared: Mapping[tuple[str, Phase], int]) -> JobRecord:
    first = found[0]
    if not selects_per_range(first.selection):
        return replace(first, n_selected=first.n_whole, selected_types=first.whole_types)
    twice = max(shared.get((first.key, Phase.EVALUATE), 0), shared.get((first.lane, Phase.SEARCH), 0))
    types = Counter[str]()
    for job in found if not twice else ():  # of which type those are that several ranges have, no one counted
        types.update(job.selected_types)
    return replace(first, n_selected=sum(job.n_selected for job in found) - twice, selected_types=dict(types))
