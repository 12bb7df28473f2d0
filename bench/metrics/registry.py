"""Find a metric by name among the built-in metrics and the installed plug-ins.

The spelling of the name does not matter: ``nDCG@10`` is ``ndcg_at_10``. To add a built-in metric, add a
``RegisteredMetric`` to one of the modules in ``FAMILIES``. To add a plug-in, add an entry point.

Example::

    registry().measure("nDCG@10").definition       # "ndcg@10/1"
    from_plugin(Shouting, {"bonus": 0.5}, label="./mine.py:Shouting")       # a Measure
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from bench.errors import ConfigError, EvaluatorFailed, UnknownMetric
from bench.metrics import latency, plugins, pricing, retrieval
from bench.metrics.aggregation import Mean, PluginAggregate
from bench.metrics.answers import citation, ordering, overlap, parts, similarity, text, verdicts
from bench.metrics.protocol import (
    MAX_VALUE,
    Arithmetic,
    Category,
    Measure,
    Metric,
    MetricInfo,
    RegisteredMetric,
    canonical,
    or_list,
    similar_names,
    split_cut,
)
from bench.model import Row


def from_plugin(
    loaded: object,
    params: Mapping[str, object],
    *,
    label: str,
    name: str | None = None,
    breakdown: tuple[str, ...] = (),
) -> Measure:
    """Convert a plug-in (a class or an instance) to a ``Measure``. ``label`` names the plug-in in errors.

    Raises:
        ConfigError: the class lacks an attribute, does not accept a parameter, or has an unknown category.
    """
    try:
        metric = loaded(**params) if isinstance(loaded, type) else loaded
    except TypeError as error:
        raise ConfigError(
            f"metric {label} does not accept its parameters: {error}",
            hint="write the parameters that the class needs, and no others",
        ) from error
    for part in ("name", "definition", "score"):
        if not hasattr(metric, part):
            raise ConfigError(f'metric {label} has no "{part}"', hint="write the class as in docs/add-a-metric.md")
    category = getattr(metric, "category", "custom")
    if category not in get_args(Category):
        hint = f"use {or_list(get_args(Category))}"
        raise ConfigError(f'metric {label}: unknown category "{category}"', hint=hint)
    plugin = cast("Metric", metric)
    aggregate, unit = getattr(metric, "aggregate", None), getattr(metric, "unit", None)
    return Measure(
        name=name or canonical(plugin.name),
        definition=plugin.definition,
        category=category,
        unit=unit,
        lower_is_better=bool(getattr(metric, "lower_is_better", False)),
        params=getattr(metric, "params", params),
        arithmetic=Arithmetic(
            of_row=checked_score(plugin, label),
            of_inputs=getattr(metric, "score_inputs", None),
            fold=Mean(shares=unit is None) if aggregate is None else PluginAggregate(aggregate),
        ),
        breakdown=breakdown,
    )


def checked_score(metric: Metric, label: str) -> Callable[[Row], float | None]:
    """Return a function that calls the plug-in's ``score`` and checks the result.

    The function raises EvaluatorFailed if the result is neither a finite number nor None.
    """

    def score(row: Row) -> float | None:
        value: object = metric.score(row)
        if value is None:
            return None
        if not isinstance(value, int | float) or not abs(value) <= MAX_VALUE:
            raise EvaluatorFailed(
                f"metric {label} returned {value!r} for item {row.item_id}; expected a number from -1e100 to 1e100"
            )
        return float(value)

    return score


GROUP = "bench.metrics"
FAMILIES = (retrieval, text, overlap, similarity, verdicts, parts, ordering, citation, latency, pricing)

Params = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A parsed metric name: the built-in metric, the cutoff K, and the parameters that the name sets."""

    name: str
    entry: RegisteredMetric
    k: int | str | None
    """a number; ``"k"`` for a name such as ``ndcg_at_k``; None for a name without a cutoff"""
    preset: Mapping[str, object]


