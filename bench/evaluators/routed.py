"""Use several evaluators in one benchmark, each for some of the items.

Example::

    routed = RoutedEvaluator(default=points, by="question_type", routes=(("event_ordering", order),))
    evaluator_for(routed, item).name           # "order-agreement" for an item of that type, else "rubric-points"
    distinct_evaluators([routed])                   # (points, order)

Each route has a pattern and an evaluator. The pattern is compared with the question type or with a metadata value of
the item. ``present`` matches items with choices, ``absent`` matches items without choices, and ``*`` matches every
item. The first route that matches is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.config.benchmark.sections import is_routed
from bench.evaluators.protocol import Evaluator, Judge, needs_answer, threshold_of
from bench.model import Hit, Item, ScoredItem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedEvaluator:
    """An evaluator that chooses another evaluator for each item. It has the name of its default evaluator."""

    default: Evaluator
    by: str
    routes: tuple[tuple[str, Evaluator], ...]

    @property
    def name(self) -> str:
        return self.default.name

    @property
    def needs_judge(self) -> bool:
        return any(one.needs_judge for one in distinct_evaluators([self]))

    @property
    def needs_answer(self) -> bool:
        return all(map(needs_answer, distinct_evaluators([self])))

    @property
    def threshold(self) -> float:
        return threshold_of(self.default)

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        return await evaluator_for(self, item).evaluate(item, answer, hits, judge)


def evaluator_for(evaluator: Evaluator, item: Item | ScoredItem) -> Evaluator:
    """Return the evaluator that scores this item."""
    if not isinstance(evaluator, RoutedEvaluator):
        return evaluator
    return next((one for pattern, one in evaluator.routes if is_routed(item, evaluator.by, pattern)), evaluator.default)


def distinct_evaluators(evaluators: Iterable[Evaluator]) -> tuple[Evaluator, ...]:
    """Return all evaluators that can give a verdict. Of evaluators with equal names, only the first is returned."""
    found: dict[str, Evaluator] = {}
    for evaluator in evaluators:
        several = [evaluator]
        if isinstance(evaluator, RoutedEvaluator):
            several = [evaluator.default, *(one for _, one in evaluator.routes)]
        for one in several:
            found.setdefault(one.name, one)
    return tuple(found.values())
