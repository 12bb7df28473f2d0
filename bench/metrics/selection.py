"""Convert the ``metrics:`` key of a config to metrics, so that every error is reported before the run.

Each entry of ``metrics:`` is a name, or ``{name, method, config, breakdown, evaluator}``.

Example::

    open_metrics(["ndcg", {"name": "accuracy", "method": "llm_judge"}], k=10, folder=Path("."))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.errors import ConfigError, UnknownMetric
from bench.metrics import plugins
from bench.metrics.aggregation import Macro
from bench.metrics.answers.verdicts import METHODS, value_of
from bench.metrics.protocol import Arithmetic, Measure, canonical, or_list, similar_names
from bench.metrics.registry import from_plugin, registry

CUSTOM = "custom:"
"""prefix of the name of an evaluator class in a file next to the config: ``custom:./file.py:Class``"""
KEYS = ("name", "method", "config", "breakdown", "evaluator")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(map(_is_text, value)))


VALUE_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "method": (_is_text, "a text"),
    "config": (lambda value: isinstance(value, Mapping), "a map"),
    "breakdown": (_are_texts, "a list of dimensions"),
    "evaluator": (_is_text, "./file.py:Class"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One entry of ``metrics:`` in a config. ``where`` is its place as file:line:column."""

    name: str
    method: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    breakdown: tuple[str, ...] = ()
    evaluator: str | None = None
    where: str | None = None

    @classmethod
    def of(cls, entry: object, where: str | None = None) -> MetricSpec:
        """Read an entry: a name, a mapping, or an object whose attributes are the keys (None = not set)."""
        if isinstance(entry, MetricSpec):
            return entry
        if isinstance(entry, str):
            return cls(name=entry, where=where)
        given = dict(entry) if isinstance(entry, Mapping) else {k: getattr(entry, k, None) for k in KEYS}
        unknown = [str(k) for k in given if k not in KEYS]
        if unknown:
            close = similar_names(unknown[0], KEYS)
            raise ConfigError(
                f'unknown key "{unknown[0]}" in a metric' + (f"; did you mean {or_list(close)}?" if close else ""),
                where=where,
                hint=f"known keys: {', '.join(KEYS)}",
            )
        name = given.get("name")
        if not isinstance(name, str):
            raise ConfigError("a metric needs a name", where=where, hint="write a name, or {name: ...}")
        for key, (fits, shape) in VALUE_CHECKS.items():
            if given.get(key) is not None and not fits(given[key]):
                text = f'metric "{name}": {key} = {given[key]!r} is not {shape}'
                raise ConfigError(text, where=where, hint=f"known keys: {', '.join(KEYS)}")
        breakdown = given.get("breakdown") or ()
        return cls(
            name=name,
            method=given.get("method"),
            config=given.get("config") or {},
            breakdown=(breakdown,) if isinstance(breakdown, str) else tuple(breakdown),
            evaluator=given.get("evaluator"),
            where=where,
        )


def open_metrics(
    specs: Sequence[object],
    *,
    k: int,
    folder: Path,
    places: Sequence[str | None] = (),
    dimensions: Sequence[str] | None = None,
) -> list[Measure]:
    """Return one metric per entry of ``specs``.

    A metric that needs a cutoff K, but has none in its entry, gets ``k``. ``places`` has the file:line:column of each
    entry. ``dimensions`` has the metadata keys that a breakdown can name; None accepts any key. Raises one ConfigError
    that lists all problems.
    """
    problems: list[ConfigError] = []
    opened: dict[str, Measure] = {}
    for number, entry in enumerate(specs):
        where = places[number] if number < len(places) else None
        try:
            spec = MetricSpec.of(entry, where)
            metric = _open(spec, k, folder, dimensions)
            _add(opened, metric, spec)
        except ConfigError as error:
            problems.append(_with_place(error, where))
    if problems:
        raise problems[0] if len(problems) == 1 else ConfigError.of(problems)
    return list(opened.values())


def _with_place(error: ConfigError, where: str | None) -> ConfigError:
    if error.where is not None or where is None:
        return error
    return type(error)(error.message, where=where, hint=error.hint)


def _add(opened: dict[str, Measure], metric: Measure, spec: MetricSpec) -> None:
    """Add a metric to ``opened``; a repeated metric is added once.

    Raises ConfigError if another metric with this name has a different definition.
    """
    other = opened.setdefault(metric.name, metric)
    if other.definition != metric.definition or other.params != metric.params:
        raise ConfigError(
            f'metric "{metric.name}" is requested twice with different definitions: {other.definition} and '
            f"{metric.definition}",
            where=spec.where,
            hint="remove one of the two, or write the method or variant in its name, for example accuracy.exact_match",
        )


