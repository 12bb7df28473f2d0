"""The evaluator protocol: an evaluator gives one Verdict for an answer, or for the hits of an item.

`state_of` gives the final state of an item from its verdict.

Example::

    class Shouting:
        name, needs_judge = "shouting", False
        async def evaluate(self, item, answer, hits, judge):
            value = float(answer.isupper())
            return Verdict(evaluator=self.name, value=value, correct=value == 1)
    state_of(verdict, answerable=True)          # State.PARTIAL for a value of 0.5

Plug-ins implement ``Evaluator`` and are registered in the entry point group ``bench.evaluators``, or are named by a
config as ``./file.py:Class``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bench.model import Completion, Hit, Prompt, ScoredItem, State, Verdict


class Judge(Protocol):
    """A model that is called for verdicts. The caller adds retries, limits and the call log."""

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> Completion: ...


@runtime_checkable
class Evaluator(Protocol):
    """An evaluator of answers. If it needs a judge and gets none, its verdict has no value (unscored).

    An evaluator can also have ``needs_answer = False`` (it can score the hits without an answer),
    ``needs_listing = True`` (it scores the memories that the provider lists) and ``threshold`` (the value from which an
    item is correct).
    """

    @property
    def name(self) -> str: ...
    @property
    def needs_judge(self) -> bool: ...

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict: ...


def needs_answer(evaluator: Evaluator) -> bool:
    """Return True when the evaluator cannot evaluate an item without an answer."""
    return bool(getattr(evaluator, "needs_answer", True))


def needs_listing(evaluator: Evaluator) -> bool:
    """Return True when the evaluator reads all stored memories."""
    return bool(getattr(evaluator, "needs_listing", False))


def threshold_of(evaluator: Evaluator) -> float:
    """Return the value from which an item is correct."""
    return float(getattr(evaluator, "threshold", 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """The fields of all built-in evaluators."""

    threshold: float = 1.0
    """value from which an item is correct"""
    needs_judge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings(EvaluatorSettings):
    """The fields of all evaluators that call a judge."""

    temperature: float = 0.0
    needs_judge: bool = True


CANNOT_LIST = "cannot_list"
"""reason: the system cannot list its stored memories"""
NOTHING_TO_JUDGE = frozenset({"no_rubric", "no_statements", CANNOT_LIST})
"""reasons for a missing value that mean that there was nothing to judge"""


def state_of(verdict: Verdict | None, *, answerable: bool, threshold: float = 1.0) -> State:
    """Return the item's state, from the verdict of its first evaluator.

    No verdict: measured (nothing was evaluated). A verdict without a value: unscored, or measured if there was nothing
    to judge. A refusal on an answerable item: abstained.
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
