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
from hashlib import sha256

from bench.config.benchmark.terms import Parser
from bench.datasets.evidence import ANY_ROW, Lookup
from bench.datasets.history import RawSession
from bench.model import Corpus, Session, Turn

SESSION_EMPTY = "session_empty"
SESSION_REPEATED = "session_id_repeated"
SESSION_JOINED = "session_joined"
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
    corpus_id: str, raw: Iterable[RawSession], removed_roles: Collection[str], *, parser: Parser = "direct"
) -> Built:
    """Join, name, date-check and order the sessions.

    Rows that repeat their conversation bring each session once. DataError for one session without a date among dated
    ones, and for one id under which two rows bring different sessions.
    """
    joined = _Joined(corpus_id)
    for session in raw:
        joined.add(session)
    kept = joined.kept
    _check_dates([session for _, session in kept])
    flags: Counter[str] = Counter()
    flags[SESSION_REPEATED] = sum(name != session.id and session.named for name, session in kept)
    flags[SESSION_JOINED] = joined.repeats
    if kept and kept[0][1].when is not None:
        kept.sort(key=lambda pair: pair[1].when)  # type: ignore[arg-type,return-value]
    lookup = Lookup(said={} if parser == "exact_text" else None)
    sessions = tuple(_session(name, session, lookup, removed_roles) for name, session in kept)
    joined.into(lookup)
    flags[SESSION_EMPTY] = sum(not session.turns for session in sessions)
    size = sum(len(turn.text) + TURN_COST for session in sessions for turn in session.turns)
    return Built(corpus=Corpus(id=corpus_id, sessions=sessions), lookup=lookup, flags=+flags, size=size)


class _Joined:
    """The distinct sessions of a corpus, in the order of the file; a repeated one leaves only its digest's name.

    The n-th session of a row is the same as the n-th such session of another row: a row may hold equal ones itself.
    """

    def __init__(self, corpus_id: str) -> None:
        self.corpus_id = corpus_id
        self.kept: list[tuple[str, RawSession]] = []
        self.repeats = 0
        self.names = _Names()
        self.known: dict[tuple[str | None, bytes, int], str] = {}
        self.first: dict[str, int] = {}
        """id of the data -> index in ``kept`` of the first session that has it"""
        self.row = -1
        self.of_row: Counter[tuple[str | None, bytes]] = Counter()
        self.ids_of_row: set[str] = set()
        self.renamed: dict[tuple[int, str], str] = {}
        self.flagged: list[tuple[int, str, list[int]]] = []
        """row, session and places of flagged turns of repeated sessions"""
        self.rows: set[int] = set()
        """rows with a history"""

    def add(self, session: RawSession) -> None:
        """Take the next session of the file."""
        if session.place.index != self.row:
            self.row = session.place.index
            self.rows.add(self.row)
            self.of_row.clear()
            self.ids_of_row.clear()
        key = (session.id if session.named else None, _digest(session))
        name = self.known.get((*key, self.of_row[key]))
        if name is None:
            self._check(session)
            name = self.names.take(session.id)
            self.known[(*key, self.of_row[key])] = name
            self.first.setdefault(session.id, len(self.kept))
            self.kept.append((name, session))
        else:
            self.repeats += 1
            if gold := [place for place, turn in enumerate(session.turns) if turn.gold]:
                self.flagged.append((self.row, name, gold))
        self.of_row[key] += 1
        if name != session.id and session.id not in self.ids_of_row:
            self.renamed[self.row, session.id] = name
        self.ids_of_row.add(session.id)

    def _check(self, session: RawSession) -> None:
        """Two rows may not mean different sessions by one id; inside a row a repeated id is told apart."""
        if not session.named or session.id not in self.first:
            return
        first = self.kept[self.first[session.id]][1]
        if first.place.index == self.row or session.id in self.ids_of_row:
            return
        text = f'brings another session "{session.id}" of corpus "{self.corpus_id}" than {first.place}'
        ids = f" (row {first.place.row_id})" if first.place.row_id else ""
        raise session.place.error("", text + ids, hint="give different sessions different ids")

    def into(self, lookup: Lookup) -> None:
        """Tell the evidence what each row means by its own ids and flags."""
        for row, wanted in self.renamed:
            lookup.own[row, wanted] = self.renamed[row, wanted]
            lookup.own.setdefault((ANY_ROW, wanted), self.renamed[row, wanted])
        for row in self.rows:
            lookup.gold.setdefault(row, set())
        turns_of: dict[str, list[str]] = {}
        for turn, session in lookup.turns.items():
            turns_of.setdefault(session, []).append(turn)
        for row, name, gold in self.flagged:
            lookup.gold.setdefault(row, set()).update(turns_of[name][place] for place in gold)


def _digest(session: RawSession) -> bytes:
    """What makes two sessions equal: date and turns, whatever the question that flags some of them."""
    turns = [(t.id, t.text, t.role, t.speaker, t.caption, t.when) for t in session.turns]
    return sha256(
        repr((session.when, session.date_text, turns, dict(session.metadata))).encode("utf-8", "surrogatepass")
    ).digest()


def _check_dates(raw: Sequence[RawSession]) -> None:
    undated = [session for session in raw if session.when is None]
    if undated and len(undated) < len(raw):
        session = undated[0]
        text = f'has no date, other sessions of the corpus have one (session "{session.id}")'
        raise session.place.error(session.where, text, hint="give every session a date, or none")


class _Names:
    """Later ones of a repeated id get ``~2``, ``~3`` in the order of the file."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.taken: set[str] = set()

    def take(self, name: str) -> str:
        self.seen[name] += 1
        unique = name if self.seen[name] == 1 and name not in self.taken else f"{name}~{max(self.seen[name], 2)}"
        while unique in self.taken:
            self.seen[name] += 1
            unique = f"{name}~{self.seen[name]}"
        self.taken.add(unique)
        return unique


def _session(name: str, raw: RawSession, lookup: Lookup, removed_roles: Collection[str]) -> Session:
    lookup.sessions[name] = len(lookup.sessions)
    row = raw.place.index
    turns = []
    for index, turn in enumerate(raw.turns, 1):
        wanted = turn.id or f"{name}#{index}"
        turn_id = _turn_id(wanted, lookup)
        if turn_id != wanted:
            lookup.own.setdefault((row, wanted), turn_id)
        lookup.turns[turn_id] = name
        if lookup.said is not None:
            lookup.said.setdefault(turn.said, turn_id)
        if turn.gold and (name == raw.id or not raw.named):
            lookup.gold.setdefault(row, set()).add(turn_id)
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
    if not any(turn.text.strip() or turn.caption for turn in turns):
        lookup.empty.add(name)
    return Session(id=name, turns=tuple(turns), when=raw.when, date_text=raw.date_text, metadata=raw.metadata)


def _turn_id(wanted: str, lookup: Lookup) -> str:
    """A turn id that the corpus has not seen yet."""
    if wanted not in lookup.turns:
        return wanted
    number = 2
    while f"{wanted}~{number}" in lookup.turns:
        number += 1
    return f"{wanted}~{number}"
