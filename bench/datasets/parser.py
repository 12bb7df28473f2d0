"""The parser of one row: its id, its corpus, its sessions and its items.

Also in this module:

* The corpus that the sessions of its rows form: with unique ids, in order of dates, and with the lookup for evidence.

Example::

    parser = RowParser(config)
    parsed = parser.parse(values, place)
    item = parser.make_item(parsed.items[0], position=1, corpus=parsed.corpus, lookup=built.lookup)
    built = build_corpus("c1", raw_sessions, removed_roles=())
    built.corpus.sessions       # by date, equal dates in the order of the file
    built.lookup.turns          # turn id -> session id
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise

from bench.config.benchmark.config import BenchmarkConfig, ContextSection
from bench.config.benchmark.terms import Parser
from bench.config.benchmark.values import KeyMissing, compile_value, roots_of, scope_of, uses_scope
from bench.datasets.dates import DateReader
from bench.datasets.evidence import ANY_ROW, UNRESOLVED, EvidenceLookup, EvidenceRule
from bench.datasets.history import HistoryReader, RawSession, is_blank_turn
from bench.datasets.questions import QuestionReader, RawItem, metadata_at
from bench.datasets.rows.config_names import ConfigNames
from bench.datasets.rows.row import RowPlace, content_id, id_at, missing_error, value_of
from bench.datasets.rows.row_reader import without_empty_cells
from bench.model import Corpus, Evidence, Item, Session, Turn
from bench.values import dataclass as value_dataclass
from bench.visible import counted

SESSION_EMPTY = "session_empty"
SESSION_REPEATED = "session_id_repeated"
SESSION_JOINED = "session_joined"
TURN_BLANK = "turn_blank"
EXAMPLES = 3
"""maximum items that a note names"""
TURN_COST = 500
"""approximate memory in bytes of a turn, in addition to its text"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCorpus:
    """A corpus with its evidence lookup; ``flags`` counts the flags of sessions and turns."""

    corpus: Corpus
    lookup: EvidenceLookup
    flags: Counter[str] = field(default_factory=Counter)
    size: int = 0
    """approximate bytes of memory, for the size limit of caches"""
    repeated_texts: int = 0
    """number of sessions without ids from the data that have a text of another row"""


def build_corpus(
    corpus_id: str,
    raw: Iterable[RawSession],
    removed_roles: Collection[str],
    *,
    parser: Parser = "direct",
    in_order: bool = False,
) -> BuiltCorpus:
    """Build a corpus: join the sessions of its rows, make their ids unique, check their dates, and sort by date.

    A session that several rows repeat is added once.

    Raises:
        DataError: some sessions have a date and others have none; two rows have different sessions with the same id;
            or, with ``in_order``, the sessions of the data are not in order of their dates.
    """
    alone = isinstance(raw, Sequence) and len({session.place.index for session in raw}) <= 1
    joined = _SessionMerger(corpus_id, alone=alone)
    for session in raw:
        joined.add(session)
    kept = joined.kept
    _check_dates([session for _, session in kept])
    flags: Counter[str] = Counter()
    flags[SESSION_REPEATED] = sum(name != session.id and session.has_own_id for name, session in kept)
    flags[SESSION_JOINED] = joined.repeats
    if kept and kept[0][1].when is not None:
        if in_order:
            _check_order(corpus_id, [session for _, session in kept])
        kept.sort(key=lambda pair: pair[1].when)  # type: ignore[arg-type,return-value]
    lookup = EvidenceLookup(ids_by_quote={} if parser == "exact_text" else None)
    sessions = tuple(_session(name, session, lookup, removed_roles) for name, session in kept)
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
    """The collector of a corpus's distinct sessions, in file order.

    Equal sessions in one row are different sessions: the n-th of them repeats only the n-th equal session of another
    row.
    """

    def __init__(self, corpus_id: str, *, alone: bool) -> None:
        self.corpus_id = corpus_id
        self.alone = alone
        """true: all sessions are from one row, so none repeats a session of another row"""
        self.kept: list[tuple[str, RawSession]] = []
        self.repeats = 0
        self.repeated_texts = 0
        self.texts: dict[int, int] = {}
        """hash of a text -> the first row that had it, for sessions without ids of their own"""
        self.names = _UniqueNames()
        self.known: dict[tuple[str | None, bytes, int], str] = {}
        self.first: dict[str, int] = {}
        """id in the data -> index in ``kept`` of the first session with that id"""
        self.row = -1
        self.of_row: Counter[tuple[str | None, bytes]] = Counter()
        self.ids_of_row: set[str] = set()
        self.renamed: dict[tuple[int, str], str] = {}
        self.flagged: list[tuple[int, str, list[int]]] = []
        """row, session and indexes of the flagged turns of each repeated session"""
        self.rows: set[int] = set()
        """rows that have a history"""

    def add(self, session: RawSession) -> None:
        """Add the next session of the file."""
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
            self.first.setdefault(session.id, len(self.kept))
            self.kept.append((name, session))
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
        """Count a session without an id from the data that has a text of another row of the corpus."""
        if self.alone or session.has_own_id:
            return
        texts = [hash(turn.text) for turn in session.turns if not is_blank_turn(turn)]
        self.repeated_texts += any(self.texts.get(text, self.row) != self.row for text in texts)
        for text in texts:
            self.texts.setdefault(text, self.row)

    def _check(self, session: RawSession) -> None:
        """Raise a DataError when two rows have different sessions with one id. In one row, an id may repeat."""
        if not session.has_own_id or session.id not in self.first:
            return
        first = self.kept[self.first[session.id]][1]
        if first.place.index == self.row or session.id in self.ids_of_row:
            return
        text = f'has a session "{session.id}" of corpus "{self.corpus_id}" that differs from the one at {first.place}'
        ids = f" (row {first.place.row_id})" if first.place.row_id else ""
        raise session.place.error("", text + ids, hint="give different sessions different ids")

    def fill_lookup(self, lookup: EvidenceLookup) -> None:
        """Add the renamed ids and the flagged turns of each row to the evidence lookup."""
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
    """Return a digest of the date, turns and metadata of a session, without its evidence flags."""
    turns = [(t.id, t.text, t.role, t.speaker, t.caption, t.when) for t in session.turns]
    return sha256(
        repr((session.when, session.date_text, turns, dict(session.metadata))).encode("utf-8", "surrogatepass")
    ).digest()


