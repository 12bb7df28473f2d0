"""Metrics that read the verdict on an answer: accuracy and its variants, correctness, abstention, faithfulness.

The inputs are ``correct`` (true, false, None = unscored), ``value``, ``answerable``, ``adversarial`` and ``abstained``,
or the state and verdicts of a ``Row``.

Example::

    bench.metrics.measure("accuracy", [{"correct": True}, {"correct": None}]).n      # 1
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.metrics.aggregation import MEAN, FoldRule, Macro
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import SCORED_STATES, Row, State, Verdict

Params = Mapping[str, object]

_SYNONYMS = {"contains_match": "contains", "locomo_qa_score": "locomo_f1", "llm_as_judge": "llm_judge"}
METHODS = {
    name: _SYNONYMS.get(name, name).replace("_", "-")
    for name in (
        "exact_match", "contains", "contains_match", "token_f1", "locomo_f1", "locomo_qa_score",
        "semantic_similarity", "llm_judge", "llm_as_judge", "mcq", "rubric", "rubric_points", "order_agreement",
        "labels", "memory_audit", "phrases", "ordered_phrases", "faithfulness", "code_correctness",
        "deletion_check", "custom",
    )
}  # fmt: skip
"""``method`` of a metric in a config -> name of the evaluator"""


def verdict_of(row: Row, evaluator: str | None) -> Verdict | None:
    """Return the newest verdict of one evaluator; None if there is none.

    With ``evaluator`` None, return the first verdict of the row. The evaluator ``custom`` matches any evaluator class
    in a file next to the config; its verdicts have the name ``custom:./file.py:Class``.
    """
    if evaluator is None:
        return row.verdicts[0] if row.verdicts else None
    return next((v for v in reversed(row.verdicts) if evaluator in (v.evaluator, v.evaluator.partition(":")[0])), None)


def value_of(row: Row, evaluator: str | None) -> float | None:
    """Return the value of the evaluator's newest verdict; None if there is no verdict or no value."""
    verdict = verdict_of(row, evaluator)
    return None if verdict is None else verdict.value


def correct_of(row: Row, evaluator: str | None, threshold: float | None = None) -> bool | None:
    """Return True if the item is correct by this evaluator's verdict, False if not, None if it was not scored.

    With a threshold, the item is correct if the value reaches the threshold, unless the answer abstains although the
    question has an answer. If neither evaluator nor threshold is given, the state of the item decides.
    """
    if evaluator is None and threshold is None:
        return row.state is State.CORRECT if row.state in SCORED_STATES else None
    verdict = verdict_of(row, evaluator)
    if verdict is None or verdict.value is None:
        return None if verdict is None else verdict.correct
    if threshold is None:
        return verdict.correct
    return verdict.value >= threshold and not (verdict.abstained and row.answerable)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedInputs:
    """The inputs of the metrics in this module for one judged item."""

    correct: bool | None = None
    value: float | None = None
    answerable: bool = True
    adversarial: bool = False
    abstained: bool = False
    faithfulness: float | None = None


def from_inputs(of_judged: Callable[[JudgedInputs], float | None]) -> Callable[..., float | None]:
    """Return a function that takes the fields of `JudgedInputs` as keywords and calls ``of_judged`` with them.

    The function raises TypeError for an unknown keyword.
    """

    @functools.wraps(JudgedInputs, updated=())
    def of_inputs(**inputs: object) -> float | None:
        return of_judged(JudgedInputs(**inputs))  # type: ignore[arg-type]

    return of_inputs


def binary_score(correct: bool | None) -> float | None:
    """Return 1 for True and 0 for False; None if the item was not scored."""
    return None if correct is None else float(correct)


def _accuracy(params: Params, fold: FoldRule = MEAN, *, adversarial: bool = True) -> Arithmetic:
    method, threshold = params.get("method"), params.get("threshold")
    evaluator = None if method is None else METHODS[str(method)]
    limit = None if threshold is None else float(str(threshold))

    def of_judged(one: JudgedInputs) -> float | None:
        if one.adversarial and not adversarial:
            return None
        if limit is not None and one.value is not None:
            return float(one.value >= limit and not (one.abstained and one.answerable))
        return binary_score(one.correct)

    def of_row(row: Row) -> float | None:
        return None if row.adversarial and not adversarial else binary_score(correct_of(row, evaluator, limit))

    return Arithmetic(
        reads_verdicts=True,
        of_row=of_row,
        of_inputs=from_inputs(of_judged),
        fold=fold,
        evaluators=() if evaluator is None else (evaluator,),
        absent_reason="" if adversarial else "adversarial",
    )


