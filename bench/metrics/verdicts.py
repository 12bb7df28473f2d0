"""Answer metrics from verdicts: accuracy in its forms, correctness, abstention, faithfulness.

Inputs ``correct`` (true, false, None = unscored), ``value``, ``answerable``, ``adversarial``,
``abstained``; of a ``Row``: its state and verdicts.

Example::

    bench.metrics.measure("accuracy", [{"correct": True}, {"correct": None}]).n      # 1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from bench.metrics.normal import as_text
from bench.metrics.protocol import Arithmetic, Entry, Parameter
from bench.metrics.rules import MEAN, FoldRule, Macro
from bench.model import SCORED_STATES, Row, State, Verdict

Params = Mapping[str, object]

METHODS = {
    "exact_match": "exact-match",
    "contains": "contains",
    "contains_match": "contains",
    "token_f1": "token-f1",
    "locomo_f1": "locomo-f1",
    "locomo_qa_score": "locomo-f1",
    "semantic_similarity": "semantic-similarity",
    "llm_judge": "llm-judge",
    "llm_as_judge": "llm-judge",
    "mcq": "mcq",
    "rubric": "rubric",
    "faithfulness": "faithfulness",
    "code_correctness": "code-correctness",
    "deletion_check": "deletion-check",
    "custom": "custom",
}
"""spelling in a metric's ``method`` -> name of the evaluator"""


def verdict_of(row: Row, evaluator: str | None) -> Verdict | None:
    """The newest verdict of one evaluator, or the first evaluator's when none is named.

    ``custom`` means any class beside a config; its verdicts are signed ``custom:./file.py:Class``.
    """
    if evaluator is None:
        return row.verdicts[0] if row.verdicts else None
    return next((v for v in reversed(row.verdicts) if evaluator in (v.evaluator, v.evaluator.partition(":")[0])), None)


def value_of(row: Row, evaluator: str | None) -> float | None:
    """The value of that verdict."""
    verdict = verdict_of(row, evaluator)
    return None if verdict is None else verdict.value


def correct_of(row: Row, evaluator: str | None, threshold: float | None = None) -> bool | None:
    """Whether the item is correct by that evaluator; None = not scored.

    Without an evaluator and a threshold of its own it is the item's state that counts.
    """
    if evaluator is None and threshold is None:
        return row.state is State.CORRECT if row.state in SCORED_STATES else None
    verdict = verdict_of(row, evaluator)
    if verdict is None or verdict.value is None:
        return None if verdict is None else verdict.correct
    if threshold is None:
        return verdict.correct
    return verdict.value >= threshold and not (verdict.abstained and row.answerable)


def _accuracy(params: Params, fold: FoldRule = MEAN, *, adversarial: bool = True) -> Arithmetic:
    method, threshold = params.get("method"), params.get("threshold")
    evaluator = None if method is None else METHODS[str(method)]
    limit = None if threshold is None else float(str(threshold))

    def of_inputs(
        correct: bool | None = None,
        value: float | None = None,
        answerable: bool = True,
        adversarial_item: bool = False,
        abstained: bool = False,
        **_: object,
    ) -> float | None:
        if adversarial_item and not adversarial:
            return None
        if limit is not None and value is not None:
            return float(value >= limit and not (abstained and answerable))
        return None if correct is None else float(correct)

    def of_row(row: Row) -> float | None:
        if row.adversarial and not adversarial:
            return None
        correct = correct_of(row, evaluator, limit)
        return None if correct is None else float(correct)

    return Arithmetic(
        of_row=of_row,
        of_inputs=lambda adversarial=False, **rest: of_inputs(adversarial_item=adversarial, **rest),
        fold=fold,
        evaluators=() if evaluator is None else (evaluator,),
        absent="" if adversarial else "adversarial",
    )


def _correctness(k: int | None, params: Params) -> Arithmetic:
    evaluator = None if params["method"] is None else METHODS[str(params["method"])]

    def of_row(row: Row) -> float | None:
        return value_of(row, evaluator) if row.state in SCORED_STATES else None

    return Arithmetic(of_row=of_row, of_inputs=_value_or_correct, evaluators=() if evaluator is None else (evaluator,))


def _value_or_correct(value: float | None = None, correct: bool | None = None, **_: object) -> float | None:
    if value is not None:
        return float(value)
    return None if correct is None else float(correct)


def _abstention(k: int | None, params: Params) -> Arithmetic:
    def of_inputs(correct: bool | None = None, answerable: bool = True, **_: object) -> float | None:
        return None if answerable or correct is None else float(correct)

    return Arithmetic(
        of_row=lambda row: of_inputs(correct=correct_of(row, None), answerable=row.answerable),
        of_inputs=of_inputs,
        absent="answerable",
    )


