"""Collect everything in a plan that can change a result, as a tree of settings. The tree is the plan's identity.

Example::

    tree["benchmarks"]["locomo"]["dataset"]["sha256"], tree["settings"]["k"], tree["jobs"]
    digest(tree)                         # "9f2c..." over the canonical JSON of the tree
    changes(old, new)                    # [("settings.k", "10", "20")]

These are not part of the identity: run id, range, folder, clock, concurrency, rates, timeouts, prices and secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from bench import canonical
from bench.config.model import ModelFile
from bench.config.run import RunRequest
from bench.config.value_rules import map_texts
from bench.evaluators import registry as evaluators
from bench.metrics.protocol import canonical as canonical_metric
from bench.model import RunIdentity
from bench.plan.model import BenchmarkPlan, Lane, ProviderPlan
from bench.plan.plugins import Installed
from bench.plan.provider import fill_visibly, filled_texts, filled_vars
from bench.plan.scoring import Scoring
from bench.settings import Environment, hide_secrets
from bench.untyped_values import Json
from bench.visible_text import shorten

SCHEMA = "bench.plan/1"
TOKEN_LIMITS = ("max_answer_tokens", "max_judge_tokens")


def identity_of(
    lanes: Sequence[Lane],
    request: RunRequest,
    environment: Environment,
    files: Mapping[str, ModelFile],
    installed: Installed,
) -> RunIdentity:
    """Return the identity tree of a plan: all settings that can change a result."""
    benchmarks = {lane.benchmark.name: lane.benchmark for lane in reversed(lanes)}
    running = [lane for lane in lanes if lane.skipped is None]  # of what is skipped nothing need be set or known
    providers = {lane.provider.label: lane.provider for lane in running}
    models = {name for lane in running for name in lane.models}
    return {
        "schema": SCHEMA,
        "benchmarks": {
            name: {**_benchmark(one, installed), **({"k": list(request.k)} if len(request.k) > 1 else {})}
            for name, one in benchmarks.items()
        },
        "providers": {label: _provider(one, environment, installed) for label, one in providers.items()},
        "models": {name: _model(name, environment, files, installed) for name in sorted(models)},
        "jobs": {job.key: _job(lane, job.answering, job.judge) for lane in lanes for job in lane.jobs},
        "settings": {
            "seed": request.seed,
            "epochs": request.epochs,
            "track": request.track,
            "allow_code_execution": request.allow_code_execution,
            "selection": _selection(request),
            **{name: limit for name in TOKEN_LIMITS if (limit := getattr(request, name)) is not None},
        },
    }


def _benchmark(one: BenchmarkPlan, installed: Installed) -> Json:
    config = one.config
    return {
        "version": config.version,
        "config_sha256": one.config_sha256,
        "dataset": {"sha256": one.dataset.sha256, "content_sha256": one.dataset.content_sha256},
        "items": len(one.dataset),
        "k": one.k,
        "context_budget": one.context_budget,
        "prompts": {**one.prompts.digests, "fidelity": one.prompts.fidelity},
        "method": config.evaluation.method,
        "evaluators": list(one.scoring.rules),
        "code": {**one.scoring.code, **_distributions(one.scoring, installed)},
        "metrics": {metric.name: metric.definition for metric in one.scoring.metrics},
        "metric_entries": list(one.scoring.metric_entries),
        "epochs_reducer": one.epochs_reducer,
        "pack": None if one.pack is None else {"name": one.pack.id, "sha256": dict(one.pack.sha256)},
        "selected": one.n_whole,
        "marks": list(config.marks),
        **({} if one.overlay is None else {"overlay": {"name": one.overlay.name, "sha256": one.overlay.sha256}}),
    }


def _distributions(scoring: Scoring, installed: Installed) -> dict[str, str]:
    """Return the versions of the distributions whose plug-ins provide evaluators or metrics of the benchmark."""
    measured = {metric.name for metric in scoring.metrics}
    return {
        **installed.distributions("bench.evaluators", scoring.names, evaluators.canonical_name),
        **installed.distributions("bench.metrics", measured, canonical_metric),
    }


def _provider(one: ProviderPlan, environment: Environment, installed: Installed) -> Json:
    config = one.config
    base_url = config.base_url
    return {
        "name": config.name,
        "type": config.type,
        "config_sha256": config.sha256,
        "set": map_texts(one.overrides, hide_secrets),
        "base_url": None if base_url is None else fill_visibly(base_url, environment),
        **({"vars": variables} if (variables := filled_vars(config.vars, environment)) else {}),
        **({"environment": others} if (others := filled_texts(config, environment)) else {}),
        "embedding": one.embedding,
        "determinism": config.determinism,
        "plugin": _of_adapter(config.adapter, installed),
    }


def _of_adapter(adapter: str | None, installed: Installed) -> dict[str, str] | None:
    """Return the name and version of the distribution whose plug-in provides the adapter.

    Return None if no plug-in provides the adapter.
    """
    names = [point.name for point in installed.points["bench.providers"] if point.value == adapter]
    return installed.distributions("bench.providers", names) or None


def _model(name: str, environment: Environment, files: Mapping[str, ModelFile], installed: Installed) -> Json:
    from bench.models.names import is_local, resolve_target
    from bench.models.scripted import NAME, VARIABLE

    if name == NAME:
        path = environment.get(VARIABLE)
        return {"script_sha256": None if path is None else sha256(Path(path).read_bytes()).hexdigest()}
    if name.startswith("builtin/"):
        return {}
    if is_local(name, files):
        from bench.models.local import weights

        return {"settings": weights(name, files, environment).identity()}
    prefix = name.partition("/")[0]
    if prefix not in files and prefix in installed.names("bench.models"):
        return {"plugin": installed.distributions("bench.models", [prefix])}
    place = resolve_target(name, environment, files)
    settings = None if place.settings is None else map_texts(place.settings.identity(), hide_secrets)
    return {"base_url": hide_secrets(place.base_url), "dialect": place.dialect, "settings": settings}


def _job(lane: Lane, answering: str, judge: str) -> Json:
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
        **({"build": lane.shares} if lane.shares else {}),
    }


def _selection(request: RunRequest) -> Json:
    return {
        "items": list(request.items),
        "items_of": list(request.items_of),
        "question_type": list(request.question_type),
        "sample": request.sample,
        "per_type": request.per_type,
        "limit": request.limit,
    }


ABSENT = "(absent)"
SHOWN = 120


def digest(identity: Mapping[str, object]) -> str:
    """Return the hex SHA-256 of the canonical JSON of an identity tree."""
    return sha256(canonical.dumps(identity)).hexdigest()


def changes(old: object, new: object, path: str = "") -> list[tuple[str, str, str]]:
    """Return every difference between two trees as (path, old value, new value), sorted by path.

    A value is shown as text of at most 120 characters. If a tree does not have the path, its value is ``(absent)``.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted({*old, *new})
        return [
            change
            for name in names
            for change in changes(
                old.get(name, _ABSENT), new.get(name, _ABSENT), f"{path}.{name}" if path else str(name)
            )
        ]
    if _is_list(old) and _is_list(new) and len(old) == len(new):  # type: ignore[arg-type]
        pairs = enumerate(zip(old, new, strict=True))  # type: ignore[call-overload]
        return [change for at, (one, other) in pairs for change in changes(one, other, f"{path}[{at}]")]
    return [] if old == new else [(path, _shown(old), _shown(new))]


class _AbsentKey:
    """The type of the marker for a key that is missing in one of two trees."""


_ABSENT = _AbsentKey()


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: object) -> str:
    if isinstance(value, _AbsentKey):
        return ABSENT
    text = value if isinstance(value, str) else canonical.dumps(value).decode()
    return shorten(text, SHOWN)
