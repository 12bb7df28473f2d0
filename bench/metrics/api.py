"""The stable functions: one item, many rows, what a name means. No run, no journal.

Example::

    score("recall_at_k", params={"k": 5, "variant": "all"}, retrieved=["a"], relevant={"a"})        # 1.0
    measure("accuracy", [{"correct": True}, {"correct": None}], by="question_type").value           # 1.0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from bench.errors import UnknownMetric
from bench.metrics.compute import values
from bench.metrics.facts import FoldRow, labels_of
from bench.metrics.fold import fold
from bench.metrics.names import near, or_list
from bench.metrics.normal import as_text
from bench.metrics.protocol import Measure, MetricInfo
from bench.metrics.registry import registry
from bench.metrics.select import dimension_name, over
from bench.model import Measurement, Row, State

Params = Mapping[str, object]


def score(name: str, *, params: Params | None = None, **inputs: object) -> float | None:
    """The value of one item, None = not scored.

    Inputs by family: ``retrieved, relevant``; ``prediction, reference | references``; ``deleted, texts``;
    ``a, b`` (embeddings); ``correct, value, answerable, adversarial, abstained``.
    Raises UnknownMetric for a name, parameter or input that is not known.
    """
    metric = registry().measure(name, params)
    function = _generic(metric)
    try:
        inspect.signature(function).bind(**inputs)
    except TypeError as error:
        raise UnknownMetric(f'metric "{metric.name}": {error}', hint="inputs are named in its family") from error
    return function(**inputs)


def measure(
    name: str,
    rows: Iterable[Mapping[str, object] | Row],
    *,
    params: Params | None = None,
    by: str | Sequence[str] | None = None,
) -> Measurement:
    """Fold rows into one Measurement.

    A row is a ``Row``, or a mapping with the inputs of ``score`` and optionally ``labels``, ``corpus`` and
    ``state``. ``by`` names the breakdowns; a macro metric averages over the first of them.
    Raises UnknownMetric for a key of a row that is no input of any metric.
    """
    dimensions = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    dimensions = tuple(dimension_name(d) for d in dimensions)
    metric = registry().measure(name, params)
    if dimensions:
        metric = over(metric, dimensions)
    light = [_light(metric, place, row) for place, row in enumerate(rows)]
    clustered = any(row.corpus for row in light)
    if metric.scope == "corpus":
        metric = _as_items(metric)
    return fold([metric], light, by=dimensions, clustered=clustered)[metric.name]


def resolve(name: str) -> MetricInfo:
    """What a name means; raises UnknownMetric with up to three near matches."""
    return registry().info(name)


def _as_items(metric: Measure) -> Measure:
    from dataclasses import replace

    return replace(metric, scope="item")


def _generic(metric: Measure) -> Callable[..., float | None]:
    function = metric.arithmetic.of_inputs
    if function is None:
        raise UnknownMetric(f'metric "{metric.name}" is computed from rows only', hint="use measure with Row values")
    return function


def _light(metric: Measure, place: int, row: Mapping[str, object] | Row) -> FoldRow:
    if isinstance(row, Row):
        labels = labels_of(row.labels)
        return FoldRow(
            row.item_id, row.corpus, row.epoch, row.state, labels, tuple(values([metric], row).values()), row.reason
        )
    _refuse_misspelt(metric, row)
    labels = labels_of(cast("Mapping[str, str]", row.get("labels") or {}))
    state = _state(row)
    corpus, item = str(row.get("corpus") or ""), str(row.get("item_id", place))
    found = _parts(metric, row) if metric.scope == "parts" else (_value(metric, row),)
    return FoldRow(item, corpus, 1, state, labels, found, str(row.get("reason") or ""))


def _parts(metric: Measure, row: Mapping[str, object]) -> tuple[float | None, ...]:
    """The parts of a metric that compares texts."""
    texts = Row(
        benchmark="",
        corpus="",
        item_id="",
        prediction=as_text(row["prediction"]),
        references=(as_text(row["reference"]),),
    )
    return tuple(values([metric], texts).values())


_BESIDE = frozenset({"labels", "corpus", "state", "item_id", "reason"})
_INPUTS = frozenset(
    {
        "retrieved", "relevant", "scores", "prediction", "reference", "references", "category", "deleted", "texts",
        "a", "b", "correct", "value", "answerable", "adversarial", "abstained", "faithfulness",
        "us", "tokens", "cost_usd",
    }
)  # fmt: skip
"""what the metrics of all families read: one row may serve several of them"""


def _refuse_misspelt(metric: Measure, row: Mapping[str, object]) -> None:
    """A key that nobody reads would be a missing input, which is a score of its own."""
    unknown = [key for key in row if key not in _INPUTS | _BESIDE]
    if not unknown:
        return
    parameters = inspect.signature(_generic(metric)).parameters.values()
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    if open_ended and registry().take_apart(metric.name) is None:  # a plug-in that takes whatever there is
        return
    reads = sorted(one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD)
    for key in unknown:
        if key not in reads:
            close = near(key, sorted({*reads, *_INPUTS, *_BESIDE}))
            hint = f"did you mean {or_list(close)}?" if close else f"it reads {or_list(reads)}"
            raise UnknownMetric(f'metric "{metric.name}": a row has the unknown key "{key}"', hint=hint)


def _value(metric: Measure, row: Mapping[str, object]) -> float | None:
    function = _generic(metric)
    accepted = inspect.signature(function).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    inputs = {k: v for k, v in row.items() if k in accepted or (open_ended and k not in _BESIDE)}
    return function(**inputs)


def _state(row: Mapping[str, object]) -> str | None:
    """The row's own state, else what ``correct`` says."""
    if "state" in row:
        return cast("str | None", row["state"])
    if "correct" not in row:
        return State.MEASURED
    if row["correct"] is None:
        return State.UNSCORED
    return State.CORRECT if row["correct"] else State.INCORRECT
