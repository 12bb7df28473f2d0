"""Open the evaluators and metrics of a benchmark before any call, so that errors appear early.

Example::

    scoring = Scoring.of(config, request, k=10, prompts=prompts, pack=None)
    scoring.metrics, [evaluator.name for evaluator in scoring.open(embedder=None)], scoring.judging

The first evaluator decides the state of an item. Metrics may read the verdicts of the other evaluators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import unmet_needs
from bench.config.file import Source
from bench.config.run import RunRequest
from bench.errors import ConfigError, UsageError
from bench.evaluators import Evaluator, open_evaluator
from bench.evaluators.judge_prompts import MAX_TOKENS
from bench.evaluators.packs import PromptPack
from bench.evaluators.protocol import needs_answer
from bench.evaluators.registry import canonical_name, versioned_name
from bench.evaluators.routed import RoutedEvaluator, distinct_evaluators
from bench.metrics import Measure, evaluators_needed, open_metrics
from bench.metrics.selection import CUSTOM
from bench.model import JUDGED, Embedder
from bench.models import resolve_name
from bench.plan.prompts import Prompts
from bench.untyped_values import Json

Settings = Mapping[str, object]


def judge_settings(opened: Sequence[Evaluator]) -> Settings:
    """Return the token limit and temperature of judge calls. The result is empty if no evaluator calls a judge.

    If the evaluators have different settings, the result has one entry per evaluator.
    """
    found = {
        one.name: {
            "max_tokens": max(getattr(one, "max_tokens", 0), MAX_TOKENS),
            "temperature": getattr(one, "temperature", 0.0),
        }
        for one in distinct_evaluators(opened)
        if one.name in JUDGED
    }
    each = list(found.values())
    return found if any(one != each[0] for one in each) else dict(each[0]) if each else {}


SIMILAR = ("semantic-similarity",)
NO_MODEL = "none"
ANY_MODEL = "any/any"
"""placeholder for the name of a model that is not chosen yet"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """The name and options of one evaluator before it is opened, and the evaluators that replace it for some items."""

    method: str
    config: Mapping[str, object]
    folder: Path | None = None
    where: str | None = None
    routes: tuple[tuple[str, EvaluatorSpec], ...] = ()
    """pairs of a pattern and an evaluator; items that match the pattern are scored by this evaluator instead"""
    by: str = ""
    """name of the item property that is compared with the patterns, from ``methodsBy`` in the config"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The metrics of a benchmark, and the evaluators whose verdicts the metrics read."""

    metrics: tuple[Measure, ...]
    metric_entries: tuple[object, ...]
    """the requested metrics as JSON, from which the metrics can be opened again"""
    specs: tuple[EvaluatorSpec, ...]
    code: Mapping[str, str]
    """``./file.py:Class`` of a custom evaluator or metric -> SHA-256 of the file"""
    names: tuple[str, ...]
    judging: tuple[str, ...]
    """names of the evaluators that call a judge"""
    judge_calls: int
    """number of opened evaluators that call a judge"""
    judges_hits: bool
    """True if a judge scores hits or stored memories, so that no answer is needed"""
    judge_settings: Mapping[str, object]
    """temperature and token limit of judge calls; one entry per evaluator if the evaluators differ"""
    judge: str | None
    """full name of the judge model that the config of a metric requires; None if no metric requires a judge model"""
    embedding: str | None
    """full name of the embedding model that evaluators use; None if no evaluator uses an embedding model"""
    prompts: Prompts
    allow_code_execution: bool

    @classmethod
    def of(
        cls, config: BenchmarkConfig, request: RunRequest, *, k: int, prompts: Prompts, pack: PromptPack | None
    ) -> Scoring:
        """Open all metrics and evaluators once, so that errors are reported before the run.

        Raises:
            ConfigError: a metric, evaluator, parameter or class is unknown; the error has its place.
            UsageError: a flag and the config of a metric name different models.
        """
        entries: Sequence[object] = request.metrics or config.metrics
        places = () if request.metrics else tuple(config.place("metrics", at) for at in range(len(config.metrics)))
        folder = config.folder_of("metrics") or Path()
        dimensions = ("group", *config.fields.metadata)
        metrics = open_metrics(entries, k=k, folder=folder, places=places, dimensions=dimensions)
        specs = tuple(_specs(config, request, metrics, pack))
        _check_needs(config, specs)
        embedding = _model_of(specs, SIMILAR, "embedding-model", [request.embedding_model]) or request.embedding_model
        planned = PlannedEmbedder(resolve_name(embedding)) if embedding else None
        opened = _open(specs, prompts, planned, request.allow_code_execution)
        return cls(
            metrics=tuple(metrics),
            metric_entries=tuple(_json_of_entry(entry) for entry in entries),
            specs=specs,
            code=dict(_code(specs, entries, folder)),
            names=tuple(one.name for one in distinct_evaluators(opened)),
            judging=tuple(one.name for one in distinct_evaluators(opened) if one.needs_judge),
            judge_calls=sum(one.needs_judge for one in opened),
            judges_hits=any(one.needs_judge and not needs_answer(one) for one in distinct_evaluators(opened)),
            judge_settings=judge_settings(opened),
            judge=_model_of(specs, JUDGED, "judge-model", request.judge_model),
            embedding=planned.name
            if planned and any(getattr(one, "embedder", None) is planned for one in opened)
            else None,
            prompts=prompts,
            allow_code_execution=request.allow_code_execution,
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """Return each evaluator's name with the version of its scoring rule."""
        return tuple(map(versioned_name, self.names))

    @property
    def compares_whole(self) -> bool:
        """Return True if an evaluator or a metric compares the whole answer with the gold answer."""
        return "exact-match" in self.names or any(metric.name.startswith("exact_match") for metric in self.metrics)

    def open(self, embedder: Embedder | None) -> tuple[Evaluator, ...]:
        """Open the evaluators for a run. Evaluators that compare embeddings use ``embedder``."""
        return _open(self.specs, self.prompts, embedder, self.allow_code_execution)


def written_metric_problems(path: Path) -> list[ConfigError]:
    """Return the errors in the metrics of a benchmark file.

    Errors in other sections of the file are not returned. The result is empty if the file cannot be read.
    """
    try:
        source = Source.read(path)
    except ConfigError:
        return []
    written = source.tree.get("metrics")
    entries = {at: entry for at, entry in enumerate(written if isinstance(written, list) else ()) if _readable(entry)}
    try:
        open_metrics(
            list(entries.values()), k=1, folder=path.parent, places=[source.place(("metrics", at)) for at in entries]
        )
    except ConfigError as error:
        return list(error.problems) or [error]
    return []


def _readable(entry: object) -> bool:
    """Return True if the entry has the form of a metric: a name, or a map with a name."""
    if not isinstance(entry, Mapping):
        return isinstance(entry, str)
    shapes = {"name": str, "method": str, "config": Mapping, "breakdown": list, "evaluator": str}
    return "name" in entry and all(key in shapes and isinstance(entry[key], shapes[key]) for key in entry)


@dataclass(frozen=True, slots=True)
class PlannedEmbedder:
    """A placeholder for the embedding model during planning. The model is not opened."""

    name: str

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]:
        raise RuntimeError(f"the model {self.name} is only planned, not opened")


