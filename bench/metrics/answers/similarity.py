"""Metrics that compare embeddings of two texts, or check that deleted facts are not found.

Evaluators compute these values. A metric then reads its value from the stored verdict.

Example::

    bench.metrics.score("deletion_check", deleted="the code is 4411", texts=["nothing here"])      # 1.0
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.metrics.answers.text_normalization import as_iterable, as_text, normal_form, word_pairs
from bench.metrics.answers.verdicts import value_of
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two vectors, in -1..1; 0 if a vector is all zeros.

    Raises:
        ValueError: the vectors have different dimensions, or a value is not finite.
    """
    if len(a) != len(b):
        raise ValueError(f"the two vectors have {len(a)} and {len(b)} dimensions; expected the same number")
    if not all(map(math.isfinite, (*a, *b))):
        raise ValueError("a vector contains a number that is not finite")
    a, b = _scaled(a), _scaled(b)
    top = math.fsum(x * y for x, y in zip(a, b, strict=True))
    bottom = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    return max(-1.0, min(1.0, top / bottom)) if bottom else 0.0


def _scaled(vector: Sequence[float]) -> list[float]:
    """Return the vector divided by a power of two, so that no square overflows. Its cosines do not change."""
    exponent = math.frexp(max(map(abs, vector), default=0.0))[1]
    return [math.ldexp(x, -exponent) for x in vector]


def deletion_check(
    deleted: object, texts: str | Iterable[object], *, fuzzy_match: bool = False, fuzzy_threshold: float = 0.8
) -> float | None:
    """Return 1 if none of ``texts`` contains ``deleted``, else 0; None if ``deleted`` is empty.

    With ``fuzzy_match``, a text contains ``deleted`` if it has enough of the words of ``deleted``: at least the share
    ``fuzzy_threshold``.
    """
    places = [as_text(text) for text in as_iterable(texts) if text is not None]
    if fuzzy_match:
        return _fuzzy_check("" if deleted is None else as_text(deleted), places, fuzzy_threshold)
    wanted = "" if deleted is None else normal_form(as_text(deleted))
    if not wanted:
        return None
    return float(not any(wanted in normal_form(text) for text in places))


def _fuzzy_check(deleted: str, texts: Sequence[str], threshold: float) -> float | None:
    wanted = Counter(word_pairs(deleted))
    if not wanted:
        return None
    total = sum(wanted.values())
    found = (sum((wanted & Counter(word_pairs(text))).values()) for text in texts)
    return float(not any(n / total >= threshold for n in found))


def _semantic(k: int | None, params: Mapping[str, object]) -> Arithmetic:
    return Arithmetic(
        of_row=lambda row: value_of(row, "semantic-similarity"),
        of_inputs=cosine,
        evaluators=("semantic-similarity",),
    )


def _deletion(k: int | None, params: Mapping[str, object]) -> Arithmetic:
    fuzzy, threshold = bool(params["fuzzy_match"]), float(str(params["fuzzy_threshold"]))

    def of_inputs(deleted: object, texts: str | Iterable[object]) -> float | None:
        return deletion_check(deleted, texts, fuzzy_match=fuzzy, fuzzy_threshold=threshold)

    return Arithmetic(
        of_row=lambda row: value_of(row, "deletion-check"), of_inputs=of_inputs, evaluators=("deletion-check",)
    )


ENTRIES = (
    RegisteredMetric(
        name="semantic_similarity",
        summary="cosine of the embeddings of answer and reference; needs an embedding model",
        category="answer",
        build=_semantic,
    ),
    RegisteredMetric(
        name="deletion_check",
        summary="1 if neither hits nor answer contain the deleted text",
        category="answer",
        build=_deletion,
        version=2,  # 2: fuzzy_match reads pairs of characters in scripts without spaces
        parameters={"fuzzy_match": Parameter(default=False), "fuzzy_threshold": Parameter(default=0.8, within=(0, 1))},
    ),
)
