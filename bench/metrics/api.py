"""The public functions of ``bench.metrics``: score one item, measure many items, and find the definition of a metric
name.

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
    """Return the value of the metric called ``name`` for one item; None if the item is not scored.

    The inputs depend on the metric. Retrieval: ``retrieved`` and ``relevant``. Texts: ``prediction``, and ``reference``
    or ``references``. Deletion: ``deleted`` and ``texts``. Embeddings: ``a`` and ``b``. Judged answers: ``correct``,
    ``value``, ``answerable``, ``adversarial`` and ``abstained``.
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
    """Return the value of the metric over all rows, with its interval and counts.

    A row is a ``Row``, or a mapping with the inputs of ``score`` and optionally ``labels``, ``corpus`` and
    ``state``. ``by`` names the labels to break the result down by. A macro metric averages over the first of these
    labels.
    Raises UnknownMetric if a row has a key that no metric reads, or lacks an input of this metric.
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
    """Return the definition, unit and other names of a metric.

    Raises UnknownMetric, with up to three similar names, if no metric has the name.
    """
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
    """Return the numbers that the metric stores for one row and later sums over all rows, such as n-gram counts."""
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
"""the inputs of all metrics; a row can have inputs of several metrics"""


def _inputs(metric: Measure, row: Mapping[str, object]) -> dict[str, object]:
    """Return the keys and values of the row that the metric reads.

    Raises UnknownMetric for a key that no metric knows, because a misspelled input would change the score.
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
    """Return the value of the row's key ``state``. If the row lacks the key, derive a state from ``correct``.

    Raises UnknownMetric if there is no such state.
    """
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
