"""Is the right statutory citation in the answer? The evaluator of ``legal-rag``.

``Act 12, s. 4 (2)``, ``section 4(2) of Act 12`` and ``ACT 12 § 4(2)`` are one citation. An expected answer may hold
several; the value is the share of them that the answer cites, and only all of them is correct::

    citations("see Act 12, section 4(2)")        # {"12:4(2)"}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.evaluators import Judge, is_refusal
from bench.model import Hit, ScoredItem, Verdict

_SECTION = r"(?:sections?|sec\.?|s\.|§)\s*(?P<{0}>\d+[a-z]?(?:\s*\(\s*\w+\s*\))*)"
_ACT = r"\bact\s+(?P<{0}>\d+)"
_ACT_FIRST = re.compile(_ACT.format("act") + r"\s*,?\s*" + _SECTION.format("section"), re.IGNORECASE)
_ACT_LAST = re.compile(_SECTION.format("section") + r"\s+of\s+(?:the\s+)?" + _ACT.format("act"), re.IGNORECASE)


class LegalCitation:
    """A `bench.evaluators.Evaluator` without a judge."""

    name = "custom"
    needs_judge = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        """Compare the citations of the answer with those of the best accepted answer."""
        del hits, judge
        expected = [wanted for wanted in map(citations, item.answers) if wanted]
        if not expected:
            return Verdict(evaluator=self.name, value=None, correct=None, reason="the expected answer cites nothing")
        given = citations(answer)
        value = max(len(wanted & given) / len(wanted) for wanted in expected)
        return Verdict(
            evaluator=self.name,
            value=value,
            correct=value == 1.0,
            reason=_reason(given),
            abstained=is_refusal(answer),
        )


def citations(text: str) -> set[str]:
    """The citations of a text, each as ``ACT:SECTION`` without spaces."""
    found = (*_ACT_FIRST.finditer(text), *_ACT_LAST.finditer(text))
    return {f"{match['act']}:{''.join(match['section'].split()).lower()}" for match in found}


def _reason(given: set[str]) -> str:
    return f"cited: {', '.join(sorted(given))}" if given else "no citation in the answer"