def _check_dates(raw: Sequence[RawSession]) -> None:
    undated = [session for session in raw if session.when is None]
    if undated and len(undated) < len(raw):
        session = undated[0]
        text = f'has no date, but other sessions of the corpus have one (session "{session.id}")'
        raise session.place.error(session.where, text, hint="give every session a date, or no session")


def _check_order(corpus_id: str, raw: Sequence[RawSession]) -> None:
    """Raise a DataError when sessions are not in order of their dates: sorting would change what an index means."""
    for before, session in pairwise(raw):
        if before.when and session.when and session.when < before.when:
            text = f"visibility: the sessions of {corpus_id} are not in the order of their dates"
            raise session.place.error(session.where, text, session.date_text, hint="use a date as the cut-off")


class _UniqueNames:
    """A generator of unique names: a repeated id gets the suffix ``~2``, ``~3`` and so on, in file order."""

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
    """Return a turn id that the corpus does not have yet: the wanted id, with a suffix ``~2`` and so on if needed."""
    if wanted not in lookup.turns:
        return wanted
    number = 2
    while f"{wanted}~{number}" in lookup.turns:
        number += 1
    return f"{wanted}~{number}"


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRow:
    """A parsed row, before the other rows of its corpus are known."""

    id: str
    corpus: str
    sessions: list[RawSession]
    items: list[RawItem]
    metadata: Mapping[str, object]
    size: int = 0
    """approximate bytes of memory for the history"""


