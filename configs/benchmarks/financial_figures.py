"""Is the right figure in the answer, within 0.5 %? The evaluator of ``financial-rag``.

Figures are read as reports print them: ``1,250`` is 1250, ``(300)`` and ``-300`` are losses, ``12.5 %`` is a percentage
and never equal to a plain 12.5. An answer with more than four figures is a page, not an answer::

    figures("a loss of (300) thousand, 12.5 % of sales")      # [Figure("-300", False), Figure("12.5", True)]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.evaluators import Judge, is_refusal
from bench.model import Hit, ScoredItem, Verdict

TOLERANCE = Decimal("0.005")
MOST_FIGURES = 4

_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_FIGURE = re.compile(rf"(?P<loss>\(\s*)?(?<![\w.,])(?P<minus>[-\u2212])?(?P<digits>{_DIGITS})(?![\w])"
                     r"(?P<percent>\s*(?:%|percent\b|per cent\b))?(?P<close>\s*\))?")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a text."""

    value: Decimal
    percent: bool

    def agrees_with(self, other: Figure) -> bool:
        """Same kind, and within the tolerance of this one."""
        return self.percent == other.percent and abs(self.value - other.value) <= abs(self.value) * TOLERANCE


class FinancialFigures:
    """A `bench.evaluators.Evaluator` without a judge."""

    name = "custom"
    needs_judge = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        """Look for the expected figure among the few figures of the answer."""
        del hits, judge
        expected = [figure for text in item.answers for figure in figures(text)[:1]]
        if not expected:
            return Verdict(evaluator=self.name, value=None, correct=None, reason="the expected answer holds no figure")
        given = figures(answer)
        correct = len(given) <= MOST_FIGURES and any(gold.agrees_with(one) for gold in expected for one in given)
        return Verdict(
            evaluator=self.name,
            value=float(correct),
            correct=correct,
            reason=_reason(given),
            abstained=is_refusal(answer),
        )


def figures(text: str) -> list[Figure]:
    """The numbers of a text in order."""
    return [_figure(match) for match in _FIGURE.finditer(text)]


def _figure(match: re.Match[str]) -> Figure:
    value = Decimal(match["digits"].replace(",", ""))
    loss = match["minus"] or (match["loss"] and match["close"])
    return Figure(-value if loss else value, match["percent"] is not None)


def _reason(given: Sequence[Figure]) -> str:
    if len(given) > MOST_FIGURES:
        return f"{len(given)} figures in the answer, at most {MOST_FIGURES} count as an answer"
    shown = ", ".join(f"{figure.value} %" if figure.percent else str(figure.value) for figure in given)
    return f"figures: {shown}" if shown else "no figure in the answer"
