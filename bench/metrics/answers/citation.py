"""An answer metric for law: the answer must cite every provision that the reference cites.

If the benchmark has a plug-in evaluator, the value of its verdict is used instead.

Example::

    bench.metrics.score("citation_accuracy", prediction="see s. 4(2)", reference="section 4 (2)")      # 1.0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bench.metrics.answers.text import best_score
from bench.metrics.answers.verdicts import verdict_of
from bench.metrics.protocol import Arithmetic, RegisteredMetric
from bench.model import Row
from bench.patterns import pattern

_CITATION = pattern(
    r"(?:\b(?P<source>[^\W\d_]+\s+\d+[\w/-]*)\s*,?\s*)?(?:\b(?:sections?|sec|ss?|articles?|arts?|para)\b\.?|§+)\s*"
    r"(?P<place>\d+[a-z]?(?:\s*\(\s*\w+\s*\))*)",
    re.IGNORECASE,
)


def citations(text: str) -> list[str]:
    """Return the citations of laws in a text, in one spelling.

    ``Act 12, s. 4 (2)`` and ``act 12 section 4(2)`` both become ``act12:4(2)``.
    """
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


def _citation(k: int | None, params: Mapping[str, object]) -> Arithmetic:
    def of_inputs(
        prediction: object, reference: object = None, references: str | Iterable[object] | None = None
    ) -> float | None:
        return best_score(_cites, prediction, [reference] if references is None else references)

    def of_row(row: Row) -> float | None:
        custom = verdict_of(row, "custom")
        return best_score(_cites, row.prediction, row.references) if custom is None else custom.value

    return Arithmetic(of_row=of_row, of_inputs=of_inputs)


ENTRIES = (
    RegisteredMetric(
        name="citation_accuracy",
        summary="1 if the answer has every citation of the reference, after normalization",
        category="answer",
        build=_citation,
        aliases={"legal_citation_accuracy": {}},
    ),
)
