"""Evidence: look up the references of a row in its corpus, repair safe cases, flag the others.

Here too:

* Coverage: the text of every evidence turn must be in what is sent, captions included.

Example::

    repair("D3:01 D:12:1")      # ["D3:1", "D12:1"]
    gaps = coverage_gaps(items, corpus, [rendered.memory.content for rendered in memories(config, corpus)])
    # [Gap(item="conv-26_3", turn="D1:14", text="[shares a photo ...]")]

``D:11:26`` means ``D11:26`` and ``D30:05`` means ``D30:5``; a turn that is quoted whole is looked up by its words and
its speaker; what still names nothing is set aside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bench.config.benchmark import BenchmarkConfig
from bench.config.benchmark_terms import Parser
from bench.datasets.questions import RawItem
from bench.errors import DataError
from bench.model import Corpus, Evidence, Item, Turn

REPAIRED = "evidence_repaired"
UNRESOLVED = "evidence_unresolved"
MISSING = "evidence_missing"
TURNS_MISSING = "evidence_turns_missing"
REMOVED = "evidence_removed"

ANY_ROW = -1
"""the row of an id that only a joined session had"""
_SEPARATORS = re.compile(r"[;,\s]+")
_DIALOG = re.compile(r"D:?0*(\d+):0*(\d+)")


def repair(reference: str) -> list[str]:
    """Split a reference and bring each part into the form ``D3:1`` where it can be."""
    parts = [part for part in _SEPARATORS.split(reference) if part]
    return [f"D{match[1]}:{match[2]}" if (match := _DIALOG.fullmatch(part)) else part for part in parts]


@dataclass(slots=True, kw_only=True)
class Lookup:
    """What a corpus knows for evidence: its sessions in order, the session of each turn, the flagged turns."""

    sessions: dict[str, int] = field(default_factory=dict)
    """session id -> its rank"""
    turns: dict[str, str] = field(default_factory=dict)
    """turn id -> session id, in true order"""
    gold: dict[int, set[str]] = field(default_factory=dict)
    """index of a row -> ids of its flagged turns, of first sessions of an id only"""
    own: dict[tuple[int, str], str] = field(default_factory=dict)
    """(index of a row, id in that row) -> id in the corpus, where the two differ"""
    said: dict[str, str] | None = None
    """who said what -> id of the first such turn; None where no reference is the text of a turn"""
    removed: set[str] = field(default_factory=set)
    """ids of turns whose role is not ingested"""
    blank: set[str] = field(default_factory=set)
    """ids of turns that are blank: they are not memory"""
    when: dict[str, datetime] = field(default_factory=dict)
    """session id or turn id -> its own date, where it has one"""
    empty: set[str] = field(default_factory=set)
    """ids of sessions of which nothing is ingested: no memory can hold what they are evidence of"""

    def known_as(self, row: int, name: str) -> str:
        """The id that the corpus has for what a row calls so; that row's own meaning wins."""
        known = self.own.get((row, name))
        if known is not None or name in self.turns or name in self.sessions:
            return known or name
        return self.own.get((ANY_ROW, name), name)

    def flagged(self, row: int) -> set[str]:
        """The flagged turns of a row; of the whole corpus for a row without a history of its own."""
        return self.gold[row] if row in self.gold else set().union(*self.gold.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRule:
    """What a config states about evidence."""

    parser: Parser
    configured: bool
    flagged: bool
    """turns carry a gold flag"""
    turn_level: bool
    """each session of the evidence should have a gold turn"""
    named: bool
    """a field of the item names the evidence"""
    roles_removed: bool

    @classmethod
    def of(cls, config: BenchmarkConfig) -> EvidenceRule:
        """Read the rule from a config."""
        nested = any(one.evidence_field for one in config.fields.question_lists)
        fields = config.evidence
        flagged = fields.turn_flag is not None
        both = fields.session_ids_field is not None and (fields.turn_ids_field is not None or nested)
        return cls(
            parser=fields.parser,
            configured=config.has_evidence,
            flagged=flagged,
            turn_level=flagged or both or (fields.parser in ("dialog_refs", "exact_text") and config.has_evidence),
            named=nested or fields.session_ids_field is not None or fields.turn_ids_field is not None,
            roles_removed=bool(config.ingestion.preprocessing.remove_roles),
        )

    def resolve(self, item: RawItem, lookup: Lookup) -> tuple[Evidence, tuple[str, ...]]:
        """Give the evidence in session order and the flags of the item."""
        if not self.configured:
            return Evidence(), ()
        flags: set[str] = set()
        grades: dict[str, float] = {}
        sessions, turns = self._named(item, lookup, flags, grades)
        if self.flagged:
            flagged = lookup.flagged(item.place.index)
            meant = {turn for turn in flagged if not sessions or lookup.turns[turn] in sessions}
            turns |= meant - lookup.blank
            flags |= {UNRESOLVED} if meant & lookup.blank else set()
        if self.roles_removed:
            sessions, turns = self._without_removed(sessions, turns, lookup, flags)
        sessions |= {lookup.turns[turn] for turn in turns}
        self._missing(item, sessions, turns, flags)
        found = replace(
            _in_order(sessions, turns, lookup), texts=item.texts, grades=_of_sessions(grades, turns, lookup)
        )
        return found, tuple(sorted(flags))

    def _named(
        self, item: RawItem, lookup: Lookup, flags: set[str], grades: dict[str, float]
    ) -> tuple[set[str], set[str]]:
        """What the references name."""
        sessions: set[str] = set()
        turns: set[str] = set()
        for given, named in self._references(item, lookup, flags):
            reference = lookup.known_as(item.place.index, named)
            if given in item.grades:
                grades[reference] = max(item.grades[given], grades.get(reference, 0.0))
            if reference in lookup.turns and reference not in lookup.blank:
                turns.add(reference)
            elif reference in lookup.empty and self.roles_removed:
                flags.add(REMOVED)
            elif reference in lookup.sessions and reference not in lookup.empty:
                sessions.add(reference)
            else:
                flags.add(UNRESOLVED)
        return sessions, turns

    def unresolved(self, item: RawItem, lookup: Lookup) -> str:
        """The first reference that names nothing."""
        for _, reference in self._references(item, lookup, set()):
            known = lookup.known_as(item.place.index, reference)
            known_turn = known in lookup.turns and known not in lookup.blank
            if not known_turn and (known not in lookup.sessions or known in lookup.empty):
                return reference
        flagged = lookup.flagged(item.place.index) if self.flagged else set()
        return next(iter(sorted(flagged & lookup.blank)), "")

    def later(self, evidence: Evidence, asked: datetime, lookup: Lookup) -> str:
        """The first session or turn of the evidence that is dated after an instant; empty where none is."""
        turns = {turn: lookup.when.get(turn, lookup.when.get(lookup.turns[turn])) for turn in evidence.turns}
        told = {lookup.turns[turn] for turn in turns}
        dates = {name: lookup.when.get(name) for name in evidence.sessions if name not in told} | turns
        return next((name for name, when in dates.items() if when is not None and when > asked), "")

    def _references(self, item: RawItem, lookup: Lookup, flags: set[str]) -> Iterable[tuple[str, str]]:
        """Each reference as the row gives it, with what it means."""
        yield from ((reference, reference) for reference in item.session_refs)
        for reference in item.refs:
            if lookup.said is not None:
                yield reference, lookup.said.get(reference, reference)
                continue
            if self.parser == "position":
                session, _, place = reference.rpartition("#")
                yield reference, f"{session}#{int(place) + 1}" if place.isdecimal() else reference
                continue
            if self.parser in ("direct", "ranges") or reference in lookup.turns:
                yield reference, reference
                continue
            parts = repair(reference)
            if parts != [reference] and any(part in lookup.turns for part in parts):
                flags.add(REPAIRED)
            yield from ((reference, part) for part in parts)

    def _without_removed(
        self, sessions: set[str], turns: set[str], lookup: Lookup, flags: set[str]
    ) -> tuple[set[str], set[str]]:
        """Turns that are not ingested leave the evidence, and so do sessions left without a gold turn."""
        kept = turns - lookup.removed
        holding = {lookup.turns[turn] for turn in kept}
        left = {session for session in sessions if session in holding} if self.turn_level else sessions
        if kept != turns or left != sessions:
            flags.add(REMOVED)
        return left, kept

    def _missing(self, item: RawItem, sessions: set[str], turns: set[str], flags: set[str]) -> None:
        given = bool(item.session_refs or item.refs or item.texts or turns)
        if not given and not item.abstention and REMOVED not in flags:
            flags.add(MISSING)
        if self.turn_level and sessions and not turns and not item.abstention:
            flags.add(TURNS_MISSING)


def _of_sessions(grades: dict[str, float], turns: Iterable[str], lookup: Lookup) -> dict[str, float]:
    """The grades with those of sessions, the highest of their turns; none where all are 1."""
    for turn in turns if grades else ():
        session = lookup.turns[turn]
        grades[session] = max(grades.get(turn, 1.0), grades.get(session, 0.0))
    return {} if set(grades.values()) <= {1.0} else grades


def _in_order(sessions: Iterable[str], turns: Iterable[str], lookup: Lookup) -> Evidence:
    rank: Mapping[str, int] = lookup.sessions
    by_rank = sorted(sessions, key=lambda session: rank[session])
    if not turns:
        return Evidence(sessions=tuple(by_rank))
    wanted = set(turns)
    ordered = (turn for turn in lookup.turns if turn in wanted)
    return Evidence(sessions=tuple(by_rank), turns=tuple(ordered))


_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An evidence turn whose text was not in what is sent."""

    item: str
    turn: str
    text: str


def coverage_gaps(items: Iterable[Item], corpus: Corpus, contents: Sequence[str]) -> list[Gap]:
    """Every evidence turn of the items that the contents do not hold. A piece may be split over contents."""
    turns = {turn.id: turn for session in corpus.sessions for turn in session.turns}
    whole = "\n".join(contents)
    known: dict[str, str | None] = {}
    gaps = []
    for item in items:
        for turn_id in item.evidence.turns:
            if turn_id not in known:
                known[turn_id] = _absent(turns.get(turn_id), whole)
            absent = known[turn_id]
            if absent is not None:
                gaps.append(Gap(item=item.id, turn=turn_id, text=absent))
    return gaps


def _absent(turn: Turn | None, whole: str) -> str | None:
    """The first part of the turn that is not there, or None."""
    if turn is None:
        return "(not ingested)"
    parts = [turn.text, *([turn.caption] if turn.caption else [])]
    return next((part for part in parts if part.strip() and not _holds(whole, part)), None)


def _holds(whole: str, part: str) -> bool:
    """The text as it is, or as JSON writes it."""
    return part in whole or json.dumps(part, ensure_ascii=False)[1:-1] in whole


def require_coverage(gaps: Sequence[Gap], *, benchmark: str, where: str | None = None) -> None:
    """Raise a DataError that lists the items; nothing when there is no gap."""
    if not gaps:
        return
    listed = ", ".join(f"{gap.item} ({gap.turn})" for gap in gaps[:_SHOWN])
    more = f" and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    items = len({gap.item for gap in gaps})
    raise DataError(
        f"evidence of {items} items of {benchmark} is not in the texts that would be sent: {listed}{more}",
        where=where,
        hint="map the missing field (a caption?), or correct formatTemplate",
    )