def _correctness(k: int | None, params: Params) -> Arithmetic:
    evaluator = None if params["method"] is None else METHODS[str(params["method"])]

    def of_row(row: Row) -> float | None:
        return value_of(row, evaluator) if row.state in SCORED_STATES else None

    def of_judged(one: JudgedInputs) -> float | None:
        return binary_score(one.correct) if one.value is None else float(one.value)

    return Arithmetic(
        reads_verdicts=True,
        of_row=of_row,
        of_inputs=from_inputs(of_judged),
        evaluators=() if evaluator is None else (evaluator,),
    )


def _abstention(k: int | None, params: Params) -> Arithmetic:
    def of_judged(one: JudgedInputs) -> float | None:
        return None if one.answerable else binary_score(one.correct)

    return Arithmetic(
        reads_verdicts=True,
        of_row=lambda row: of_judged(JudgedInputs(correct=correct_of(row, None), answerable=row.answerable)),
        of_inputs=from_inputs(of_judged),
        absent_reason="answerable",
    )


def _over_abstention(k: int | None, params: Params) -> Arithmetic:
    def of_judged(one: JudgedInputs) -> float | None:
        return float(one.abstained) if one.answerable and one.correct is not None else None

    def of_row(row: Row) -> float | None:
        refused = row.abstained or row.state is State.ABSTAINED
        return of_judged(JudgedInputs(correct=correct_of(row, None), answerable=row.answerable, abstained=refused))

    return Arithmetic(
        reads_verdicts=True, of_row=of_row, of_inputs=from_inputs(of_judged), absent_reason="unanswerable"
    )


def _faithfulness(k: int | None, params: Params) -> Arithmetic:
    def of_row(row: Row) -> float | None:
        return next((v.faithfulness for v in row.verdicts if v.faithfulness is not None), None)

    return Arithmetic(
        reads_verdicts=True,
        of_row=of_row,
        of_inputs=from_inputs(lambda one: one.faithfulness),
        absent_reason="no_faithfulness",
    )


METHOD = Parameter(default=None, choices=(*METHODS, None))
CHOICE = {
    "method": METHOD,
    "threshold": Parameter(default=None, within=(0, 1)),
    "model": Parameter(default=None),
}


def _by_method(name: str) -> Callable[[Params], str]:
    """Return the function that names a metric in its definition id, such as ``accuracy`` or ``accuracy.llm_judge``.

    The parameter ``method`` names the evaluator after the dot. Without ``method``, the result is ``name`` alone. All
    spellings of a method give the same result.
    """

    def define(params: Params) -> str:
        method = params["method"]
        return name if method is None else f"{name}.{METHODS[str(method)].replace('-', '_')}"

    return define


def _accuracy_entry(
    name: str,
    summary: str,
    fold: FoldRule = MEAN,
    *,
    adversarial: bool = True,
    aliases: Mapping[str, Params] | None = None,
    dimensions: tuple[str, ...] = (),
) -> RegisteredMetric:
    return RegisteredMetric(
        name=name,
        summary=summary,
        category="answer",
        build=lambda k, params: _accuracy(params, fold, adversarial=adversarial),
        define=_by_method(name),
        aliases=aliases or {},
        parameters=CHOICE,
        dotted="method",
        dimensions=dimensions,
    )


ENTRIES = (
    _accuracy_entry(
        "accuracy",
        "correct / scored items; accuracy.METHOD chooses the evaluator",
        aliases={"accuracy.llm_judge": {"method": "llm_judge"}, "llm_score": {"method": "llm_judge"}},
    ),
    _accuracy_entry("accuracy_macro", "mean of the question types' accuracies", Macro("question_type")),
    _accuracy_entry(
        "accuracy_by_question_type",
        "mean of the question types' accuracies; each of them is also reported",
        Macro("question_type"),
        dimensions=("question_type",),
    ),
    _accuracy_entry(
        "accuracy_by_category",
        "mean of the categories' accuracies; each of them is also reported",
        Macro("question_type"),
        dimensions=("question_type",),
    ),
    _accuracy_entry("accuracy_incl_adversarial", "accuracy over all scored items, including adversarial ones"),
    _accuracy_entry(
        "accuracy_excl_adversarial", "accuracy over the scored items that are not adversarial", adversarial=False
    ),
    RegisteredMetric(
        name="correctness",
        summary="mean value of the verdicts, 0..1",
        category="answer",
        build=_correctness,
        define=_by_method("correctness"),
        parameters={"method": METHOD},
        dotted="method",
    ),
    RegisteredMetric(
        name="abstention_accuracy",
        summary="correct items / scored items, over the items whose right answer is to abstain",
        category="answer",
        build=_abstention,
    ),
    RegisteredMetric(
        name="over_abstention_rate",
        summary="share of refusals among the scored items whose answer is in the memories",
        category="answer",
        build=_over_abstention,
        lower_is_better=True,
        version=3,  # the revision of the rule for refusals, which judged answers use too
    ),
    RegisteredMetric(
        name="faithfulness",
        summary="share of the answer's statements that the retrieved memories support",
        category="answer",
        build=_faithfulness,
    ),
)
