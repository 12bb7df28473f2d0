"""The interface of evaluators. An evaluator gives one Verdict for an answer or for the hits of an item.

`state_of` gives the final state of an item from its verdict.

Example::

    class Shouting:
        name, needs_judge = "shouting", False
        async def evaluate(self, item, answer, hits, judge):
            value = float(answer.isupper())
            return Verdict(evaluator=self.name, value=value, correct=value == 1)
    state_of(verdict, answerable=True)          # State.PARTIAL for a value of 0.5

A plug-in implements ``Evaluator``. It is registered in the entry point group ``bench.evaluators``, or a config names it
as ``./file.py:Class``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bench.model import Completion, Hit, Prompt, ScoredItem, State, Verdict


class Judge(Protocol):
    """A model that is asked for verdicts. Retries, rate limits and the call log are added around it."""

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> Completion: ...


@runtime_checkable
class Evaluator(Protocol):
    """An evaluator of answers. If an evaluator needs a judge and gets None, the verdict has no value.

    Three more attributes are optional. ``needs_answer = False``: the hits can be scored without an answer.
    ``needs_listing = True``: the memories that the provider lists are scored. ``threshold``: the lowest value of a
    correct item.
    """

    @property
    def name(self) -> str: ...
    @property
    def needs_judge(self) -> bool: ...

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict: ...


def needs_answer(evaluator: Evaluator) -> bool:
    """Return True when the evaluator needs an answer to give a verdict."""
    return bool(getattr(evaluator, "needs_answer", True))


def needs_listing(evaluator: Evaluator) -> bool:
    """Return True when the evaluator needs a list of all memories that the system has stored."""
    return bool(getattr(evaluator, "needs_listing", False))


def threshold_of(evaluator: Evaluator) -> float:
    """Return the lowest value of a correct item. The default is 1."""
    return float(getattr(evaluator, "threshold", 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """The attributes that all built-in evaluators have."""

    threshold: float = 1.0
    """lowest value of a correct item"""
    needs_judge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings(EvaluatorSettings):
    """The attributes that all evaluators with a judge have."""

    temperature: float = 0.0
    needs_judge: bool = True


CANNOT_LIST = "cannot_list"
"""reason why a verdict has no value: the system cannot list its memories"""
NOTHING_TO_JUDGE = frozenset({"no_rubric", "no_statements", CANNOT_LIST})
"""reasons why a verdict has no value, if there was nothing to judge"""


def state_of(verdict: Verdict | None, *, answerable: bool, threshold: float = 1.0) -> State:
    """Return the state of an item from the verdict of its first evaluator.

    Without a verdict, the item is measured. A verdict without a value makes the item unscored, or measured if there was
    nothing to judge. A refusal makes an answerable item abstained. Otherwise, the value decides between correct,
    partial and incorrect.
    """
    if verdict is None:
        return State.MEASURED
    if verdict.value is None:
        return State.MEASURED if verdict.reason in NOTHING_TO_JUDGE else State.UNSCORED
    if verdict.abstained and answerable:
        return State.ABSTAINED
    correct = verdict.correct if verdict.correct is not None else verdict.value >= threshold
    if correct:
        return State.CORRECT
    return State.PARTIAL if 0 < verdict.value < threshold else State.INCORRECT
