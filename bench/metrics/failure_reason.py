"""Find the reason why an item was lost (not answered correctly).

Each lost item has exactly one reason: the first reason that applies in a fixed order. So the counts by reason add up
to the number of lost items.

Example::

    loss_of(LossFacts(state=State.INCORRECT, evidence=("s1",), returned=(("s2",),), in_context=()))
    # Loss(kind="not_retrieved")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.model import State, Verdict

EXACT_MATCH = "exact-match"


class LossKind(StrEnum):
    """The reasons why an item can be lost, in the order in which they are tested."""

    ERROR = "error"
    NOT_READY = "not_ready"
    UNSUPPORTED = "unsupported"
    UNSCORED = "unscored"
    GOLD_SUSPECT = "gold_suspect"
    JUDGE_DISAGREEMENT = "judge_disagreement"
    SHOULD_HAVE_ABSTAINED = "should_have_abstained"
    NO_EVIDENCE_KNOWN = "no_evidence_known"
    NOT_INGESTED = "not_ingested"
    NOT_RETRIEVED = "not_retrieved"
    BELOW_CUT = "below_cut"
    ANSWER_WRONG = "answer_wrong"


KIND_OF_STATE = {
    State.ERROR: LossKind.ERROR,
    State.NOT_READY: LossKind.NOT_READY,
    State.UNSUPPORTED: LossKind.UNSUPPORTED,
    State.UNSCORED: LossKind.UNSCORED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFacts:
    """The known facts about one item. All ids are evidence ids, for example of sessions or of messages."""

    state: State | None
    """None = the item has not ended, so it is not lost"""
    answerable: bool = True
    """False: the right answer is to abstain"""
    gold_suspect: bool = False
    verdicts: Sequence[Verdict] = ()
    """the verdicts of all judges in all epochs"""
    evidence: Collection[str] = ()
    ingested: Collection[str] | None = None
    """the evidence that the provider acknowledged at ingest; None = unknown: all evidence counts as ingested"""
    returned: Sequence[Sequence[str]] = ()
    """for each hit that the provider returned, the ids of the hit; hits after the first k are included"""
    in_context: Collection[str] | None = None
    """ids of the evidence in the answer prompt; None = no answer was requested, so ``kept`` is used instead"""
    kept: Sequence[Sequence[str]] = ()
    """for each of the first k hits, the ids of the hit"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The reason why one item is lost.

    ``partial_evidence`` is True if the context contained some of the evidence, but not all.
    """

    kind: LossKind
    partial_evidence: bool = False


def loss_of(facts: LossFacts) -> Loss | None:
    """Return the reason why an item is lost, or None if the item is not lost.

    A correct or pending item is not lost. An item that was measured without a judge is not lost if its evidence was
    found, or if no evidence is known.
    """
    if facts.state in (None, State.CORRECT):
        return None
    if facts.state in KIND_OF_STATE:
        return Loss(kind=KIND_OF_STATE[facts.state])
    if facts.gold_suspect:
        return Loss(kind=LossKind.GOLD_SUSPECT)
    if disagree(facts.verdicts):
        return Loss(kind=LossKind.JUDGE_DISAGREEMENT)
    if not facts.answerable and facts.state is not State.MEASURED:
        return Loss(kind=LossKind.SHOULD_HAVE_ABSTAINED)
    if not facts.evidence:
        return None if facts.state is State.MEASURED else Loss(kind=LossKind.NO_EVIDENCE_KNOWN)
    if facts.ingested is not None and not set(facts.evidence) <= set(facts.ingested):
        return Loss(kind=LossKind.NOT_INGESTED)
    return _retrieval_loss(facts)


def _retrieval_loss(facts: LossFacts) -> Loss | None:
    wanted = set(facts.evidence)
    held = wanted & (_ids(facts.kept) if facts.in_context is None else set(facts.in_context))
    if not held:
        found = wanted & _ids((*facts.returned, *facts.kept))
        return Loss(kind=LossKind.BELOW_CUT if found else LossKind.NOT_RETRIEVED)
    if facts.state is State.MEASURED:
        return None
    return Loss(kind=LossKind.ANSWER_WRONG, partial_evidence=held != wanted)


def _ids(hits: Iterable[Sequence[str]]) -> set[str]:
    return {one for hit in hits for one in hit}


def disagree(verdicts: Sequence[Verdict]) -> bool:
    """Return True if the verdicts on one item contradict each other.

    They do if one judge gave different verdicts, or if exact match gave 1 and a judge gave 0.
    """
    judgments: dict[str, set[bool]] = {}
    for verdict in verdicts:
        if verdict.correct is not None:
            judgments.setdefault(verdict.evaluator, set()).add(verdict.correct)
    judged = {v.evaluator for v in verdicts if v.judged}
    if any(len(judgments.get(name, ())) > 1 for name in judged):
        return True
    exact = any(v.evaluator == EXACT_MATCH and v.value == 1 for v in verdicts)
    return exact and any(v.judged and v.value == 0 for v in verdicts)


def count_losses(losses: Iterable[Loss | None]) -> dict[LossKind, int]:
    """Return the number of lost items per reason, in the order of `LossKind`; reasons without items are left out."""
    counts = Counter(loss.kind for loss in losses if loss is not None)
    return {kind: counts[kind] for kind in LossKind if counts[kind]}
