"""Somebody else's metric behind our face: a class with ``name``, ``definition`` and ``score``.

Example::

    from_plugin(Shouting, {"bonus": 0.5}, label="./mine.py:Shouting")       # a Measure
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast, get_args

from bench.errors import ConfigError, EvaluatorFailed
from bench.metrics.names import canonical, or_list
from bench.metrics.protocol import LARGEST, Arithmetic, Category, Measure, Metric
from bench.metrics.rules import Mean, Own
from bench.model import Row


def from_plugin(
    loaded: object,
    params: Mapping[str, object],
    *,
    label: str,
    name: str | None = None,
    breakdown: tuple[str, ...] = (),
) -> Measure:
    """Dress a plug-in's class or instance as a ``Measure``; a ConfigError names what it lacks."""
    try:
        metric = loaded(**params) if isinstance(loaded, type) else loaded
    except TypeError as error:
        raise ConfigError(f"metric {label}: {error}", hint="check its config: keys are its parameters") from error
    for part in ("name", "definition", "score"):
        if not hasattr(metric, part):
            raise ConfigError(f"metric {label} has no {part}", hint="see docs: what a metric plug-in must have")
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
            of_row=guarded(plugin, label),
            of_inputs=getattr(metric, "score_inputs", None),
            fold=Mean(shares=unit is None) if aggregate is None else Own(aggregate),
        ),
        breakdown=breakdown,
    )


def guarded(metric: Metric, label: str) -> Callable[[Row], float | None]:
    """The plug-in's ``score``; what it returns must be a number or None."""

    def score(row: Row) -> float | None:
        value: object = metric.score(row)
        if value is None:
            return None
        if not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise EvaluatorFailed(f"metric {label} returned {value!r} for item {row.item_id}")
        return float(value)

    return score
