"""Metrics that are computed from the parts of a verdict.

A part is an additional number with a name. The metrics of a memory audit sum the parts over all items, so that each
fact and each stored memory has the same weight.

Example::

    bench.metrics.score("choice_letter.exact", parts={"exact": 1})        # 1.0
    f1_of(3, 4, 4, 4)           # 0.857: F1 of a recall of 3/4 and an accuracy of 4/4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import SCORED_STATES, Row

Params = Mapping[str, object]
RULES = ("exact", "stated", "only")
"""names of the rules by which `bench.metrics.answers.choices.letter_rules` finds a letter in an answer"""


def part_of(row: Row, name: str) -> float | None:
    """Return the part called ``name`` of the row's first verdict that has this part; None if no verdict has it."""
    return next((one.parts[name] for one in row.verdicts if name in one.parts), None)


def f1_of(found: float, points: float, right: float, target: float) -> float | None:
    """Return the F1 of the recall found / points and the accuracy right / target.

    Return None if nothing was expected (``points`` is 0), and 0 if nothing was found or nothing was right.
    """
    if not points:
        return None
    recall, accuracy = found / points, right / target if target else 0.0
    return 2 * recall * accuracy / (recall + accuracy) if recall + accuracy else 0.0


def _floored(k: int | None, params: Params) -> Arithmetic:
    def of_row(row: Row) -> float | None:
        if row.state not in SCORED_STATES or not row.verdicts:
            return None
        return row.verdicts[0].parts.get("floored", row.verdicts[0].value)

    def of_inputs(value: float, parts: Mapping[str, float] | None = None) -> float | None:
        return (parts or {}).get("floored", value)

    return Arithmetic(reads_verdicts=True, of_row=of_row, of_inputs=of_inputs)


def _part_metric(key: str, evaluators: tuple[str, ...] = ()) -> Callable[[int | None, Params], Arithmetic]:
    """Return the ``build`` function of a metric whose value is one part of a verdict.

    The parameter ``key`` of the metric, such as ``label``, sets the name of the part.
    """

    def build(k: int | None, params: Params) -> Arithmetic:
        name = str(params[key])
        return Arithmetic(
            reads_verdicts=True,
            of_row=lambda row: part_of(row, name),
            of_inputs=lambda parts: parts.get(name),
            absent_reason="no_such_part",
            evaluators=evaluators,
        )

    return build


def _sum_metric(formula: Callable[..., float | None], *names: str) -> Callable[[int | None, Params], Arithmetic]:
    """Return the ``build`` function of a metric whose value is ``formula`` of sums over all items.

    Each sum adds up one part of all verdicts. ``names`` are the names of these parts, in the order of the formula's
    arguments.
    """

    def build(k: int | None, params: Params) -> Arithmetic:
        def part(name: str) -> Callable[[Row], float | None]:
            return lambda row: part_of(row, name)

        def of_sums(sums: Sequence[float]) -> float | None:
            return formula(*sums)

        return Arithmetic(
            reads_verdicts=True,
            of_row=lambda row: None,
            of_inputs=lambda parts: formula(*(parts[name] for name in names)),
            parts={name: part(name) for name in names},
            of_sums=of_sums,
            evaluators=("memory-audit",),
        )

    return build


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _audit_entry(name: str, summary: str, formula: Callable[..., float | None], *names: str) -> RegisteredMetric:
    return RegisteredMetric(
        name=name, summary=summary, category="answer", build=_sum_metric(formula, *names), scope="parts"
    )


ENTRIES = (
    RegisteredMetric(
        name="correctness_floored",
        summary="mean value with each rubric point rounded down to a whole number, as in BEAM's script: 0.5 becomes 0",
        category="answer",
        build=_floored,
    ),
    RegisteredMetric(
        name="choice_letter",
        summary="1 if the letter is right by a published rule: exact (MemBench), stated (LongBench), only (PersonaMem)",
        category="answer",
        build=_part_metric("rule", ("mcq",)),
        define=lambda params: f"choice_letter.{params['rule']}",
        parameters={"rule": Parameter(default="exact", choices=RULES)},
        dotted="rule",
    ),
    RegisteredMetric(
        name="label_share",
        summary="label_share.LABEL: share of the items to which the judge gave LABEL",
        category="answer",
        build=_part_metric("label", ("labels",)),
        define=lambda params: f"label_share.{params['label']}",
        parameters={"label": Parameter(default="correct")},
        dotted="label",
    ),
    _audit_entry("memory_recall", "share of the expected facts that are stored completely", _share, "found", "points"),
    _audit_entry(
        "memory_recall_partial",
        "like memory_recall, but a fact that is stored in part counts half",
        _share,
        "partly",
        "points",
    ),
    _audit_entry("memory_accuracy", "mean correctness of all stored memories", _share, "right", "stored"),
    _audit_entry(
        "memory_target_accuracy",
        "mean correctness of the stored memories that are expected facts",
        _share,
        "target_right",
        "target",
    ),
    _audit_entry(
        "memory_f1",
        "F1 of memory_recall and memory_target_accuracy",
        f1_of,
        "found",
        "points",
        "target_right",
        "target",
    ),
)