def _open(spec: MetricSpec, k: int, folder: Path, dimensions: Sequence[str] | None) -> Measure:
    breakdown = tuple(dimension_name(d) for d in spec.breakdown)
    for dimension in breakdown:
        if dimensions is not None and dimension != "question_type" and dimension not in dimensions:
            close = similar_names(dimension, [*dimensions, "question_type"])
            hint = f"did you mean {or_list(close)}?" if close else 'write "question_type" or a metadata key'
            raise ConfigError(f'metric "{spec.name}": unknown breakdown "{dimension}"', where=spec.where, hint=hint)
    if spec.evaluator is not None:
        return _from_file(spec, folder, breakdown)
    name = spec.name if spec.method is None else _with_method(spec, spec.method)
    metric = registry().measure(name, _config(name, spec), default_k=k, breakdown=breakdown)
    return with_breakdown(metric, breakdown) if breakdown else metric


def _config(name: str, spec: MetricSpec) -> dict[str, object]:
    """Return the parameters of an entry.

    These are the parameters in its ``config``. If the name of the metric sets no parameter, the ``run_presets`` of the
    metric are added; a value in ``config`` is preferred.
    """
    request = registry().parse_name(name)
    preset = {} if request is None or request.preset else request.entry.run_presets
    return {**preset, **spec.config}


def _with_method(spec: MetricSpec, given: str) -> str:
    """Return the metric name with the method as suffix: ``accuracy.llm_judge``.

    The method ``custom`` becomes a suffix only if the metric has the parameter ``method``.
    """
    method, base = canonical(given), canonical(spec.name)
    taken = registry().parse_name(base)
    if taken is not None and taken.entry.dotted == "method":
        if method not in METHODS:
            close = similar_names(method, METHODS) or list(METHODS)[:3]
            raise UnknownMetric(
                f'metric "{spec.name}": unknown method "{given}"',
                where=spec.where,
                hint=f"did you mean {or_list(close)}?",
            )
        return base if "." in base else f"{base}.{method}"
    if method == "custom":
        if taken is None:
            hint = "write evaluator: ./file.py:Class"
            raise UnknownMetric(
                f'metric "{spec.name}": method "custom" needs the key "evaluator"', where=spec.where, hint=hint
            )
        return base
    if taken is not None and taken.entry.dotted is not None:
        return f"{base}.{method}"
    raise UnknownMetric(
        f'metric "{spec.name}" cannot have a method',
        where=spec.where,
        hint='remove "method", or use the metric "accuracy"',
    )


def _from_file(spec: MetricSpec, folder: Path, breakdown: tuple[str, ...]) -> Measure:
    """Return the metric of a class in a file next to the config.

    If the class is an evaluator (it has ``evaluate``, but no ``score``), the metric reads the values of its verdicts.
    """
    reference = spec.evaluator or ""
    loaded = plugins.load_file(reference, folder=folder, where=spec.where)
    name = canonical(spec.name)
    if hasattr(loaded, "evaluate") and not hasattr(loaded, "score"):
        return _of_verdicts(name, f"{CUSTOM}{reference}", spec.config, breakdown)
    return from_plugin(loaded, spec.config, label=reference, name=name, breakdown=breakdown)


def _of_verdicts(name: str, evaluator: str, config: Mapping[str, object], breakdown: tuple[str, ...]) -> Measure:
    """Return a metric that reads its values from one evaluator's verdicts. ``config`` has the evaluator's settings."""
    return Measure(
        name=name,
        definition=f"{name}/1",
        category="answer",
        unit=None,
        lower_is_better=False,
        params=dict(config),
        arithmetic=Arithmetic(of_row=lambda row: value_of(row, evaluator), evaluators=(evaluator,)),
        breakdown=breakdown,
    )


def dimension_name(name: str) -> str:
    """Return ``question_type`` for the synonyms ``questionType`` and ``category``; return any other name unchanged."""
    return "question_type" if name in ("questionType", "question_type", "category") else name


def with_breakdown(metric: Measure, dimensions: tuple[str, ...]) -> Measure:
    """Return a copy of the metric that is broken down by these labels. A macro mean groups items by the first label."""
    arithmetic = metric.arithmetic
    if arithmetic.fold.dimension is not None and dimensions[0] != arithmetic.fold.dimension:
        arithmetic = replace(arithmetic, fold=Macro(dimensions[0]))
    return replace(metric, breakdown=dimensions, arithmetic=arithmetic)


def evaluators_needed(metrics: Sequence[Measure]) -> dict[str, dict[str, object]]:
    """Return evaluator name -> settings, for every evaluator that must run because a metric reads its verdicts.

    The first evaluator of the benchmark is not included, because it always runs.
    """
    needed: dict[str, dict[str, object]] = {}
    for metric in metrics:
        for name in metric.evaluators:
            if name.startswith(CUSTOM):
                _check_same_config(name, needed.setdefault(name, dict(metric.params)), metric)
                continue
            settings = {key: metric.params.get(key) for key in ("threshold", "model")}
            needed.setdefault(name, {}).update({k: v for k, v in settings.items() if v is not None})
    return needed


def _check_same_config(name: str, settings: Mapping[str, object], metric: Measure) -> None:
    """Raise ConfigError if two metrics use one evaluator class with different configs.

    This is an error because only one instance of the class is created.
    """
    if settings != metric.params:
        raise ConfigError(
            f"{name.removeprefix(CUSTOM)} has two different configs: {settings} and {dict(metric.params)}",
            hint="give the same config to every metric of this class",
        )
