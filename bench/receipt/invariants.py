"""What cannot be false in an honest receipt, whatever was measured.

Each rule is one function from a receipt to findings; none needs the items file::

    for rule in RULES: yield from rule(receipt)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from operator import itemgetter

from bench.receipt.definitions import cut_of, read_definition
from bench.receipt.findings import Finding, fail
from bench.receipt.schema import Body, Pace, Score
from bench.receipt.wire import moment

TOLERANCE = 1e-12
HIT_BASES = ("hit", "recall_any")
MONOTONE_BASES = ("hit", "recall_any", "recall_fraction", "recall_all")


def invariants(body: Body) -> Iterator[Finding]:
    """Check every rule; yield only what does not hold."""
    for rule in RULES:
        yield from rule(body)


def _broken(code: str, detail: str) -> Finding:
    return fail("invariants", code, detail)


def counts_add_up(body: Body) -> Iterator[Finding]:
    """Every planned item is counted once, in the states, the scores and the rows."""
    for detail in _count_faults(body):
        yield _broken("invariant_counts", detail)


def _count_faults(body: Body) -> Iterator[str]:
    counts, states = body.counts, body.counts.by_state
    ended = sum(states.of().values())
    if ended + counts.pending != counts.planned:
        yield f"counts: {ended} ended + {counts.pending} pending are not {counts.planned} planned"
    if states.correct + states.incorrect + states.partial + states.abstained != counts.scored:
        yield f"counts.scored: {counts.scored} is not correct + incorrect + partial + abstained"
    if sum(counts.error_kinds.values()) != states.error:
        yield f"counts.errorKinds: they do not add up to {states.error} errors"
    if body.per_query.count != counts.planned - counts.pending:
        yield f"perQuery.count: {body.per_query.count} rows for {counts.planned - counts.pending} ended items"
    if body.kind == "run" and counts.pending:
        yield f"counts.pending: {counts.pending} in a receipt of kind run"
    for name, score in _all_scores(body).items():
        yield from _score_count_faults(name, score, counts.planned)


def _score_count_faults(name: str, score: Score, planned: int) -> Iterator[str]:
    if score.n + score.n_excluded + score.n_failed != planned:
        yield f"{name}: n + nExcluded + nFailed is not {planned}"
    if score.n == 0 and score.value is not None:
        yield f"{name}: a value over no items"
    if score.n > 0 and score.value is None and score.aggregate != "other":
        yield f"{name}: no value over {score.n} items"
    for dimension, labels in score.breakdown.items():
        if sum(label.n for label in labels.values()) != score.n:
            yield f"{name}: the labels of {dimension} do not add up to n"


def _all_scores(body: Body) -> Mapping[str, Score]:
    judged = {f"judged.{name}": score for name, score in body.scores.judged.items()}
    return {**{f"deterministic.{name}": score for name, score in body.scores.deterministic.items()}, **judged}


def rates_lie_in_0_to_1(body: Body) -> Iterator[Finding]:
    """A share below 0 or above 1 is an arithmetic fault."""
    for name, score in _all_scores(body).items():
        if not read_definition(score.definition).is_rate:
            continue
        values = [score.value, score.value_failures_as_zero]
        values += [label.value for labels in score.breakdown.values() for label in labels.values()]
        if any(value is not None and not 0 <= value <= 1 for value in values):
            yield _broken("invariant_rate_range", f"{name}: a share lies outside 0..1")


def recall_grows_with_k(body: Body) -> Iterator[Finding]:
    """More hits can only find more; each cut is held against the best of the smaller ones."""
    for base in MONOTONE_BASES:
        best: dict[tuple[str, int, str], tuple[int, Score]] = {}
        for (duplicates, k), score in sorted(_by_cut(body, (base,)).items(), key=itemgetter(0)):
            if score.aggregate == "other":
                continue
            alike = (duplicates, score.n, score.aggregate)
            k1, low = best.setdefault(alike, (k, score))
            if _above(low, score):
                yield _broken("invariant_recall_monotone", f"{base}@{k1} {low.value} > {base}@{k} {score.value}")
            elif low.value is None or _above(score, low):
                best[alike] = (k, score)


def ndcg_at_most_hit_rate(body: Body) -> Iterator[Finding]:
    """An item's nDCG is at most 1, and 0 without a hit."""
    hits = _by_cut(body, HIT_BASES)
    for cut, ndcg in _by_cut(body, ("ndcg",)).items():
        hit = hits.get(cut)
        if hit is not None and _comparable(ndcg, hit) and _above(ndcg, hit):
            yield _broken("invariant_ndcg_le_hit", f"ndcg@{cut[1]} {ndcg.value} > hit rate {hit.value}")


def mrr_at_most_hit_rate(body: Body) -> Iterator[Finding]:
    """A reciprocal rank is at most 1, and 0 without a hit. Without a cut, the hit rate over all k bounds it."""
    hits = _by_cut(body, HIT_BASES)
    for cut, mrr in _by_cut(body, ("mrr",), uncut=body.run.k).items():
        hit = hits.get(cut)
        if hit is not None and _comparable(mrr, hit) and _above(mrr, hit):
            yield _broken("invariant_mrr_le_hit", f"mrr {mrr.value} > hit rate at {cut[1]} {hit.value}")


def _by_cut(body: Body, bases: tuple[str, ...], uncut: int | None = None) -> dict[tuple[str, int], Score]:
    """Scores of some bases by how they treat duplicates and where they cut."""
    found = {}
    for name, score in body.scores.deterministic.items():
        definition = read_definition(score.definition)
        k = cut_of(name, definition) or uncut
        if definition.base in bases and k is not None:
            found[definition.options.get("duplicates", ""), k] = score
    return found


def _comparable(one: Score, other: Score) -> bool:
    """Whether both are the same fold over as many items."""
    return one.n == other.n and one.aggregate == other.aggregate != "other"


def _above(one: Score, other: Score) -> bool:
    return one.value is not None and other.value is not None and one.value > other.value + TOLERANCE


def percentiles_rise(body: Body) -> Iterator[Finding]:
    """min <= p50 <= p95 <= p99 <= max, and all of them exactly where something was timed."""
    for name, times in body.scores.measured.items():
        if isinstance(times, Pace):
            continue
        steps = [step for step in times.ordered() if step is not None]
        if len(steps) != (5 if times.n else 0) or any(low > high for low, high in pairwise(steps)):
            yield _broken("invariant_percentiles", f"{name}: not min <= p50 <= p95 <= p99 <= max")


def times_rise(body: Body) -> Iterator[Finding]:
    """A run begins, ends, and is signed, in that order."""
    if not moment(body.ran_at) <= moment(body.finished_at) <= moment(body.issued_at):
        yield _broken("invariant_times", "not ranAt <= finishedAt <= issuedAt")


Rule = Callable[[Body], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    counts_add_up,
    rates_lie_in_0_to_1,
    recall_grows_with_k,
    ndcg_at_most_hit_rate,
    mrr_at_most_hit_rate,
    percentiles_rise,
    times_rise,
)
