"""Find the sessions and turns to which an item's evidence refers.

`coverage_gaps` checks that the memories contain the text and caption of every evidence turn.

Example::

    split_references("D3:01 D:12:1")      # ["D3:1", "D12:1"]
    gaps = coverage_gaps(items, corpus, [rendered.memory.content for rendered in memories(config, corpus)])
    # [CoverageGap(item="conv-26_3", turn="D1:14", text="[shares a photo ...]")]

Misspelled references with a clear meaning are repaired: ``D:11:26`` becomes ``D11:26``, and ``D30:05`` becomes
``D30:5``. A turn that evidence quotes is found by its speaker and text. If a reference matches nothing, it is left out
of the evidence and the item gets a flag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.terms import Parser
from bench.datasets.questions import RawItem
from bench.errors import DataError
from bench.model import Corpus, Evidence, Item, Turn
from bench.visible_text import counted

REPAIRED = "evidence_repaired"
UNRESOLVED = "evidence_unresolved"
MISSING = "evidence_missing"
TURNS_MISSING = "evidence_turns_missing"
REMOVED = "evidence_removed"
HIDDEN = "evidence_hidden"

ANY_ROW = -1
"""row index of entries that apply to every row without its own entry for an id"""
_SEPARATORS = re.compile(r"[;,\s]+")
_DIALOG = re.compile(r"D:?0*(\d+):0*(\d+)")


def split_references(reference: str) -> list[str]:
    """Split a text into evidence references. References to dialog turns are written as ``D3:1``."""
    parts = [part for part in _SEPARATORS.split(reference) if part]
    return [f"D{match[1]}:{match[2]}" if (match := _DIALOG.fullmatch(part)) else part for part in parts]


@dataclass(slots=True, kw_only=True)
class EvidenceLookup:
    """Tables of one corpus in which evidence references are looked up."""

    sessions: dict[str, int] = field(default_factory=dict)
    """session id -> position of the session in the corpus, counted from 0"""
    turns: dict[str, str] = field(default_factory=dict)
    """turn id -> id of the turn's session; turns are in corpus order"""
    gold: dict[int, set[str]] = field(default_factory=dict)
    """row index -> ids of the row's turns marked as evidence; only in the first of several sessions with one id"""
    renamed_ids: dict[tuple[int, str], str] = field(default_factory=dict)
    """(row index, id in this row) -> id in the corpus, if the two ids differ"""
    ids_by_quote: dict[str, str] | None = None
    """speaker and text of a turn -> id of the first such turn; None if the parser is not ``exact_text``"""
    removed: set[str] = field(default_factory=set)
    """ids of turns that are not ingested, because the config removes their role"""
    blank: set[str] = field(default_factory=set)
    """ids of blank turns; no memory is made of a blank turn"""
    when: dict[str, datetime] = field(default_factory=dict)
    """id of a session or turn -> its own date, if there is one"""
    empty: set[str] = field(default_factory=set)
    """ids of sessions that no memory can contain, because none of their turns is ingested"""

    def id_in_corpus(self, row: int, name: str) -> str:
        """Return the corpus's id for the session or turn to which a row refers with the id ``name``.

        If the row itself has no session or turn with this id, the id is searched in the whole corpus.
        """
        known = self.renamed_ids.get((row, name))
        if known is not None or name in self.turns or name in self.sessions:
            return known or name
        return self.renamed_ids.get((ANY_ROW, name), name)

    def flagged_turns(self, row: int) -> set[str]:
        """Return the ids of the row's turns that the data marks as evidence.

        If the row has no history, the marked turns of the whole corpus are returned.
        """
        return self.gold[row] if row in self.gold else set().union(*self.gold.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRule:
    """The rules by which a config finds the evidence of its items."""

    parser: Parser
    configured: bool
    has_flags: bool
    """true if the data marks turns as evidence with a flag"""
    turn_level: bool
    """true if each evidence session must have an evidence turn"""
    has_references: bool
    """true if a field of the item contains references to its evidence"""
    roles_removed: bool

    @classmethod
    def of(cls, config: BenchmarkConfig) -> EvidenceRule:
        """Create the rule from the config's evidence section."""
        nested = any(one.evidence_field for one in config.fields.question_lists)
        fields = config.evidence
        flagged = fields.turn_flag is not None
        both = fields.session_ids_field is not None and (fields.turn_ids_field is not None or nested)
        return cls(
            parser=fields.parser,
            configured=config.has_evidence,
            has_flags=flagged,
            turn_level=flagged or both or (fields.parser in ("dialog_refs", "exact_text") and config.has_evidence),
            has_references=nested or fields.session_ids_field is not None or fields.turn_ids_field is not None,
            roles_removed=bool(config.ingestion.preprocessing.remove_roles),
        )

    def resolve(self, item: RawItem, lookup: EvidenceLookup) -> tuple[Evidence, tuple[str, ...]]:
        """Return the evidence of an item in corpus order, and the names of problems with this evidence."""
        if not self.configured:
            return Evidence(), ()
        flags: set[str] = set()
        grades: dict[str, float] = {}
        sessions, turns = self._resolved_references(item, lookup, flags, grades)
        if self.has_flags:
            flagged = lookup.flagged_turns(item.place.index)
            meant = {turn for turn in flagged if not sessions or lookup.turns[turn] in sessions}
            turns |= meant - lookup.blank
            flags |= {UNRESOLVED} if meant & lookup.blank else set()
        if self.roles_removed:
            sessions, turns = self._without_removed(sessions, turns, lookup, flags)
        sessions |= {lookup.turns[turn] for turn in turns}
        self._flag_missing(item, sessions, turns, flags)
        found = replace(
            _ordered_evidence(sessions, turns, lookup), texts=item.texts, grades=_session_grades(grades, turns, lookup)
        )
        return found, tuple(sorted(flags))

    def _resolved_references(
        self, item: RawItem, lookup: EvidenceLookup, flags: set[str], grades: dict[str, float]
    ) -> tuple[set[str], set[str]]:
        """Return the ids of the sessions and turns to which an item's references refer.

        Grades of the evidence are added to ``grades``, and names of problems to ``flags``.
        """
        sessions: set[str] = set()
        turns: set[str] = set()
        for given, named in self._references(item, lookup, flags):
            reference = lookup.id_in_corpus(item.place.index, named)
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

    def unresolved_reference(self, item: RawItem, lookup: EvidenceLookup) -> str:
        """Return the first evidence reference of the item that matches no memory, or an empty text if all match.

        A blank turn that is marked as evidence also counts as such a reference.
        """
        for _, reference in self._references(item, lookup, set()):
            known = lookup.id_in_corpus(item.place.index, reference)
            known_turn = known in lookup.turns and known not in lookup.blank
            if not known_turn and (known not in lookup.sessions or known in lookup.empty):
                return reference
        flagged = lookup.flagged_turns(item.place.index) if self.has_flags else set()
        return next(iter(sorted(flagged & lookup.blank)), "")

    def later_evidence(self, evidence: Evidence, question_date: datetime, lookup: EvidenceLookup) -> str:
        """Return the id of an evidence session or turn that is dated after ``question_date``.

        Return an empty text if there is none.
        """
        turns = {turn: lookup.when.get(turn, lookup.when.get(lookup.turns[turn])) for turn in evidence.turns}
        dated_sessions = {lookup.turns[turn] for turn in turns}
        dates = {name: lookup.when.get(name) for name in evidence.sessions if name not in dated_sessions} | turns
        return next((name for name, when in dates.items() if when is not None and when > question_date), "")

    def _references(self, item: RawItem, lookup: EvidenceLookup, flags: set[str]) -> Iterable[tuple[str, str]]:
        """Yield each evidence reference of the item, with the id of its session or turn."""
        yield from ((reference, reference) for reference in item.session_refs)
        for reference in item.refs:
            if lookup.ids_by_quote is not None:
                yield reference, lookup.ids_by_quote.get(reference, reference)
                continue
            if self.parser == "position":
                session, _, place = reference.rpartition("#")
                yield reference, f"{session}#{int(place) + 1}" if place.isdecimal() else reference
                continue
            if self.parser in ("direct", "ranges") or reference in lookup.turns:
                yield reference, reference
                continue
            parts = split_references(reference)
            if parts != [reference] and any(part in lookup.turns for part in parts):
                flags.add(REPAIRED)
            yield from ((reference, part) for part in parts)

    def _without_removed(
        self, sessions: set[str], turns: set[str], lookup: EvidenceLookup, flags: set[str]
    ) -> tuple[set[str], set[str]]:
        """Return the evidence sessions and turns without the turns that ``removeRoles`` removes.

        If `turn_level` is true, a session without a remaining evidence turn is left out too. If anything is left out, a
        name for this problem is added to ``flags``.
        """
        kept = turns - lookup.removed
        holding = {lookup.turns[turn] for turn in kept}
        left = {session for session in sessions if session in holding} if self.turn_level else sessions
        if kept != turns or left != sessions:
            flags.add(REMOVED)
        return left, kept

    def _flag_missing(self, item: RawItem, sessions: set[str], turns: set[str], flags: set[str]) -> None:
        given = bool(item.session_refs or item.refs or item.texts or turns)
        if not given and not item.abstention and REMOVED not in flags:
            flags.add(MISSING)
        if self.turn_level and sessions and not turns and not item.abstention:
            flags.add(TURNS_MISSING)


def _session_grades(grades: dict[str, float], turns: Iterable[str], lookup: EvidenceLookup) -> dict[str, float]:
    """Return the grades of evidence. Each session with evidence turns gets the highest grade of its turns.

    Return an empty map if all grades are 1.
    """
    for turn in turns if grades else ():
        session = lookup.turns[turn]
        grades[session] = max(grades.get(turn, 1.0), grades.get(session, 0.0))
    return {} if set(grades.values()) <= {1.0} else grades


def _ordered_evidence(sessions: Iterable[str], turns: Iterable[str], lookup: EvidenceLookup) -> Evidence:
    rank: Mapping[str, int] = lookup.sessions
    by_rank = sorted(sessions, key=lambda session: rank[session])
    if not turns:
        return Evidence(sessions=tuple(by_rank))
    wanted = set(turns)
    ordered = (turn for turn in lookup.turns if turn in wanted)
    return Evidence(sessions=tuple(by_rank), turns=tuple(ordered))


_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageGap:
    """An evidence turn whose text or caption is in no memory. ``text`` is the missing text or caption."""

    item: str
    turn: str
    text: str


def coverage_gaps(items: Iterable[Item], corpus: Corpus, contents: Sequence[str]) -> list[CoverageGap]:
    """Return the evidence turns whose text or caption is in none of the memory texts ``contents``."""
    turns = {turn.id: turn for session in corpus.sessions for turn in session.turns}
    whole = "\n".join(contents)
    known: dict[str, str | None] = {}
    gaps = []
    for item in items:
        for turn_id in item.evidence.turns:
            if turn_id not in known:
                known[turn_id] = _missing_part(turns.get(turn_id), whole)
            absent = known[turn_id]
            if absent is not None:
                gaps.append(CoverageGap(item=item.id, turn=turn_id, text=absent))
    return gaps


def _missing_part(turn: Turn | None, whole: str) -> str | None:
    """Return the text or caption of the turn that ``whole`` does not contain, or None if nothing is missing."""
    if turn is None:
        return "(not ingested)"
    parts = [turn.text, *([turn.caption] if turn.caption else [])]
    return next((part for part in parts if part.strip() and not _contains(whole, part)), None)


def _contains(whole: str, part: str) -> bool:
    """Return True when ``whole`` contains ``part``, either unchanged or escaped as in JSON."""
    return part in whole or json.dumps(part, ensure_ascii=False)[1:-1] in whole


def require_coverage(gaps: Sequence[CoverageGap], *, benchmark: str, where: str | None = None) -> None:
    """Raise a DataError if there are gaps. The message lists the first 20 gaps."""
    if not gaps:
        return
    listed = ", ".join(f"{gap.item} ({gap.turn})" for gap in gaps[:_SHOWN])
    more = f" and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    items = len({gap.item for gap in gaps})
    raise DataError(
        f"{benchmark}: the evidence of {counted(items, 'item(|s)')} is missing in the texts that providers "
        f"would receive: "
        f"{listed}{more}",
        where=where,
        hint="map the field that contains the evidence, such as a caption, or correct formatTemplate",
    )
