"""The stable functions for one item, for many rows, and for the meaning of a metric name.

Example::

    score("recall_at_k", params={"k": 5, "variant": "all"}, retrieved=["a"], relevant={"a"})        # 1.0
    measure("accuracy", [{"correct": True}, {"correct": None}], by="question_type").value           # 1.0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from bench.errors import UnknownMetric
from bench.metrics.answers.text_normalization import as_iterable, as_text
from bench.metrics.fold import fold, values
from bench.metrics.fold_input import FoldRow, labels_of
from bench.metrics.protocol import Measure, MetricInfo, or_list, similar_names
from bench.metrics.registry import registry
from bench.metrics.selection import dimension_name, with_breakdown
from bench.model import Measurement, Row, State

Params = Mapping[str, object]
Labels = Mapping[str, object]
Texts = str | Iterable[object]


def score(name: str, *, params: Params | None = None, **inputs: object) -> float | None:
    """Return the value of one item; None = not scored.

    Inputs by family: ``retrieved, relevant``; ``prediction, reference | references``; ``deleted, texts``;
    ``a, b`` (embeddings); ``correct, value, answerable, adversarial, abstained``.
    Raises UnknownMetric for an unknown name, parameter or input.
    """
    return _call(registry().measure(name, params), inputs)


def measure(
    name: str,
    rows: Iterable[Mapping[str, object] | Row],
    *,
    params: Params | None = None,
    by: str | Sequence[str] | None = None,
) -> Measurement:
    """Return the Measurement of many rows.

    A row is a ``Row``, or a mapping with the inputs of ``score`` and optionally ``labels``, ``corpus`` and
    ``state``. ``by`` names the breakdowns; a macro metric averages over the first of them.
    Raises UnknownMetric for a key of a row that is not an input of any metric, and for an input that is missing.
    """
    dimensions = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    dimensions = tuple(dimension_name(d) for d in dimensions)
    metric = registry().measure(name, params)
    if dimensions:
        metric = with_breakdown(metric, dimensions)
    if metric.scope == "corpus":
        metric = replace(metric, scope="item")
    light = [_fold_row(metric, place, row) for place, row in enumerate(rows)]
    clustered = any(row.corpus for row in light)
    return fold([metric], light, by=dimensions, clustered=clustered)[metric.name]


def resolve(name: str) -> MetricInfo:
    """Return the meaning of a metric name; raise UnknownMetric, with up to three similar names, for an unknown one."""
    return registry().info(name)


def _function(metric: Measure) -> Callable[..., float | None]:
    function = metric.arithmetic.of_inputs
    if function is None:
        raise UnknownMetric(
            f'metric "{metric.name}" cannot be computed with bench.metrics.score',
            hint="use bench.metrics.measure with Row values",
        )
    return function


def _call(metric: Measure, inputs: Mapping[str, object]) -> float | None:
    function = _function(metric)
    signature = inspect.signature(function)
    try:
        signature.bind(**inputs)
    except TypeError as error:
        hint = f"inputs: {', '.join(signature.parameters)}"
        raise UnknownMetric(f'metric "{metric.name}": {error}', hint=hint) from error
    return function(**inputs)


def _fold_row(metric: Measure, place: int, row: Mapping[str, object] | Row) -> FoldRow:
    if isinstance(row, Row):
        found = tuple(values([metric], row).values())
        return FoldRow(row.item_id, row.corpus, row.epoch, row.state, labels_of(row.labels), found, row.reason)
    inputs = _inputs(metric, row)
    labels = labels_of({key: as_text(label) for key, label in cast("Labels", row.get("labels") or {}).items()})
    corpus, item = str(row.get("corpus") or ""), str(row.get("item_id", place))
    found = _parts(metric, row) if metric.scope == "parts" else (_call(metric, inputs),)
    return FoldRow(item, corpus, 1, _state(metric, row), labels, found, str(row.get("reason") or ""))


def _parts(metric: Measure, row: Mapping[str, object]) -> tuple[float | None, ...]:
    """Return the values of a metric's parts, for a metric that compares texts."""
    prediction, references = row.get("prediction"), row.get("references") or [row.get("reference")]
    texts = Row(
        benchmark="",
        corpus="",
        item_id="",
        prediction=None if prediction is None else as_text(prediction),
        references=tuple(as_text(one) for one in as_iterable(cast("Texts", references)) if one is not None),
    )
    return tuple(values([metric], texts).values())


_ROW_KEYS = frozenset({"labels", "corpus", "state", "item_id", "reason"})
_INPUTS = frozenset(
    {
        "retrieved", "relevant", "scores", "prediction", "reference", "references", "category", "deleted", "texts",
        "a", "b", "correct", "value", "answerable", "adversarial", "abstained", "faithfulness",
        "us", "tokens", "cost_usd",
    }
)  # fmt: skip
"""the inputs of all metric families: one row may be used for several of them"""


def _inputs(metric: Measure, row: Mapping[str, object]) -> dict[str, object]:
    """Return the inputs that the metric reads from a row.

    An unknown key is an error, because a misspelled input would be missing and change the score.
    """
    parameters = inspect.signature(_function(metric)).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return {key: value for key, value in row.items() if key not in _ROW_KEYS}  # a plug-in that takes what there is
    for key in row:
        if key not in parameters and key not in _INPUTS | _ROW_KEYS:
            close = similar_names(key, {*parameters, *_INPUTS, *_ROW_KEYS})
            hint = f"did you mean {or_list(close)}?" if close else f"inputs: {', '.join(parameters)}"
            raise UnknownMetric(f'metric "{metric.name}": a row has the unknown key "{key}"', hint=hint)
    return {key: value for key, value in row.items() if key in parameters}


def _state(metric: Measure, row: Mapping[str, object]) -> str | None:
    """Return the row's own state, else the state for ``correct``."""
    if "state" in row:
        state = None if row["state"] is None else str(row["state"])
        if state is not None and state not in set(State):
            close = similar_names(state, State)
            hint = f"did you mean {or_list(close)}?" if close else f"use {or_list(State)}"
            raise UnknownMetric(f'metric "{metric.name}": a row has the unknown state "{state}"', hint=hint)
        return state
    if "correct" not in row:
        return State.MEASURED
    if row["correct"] is None:
        return State.UNSCORED
    return State.CORRECT if row["correct"] else State.INCORRECT
