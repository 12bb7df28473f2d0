"""Build a corpus from the sessions of its rows.

The ids of the sessions become unique, and the sessions are sorted by date::

    built = build_corpus("c1", raw_sessions, removed_roles=())
    built.corpus.sessions       # by date, equal dates in the order of the file
    built.lookup.turns          # turn id -> session id
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise

from bench.config.benchmark.terms import Parser
from bench.datasets.evidence import ANY_ROW, EvidenceLookup
from bench.datasets.history import RawSession
from bench.datasets.turn_reader import is_blank_turn
from bench.model import Corpus, Session, Turn

SESSION_EMPTY = "session_empty"
SESSION_REPEATED = "session_id_repeated"
SESSION_JOINED = "session_joined"
TURN_BLANK = "turn_blank"
TURN_COST = 500
"""approximate memory of a turn in bytes, without its text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCorpus:
    """A corpus, and the tables in which its evidence is looked up. ``flags`` counts problems in sessions and turns."""

    corpus: Corpus
    lookup: EvidenceLookup
    flags: Counter[str] = field(default_factory=Counter)
    size: int = 0
    """approximate memory in bytes, for the size limit of a cache"""
    repeated_texts: int = 0
    """number of sessions with a turn text that also occurs in another row; a session with an id does not count"""


def build_corpus(
    corpus_id: str,
    raw: Iterable[RawSession],
    removed_roles: Collection[str],
    *,
    parser: Parser = "direct",
    in_order: bool = False,
) -> BuiltCorpus:
    """Build a corpus from the sessions of its rows. Session ids become unique, and sessions are sorted by date.

    A session that is repeated in another row is added once.

    Raises:
        DataError: some sessions have a date and others have none; or two rows have different sessions with the same id.
            With ``in_order``, also if the sessions of the data are not in order of their dates.
    """
    alone = isinstance(raw, Sequence) and len({session.place.index for session in raw}) <= 1
    joined = _SessionMerger(corpus_id, alone=alone)
    for session in raw:
        joined.add(session)
    named_sessions = joined.named_sessions
    _check_dates([session for _, session in named_sessions])
    flags: Counter[str] = Counter()
    flags[SESSION_REPEATED] = sum(name != session.id and session.has_own_id for name, session in named_sessions)
    flags[SESSION_JOINED] = joined.repeats
    if named_sessions and named_sessions[0][1].when is not None:
        if in_order:
            _check_order(corpus_id, [session for _, session in named_sessions])
        named_sessions.sort(key=lambda pair: pair[1].when)  # type: ignore[arg-type,return-value]
    lookup = EvidenceLookup(ids_by_quote={} if parser == "exact_text" else None)
    sessions = tuple(_session(name, session, lookup, removed_roles) for name, session in named_sessions)
    joined.fill_lookup(lookup)
    blank = lookup.blank - lookup.removed
    flags[TURN_BLANK] = len(blank)
    flags[SESSION_EMPTY] = sum(all(turn.id in blank for turn in session.turns) for session in sessions)
    size = sum(len(turn.text) + TURN_COST for session in sessions for turn in session.turns)
    return BuiltCorpus(
        corpus=Corpus(id=corpus_id, sessions=sessions),
        lookup=lookup,
        flags=+flags,
        size=size,
        repeated_texts=joined.repeated_texts,
    )


