"""A corpus from the sessions of its rows: unique ids, true order, and the look-up for evidence.

::

    built = build(raw_sessions, rules)
    built.corpus.sessions       # by date, equal dates in the order of the file
    built.lookup.turns          # turn id -> session id
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bench.config.benchmark.terms import Parser
from bench.datasets.evidence import Lookup
from bench.datasets.history import RawSession
from bench.model import Corpus, Session, Turn

SESSION_EMPTY = "session_empty"
SESSION_REPEATED = "session_id_repeated"
TURN_COST = 500
"""what the objects of a turn weigh beside its text, roughly"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A corpus with what evidence needs; ``flags`` counts sessions."""

    corpus: Corpus
    lookup: Lookup
    flags: Counter[str] = field(default_factory=Counter)
    size: int = 0
    """characters of text, for caches"""


def build(
    corpus_id: str, raw: Sequence[RawSession], removed_roles: Collection[str], *, parser: Parser = "direct"
) -> Built:
    """Name, date-check and order the sessions; DataError for one session without a date among dated ones."""
    _check_dates(raw)
    flags: Counter[str] = Counter()
    names = _unique(session.id for session in raw)
    flags[SESSION_REPEATED] = sum(name != session.id for name, session in zip(names, raw, strict=True))
    paired = list(zip(names, raw, strict=True))
    if raw and raw[0].when is not None:
        paired.sort(key=lambda pair: pair[1].when)  # type: ignore[arg-type,return-value]
    lookup = Lookup(said={} if parser == "exact_text" else None)
    sessions = tuple(_session(name, session, lookup, removed_roles) for name, session in paired)
    flags[SESSION_EMPTY] = sum(not session.turns for session in sessions)
    size = sum(len(turn.text) + TURN_COST for session in sessions for turn in session.turns)
    return Built(corpus=Corpus(id=corpus_id, sessions=sessions), lookup=lookup, flags=+flags, size=size)


def _check_dates(raw: Sequence[RawSession]) -> None:
    undated = [session for session in raw if session.when is None]
    if undated and len(undated) < len(raw):
        session = undated[0]
        text = f'has no date, other sessions of the corpus have one (session "{session.id}")'
        raise session.place.error(session.where, text, hint="give every session a date, or none")


def _unique(ids: Iterable[str]) -> list[str]:
    """Later ones of a repeated id get ``~2``, ``~3`` in the order of the file."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    names = []
    for name in ids:
        seen[name] += 1
        unique = name if seen[name] == 1 and name not in taken else f"{name}~{max(seen[name], 2)}"
        while unique in taken:
            seen[name] += 1
            unique = f"{name}~{seen[name]}"
        taken.add(unique)
        names.append(unique)
    return names


def _session(name: str, raw: RawSession, lookup: Lookup, removed_roles: Collection[str]) -> Session:
    lookup.sessions[name] = len(lookup.sessions)
    turns = []
    for index, turn in enumerate(raw.turns, 1):
        turn_id = _turn_id(turn.id or f"{name}#{index}", lookup)
        lookup.turns[turn_id] = name
        if lookup.said is not None:
            lookup.said.setdefault(turn.said, turn_id)
        if turn.gold and name == raw.id:
            lookup.gold.add(turn_id)
        if turn.role is not None and turn.role in removed_roles:
            lookup.removed.add(turn_id)
            continue
        turns.append(
            Turn(
                id=turn_id,
                text=turn.text,
                role=turn.role,
                speaker=turn.speaker,
                caption=turn.caption,
                when=turn.when,
            )
        )
    return Session(id=name, turns=tuple(turns), when=raw.when, date_text=raw.date_text, metadata=raw.metadata)


def _turn_id(wanted: str, lookup: Lookup) -> str:
    """A turn id that the corpus has not seen yet."""
    if wanted not in lookup.turns:
        return wanted
    number = 2
    while f"{wanted}~{number}" in lookup.turns:
        number += 1
    return f"{wanted}~{number}"