class Registry:
    """The built-in metrics by name and alias. A name that is not built in is looked up among the plug-ins."""

    def __init__(self, entries: tuple[RegisteredMetric, ...]) -> None:
        self.entries = entries
        self._known: dict[str, tuple[RegisteredMetric, Params]] = {}
        for entry in entries:
            self._claim(entry.name, entry, {})
            for alias, preset in entry.aliases.items():
                self._claim(alias, entry, preset)

    def _claim(self, name: str, entry: RegisteredMetric, preset: Params) -> None:
        if name in self._known:
            raise plugins.duplicate_name_error(name, GROUP, plugins.OWN_DISTRIBUTION, plugins.OWN_DISTRIBUTION)
        self._known[name] = (entry, preset)

    def names(self) -> Iterator[str]:
        """Yield every name and alias, including those of installed plug-ins.

        A name that needs a cutoff ends in ``_at_K``. A name with an optional cutoff is yielded in both forms.
        """
        for name, (entry, _) in self._known.items():
            yield f"{name}_at_K" if entry.cut == "required" else name
            if entry.cut == "optional":
                yield f"{name}_at_K"
        yield from self.installed()

    def installed(self) -> dict[str, plugins.InstalledPlugin]:
        """Return name -> installed plug-in, without importing the plug-ins.

        Raises ConfigError if a plug-in has the name of a built-in metric.
        """
        found = plugins.installed_plugins(GROUP, canonical)
        for name, plugin in found.items():
            if name in self._known:
                raise plugins.duplicate_name_error(name, GROUP, plugins.OWN_DISTRIBUTION, plugin.distribution)
        return found

    def parse_name(self, name: str) -> MetricRequest | None:
        """Split a name into the built-in metric, the cutoff K and the parameters that the name sets.

        Return None if no built-in metric has the name.
        """
        spelled = canonical(name)
        if spelled in self._known:
            entry, preset = self._known[spelled]
            return MetricRequest(spelled, entry, None, preset)
        base, k = split_cut(spelled)
        spelled = with_cut(base, k)
        found = self._known.get(base) if k is not None else self._dotted(spelled)
        if k == 0:
            raise UnknownMetric(f'metric "{spelled}": K must be 1 or more', hint=f'write "{base}_at_10", or give k')
        if found is None or (k is not None and found[0].cut == "none"):
            return None
        return MetricRequest(spelled, found[0], k, found[1])

    def _dotted(self, spelled: str) -> tuple[RegisteredMetric, Params] | None:
        base, dot, value = spelled.partition(".")
        found = self._known.get(base)
        if not dot or found is None or found[0].dotted is None:
            return None
        entry, preset = found
        parameter = entry.parameters[entry.dotted or ""]
        if not parameter.accepts(value):
            return None
        return entry, {**preset, entry.dotted or "": value}

    @staticmethod
    def _cut(request: MetricRequest, params: Params, default_k: int | None) -> int | None:
        """Return the cutoff K that the name or the parameter ``k`` sets.

        If neither sets K, return ``default_k`` for a metric that needs a K, else None.
        """
        entry, given_k = request.entry, params.get("k")
        if entry.cut == "none":
            return None
        if isinstance(request.k, int) and given_k not in (None, request.k):
            raise UnknownMetric(
                f'metric "{request.name}": k = {given_k!r}, but the name of the metric already sets {request.k}',
                hint='remove "k", or write the wanted K in the name',
            )
        cut: object = request.k if isinstance(request.k, int) else given_k
        if cut is None and entry.cut == "required":
            cut = default_k
        if cut is None and (entry.cut == "required" or request.k == "k"):
            raise UnknownMetric(
                f'metric "{request.name}" needs a cutoff K', hint=f'write "{entry.name}_at_10", or give k'
            )
        if cut is not None and (not isinstance(cut, int) or isinstance(cut, bool) or cut < 1):
            raise UnknownMetric(
                f'metric "{request.name}": K must be a whole number of 1 or more, not {cut!r}',
                hint=f'write "{entry.name}_at_10", or give k',
            )
        return cut

    def measure(
        self,
        name: str,
        params: Params | None = None,
        *,
        default_k: int | None = None,
        breakdown: tuple[str, ...] = (),
    ) -> Measure:
        """Return the metric called ``name`` with its parameters set.

        Raises:
            UnknownMetric: the name, the K or a parameter is unknown. The error suggests similar names.
        """
        request, given = self.parse_name(name), dict(params or {})
        if request is None:
            return self._installed(canonical(name), given, breakdown)
        entry, k = request.entry, self._cut(request, given, default_k)
        checked = self._checked(request, given)
        arithmetic = entry.build(k, checked)
        return Measure(
            name=f"{request.name[: -len('k')]}{k}" if request.k == "k" else request.name,
            definition=entry.definition(k, checked),
            category=entry.category,
            unit=entry.unit,
            lower_is_better=entry.lower_is_better,
            params=checked if k is None else {**checked, "k": k},
            arithmetic=arithmetic,
            breakdown=breakdown or entry.dimensions,
            scope="parts" if arithmetic.parts else entry.scope,
            counts_unknown=entry.counts_unknown,
        )

    def _checked(self, request: MetricRequest, params: dict[str, object]) -> dict[str, object]:
        """Return the values of all parameters of the metric.

        A value comes from the name of the metric or from ``params``. If neither sets it, it is the default.

        Raises:
            UnknownMetric: ``params`` has an unknown parameter, an invalid value, or a value that differs from
                the one that the name sets.
        """
        entry = request.entry
        if entry.cut != "none":
            params.pop("k", None)
        checked: dict[str, object] = {key: p.default for key, p in entry.parameters.items()} | dict(request.preset)
        for key, value in params.items():
            parameter = entry.parameters.get(key)
            if parameter is None:
                close = similar_names(key, entry.parameters) or sorted(entry.parameters)
                hint = f"did you mean {or_list(close)}?" if close else "the metric has no parameters"
                raise UnknownMetric(f'metric "{request.name}" has no parameter "{key}"', hint=hint)
            if not parameter.accepts(value):
                raise UnknownMetric(
                    f'metric "{request.name}": {key} = {value!r} is not allowed', hint=f"use {parameter.allowed}"
                )
            if key in request.preset and request.preset[key] != value:
                raise UnknownMetric(
                    f'metric "{request.name}": {key} = {value!r}, but the name of the metric already sets '
                    f"{request.preset[key]!r}",
                    hint=f'remove "{key}", or choose the name of the metric that sets the wanted value',
                )
            checked[key] = parameter.read(value)
        return checked

    def _installed(self, name: str, params: dict[str, object], breakdown: tuple[str, ...]) -> Measure:
        plugin = self.installed().get(name)
        if plugin is None:
            raise self.unknown(name)
        return from_plugin(
            plugins.load_installed(plugin, GROUP),
            params,
            label=f"{plugin.name} of {plugin.distribution}",
            name=name,
            breakdown=breakdown,
        )

    def unknown(self, name: str) -> UnknownMetric:
        """Return the error for a name that no metric has, with similar names as a hint."""
        spelled = canonical(name)
        base, k = split_cut(spelled)
        if k is not None and base in self._known:
            return UnknownMetric(f'metric "{base}" does not accept a cutoff K', hint=f'write "{base}" without K')
        generic = spelled if k is None else f"{base}_at_K"
        close = [c.replace("_at_K", f"_at_{k}") if k is not None else c for c in similar_names(generic, self.names())]
        text = f'unknown metric "{name}"' + (f"; did you mean {or_list(close)}?" if close else "")
        return UnknownMetric(text)

    def info(self, name: str) -> MetricInfo:
        """Return the main name, the other names, the definition and the unit of a metric.

        The definition contains ``@K`` if the name gives no number.
        """
        request = self.parse_name(name)
        if request is None:
            found = self._installed(canonical(name), {}, ())
            return MetricInfo(
                name=found.name,
                definition=found.definition,
                aliases=(),
                category=found.category,
                unit=found.unit,
                lower_is_better=found.lower_is_better,
                params=found.params,
            )
        entry, params = request.entry, self._checked(request, {})
        k = request.k if isinstance(request.k, int) else "K" if request.k or entry.cut == "required" else None
        same = [n for n, (e, preset) in self._known.items() if e is entry and preset == request.preset]
        cut = "K" if request.k == "k" else request.k
        first, *others = [with_cut(n, cut) for n in same or [request.name]]
        return MetricInfo(
            name=first,
            definition=entry.definition(k, params),
            aliases=tuple(others),
            category=entry.category,
            unit=entry.unit,
            lower_is_better=entry.lower_is_better,
            summary=entry.summary,
            params=params,
            title=entry.title.format(k=k, **params) or first,
        )


def with_cut(name: str, k: int | str | None) -> str:
    """Return ``name_at_k`` with the cutoff filled in, or ``name`` if ``k`` is None."""
    return name if k is None else f"{name}_at_{k}"


@functools.cache
def registry() -> Registry:
    """Return the registry of all built-in metrics; it is built once per process."""
    return Registry(tuple(entry for family in FAMILIES for entry in family.ENTRIES))


def catalog() -> list[MetricInfo]:
    """Return one description per metric, sorted by name. Plug-ins are listed without being imported."""
    known = registry()
    own = [known.info(with_cut(e.name, "K" if e.cut == "required" else None)) for e in known.entries]
    others = [
        MetricInfo(
            name=plugin.name,
            definition="",
            aliases=(),
            category="custom",
            unit=None,
            lower_is_better=False,
            summary=f"plug-in of {plugin.distribution}",
        )
        for plugin in known.installed().values()
    ]
    return sorted([*own, *others], key=lambda info: info.name)
