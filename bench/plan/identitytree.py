"""The tree under a plan's digest: everything that can change a result, and nothing else.

Example::

    tree["benchmarks"]["locomo"]["dataset"]["sha256"], tree["settings"]["k"], tree["jobs"]

Not in it: run id, range, folder, clock, concurrency, rates, time-outs, prices, secrets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import entry_points

from bench.config.modelfile import ModelFile
from bench.config.run import RunRequest
from bench.metrics.plugins import OWN_DISTRIBUTION
from bench.plan.shape import NONE, BenchmarkPlan, Lane, ProviderPlan
from bench.settings import Environment

SCHEMA = "bench.plan/1"


def identity_of(
    lanes: Sequence[Lane], request: RunRequest, environment: Environment, files: Mapping[str, ModelFile]
) -> dict[str, object]:
    """Build the tree."""
    benchmarks = {lane.benchmark.name: lane.benchmark for lane in lanes}
    providers = {lane.provider.label: lane.provider for lane in lanes}
    models = {name for lane in lanes for job in lane.jobs for name in (job.answering, job.judge)}
    models |= {lane.provider.embedding for lane in lanes if lane.provider.embedding is not None}
    return {
        "schema": SCHEMA,
        "benchmarks": {name: _benchmark(one) for name, one in benchmarks.items()},
        "providers": {label: _provider(one, environment) for label, one in providers.items()},
        "models": {name: _model(name, environment, files) for name in sorted(models - {NONE})},
        "jobs": {job.key: _job(lane, job.answering, job.judge) for lane in lanes for job in lane.jobs},
        "settings": {
            "seed": request.seed,
            "epochs": request.epochs,
            "track": request.track,
            "allow_code_execution": request.allow_code_execution,
            "selection": _selection(request),
        },
    }


def _benchmark(one: BenchmarkPlan) -> dict[str, object]:
    config = one.config
    return {
        "version": config.version,
        "config_sha256": one.config_sha256,
        "dataset": {"sha256": one.dataset.sha256, "content_sha256": one.dataset.content_sha256},
        "items": len(one.dataset),
        "k": one.k,
        "context_budget": one.context_budget,
        "prompts": one.prompts.identity,
        "method": config.evaluation.method,
        "evaluators": list(one.scoring.names),
        "code": {**one.scoring.code, **_distributions("bench.evaluators", one.scoring.names)},
        "metrics": {metric.name: metric.definition for metric in one.scoring.metrics},
        "metric_entries": list(one.scoring.metric_entries),
        "epochs_reducer": one.epochs_reducer,
        "pack": None if one.pack is None else {"name": one.pack.id, "sha256": dict(one.pack.sha256)},
        "selected": one.n_whole,
        "marks": list(config.marks),
        **({} if one.overlay is None else {"overlay": {"name": one.overlay.name, "sha256": one.overlay.sha256}}),
    }


def _provider(one: ProviderPlan, environment: Environment) -> dict[str, object]:
    config = one.config
    base_url = config.base_url
    return {
        "name": config.name,
        "type": config.type,
        "config_sha256": config.sha256,
        "set": dict(one.overrides),
        "base_url": None if base_url is None else environment.resolve(base_url),
        "embedding": one.embedding,
        "determinism": config.determinism,
        "plugin": _of_adapter(config.adapter),
    }


def _of_adapter(adapter: str | None) -> dict[str, str] | None:
    """Distribution and version of an installed plug-in."""
    names = [point.name for point in entry_points(group="bench.providers") if point.value == adapter]
    return _distributions("bench.providers", names) or None


def _distributions(group: str, names: Collection[str]) -> dict[str, str]:
    """The installed distributions that give these plug-ins, with their versions; our own is none of them."""
    return {
        point.dist.name: point.dist.version
        for point in entry_points(group=group)
        if point.name in names and point.dist is not None and point.dist.name != OWN_DISTRIBUTION
    }


def _model(name: str, environment: Environment, files: Mapping[str, ModelFile]) -> dict[str, object]:
    from bench.models.names import target
    from bench.models.scripted import NAME, VARIABLE

    if name == NAME:
        return {"script_sha256": _file_digest(environment.get(VARIABLE))}
    if name.startswith("builtin/"):
        return {}
    if _is_plugin(name, files):
        return {"plugin": _distributions("bench.models", [name.partition("/")[0]])}
    place = target(name, environment, files)
    settings = None if place.settings is None else place.settings.model_dump(mode="json")
    return {"base_url": place.base_url, "dialect": place.dialect, "settings": settings}


def _is_plugin(name: str, files: Mapping[str, ModelFile]) -> bool:
    prefix = name.partition("/")[0]
    return prefix not in files and any(point.name == prefix for point in entry_points(group="bench.models"))


def _file_digest(path: str | None) -> str | None:
    from hashlib import sha256
    from pathlib import Path

    return None if path is None else sha256(Path(path).read_bytes()).hexdigest()


def _job(lane: Lane, answering: str, judge: str) -> dict[str, object]:
    return {
        "lane": lane.key,
        "benchmark": lane.benchmark.name,
        "provider": lane.provider.label,
        "embedding": lane.provider.embedding,
        "answering": answering,
        "judge": judge,
        "unit": lane.unit,
        "level": lane.level,
        "skipped": lane.skipped,
    }


def _selection(request: RunRequest) -> dict[str, object]:
    return {
        "items": list(request.items),
        "items_of": list(request.items_of),
        "question_type": list(request.question_type),
        "sample": request.sample,
        "per_type": request.per_type,
        "limit": request.limit,
    }
