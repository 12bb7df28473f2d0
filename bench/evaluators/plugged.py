"""Somebody else's evaluator behind our face: opened with its config, and held to what a Verdict may be.

Example::

    plugged(Mine, "custom:./mine.py:Mine", {"threshold": 0.5}, "./mine.py:Mine", where=None)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from bench.errors import ConfigError, EvaluatorFailed
from bench.evaluators.protocol import Evaluator, Judge
from bench.model import Hit, ScoredItem, Verdict


def plugged(loaded: object, name: str, config: dict[str, object], label: str, where: str | None) -> Evaluator:
    """Make an evaluator of what a plug-in gave: a class takes ``config`` as its parameters.

    Raises ConfigError at ``where`` when the class takes other parameters, or there is no ``evaluate``.
    """
    try:
        evaluator = loaded(**config) if isinstance(loaded, type) else loaded
    except TypeError as error:
        raise ConfigError(
            f"evaluator {label}: {error}", where=where, hint="its config's keys are its parameters"
        ) from error
    if not callable(getattr(evaluator, "evaluate", None)):
        raise ConfigError(f"evaluator {label} has no method evaluate", where=where, hint="see the Evaluator protocol")
    return Plugged(inner=cast("Evaluator", evaluator), name=name, label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugged:
    """Somebody else's evaluator: its verdicts carry the name it was asked for, wrong types are its own error."""

    inner: Evaluator
    name: str
    label: str

    @property
    def needs_judge(self) -> bool:
        return bool(getattr(self.inner, "needs_judge", False))

    @property
    def needs_answer(self) -> bool:
        return bool(getattr(self.inner, "needs_answer", True))

    @property
    def threshold(self) -> float:
        return float(getattr(self.inner, "threshold", 1.0))

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        found: object = await self.inner.evaluate(item, answer, hits, judge)
        if not isinstance(found, Verdict):
            raise EvaluatorFailed(f"evaluator {self.label} returned {type(found).__name__}, not a Verdict")
        if found.value is not None and not 0 <= found.value <= 1:
            raise EvaluatorFailed(f"evaluator {self.label} gave {found.value}, which is not in 0..1")
        return replace(found, evaluator=self.name)