class _SessionMerger:
    """The distinct sessions of a corpus, collected in file order.

    Equal sessions within one row are all kept. If several rows contain equal sessions, as many are kept as in the row
    with the most of them.
    """

    def __init__(self, corpus_id: str, *, alone: bool) -> None:
        self.corpus_id = corpus_id
        self.alone = alone
        """true if all sessions are in one row, so that no other row can repeat them"""
        self.named_sessions: list[tuple[str, RawSession]] = []
        self.repeats = 0
        self.repeated_texts = 0
        self.texts: dict[int, int] = {}
        """hash of a turn's text -> first row with this text; sessions with ids in the data are left out"""
        self.names = _UniqueNames()
        self.known: dict[tuple[str | None, bytes, int], str] = {}
        self.first: dict[str, int] = {}
        """map from a session id in the data to the index in ``named_sessions`` of the first session with this id"""
        self.row = -1
        self.of_row: Counter[tuple[str | None, bytes]] = Counter()
        self.ids_of_row: set[str] = set()
        self.renamed: dict[tuple[int, str], str] = {}
        self.flagged: list[tuple[int, str, list[int]]] = []
        """row, session name and indexes of evidence turns, for each session that an earlier row already has"""
        self.rows: set[int] = set()
        """indexes of the rows that have a history"""

    def add(self, session: RawSession) -> None:
        """Add the next session in file order. A session that an earlier row already has is only counted."""
        if session.place.index != self.row:
            self.row = session.place.index
            self.rows.add(self.row)
            self.of_row.clear()
            self.ids_of_row.clear()
        key = (session.id if session.has_own_id else None, b"" if self.alone else _session_digest(session))
        name = self.known.get((*key, self.of_row[key]))
        if name is None:
            self._check(session)
            name = self.names.take(session.id)
            self.known[(*key, self.of_row[key])] = name
            self.first.setdefault(session.id, len(self.named_sessions))
            self.named_sessions.append((name, session))
            self._compare(session)
        else:
            self.repeats += 1
            if gold := [place for place, turn in enumerate(session.turns) if turn.gold]:
                self.flagged.append((self.row, name, gold))
        self.of_row[key] += 1
        if name != session.id and session.id not in self.ids_of_row:
            self.renamed[self.row, session.id] = name
        self.ids_of_row.add(session.id)

    def _compare(self, session: RawSession) -> None:
        """Compare the turns with those of earlier rows in the corpus, and count the session if a text is equal.

        A session with an id in the data is neither compared nor counted.
        """
        if self.alone or session.has_own_id:
            return
        texts = [hash(turn.text) for turn in session.turns if not is_blank_turn(turn)]
        self.repeated_texts += any(self.texts.get(text, self.row) != self.row for text in texts)
        for text in texts:
            self.texts.setdefault(text, self.row)

    def _check(self, session: RawSession) -> None:
        """Raise a DataError when two rows have different sessions with the same id. Within one row, ids can repeat."""
        if not session.has_own_id or session.id not in self.first:
            return
        first = self.named_sessions[self.first[session.id]][1]
        if first.place.index == self.row or session.id in self.ids_of_row:
            return
        text = f'has a session "{session.id}" of corpus "{self.corpus_id}" that differs from the one at {first.place}'
        ids = f" (row {first.place.row_id})" if first.place.row_id else ""
        raise session.place.error("", text + ids, hint="give each session its own id")

    def fill_lookup(self, lookup: EvidenceLookup) -> None:
        """Add to ``lookup`` the new names of repeated session ids, and the evidence turns of each row."""
        for row, wanted in self.renamed:
            lookup.renamed_ids[row, wanted] = self.renamed[row, wanted]
            lookup.renamed_ids.setdefault((ANY_ROW, wanted), self.renamed[row, wanted])
        for row in self.rows:
            lookup.gold.setdefault(row, set())
        turns_of: dict[str, list[str]] = {}
        for turn, session in lookup.turns.items():
            turns_of.setdefault(session, []).append(turn)
        for row, name, gold in self.flagged:
            lookup.gold.setdefault(row, set()).update(turns_of[name][place] for place in gold)


def _session_digest(session: RawSession) -> bytes:
    """Return a digest of a session's date, turns and metadata. Evidence marks on turns do not change the digest."""
    turns = [(t.id, t.text, t.role, t.speaker, t.caption, t.when) for t in session.turns]
    return sha256(
        repr((session.when, session.date_text, turns, dict(session.metadata))).encode("utf-8", "surrogatepass")
    ).digest()


def _check_dates(raw: Sequence[RawSession]) -> None:
    undated = [session for session in raw if session.when is None]
    if undated and len(undated) < len(raw):
        session = undated[0]
        text = f'has no date, but other sessions of the corpus have one (session "{session.id}")'
        raise session.place.error(session.where, text, hint="give a date to every session, or to none")


def _check_order(corpus_id: str, raw: Sequence[RawSession]) -> None:
    """Raise a DataError when the sessions of a corpus are not in order of their dates.

    Sorting the sessions would change which sessions an item sees, if it sees only the first N sessions.
    """
    for before, session in pairwise(raw):
        if before.when and session.when and session.when < before.when:
            text = f"visibility: the sessions of {corpus_id} are not in the order of their dates"
            raise session.place.error(session.where, text, session.date_text, hint="use a date as the cut-off")


class _UniqueNames:
    """A source of unique names. A repeated name gets the suffix ``~2``, ``~3`` and so on."""

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


def _session(name: str, raw: RawSession, lookup: EvidenceLookup, removed_roles: Collection[str]) -> Session:
    lookup.sessions[name] = len(lookup.sessions)
    if raw.when is not None:
        lookup.when[name] = raw.when
    row = raw.place.index
    turns = []
    for index, turn in enumerate(raw.turns, 1):
        wanted = turn.id or f"{name}#{index}"
        turn_id = _turn_id(wanted, lookup)
        if turn_id != wanted:
            lookup.renamed_ids.setdefault((row, wanted), turn_id)
        lookup.turns[turn_id] = name
        if turn.when is not None:
            lookup.when[turn_id] = turn.when
        if is_blank_turn(turn):
            lookup.blank.add(turn_id)
        if lookup.ids_by_quote is not None:
            lookup.ids_by_quote.setdefault(turn.quote, turn_id)
        if turn.gold and (name == raw.id or not raw.has_own_id):
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
    if all(turn.id in lookup.blank for turn in turns):
        lookup.empty.add(name)
    return Session(
        id=name,
        turns=tuple(turns),
        when=raw.when,
        date_text=raw.date_text,
        metadata=raw.metadata,
        fields=raw.fields,
    )


def _turn_id(wanted: str, lookup: EvidenceLookup) -> str:
    """Return the wanted turn id, with a suffix such as ``~2`` if the corpus already has this id."""
    if wanted not in lookup.turns:
        return wanted
    number = 2
    while f"{wanted}~{number}" in lookup.turns:
        number += 1
    return f"{wanted}~{number}"
