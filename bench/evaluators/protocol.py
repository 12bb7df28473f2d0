"""The evaluator protocol: one answer (or the hits of an item) to one Verdict.

Here too:

* How an item ends, from its verdict.

Example::

    class Shouting:
        name, needs_judge = "shouting", False
        async def evaluate(self, item, answer, hits, judge):
            value = float(answer.isupper())
            return Verdict(evaluator=self.name, value=value, correct=value == 1)
    state_of(verdict, answerable=True)          # State.PARTIAL for a value of 0.5

Plug-ins implement ``Evaluator``, register in the entry point group ``bench.evaluators`` or are next to
a config as ``./file.py:Class``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from bench.model import Completion, Hit, Prompt, ScoredItem, State, Verdict


class Judge(Protocol):
    """A model that is asked for verdicts; the caller wires retries, limits and the ledger behind it."""

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> Completion: ...


@runtime_checkable
class Evaluator(Protocol):
    """``needs_judge``: without a judge its verdict is None (unscored).

    An evaluator may also have ``needs_answer = False`` (it scores the hits when nothing was answered),
    ``needs_listing = True`` (it scores what the provider lists) and ``threshold`` (the value from which an item is
    correct).
    """

    @property
    def name(self) -> str: ...
    @property
    def needs_judge(self) -> bool: ...

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict: ...


def needs_answer(evaluator: Evaluator) -> bool:
    """Whether an item without an answer leaves it nothing to do."""
    return bool(getattr(evaluator, "needs_answer", True))


def needs_listing(evaluator: Evaluator) -> bool:
    """Whether it looks at everything that is stored."""
    return bool(getattr(evaluator, "needs_listing", False))


def threshold_of(evaluator: Evaluator) -> float:
    """The value from which its items are correct."""
    return float(getattr(evaluator, "threshold", 1.0))


CANNOT_LIST = "cannot_list"
"""a system that cannot list what it has stored"""
NOTHING_TO_JUDGE = frozenset({"no_rubric", "no_statements", CANNOT_LIST})
"""reasons of a judge's verdict without a value where no verdict is owed"""


def state_of(verdict: Verdict | None, *, answerable: bool, threshold: float = 1.0) -> State:
    """The item's state, from the verdict of its first evaluator.

    No verdict at all: measured (nothing was evaluated). A verdict without a value: unscored. A refusal on
    an answerable item: abstained.
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