def _over_abstention(k: int | None, params: Params) -> Arithmetic:
    def of_inputs(
        correct: bool | None = None, answerable: bool = True, abstained: bool = False, **_: object
    ) -> float | None:
        return None if not answerable or correct is None else float(abstained)

    def of_row(row: Row) -> float | None:
        refused = row.abstained or row.state is State.ABSTAINED
        return of_inputs(correct=correct_of(row, None), answerable=row.answerable, abstained=refused)

    return Arithmetic(of_row=of_row, of_inputs=of_inputs, absent="unanswerable")


def _faithfulness(k: int | None, params: Params) -> Arithmetic:
    def of_row(row: Row) -> float | None:
        return next((v.faithfulness for v in row.verdicts if v.faithfulness is not None), None)

    def of_inputs(faithfulness: float | None = None, **_: object) -> float | None:
        return None if faithfulness is None else float(faithfulness)

    return Arithmetic(of_row=of_row, of_inputs=of_inputs, absent="no_faithfulness")


_CITATION = re.compile(
    r"(?:\b(?P<source>[^\W\d_]+\s+\d+[\w/-]*)\s*,?\s*)?(?:\b(?:sections?|sec|ss?|articles?|arts?|para)\b\.?|§+)\s*"
    r"(?P<place>\d+[a-z]?(?:\s*\(\s*\w+\s*\))*)",
    re.IGNORECASE,
)


def citations(text: str) -> list[str]:
    """Statutory citations in one normal form: ``Act 12, s. 4 (2)`` and ``act 12 section 4(2)`` are ``act12:4(2)``."""
    found = []
    for match in _CITATION.finditer(text):
        source = re.sub(r"\s+", "", match["source"] or "").lower()
        place = re.sub(r"\s+", "", match["place"]).lower()
        found.append(f"{source}:{place}")
    return found


def _cites(prediction: str, reference: str) -> float | None:
    expected, given = citations(reference), citations(prediction)
    if not expected:
        return None
    bare = {c.partition(":")[2] for c in given}
    return float(all(c in given or (c.startswith(":") and c[1:] in bare) for c in expected))


def _citation(k: int | None, params: Params) -> Arithmetic:
    def of_inputs(
        prediction: object, reference: object = None, references: Sequence[object] | None = None
    ) -> float | None:
        golds = [reference] if references is None else references
        scores = [_cites(as_text(prediction), as_text(gold)) for gold in golds]
        return max((s for s in scores if s is not None), default=None)

    def of_row(row: Row) -> float | None:
        custom = verdict_of(row, "custom")
        if custom is not None:
            return custom.value
        return None if row.prediction is None else of_inputs(row.prediction, references=row.references)

    return Arithmetic(of_row=of_row, of_inputs=of_inputs)


METHOD = Parameter(default=None, choices=(*METHODS, None))
CHOICE = {
    "method": METHOD,
    "threshold": Parameter(default=None),
    "model": Parameter(default=None),
}


def _by_method(name: str) -> Callable[[Params], str]:
    return lambda params: name if params["method"] is None else f"{name}.{params['method']}"


def _accuracy_entry(
    name: str,
    summary: str,
    fold: FoldRule = MEAN,
    *,
    adversarial: bool = True,
    aliases: Mapping[str, Params] | None = None,
    dimensions: tuple[str, ...] = (),
) -> Entry:
    return Entry(
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
        "mean of the question types' accuracies, with the breakdown",
        Macro("question_type"),
        dimensions=("question_type",),
    ),
    _accuracy_entry(
        "accuracy_by_category",
        "mean of the categories' accuracies, with the breakdown",
        Macro("question_type"),
        dimensions=("question_type",),
    ),
    _accuracy_entry("accuracy_incl_adversarial", "accuracy over all scored items, adversarial ones too"),
    _accuracy_entry(
        "accuracy_excl_adversarial", "accuracy over the scored items that are not adversarial", adversarial=False
    ),
    Entry(
        name="correctness",
        summary="mean value of the verdicts, 0..1",
        category="answer",
        build=_correctness,
        define=_by_method("correctness"),
        parameters={"method": METHOD},
        dotted="method",
    ),
    Entry(
        name="abstention_accuracy",
        summary="correct / scored over the items whose right answer is to abstain",
        category="answer",
        build=_abstention,
    ),
    Entry(
        name="over_abstention_rate",
        summary="share of the answerable scored items whose answer is a refusal",
        category="answer",
        build=_over_abstention,
        lower_is_better=True,
    ),
    Entry(
        name="faithfulness",
        summary="share of the answer's statements that the retrieved memories support",
        category="answer",
        build=_faithfulness,
    ),
    Entry(
        name="citation_accuracy",
        summary="1 if the answer cites what the reference cites, after normalisation",
        category="answer",
        build=_citation,
        aliases={"legal_citation_accuracy": {}},
    ),
)
