"""Evaluators that need no model: the comparison of two texts is the verdict.

A refusal (``is_refusal``) on an item whose right answer is to abstain is correct; on an answerable item
that it does not happen to answer it is marked ``abstained``.

Example::

    await TextEvaluator(name="exact-match", compare=..., threshold=1.0).evaluate(item, "Paris", (), None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.evaluators.protocol import Judge
from bench.evaluators.refusals import is_refusal
from bench.metrics.choices import choice_index, chosen_index
from bench.metrics.similarity import deletion_check
from bench.metrics.text import locomo_category, locomo_qa
from bench.model import Hit, ScoredItem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvaluator:
    """A text metric as a verdict: its value over the accepted answers."""

    name: str
    compare: Callable[[str, Sequence[str]], float | None]
    threshold: float = 1.0
    needs_judge: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        refused = is_refusal(answer, item.refusals)
        value = self.compare(answer, item.answers) if item.answers else None
        if item.abstention:
            value = max(float(refused), value or 0.0)
        return verdict(self.name, value, self.threshold, refused=refused, reason="no_reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocomoEvaluator:
    """LoCoMo's official score; the category comes from the item's metadata or its question type."""

    name: str = "locomo-f1"
    threshold: float = 1.0
    needs_judge: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        category = locomo_category(item.metadata.get("category"), item.question_type)
        if category is None or (not item.answers and category != "5"):
            return verdict(
                self.name, None, self.threshold, refused=is_refusal(answer, item.refusals), reason="no_category"
            )
        golds = item.answers or ("",)
        values = [value for gold in golds if (value := locomo_qa(category, answer, gold)) is not None]
        refused = is_refusal(answer, item.refusals) or (category == "5" and max(values, default=0.0) == 1)
        found = verdict(self.name, max(values, default=None), self.threshold, refused=refused)
        if refused and item.abstention:
            return replace(found, correct=True, abstained=False)  # right, though the paper knows two phrases only
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceEvaluator:
    """The option that the answer states is the choice; an answer that states none, or two, is wrong."""

    name: str = "mcq"
    threshold: float = 1.0
    needs_judge: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        wanted = choice_index(item.choice_answer, item.choices)
        chosen = chosen_index(answer, item.choices)
        refused = chosen is None and is_refusal(answer, item.refusals)
        if wanted is None and not item.abstention:
            return verdict(self.name, None, self.threshold, refused=False, reason="no_choice_answer")
        right = refused if chosen is None and item.abstention else chosen is not None and chosen == wanted
        found = verdict(self.name, float(right), self.threshold, refused=refused)
        return found if chosen is not None or refused else replace(found, reason="no_choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionEvaluator:
    """Nothing of the deleted text is in the hits of the verification query, nor in the answer."""

    fuzzy_match: bool = False
    fuzzy_threshold: float = 0.8
    name: str = "deletion-check"
    threshold: float = 1.0
    needs_judge: bool = False
    needs_answer: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if item.deletion is None:
            return verdict(self.name, None, self.threshold, refused=False, reason="no_deletion")
        texts = [text for hit in hits for text in (hit.content, *hit.chunks)] + ([answer] if answer else [])
        value = deletion_check(
            item.deletion.deleted_content,
            texts,
            fuzzy_match=self.fuzzy_match,
            fuzzy_threshold=self.fuzzy_threshold,
        )
        return verdict(self.name, value, self.threshold, refused=False, reason="nothing_to_look_for")


def verdict(name: str, value: float | None, threshold: float, *, refused: bool, reason: str = "") -> Verdict:
    """A rule's verdict; ``reason`` says why there is none."""
    correct = None if value is None else value >= threshold
    return Verdict(
        evaluator=name,
        value=value,
        correct=correct,
        reason=reason if value is None else "",
        abstained=refused and not correct,
    )
