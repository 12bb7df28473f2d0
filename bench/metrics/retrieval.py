"""Retrieval metrics: how many expected memories a search returned, and at which ranks.

With ``duplicates: collapse``, hits that repeat earlier hits are dropped before the ranks are counted.

Example::

    bench.metrics.score("ndcg_at_10", retrieved=["a", "x"], relevant={"a": 1})       # 1.0
    ranking = Ranking.of([["x", "a"], "a"], {"a": 1})
    ranking.gains          # (1.0, 0.0)

The inputs are ``retrieved`` (in the provider's order) and ``relevant``. An item without relevant ids is not scored. An
item without retrieved ids gets 0. To add a metric, write a function of a ``Ranking`` and K, and a ``RegisteredMetric``.

A hit takes one rank, even if it has several ids. It is relevant if it contains an expected id that no earlier hit
contained. Its gain is the highest grade of these new ids, so a repeated memory keeps its rank and has no gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.metrics.answers.text_normalization import as_iterable
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import Row

Ids = Iterable[object]

_COLLECTIONS = (tuple, list, Iterable)
"""types of a hit that has several ids; ``Iterable`` comes last because its check is slow"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The hits of one item, compared with the expected ids.

    ``new[i]`` is the number of expected ids that hit i contains and no earlier hit contains. ``gains[i]`` is the
    highest grade of these ids.
    """

    new: tuple[int, ...]
    gains: tuple[float, ...]
    grades: tuple[float, ...]
    """the grades of all expected ids, highest first"""

    @classmethod
    def of(
        cls, retrieved: str | Iterable[object], relevant: Mapping[object, float] | Ids, *, collapse: bool = False
    ) -> Ranking | None:
        """Return the ranking of the hits in ``retrieved``; None if ``relevant`` is empty.

        With ``collapse``, a hit is dropped if all of its ids occurred in earlier hits.
        """
        return cls.of_slots([slot_ids(entry) for entry in as_iterable(retrieved)], graded(relevant), collapse=collapse)

    @classmethod
    def of_slots(
        cls, slots: Sequence[tuple[str, ...]], grades: Mapping[str, float], *, collapse: bool = False
    ) -> Ranking | None:
        """Return the ranking of hits whose ids are texts already; None if ``grades`` is empty.

        ``grades`` is expected id -> grade. ``collapse`` drops repeated hits, as in `of`.
        """
        if not grades:
            return None
        if collapse:
            slots = without_repeats(slots)
        covered: set[str] = set()
        new, gains = [], []
        misses = grades.keys().isdisjoint
        for ids in slots:
            if misses(ids):
                new.append(0)
                gains.append(0.0)
                continue
            fresh = {i for i in ids if i in grades} - covered
            covered |= fresh
            new.append(len(fresh))
            gains.append(max((grades[i] for i in fresh), default=0.0))
        return cls(tuple(new), tuple(gains), tuple(sorted(grades.values(), reverse=True)))

    @property
    def expected(self) -> int:
        """Return R, the number of expected ids."""
        return len(self.grades)

    @property
    def returned(self) -> int:
        """Return the number of hits."""
        return len(self.new)

    def covered(self, k: int | None = None) -> int:
        """Return how many expected ids the first k hits cover."""
        return sum(self.new[:k])

    def relevant_slots(self, k: int | None = None) -> int:
        """Return how many of the first k hits cover an expected id that no earlier hit covers."""
        return sum(1 for n in self.new[:k] if n)


def slot_ids(entry: object) -> tuple[str, ...]:
    """Return the ids of a hit, which is an id or a collection of ids."""
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, _COLLECTIONS):
        return tuple(map(str, entry))
    return (str(entry),)


def graded(relevant: Mapping[object, float] | Ids) -> dict[str, float]:
    """Return id -> grade of the relevant ids; ids with a grade of 0 or less are left out.

    Raises ValueError if a grade is not finite.
    """
    if not isinstance(relevant, Mapping):
        return {str(i): 1.0 for i in as_iterable(relevant)}
    if not all(map(math.isfinite, relevant.values())):
        raise ValueError("a grade is not a finite number")
    return {str(i): float(grade) for i, grade in relevant.items() if grade > 0}


def without_repeats(slots: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the hits without repeats: a hit is dropped if all of its ids occurred earlier. Hits without ids stay."""
    seen: set[str] = set()
    kept = []
    for ids in slots:
        if ids and seen.issuperset(ids):
            continue
        seen.update(ids)
        kept.append(ids)
    return kept


