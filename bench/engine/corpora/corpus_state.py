"""Find the state of a corpus from its journal rows, and the next step of its preparation.

Example::

    history = CorpusState.of(await journal.corpus(lane.key, corpus))
    history.next_step(durability="service", resumed=True)      # Step.WAIT: ingested, but the index was not ready

Only the rows of the last attempt to prepare the corpus count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bench.journal import CorpusKind, CorpusRow
from bench.model import Ingested
from bench.providers import Durability, merge_captures
from bench.untyped_values import list_texts, object_or_empty, whole_number


class Step(StrEnum):
    """The next step of the work on a corpus."""

    BEGIN = "begin"
    """nothing was sent in this attempt"""
    RESET = "reset"
    """clear the namespace and begin the next attempt"""
    CONTINUE = "continue"
    """some batches are stored, none is in doubt"""
    DOUBT = "doubt"
    """it is unknown whether a batch was stored; ``on_unknown`` of the provider says how to continue"""
    WAIT = "wait"
    """all batches are stored, but the index may not be ready"""
    USE = "use"
    """the corpus is ready"""


SPOILS = frozenset({"ingest_failed", "contaminated"})
"""kinds of failures after which the stored memories are unusable"""


@dataclass(slots=True, kw_only=True)
class BatchResponses:
    """Ids, jobs and captured values that a provider returned for the batches of one attempt to ingest a corpus."""

    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    captures: dict[str, object] = field(default_factory=dict)

    def take(self, got: Ingested) -> None:
        """Add the response to one batch."""
        self.ids.update(got.ids)
        self.jobs.extend(got.jobs)
        if got.captures:
            self.captures = merge_captures(self.captures, got.captures)

    @property
    def value(self) -> Ingested:
        return Ingested(ids=self.ids, jobs=tuple(self.jobs), captures=self.captures)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState:
    """The state of one corpus of a lane, from its journal rows."""

    attempt: int = 1
    began: bool = False
    kinds: tuple[CorpusKind, ...] = ()
    batches: frozenset[int] = frozenset()
    """positions of the acknowledged batches"""
    before_interruption: frozenset[int] = frozenset()
    """positions of the batches that were acknowledged before the ingest was first interrupted"""
    doubts: frozenset[int] = frozenset()
    """positions of batches without a response: it is unknown whether they were stored"""
    uncounted: frozenset[int] = frozenset()
    """positions of batches in doubt whose calls are not in the journal, because the process was killed"""
    is_marked: bool = True
    """False if an older version of bench wrote the rows without intents, so that any batch may be in doubt"""
    collected: BatchResponses = field(default_factory=BatchResponses)
    prepared: Mapping[str, object] = field(default_factory=dict)
    can_continue: bool = False
    """True if the ingest can continue: it was stopped, or it failed with an error after which nothing was stored"""
    spoiled: bool = False
    """True if a failure of the ingest has made the stored memories unusable"""
    in_doubt: bool = False
    """True if the ingest ended with a failure that left a batch in doubt"""
    reused_from: str = ""
    """id of the run that ingested the corpus, if it was another run"""
    namespace: str = ""
    """namespace at the provider; empty if the rows do not have it"""

    @classmethod
    def of(cls, rows: Sequence[CorpusRow]) -> CorpusState:
        """Return the state that the rows of a corpus show; of several attempts, only the last one counts."""
        if not rows:
            return cls()
        attempt = max(row.attempt for row in rows)
        last = [row for row in rows if row.attempt == attempt]
        collected, prepared = BatchResponses(), dict[str, object]()
        batches, doubts, intended, counted = set[int](), set[int](), set[int](), set[int]()
        early, kinds = frozenset[int](), list[CorpusKind]()
        for row in last:
            position = whole_number(row.data.get("batch"))
            if CorpusKind.INGESTED not in kinds and _is_interruption(row, is_repeated=position in intended):
                early = early or frozenset(batches)
            kinds.append(row.kind)
            if row.kind in (CorpusKind.BATCH, CorpusKind.INGESTED, CorpusKind.READY):
                collected.take(_returned(row.data))
            if position is not None and row.kind is CorpusKind.INTENT:
                doubts.add(position)
                intended.add(position)
                (counted.add if row.data.get("counted") else counted.discard)(position)
            elif position is not None:
                doubts.discard(position)
                if row.kind is CorpusKind.BATCH:
                    batches.add(position)
            if "prepared" in row.data:
                prepared = dict(object_or_empty(row.data["prepared"]))
        end = last[-1]
        failed = end.kind is CorpusKind.FAILED
        return cls(
            attempt=attempt,
            began=True,
            kinds=tuple(kinds),
            batches=frozenset(batches),
            before_interruption=early if early or CorpusKind.INGESTED in kinds else frozenset(batches),
            doubts=frozenset(doubts),
            uncounted=frozenset(doubts - counted),
            is_marked=batches <= intended,
            collected=collected,
            prepared=prepared,
            can_continue=end.kind is CorpusKind.CLEAN_STOP or (failed and bool(end.data.get("clean"))),
            spoiled=any(row.kind is CorpusKind.FAILED and row.outcome in SPOILS for row in last),
            in_doubt=failed and bool(end.data.get("doubt")),
            reused_from=next((str(row.data["reused_from"]) for row in last if "reused_from" in row.data), ""),
            namespace=next((str(row.data["namespace"]) for row in last if "namespace" in row.data), ""),
        )

    @property
    def captures(self) -> dict[str, object]:
        """Return the values that were captured from the responses to setup and ingest calls."""
        return merge_captures(self.prepared, self.collected.captures)

    @property
    def holds_memories(self) -> bool:
        """Return True if this run has begun to write to the namespace and has not cleared it."""
        return self.began and not self.reused_from and CorpusKind.CLEARED not in self.kinds

    @property
    def is_ready(self) -> bool:
        """Return True if the corpus was ready and nothing has failed since then."""
        return CorpusKind.READY in self.kinds and self.kinds[-1] is not CorpusKind.FAILED

    def next_step(self, *, durability: Durability, resumed: bool) -> Step:
        """Return the next step of the preparation.

        With the durability ``process``, a ``resumed`` run begins again, because the memories were lost when the earlier
        process ended.
        """
        if not self.began:
            return Step.BEGIN
        if self.reused_from:  # the start of the run checks what became of it
            return Step.USE
        if CorpusKind.CLEARED in self.kinds or (durability == "process" and resumed):
            return Step.RESET
        failed = self.kinds[-1] is CorpusKind.FAILED
        if CorpusKind.READY in self.kinds:
            return Step.RESET if failed else Step.USE
        if CorpusKind.INGESTED in self.kinds:  # after a timeout more waiting helps, after a failed index it does not
            return Step.RESET if failed and not self.can_continue else Step.WAIT
        if not self.is_marked:
            if self.can_continue:
                return Step.CONTINUE
            return Step.RESET if failed and not self.in_doubt else Step.DOUBT
        if self.spoiled:
            return Step.RESET
        if self.doubts:
            return Step.DOUBT
        return Step.CONTINUE if self.can_continue or self.batches else Step.RESET


def _is_interruption(row: CorpusRow, *, is_repeated: bool) -> bool:
    """Return True if the row shows that the ingest stopped, failed, or continues after a lost response.

    ``is_repeated`` is True if an earlier row has the intent to send the same batch.
    """
    sends_again = row.kind is CorpusKind.INTENT and is_repeated and not row.data.get("counted")
    return sends_again or row.kind in (CorpusKind.CLEAN_STOP, CorpusKind.FAILED) or "found_stored" in row.data


def returned(ingested: Ingested) -> dict[str, object]:
    """Convert the response to a batch to JSON for the journal."""
    return {
        "ids": {name: list(ids) for name, ids in ingested.ids.items()},
        "jobs": list(ingested.jobs),
        "captures": dict(ingested.captures),
    }


def _returned(data: Mapping[str, object]) -> Ingested:
    return Ingested(
        ids={name: list_texts(found) for name, found in object_or_empty(data.get("ids")).items()},
        jobs=list_texts(data.get("jobs")),
        captures=object_or_empty(data.get("captures")),
    )