def _code(specs: Sequence[EvaluatorSpec], entries: Sequence[object], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the reference and the SHA-256 of each code file of a custom evaluator or metric."""
    named = [(spec.method.removeprefix(CUSTOM), spec.folder or folder) for spec in specs if CUSTOM in spec.method]
    named += [(str(getattr(entry, "evaluator", None) or ""), folder) for entry in entries]
    for reference, beside in dict.fromkeys(named):
        path = beside / reference.partition(":")[0]
        if path.is_file():
            yield reference, sha256(path.read_bytes()).hexdigest()


def _open(
    specs: Sequence[EvaluatorSpec], prompts: Prompts, embedder: Embedder | None, allow_code: bool
) -> tuple[Evaluator, ...]:
    def opened(spec: EvaluatorSpec) -> Evaluator | None:
        one = open_evaluator(
            spec.method,
            config=spec.config,
            prompts=prompts.judges,
            embedder=embedder,
            folder=spec.folder,
            where=spec.where,
            allow_code_execution=allow_code,
        )
        routes = [(pattern, other) for pattern, route in spec.routes if (other := opened(route)) is not None]
        return RoutedEvaluator(default=one, by=spec.by, routes=tuple(routes)) if one is not None and routes else one

    return tuple(one for one in map(opened, specs) if one is not None)


def _specs(
    config: BenchmarkConfig, request: RunRequest, metrics: Sequence[Measure], pack: PromptPack | None
) -> list[EvaluatorSpec]:
    names = list(dict.fromkeys(map(_spelled, request.evaluators or (config.evaluation.method,))))
    specs = [_evaluator_spec(config, name, pack) for name in names]
    if config.evaluation.methods:
        routes = tuple(
            (kind, _evaluator_spec(config, _spelled(name), pack)) for kind, name in config.evaluation.methods.items()
        )
        default = _spelled(config.evaluation.method)
        by = config.evaluation.methods_by
        specs = [replace(spec, routes=routes, by=by) if spec.method == default else spec for spec in specs]
        names += [spec.method for _, spec in routes]
    if request.evaluators:
        specs = [replace(spec, where=None) for spec in specs]  # the flag's fault is not the file's
    for name, settings in evaluators_needed(metrics).items():
        if name not in names and config.evaluation.method != "none":
            specs.append(_evaluator_spec(config, name, pack, settings))
    return specs


def _check_needs(config: BenchmarkConfig, specs: Sequence[EvaluatorSpec]) -> None:
    """Raise ConfigError if an evaluator can score no item, because the config does not map what it needs."""
    unmet = [finding for spec in specs for finding in unmet_needs(config, spec.method)]
    if unmet:
        raise ConfigError.of([ConfigError(text, where=config.place(*path), hint=hint) for path, text, hint in unmet])


def _model_of(
    specs: Sequence[EvaluatorSpec], methods: Collection[str], flag: str, given: Sequence[str | None]
) -> str | None:
    """Return the model that the configs of metrics require for the evaluators ``methods``.

    Return None if they require no model.

    Raises:
        ConfigError: the configs of metrics name different models.
        UsageError: the flag names another model than the configs.
    """
    named = [str(spec.config["model"]) for spec in specs if spec.method in methods and "model" in spec.config]
    models = list(dict.fromkeys(map(resolve_name, named)))
    if len(models) > 1:
        raise ConfigError(
            f"the metrics of this benchmark name two models, {models[0]} and {models[1]}, but a run can "
            "use only one model",
            hint="split the config: in each copy, keep only metrics with the same model",
        )
    if models and any(name not in (None, NO_MODEL, ANY_MODEL) and resolve_name(name) != models[0] for name in given):
        raise UsageError(
            f"--{flag} cannot be used: a metric of this benchmark requires {models[0]}", hint="remove the flag"
        )
    return next(iter(models), None)


def _spelled(name: str) -> str:
    return name if name.startswith(CUSTOM) else canonical_name(name)


def _evaluator_spec(
    config: BenchmarkConfig, name: str, pack: PromptPack | None, settings: Mapping[str, object] | None = None
) -> EvaluatorSpec:
    """Return one evaluator with the options in the benchmark's config.

    ``settings`` contains more options, from a metric.
    """
    options: Json = {}
    where = config.place("evaluation", "method")
    if name.startswith(CUSTOM):
        named = [getattr(entry, "evaluator", None) for entry in config.metrics]
        reference = name.removeprefix(CUSTOM)
        where = config.place("metrics", named.index(reference)) if reference in named else where
        return EvaluatorSpec(method=name, config=settings or {}, folder=config.folder_of("metrics"), where=where)
    if name == "custom" and config.evaluation.custom_evaluator is not None:
        where = config.place("evaluation", "customEvaluator")
        folder = config.folder_of("evaluation", "customEvaluator")
        return EvaluatorSpec(
            method=f"{CUSTOM}{config.evaluation.custom_evaluator}", config=options, folder=folder, where=where
        )
    if name == "exact-match":
        options = config.exact_match.model_dump()
    elif name == "deletion-check" and config.deletion is not None:
        options = {"fuzzy_match": config.deletion.fuzzy_match}
    elif name in JUDGED:
        options = {"temperature": config.evaluation.judge.temperature}
        if name == "llm-judge" and pack is not None:
            options["protocol"] = pack.parse
        for method, key in (("rubric-points", "values"), ("labels", "labels")):
            if name == method and (option := getattr(config.evaluation, key)):
                options[key] = option
    return EvaluatorSpec(method=name, config={**options, **(settings or {})}, where=where)


def _json_of_entry(entry: object) -> object:
    dump = getattr(entry, "model_dump", None)
    return entry if dump is None else dump(mode="json", exclude_defaults=True)