Params = Mapping[str, object]
Formula = Callable[[Ranking, int | None, Params], float]

DUPLICATES = Parameter(default="keep", choices=("keep", "collapse"))


def hit(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return 1 if one of the first K hits covers an expected id, else 0."""
    return float(ranking.covered(k) > 0)


def recall(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the recall of one item by the parameter ``variant``.

    R is the number of expected ids. F is the number of expected ids that the first K hits cover.
    ``any``: 1 if F > 0, else 0. ``fraction``: F / R. ``all``: 1 if F = R, else 0. ``capped``: F / min(R, K).
    """
    covered, expected = ranking.covered(k), ranking.expected
    if params["variant"] == "fraction":
        return covered / expected
    if params["variant"] == "all":
        return float(covered == expected)
    if params["variant"] == "capped":
        return covered / min(expected, k or expected)
    return float(covered > 0)


def precision(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return (relevant hits among the first K) / K.

    With the parameter ``denominator: returned``, divide by min(K, number of hits) instead.
    """
    slots = k or ranking.returned
    if params["denominator"] == "returned":
        slots = min(slots, ranking.returned)
    return ranking.relevant_slots(k) / slots if slots else 0.0


def precision_of_returned(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the share of all returned hits that are relevant."""
    return ranking.relevant_slots() / ranking.returned if ranking.returned else 0.0


def recall_of_returned(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the share of the expected ids that the returned hits cover."""
    return ranking.covered() / ranking.expected


def f1_of_returned(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the harmonic mean of `precision_of_returned` and `recall_of_returned` of this item."""
    p, r = precision_of_returned(ranking, k, params), recall_of_returned(ranking, k, params)
    return 2 * p * r / (p + r) if p + r else 0.0


def coverage(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the share of the expected ids that were returned.

    With the parameter ``variant: any``, return 1 if at least one expected id was returned, else 0.
    """
    covered = ranking.covered()
    return float(covered > 0) if params["variant"] == "any" else covered / ranking.expected


def ndcg(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return nDCG at K: the DCG of the hits / the DCG of the K best grades.

    The discount is log2(rank + 1) (Järvelin and Kekäläinen 2002). The parameter ``variant: longmemeval`` uses the
    discount of LongMemEval. With ``gain: exponential``, the gain of a grade g is 2^g - 1 instead of g.
    """
    longmemeval = params["variant"] == "longmemeval"
    exponential = params["gain"] == "exponential"

    def dcg(grades: Sequence[float]) -> float:
        gains = [2.0**g - 1 for g in grades] if exponential else grades
        return math.fsum(g / _discount(rank, longmemeval) for rank, g in enumerate(gains, start=1) if g)

    return dcg(ranking.gains[:k]) / dcg(ranking.grades[:k])


def _discount(rank: int, longmemeval: bool) -> float:
    """Return the number by which the gain at a rank is divided: log2(rank + 1).

    LongMemEval divides by log2(rank) instead, and by 1 at ranks 1 and 2.
    """
    if longmemeval:
        return max(1.0, math.log2(rank)) if rank > 1 else 1.0
    return math.log2(rank + 1)


def average_precision(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return the average precision: the sum of the precisions at the ranks of the relevant hits / R.

    R is the number of all expected ids, even if the list is cut at K.
    """
    found, terms = 0, []
    for rank, new in enumerate(ranking.new[:k], start=1):
        if new:
            found += 1
            terms.append(found / rank)
    return math.fsum(terms) / ranking.expected


def reciprocal_rank(ranking: Ranking, k: int | None, params: Params) -> float:
    """Return 1 / (rank of the first relevant hit), or 0 if no hit among the first K is relevant."""
    return next((1 / rank for rank, new in enumerate(ranking.new[:k], start=1) if new), 0.0)


@lru_cache(maxsize=4)
def _ranking(
    retrieved: tuple[tuple[str, ...], ...], relevant: tuple[str, ...], grades: tuple[float, ...], collapse: bool
) -> Ranking | None:
    """Return the ranking of one row; cached, because several metrics of a row need the same ranking."""
    known = dict(zip(relevant, grades, strict=True)) if grades else dict.fromkeys(relevant, 1.0)
    return Ranking.of_slots(retrieved, known, collapse=collapse)


def _built(formula: Formula) -> Callable[[int | None, Params], Arithmetic]:
    def build(k: int | None, params: Params) -> Arithmetic:
        collapse = params.get("duplicates") == "collapse"

        def of_inputs(retrieved: Sequence[object], relevant: Mapping[object, float] | Ids) -> float | None:
            ranking = Ranking.of(retrieved, relevant, collapse=collapse)
            return None if ranking is None else formula(ranking, k, params)

        def of_row(row: Row) -> float | None:
            if row.retrieved is None or not row.relevant:
                return None
            ranking = _ranking(row.retrieved, row.relevant, row.grades, collapse)
            return None if ranking is None else formula(ranking, k, params)

        return Arithmetic(of_row=of_row, of_inputs=of_inputs)

    return build


def mean_score(scores: Sequence[float | None]) -> float | None:
    """Return the mean score of the hits; None if a hit has no finite score or there are no hits."""
    known = [s for s in scores if s is not None and math.isfinite(s)]
    return math.fsum(known) / len(known) if known and len(known) == len(scores) else None


def _scores(k: int | None, params: Params) -> Arithmetic:
    return Arithmetic(
        of_row=lambda row: mean_score(row.returned_scores), of_inputs=mean_score, absent_reason="no_scores"
    )


def _recall_definition(params: Params) -> str:
    return f"recall_{params['variant']}"


def _ndcg_definition(params: Params) -> str:
    return "ndcg_longmemeval" if params["variant"] == "longmemeval" else "ndcg"


ENTRIES = (
    RegisteredMetric(
        name="hit",
        summary="1 if any expected id is among the first K hits",
        category="retrieval",
        build=_built(hit),
        cut="required",
        aliases={"hit_rate": {}, "success": {}, "recall_any": {}},
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="recall",
        summary="R: number of expected ids; F: number of expected ids among the first K hits. any: 1 if F > 0 "
        "(printed as recall@K (any)); fraction: F / R; all: 1 if F = R; capped: F / min(R, K)",
        category="retrieval",
        build=_built(recall),
        define=_recall_definition,
        title="recall@{k} ({variant})",
        cut="required",
        aliases={f"recall_{v}": {"variant": v} for v in ("fraction", "all", "capped")},
        parameters={
            "variant": Parameter(default="any", choices=("any", "fraction", "all", "capped")),
            "duplicates": DUPLICATES,
        },
    ),
    RegisteredMetric(
        name="precision",
        summary="(relevant hits among the first K hits) / K; denominator=returned: divided by min(K, returned hits)",
        category="retrieval",
        build=_built(precision),
        cut="required",
        parameters={
            "denominator": Parameter(default="k", choices=("k", "returned")),
            "duplicates": DUPLICATES,
        },
    ),
    RegisteredMetric(
        name="ndcg",
        summary="discounted gain of the first K hits / the best possible gain; longmemeval: as in LongMemEval's code",
        category="retrieval",
        build=_built(ndcg),
        define=_ndcg_definition,
        cut="required",
        aliases={
            "retrieval_ndcg": {},
            "ndcg_longmemeval": {"variant": "longmemeval"},
        },
        parameters={
            "variant": Parameter(default="standard", choices=("standard", "longmemeval")),
            "gain": Parameter(default="linear", choices=("linear", "exponential")),
            "duplicates": DUPLICATES,
        },
    ),
    RegisteredMetric(
        name="map",
        summary="average precision: sum of the precisions at the relevant hits, divided by the number of expected ids",
        category="retrieval",
        build=_built(average_precision),
        cut="optional",
        aliases={"retrieval_map": {}},
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="mrr",
        summary="1 / (rank of the first relevant hit)",
        category="retrieval",
        build=_built(reciprocal_rank),
        cut="optional",
        aliases={"retrieval_mrr": {}},
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="retrieval_precision",
        summary="relevant hits / all returned hits",
        category="retrieval",
        build=_built(precision_of_returned),
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="retrieval_recall",
        summary="number of expected ids among all returned hits / number of expected ids",
        category="retrieval",
        build=_built(recall_of_returned),
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="retrieval_f1",
        summary="harmonic mean of the item's retrieval_precision and retrieval_recall",
        category="retrieval",
        build=_built(f1_of_returned),
        parameters={"duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="retrieval_coverage",
        summary="share of the expected ids that were returned; variant any: 1 if one was returned",
        category="retrieval",
        build=_built(coverage),
        parameters={"variant": Parameter(default="share", choices=("share", "any")), "duplicates": DUPLICATES},
    ),
    RegisteredMetric(
        name="avg_retrieval_score",
        summary="mean of the provider's own scores; not comparable between providers",
        category="retrieval",
        build=_scores,
    ),
)
