"""How an item ends, from its verdict.

Example::

    state_of(verdict, answerable=True)          # State.PARTIAL for a value of 0.5
"""

from __future__ import annotations

from bench.model import State, Verdict

NOTHING_TO_JUDGE = frozenset({"no_rubric", "no_statements"})
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
