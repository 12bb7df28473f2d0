"""What the ids of somebody else's ranking stand for in one corpus, and the ranking as a search result.

Example::

    known = Known.of(dataset, "conv-26")
    found_of(row, known, lane)          # a SearchResult: unknown ids keep their rank and stand for nothing
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from bench.datasets import Dataset, RenderedMemory, ranks
from bench.engine.foreignfile import ForeignRow, Hits
from bench.engine.records import SearchResult
from bench.model import Hit, Memory
from bench.plan import Lane

NO_RANKING = "no_ranking"


@dataclass(frozen=True, slots=True)
class Known:
    """What ids of one corpus stand for."""

    by_id: dict[str, RenderedMemory]
    sessions: frozenset[str]

    @classmethod
    def of(cls, dataset: Dataset, corpus_id: str) -> Known:
        """Every session and turn; where both have one id, it is the session's."""
        corpus = dataset.corpus(corpus_id)
        found: dict[str, RenderedMemory] = {}
        for session in corpus.sessions:
            for turn in session.turns:
                found[turn.id] = _memory(corpus_id, turn.text, session.id, (turn.id,))
        for session in corpus.sessions:
            text = "\n".join(turn.text for turn in session.turns)
            found[session.id] = _memory(corpus_id, text, session.id, tuple(turn.id for turn in session.turns))
        return cls(found, frozenset(session.id for session in corpus.sessions))

    def slots(self, hits: Hits) -> list[list[RenderedMemory]]:
        """What each hit stands for; an id that nobody knows stands for nothing and keeps its rank."""
        return [[self.by_id[name] for name in map(self._named, hit) if name in self.by_id] for hit in hits]

    def strangers(self, row: ForeignRow) -> Iterator[tuple[str, str]]:
        """The ids that stand for nothing here, each with its place."""
        return ((name, where) for name, where in _ids(row) if self._named(name) not in self.by_id)

    def kinds(self, row: ForeignRow) -> Iterator[tuple[str, bool, str]]:
        """The ids that are known, whether each is a session, and its place."""
        for name, where in _ids(row):
            known = self._named(name)
            if known in self.by_id:
                yield known, known in self.sessions, where

    def _named(self, name: str) -> str:
        return known_name(name, self.by_id)


def _ids(row: ForeignRow) -> Iterator[tuple[str, str]]:
    """Every id of a ranking with its place."""
    return ((name, row.where_of(slot)) for slot, hit in enumerate(row.hits or ()) for name in hit)


def known_name(name: str, known: Container[str]) -> str:
    """The id as it stands, else without a mark of repetition, else percent-decoded: the ways it may be written."""
    bare = name.partition("#dup")[0]
    return next((one for one in (name, bare, unquote(name), unquote(bare)) if one in known), name)


def found_of(row: ForeignRow, known: Known, lane: Lane) -> SearchResult:
    """Their ranking as if a provider had returned it: cut to k, duplicates kept, unknown ids in their places."""
    k = lane.benchmark.k
    if row.hits is None:
        return SearchResult(hits=(), retrieved=None, requested=k, returned=0, reason=NO_RANKING)
    slots = known.slots(row.hits)
    ranked = ranks(slots, level=lane.level, unit=lane.unit)
    hits = tuple(
        Hit(id=names[0] if names else "", content="\n".join(one.memory.content for one in slot))
        for names, slot in zip(row.hits[:k], slots, strict=False)
    )
    return SearchResult(
        hits=hits,
        retrieved=tuple(ranked[:k]),
        beyond=tuple(ranked[k:]),
        requested=k,
        returned=len(row.hits),
        unmapped=sum(not slot for slot in slots[:k]),
        flags=("over_returned",) if len(row.hits) > k else (),
    )


def _memory(corpus: str, text: str, session: str, turns: tuple[str, ...]) -> RenderedMemory:
    return RenderedMemory(
        memory=Memory(id=session, content=text), sessions=(session,), turns=turns, corpus=corpus, position=1
    )
