"""The state of a corpus according to the journal, and its next step.

Example::

    history = CorpusState.of(await journal.corpus(lane.key, corpus))
    history.next_step(durability="service", resumed=True)      # Step.WAIT: ingested, the index was not ready yet

The rows of the last attempt are folded; earlier attempts only count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from bench.journal import CorpusKind, CorpusRow
from bench.model import Ingested
from bench.providers import Durability, merge_captures


class Step(StrEnum):
    """The step at which work on a corpus continues."""

    BEGIN = "begin"
    """nothing was sent under this attempt"""
    RESET = "reset"
    """clear what there may be, begin under the next attempt"""
    CONTINUE = "continue"
    """some batches are in, nothing is in doubt"""
    DOUBT = "doubt"
    """a batch may or may not have been stored: ``on_unknown`` decides"""
    WAIT = "wait"
    """everything is in, the index is not known to be ready"""
    USE = "use"
    """ready"""


SPOILS = frozenset({"ingest_failed", "contaminated"})
"""kinds of failures after which what was stored is of no use"""


@dataclass(slots=True, kw_only=True)
class Collected:
    """Everything a provider gave back for a corpus attempt; grows in place, a batch at a time."""

    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    captures: dict[str, object] = field(default_factory=dict)

    def take(self, got: Ingested) -> None:
        """Add one batch."""
        self.ids.update(got.ids)
        self.jobs.extend(got.jobs)
        if got.captures:
            self.captures = merge_captures(self.captures, got.captures)

    @property
    def value(self) -> Ingested:
        return Ingested(ids=self.ids, jobs=tuple(self.jobs), captures=self.captures)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState:
    """One corpus of a lane, as far as it came."""

    attempt: int = 1
    began: bool = False
    kinds: tuple[CorpusKind, ...] = ()
    batches: frozenset[int] = frozenset()
    """positions of the batches that are in"""
    doubts: frozenset[int] = frozenset()
    """positions of the batches that were about to be sent and of which nothing came back: stored or not"""
    is_marked: bool = True
    """each batch has its intent; False: an older version wrote these rows, and any batch may be in doubt"""
    collected: Collected = field(default_factory=Collected)
    prepared: Mapping[str, object] = field(default_factory=dict)
    known_cut: bool = False
    """the failure that ended the ingest stored nothing: it can continue at the cursor"""
    spoiled: bool = False
    """the failure that ended the ingest leaves nothing that could be used"""
    in_doubt: bool = False
    """the failure that ended the ingest left it open whether a batch was stored"""
    reused_from: str = ""
    """the run that ingested it, where that was another one"""
    namespace: str = ""
    """where the provider keeps it; empty = not begun, or begun by a version that did not write it down"""

    @classmethod
    def of(cls, rows: Sequence[CorpusRow]) -> CorpusState:
        """Fold the rows of the last attempt."""
        if not rows:
            return cls()
        attempt = max(row.attempt for row in rows)
        last = [row for row in rows if row.attempt == attempt]
        collected, prepared = Collected(), dict[str, object]()
        batches, doubts, intended = set[int](), set[int](), set[int]()
        for row in last:
            position = cast("int | None", row.data.get("batch"))
            if row.kind in (CorpusKind.BATCH, CorpusKind.INGESTED, CorpusKind.READY):
                collected.take(_returned(row.data))
            if position is not None and row.kind is CorpusKind.INTENT:
                doubts.add(position)
                intended.add(position)
            elif position is not None:
                doubts.discard(position)
                if row.kind is CorpusKind.BATCH:
                    batches.add(position)
            if "prepared" in row.data:
                prepared = dict(cast("Mapping[str, object]", row.data["prepared"]))
        end = last[-1]
        failed = end.kind is CorpusKind.FAILED
        return cls(
            attempt=attempt,
            began=True,
            kinds=tuple(row.kind for row in last),
            batches=frozenset(batches),
            doubts=frozenset(doubts),
            is_marked=batches <= intended,
            collected=collected,
            prepared=prepared,
            known_cut=end.kind is CorpusKind.CLEAN_STOP or (failed and bool(end.data.get("clean"))),
            spoiled=failed and end.outcome in SPOILS,
            in_doubt=failed and bool(end.data.get("doubt")),
            reused_from=next((str(row.data["reused_from"]) for row in last if "reused_from" in row.data), ""),
            namespace=next((str(row.data["namespace"]) for row in last if "namespace" in row.data), ""),
        )

    @property
    def captures(self) -> dict[str, object]:
        """The values that set-up and ingest captured."""
        return merge_captures(self.prepared, self.collected.captures)

    @property
    def held(self) -> bool:
        """Whether this run sent something to the provider and did not clear it."""
        return self.began and not self.reused_from and CorpusKind.CLEARED not in self.kinds

    @property
    def is_ready(self) -> bool:
        """Everything is in and was found searchable, and nothing has failed since."""
        return CorpusKind.READY in self.kinds and self.kinds[-1] is not CorpusKind.FAILED

    def next_step(self, *, durability: Durability, resumed: bool) -> Step:
        """Say where to continue. A store in the memory of a process that has ended holds nothing any more."""
        if not self.began:
            return Step.BEGIN
        if self.reused_from:  # what became of it is looked at when the run starts
            return Step.USE
        if CorpusKind.CLEARED in self.kinds or (durability == "process" and resumed):
            return Step.RESET
        if CorpusKind.READY in self.kinds:
            return Step.RESET if self.kinds[-1] is CorpusKind.FAILED else Step.USE
        if CorpusKind.INGESTED in self.kinds:
            return Step.RESET if self._index_failed else Step.WAIT
        if not self.is_marked:
            return self._step_of_older
        if self.spoiled:
            return Step.RESET
        if self.doubts:
            return Step.DOUBT
        if self.known_cut or self.batches:
            return Step.CONTINUE
        return Step.RESET

    @property
    def _step_of_older(self) -> Step:
        if self.known_cut:
            return Step.CONTINUE
        failed = self.kinds[-1] is CorpusKind.FAILED
        return Step.RESET if failed and not self.in_doubt else Step.DOUBT

    @property
    def _index_failed(self) -> bool:
        """The provider reported that indexing failed: waiting longer would not help (a time-out might)."""
        return self.kinds[-1] is CorpusKind.FAILED and not self.known_cut


def returned(ingested: Ingested) -> dict[str, object]:
    """Return the response to a batch in the form of the journal."""
    return {
        "ids": {name: list(ids) for name, ids in ingested.ids.items()},
        "jobs": list(ingested.jobs),
        "captures": dict(ingested.captures),
    }


def _returned(data: Mapping[str, object]) -> Ingested:
    ids = cast("Mapping[str, Sequence[str]]", data.get("ids", {}))
    return Ingested(
        ids={name: tuple(found) for name, found in ids.items()},
        jobs=tuple(cast("Sequence[str]", data.get("jobs", ()))),
        captures=cast("Mapping[str, object]", data.get("captures", {})),
    )