class RowParser:
    """The parser of the rows of one config, which also collects findings for notes."""

    def __init__(self, config: BenchmarkConfig) -> None:
        self.config = config
        dates = DateReader(config.timezone, config.date_formats)
        self.dates = dates
        self.names = ConfigNames(config)
        self.history = HistoryReader(config, dates, self.names)
        self.questions = QuestionReader(config, dates, self.history.turns, self.names)
        self.rule = EvidenceRule.of(config)
        self.removed_roles = frozenset(config.ingestion.preprocessing.remove_roles)
        self.one_item_a_row = not config.fields.question_lists and config.flatten is None
        self.shared = config.corpus is not None
        self.needs_whole_corpus = self.shared or config.visibility is not None
        self._id_path = None if config.row_id_candidates else compile_value(config.fields.item_id)
        self._corpus_path = value_of(config.corpus.field) if config.corpus else None
        self._id_known = self._id_path is not None
        self._metadata = {key: compile_value(path) for key, path in config.fields.metadata.items()}
        self._contexts = [compile_value(context.field) for context in config.fields.contexts]
        self._history_roots = set[str]().union(*(_history_fields(context) for context in config.fields.contexts))
        cut = config.visibility
        self.in_order = cut is not None and (cut.through or uses_scope(cut.field))
        """true: the sessions must be in order of their dates, because an index cut-off counts them in file order"""
        self.hidden = 0
        """number of items whose index cut-off hides a part of the history in their own row"""
        self.lost: tuple[RawItem, str] | None = None
        """the first item with evidence that matches nothing in its history, and this reference"""
        self.lost_items = 0
        """number of items with evidence that matches nothing"""
        self.lost_whole = 0
        """number of these items for which no evidence at all matches"""
        self.early: dict[str, str] = {}
        """item id -> message, for the first items that are dated before their evidence"""
        self.early_items = 0
        self._deletion_field = config.deletion.target if config.deletion else ""

    def parse(self, row: Mapping[str, object], place: RowPlace, *, history: bool = True) -> ParsedRow:
        """Parse a row, with or without its sessions."""
        try:
            row_id = self.row_id(row, place)
            place = place.with_row_id(row_id)
            sessions = self.history.read(row, place, row_id) if history else []
            items = list(self.questions.read(row, place, row_id))
            corpus = self.corpus_of(row, place, row_id)
        except KeyMissing as error:
            raise place.error("", str(error), hint="count the [*] of the path from the end: $keys[-1]") from error
        if self.config.visibility is not None:
            self._check_cuts(items, sessions, place)
            if self.shared and self.one_item_a_row and self.joined_history_id(row) is None:
                self.hidden += sum(self._hides(item, sessions) for item in items)
        size = sum(len(turn.text) + TURN_COST for session in sessions for turn in session.turns)
        return ParsedRow(
            id=row_id, corpus=corpus, sessions=sessions, items=items, metadata=self._row_metadata(row), size=size
        )

    def corpus_of(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> str:
        """Return the corpus id of a row. For a list or map, it is a digest of the content."""
        path = self._corpus_path
        if path is None:
            return row_id
        value = path.get(row)
        if value is None:
            raise missing_error(path, row, place, key="corpus.field")
        return content_id(value) if isinstance(value, list | Mapping) else id_at(row, path, place)

    def joined_history_id(self, row: Mapping[str, object]) -> str | None:
        """Return the identity of the history that ``data.with`` adds to a row, or None."""
        scope = scope_of(row)
        if not self.shared or scope is None or not self._history_roots <= scope.brought.keys():
            return None
        return "\n".join(scope.brought[name] for name in sorted(self._history_roots))

    def row_id(self, row: Mapping[str, object], place: RowPlace) -> str:
        """Return the id of a row: from the configured id field or the first usual one, else ``row_1``, ``row_2``..."""
        if not self._id_known:
            known = next((name for name in self.config.row_id_candidates if row.get(name) is not None), None)
            self._id_path = None if known is None else compile_value(known)
            self._id_known = True
        return f"row_{place.index + 1}" if self._id_path is None else id_at(row, self._id_path, place)

    def _row_metadata(self, row: Mapping[str, object]) -> dict[str, object]:
        """Return the metadata of a row, looked up in the row and its histories, for session templates and prompts."""
        if not self._metadata:
            return {}
        scopes = [without_empty_cells(row), *(context.get(row) for context in self._contexts if context.single)]
        pairs = ((key, metadata_at(path, scope)) for key, path in self._metadata.items() for scope in scopes)
        return {key: value for key, value in pairs if value is not None}

    def make_item(
        self, raw: RawItem, position: int, corpus: str, lookup: EvidenceLookup, last: Session | None = None
    ) -> Item:
        """Resolve the evidence of an item and return the complete item.

        Without a date of its own, the item gets the date of the session ``last``. A deletion of an unknown memory is a
        DataError.
        """
        evidence, flags = self.rule.resolve(raw, lookup)
        if UNRESOLVED in flags:
            self.lost = self.lost or (raw, self.rule.unresolved_reference(raw, lookup))
            self.lost_items += 1
            self.lost_whole += not evidence.sessions
        if raw.deletion is not None and raw.deletion.target not in lookup.sessions:
            text = f'is not a memory of the corpus "{corpus}" (item "{raw.id}")'
            raise raw.place.error(
                self._deletion_field, text, raw.deletion.target, hint="write the id of a row of this corpus"
            )
        asked = raw.question_date or (last.when if last is not None else None)
        if asked is not None and (name := self.rule.later_evidence(evidence, self.dates.until(asked), lookup)):
            self.early_items += 1
            if len(self.early) < EXAMPLES:
                when = lookup.when.get(name) or lookup.when[lookup.turns[name]]
                self.early[raw.id] = f'"{raw.id}" is dated {asked:%Y-%m-%d %H:%M}, "{name}" {when:%Y-%m-%d %H:%M}'
        return Item(
            id=raw.id,
            position=position,
            corpus=corpus,
            question=raw.question,
            answers=raw.answers,
            question_type=raw.question_type,
            question_date=asked,
            abstention=raw.abstention,
            evidence=evidence,
            choices=raw.choices,
            choice_answer=raw.choice_answer,
            rubric=raw.rubric,
            deletion=raw.deletion,
            metadata=raw.metadata,
            flags=flags,
            visible_until=raw.cut,
        )

    def evidence_notes(self) -> tuple[str, ...]:
        """Return the notes on unresolved evidence and on questions dated before their evidence."""
        return tuple(filter(None, (self.lost_evidence(), self.early_questions())))

    def early_questions(self) -> str:
        """Return a note on questions dated before their evidence, or an empty text."""
        if not self.early_items:
            return ""
        more = f" and {self.early_items - len(self.early)} more" if self.early_items > len(self.early) else ""
        verb = "question is" if self.early_items == 1 else "questions are"
        return (
            f"{self.early_items} {verb} dated before their evidence, so a memory system that uses dates may not "
            "return it "
            f"(UTC): {'; '.join(self.early.values())}{more}; check the dates and timezone"
        )

    def lost_evidence(self) -> str:
        """Return a note on items with evidence that matches nothing in their history, or an empty text."""
        if self.lost is None:
            return ""
        item, reference = self.lost
        whole = (
            (f" ({self.lost_whole} of these items have no other evidence, so they have no retrieval score)")
            if self.lost_whole
            else ""
        )
        return (
            f"{self.config.place('evidence')}: {counted(self.lost_items, 'item(|s) (has|have)')} evidence "
            f"that is neither a session nor "
            f'a turn of the history, or a session or turn without text{whole}: "{reference}" of item "{item.id}" '
            f"({item.place}); map the ids of sessions (sessionIdField) or turns (itemSchema.id, dialogId)"
        )

    def last_session(self, sessions: Sequence[Session]) -> Session | None:
        """Return the session with the latest date if the config takes question dates from it, or None."""
        if self.config.question_date.source != "last_session":
            return None
        dated = [session for session in sessions if session.when is not None]
        return max(dated, key=lambda session: (session.when is not None, session.when), default=None)

    def reduce(self, built: BuiltCorpus, evidence: Iterable[Evidence]) -> BuiltCorpus:
        """Return the corpus reduced by the history mode of the config.

        ``lazy`` keeps the evidence sessions only, ``shared`` also the first other sessions, ``full`` all sessions.
        """
        history = self.config.history
        if history.mode == "full":
            return built
        wanted = {session for one in evidence for session in one.sessions}
        others = [session.id for session in built.corpus.sessions if session.id not in wanted]
        if history.mode == "shared":
            wanted.update(others[: history.shared_sample_size])
        kept = tuple(session for session in built.corpus.sessions if session.id in wanted)
        return replace(built, corpus=replace(built.corpus, sessions=kept))

    def _check_cuts(self, items: Sequence[RawItem], sessions: Sequence[RawSession], place: RowPlace) -> None:
        """Raise a DataError for a date cut-off of a history without dates, because it would hide the whole history."""
        dated = any(session.when or any(turn.when for turn in session.turns) for session in sessions)
        cut = next((item.cut for item in items if item.cut and self.dates.read_cut(item.cut)), None)
        if cut is not None and sessions and not dated:
            text = f'has the cut-off "{cut}", but no session or turn has a date'
            raise place.error("", text, hint="give the sessions dates, or use an index as the cut-off")

    def _hides(self, item: RawItem, sessions: Sequence[RawSession]) -> bool:
        """Return True when the index cut-off of an item is smaller than the history in its own row."""
        if item.cut is None or self.config.visibility is None or self.dates.read_cut(item.cut) is not None:
            return False
        brings = len(sessions) if len(sessions) != 1 else len(sessions[0].turns)
        return int(item.cut) + self.config.visibility.through < brings

    def cut(self, corpus: Corpus, view: str, cut: str) -> Corpus:
        """Return the part of a corpus before an index or date cut-off, with the id ``view``.

        With ``visibility.through``, the session or date of the cut-off is included.
        """
        when = self.dates.read_cut(cut)
        through = self.config.visibility is not None and self.config.visibility.through
        if when is None:
            return replace(corpus, id=view, sessions=_before_index(corpus.sessions, int(cut) + through))
        until = when + timedelta(microseconds=1) if through else when
        return replace(corpus, id=view, sessions=_before_date(corpus.sessions, until))


def _before_index(sessions: tuple[Session, ...], index: int) -> tuple[Session, ...]:
    """Return the first ``index`` sessions, or of a single session its first ``index`` turns."""
    if len(sessions) != 1:
        return sessions[:index]
    return (replace(sessions[0], turns=sessions[0].turns[:index]),)


def _before_date(sessions: tuple[Session, ...], date: datetime) -> tuple[Session, ...]:
    """Return the sessions before a date, or of a single undated session its turns before the date."""
    if len(sessions) != 1 or sessions[0].when is not None:
        return tuple(session for session in sessions if session.when is not None and session.when < date)
    turns = tuple(turn for turn in sessions[0].turns if turn.when is not None and turn.when < date)
    return (replace(sessions[0], turns=turns),)


def _history_fields(context: ContextSection) -> set[str]:
    """Return the names of the row fields that a history is read from."""
    return roots_of(context.field) | roots_of(context.date_field) | roots_of(context.session_id_field)
