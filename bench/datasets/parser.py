"""Parse one row: its id, its corpus, its sessions and its items.

Example::

    parser = RowParser(config)
    parsed = parser.parse(values, place)        # the values and the place of one row
    built = build_corpus(parsed.corpus, parsed.sessions, removed_roles=())
    item = parser.make_item(parsed.items[0], position=1, corpus=parsed.corpus, lookup=built.lookup)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bench.config.benchmark.config import BenchmarkConfig, ContextSection
from bench.config.benchmark.values import KeyMissing, compile_value, roots_of, scope_of, uses_scope
from bench.datasets.corpus_builder import TURN_COST, BuiltCorpus
from bench.datasets.dates import DateReader
from bench.datasets.evidence import HIDDEN, UNRESOLVED, EvidenceLookup, EvidenceRule
from bench.datasets.history import HistoryReader, RawSession
from bench.datasets.questions import QuestionReader, RawItem, metadata_at
from bench.datasets.rows.config_names import ConfigNames
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_values import content_id, id_at, missing_error, value_of
from bench.datasets.rows.table_rows import without_empty_cells
from bench.fast_dataclass import dataclass as value_dataclass
from bench.model import Corpus, Evidence, Item, Session
from bench.visible_text import counted

EXAMPLES = 3
"""maximum number of items that are named in a note"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRow:
    """A parsed row. The evidence of its items is not looked up yet, because it can be in other rows of the corpus."""

    id: str
    corpus: str
    sessions: list[RawSession]
    items: list[RawItem]
    metadata: Mapping[str, object]
    size: int = 0
    """approximate memory of the sessions in bytes"""


class RowParser:
    """A parser for the rows of one benchmark. It also collects problems of the data for notes."""

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
        """true if the data must list sessions by date, because an item can see only the first N sessions of the file"""
        self.hidden = 0
        """number of items that see only the first N sessions, although their own row has more than N sessions"""
        self.lost: tuple[RawItem, str] | None = None
        """the first item with evidence that matches nothing in its history, and the reference to this evidence"""
        self.lost_items = 0
        """number of items with an evidence reference that matches nothing"""
        self.lost_whole = 0
        """number of items for which all evidence references match nothing"""
        self.early: dict[str, str] = {}
        """item id -> message, for the first items whose question is dated before its evidence"""
        self.early_items = 0
        self.hidden_evidence: list[str] = []
        """ids of the items with evidence that ``visibility`` hides"""
        self.fully_hidden = 0
        """number of items for which ``visibility`` hides all evidence"""
        self._deletion_field = config.deletion.target if config.deletion else ""

    def parse(self, row: Mapping[str, object], place: RowPlace, *, history: bool = True) -> ParsedRow:
        """Parse a row. If ``history`` is False, the sessions are not read."""
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
        """Return the corpus id of a row: the value at ``corpus.field``.

        If this value is a list or map, the id is a digest of the value. If the config does not set ``corpus.field``,
        return ``row_id``.
        """
        path = self._corpus_path
        if path is None:
            return row_id
        value = path.get(row)
        if value is None:
            raise missing_error(path, row, place, key="corpus.field")
        return content_id(value) if isinstance(value, list | Mapping) else id_at(row, path, place)

    def joined_history_id(self, row: Mapping[str, object]) -> str | None:
        """Return an id of the history that ``data.with`` joins to a row. Equal histories have equal ids.

        Return None if no history is joined to the row.
        """
        scope = scope_of(row)
        if not self.shared or scope is None or not self._history_roots <= scope.joined_ids.keys():
            return None
        return "\n".join(scope.joined_ids[name] for name in sorted(self._history_roots))

    def row_id(self, row: Mapping[str, object], place: RowPlace) -> str:
        """Return the id of a row from the configured field or from a field with a usual id name.

        If the data has no such field, rows are named ``row_1``, ``row_2`` and so on.
        """
        if not self._id_known:
            known = next((name for name in self.config.row_id_candidates if row.get(name) is not None), None)
            self._id_path = None if known is None else compile_value(known)
            self._id_known = True
        return f"row_{place.index + 1}" if self._id_path is None else id_at(row, self._id_path, place)

    def _row_metadata(self, row: Mapping[str, object]) -> dict[str, object]:
        """Return the metadata of a row for session templates and prompts.

        The metadata is searched in the row and in its histories.
        """
        if not self._metadata:
            return {}
        scopes = [without_empty_cells(row), *(context.get(row) for context in self._contexts if context.single)]
        pairs = ((key, metadata_at(path, scope)) for key, path in self._metadata.items() for scope in scopes)
        return {key: value for key, value in pairs if value is not None}

    def make_item(
        self, raw: RawItem, position: int, corpus: str, lookup: EvidenceLookup, last: Session | None = None
    ) -> Item:
        """Create the complete item, with its evidence looked up in the corpus.

        If the question has no date, the item gets the date of the session ``last``. If the item deletes a memory that
        does not exist, a DataError is raised.
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
        question_date = raw.question_date or (last.when if last is not None else None)
        if question_date is not None and (
            name := self.rule.later_evidence(evidence, self.dates.until(question_date), lookup)
        ):
            self.early_items += 1
            if len(self.early) < EXAMPLES:
                when = lookup.when.get(name) or lookup.when[lookup.turns[name]]
                self.early[raw.id] = (
                    f'"{raw.id}" is dated {question_date:%Y-%m-%d %H:%M}, "{name}" {when:%Y-%m-%d %H:%M}'
                )
        return Item(
            id=raw.id,
            position=position,
            corpus=corpus,
            question=raw.question,
            answers=raw.answers,
            question_type=raw.question_type,
            question_date=question_date,
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
        """Return notes on evidence that matches nothing and on questions that are dated before their evidence."""
        return tuple(filter(None, (self.lost_evidence(), self.evidence_hidden(), self.early_questions())))

    def within_view(self, item: Item, view: Corpus) -> Item:
        """Return the item without evidence that is not in ``view``, the part of the corpus that the item can see."""
        sessions = {session.id for session in view.sessions}
        turns = {turn.id for session in view.sessions for turn in session.turns}
        seen = replace(
            item.evidence,
            sessions=tuple(name for name in item.evidence.sessions if name in sessions),
            turns=tuple(name for name in item.evidence.turns if name in turns),
        )
        if seen == item.evidence:
            return item
        self.hidden_evidence.append(item.id)
        self.fully_hidden += not seen.sessions
        return replace(item, evidence=seen, flags=tuple(sorted({*item.flags, HIDDEN})))

    def evidence_hidden(self) -> str:
        """Return a note on items with evidence that ``visibility`` hides, or an empty text if there are none."""
        if not self.hidden_evidence:
            return ""
        n_items, examples = (
            len(self.hidden_evidence),
            ", ".join(f'"{name}"' for name in self.hidden_evidence[:EXAMPLES]),
        )
        more = f" and {n_items - EXAMPLES} more" if n_items > EXAMPLES else ""
        whole = counted(self.fully_hidden, "of these items (has|have) no other evidence and no retrieval score")
        return (
            f"{self.config.place('visibility', 'field')}: {counted(n_items, 'item(|s) (has|have)')} evidence that "
            f"visibility hides{f' ({whole})' if self.fully_hidden else ''}: {examples}{more}; visibility.through: true "
            f"also shows the session or date at the cut-off"
        )

    def early_questions(self) -> str:
        """Return a note on questions that are dated before their evidence, or an empty text if there are none."""
        if not self.early_items:
            return ""
        more = f" and {self.early_items - len(self.early)} more" if self.early_items > len(self.early) else ""
        verb = "question is dated before its" if self.early_items == 1 else "questions are dated before their"
        return (
            f"{self.early_items} {verb} evidence, so a memory system that uses dates can "
            f"miss this evidence (UTC): {'; '.join(self.early.values())}{more}; check the dates and timezone"
        )

    def lost_evidence(self) -> str:
        """Return a note on items whose evidence matches nothing in their history.

        Return an empty text if all evidence matches.
        """
        if self.lost is None:
            return ""
        item, reference = self.lost
        whole = (
            (f" ({counted(self.lost_whole, 'of these items (has|have) no other evidence and no retrieval score')})")
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
        """Return the session with the latest date, if the config uses this date as the date of questions.

        Return None if the config does not use this date, or if no session has a date.
        """
        if self.config.question_date.source != "last_session":
            return None
        dated = [session for session in sessions if session.when is not None]
        return max(dated, key=lambda session: (session.when is not None, session.when), default=None)

    def reduce(self, built: BuiltCorpus, evidence: Iterable[Evidence]) -> BuiltCorpus:
        """Return the corpus with the sessions that the config's history mode keeps.

        ``full`` keeps all sessions. ``lazy`` keeps only the evidence sessions. ``shared`` keeps the evidence sessions
        and a configured number of other sessions.
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
        """Raise a DataError if an item's cut-off is a date, but the history of the item contains no dates."""
        dated = any(session.when or any(turn.when for turn in session.turns) for session in sessions)
        cut = next((item.cut for item in items if item.cut and self.dates.read_cut(item.cut)), None)
        if cut is not None and sessions and not dated:
            text = f'has the cut-off "{cut}", but no session or turn has a date'
            raise place.error("", text, hint="give the sessions dates, or use an index as the cut-off")

    def _hides(self, item: RawItem, sessions: Sequence[RawSession]) -> bool:
        """Return True when the item sees only the first N sessions, and its own row has more than N sessions."""
        if item.cut is None or self.config.visibility is None or self.dates.read_cut(item.cut) is not None:
            return False
        brings = len(sessions) if len(sessions) != 1 else len(sessions[0].turns)
        return int(item.cut) + self.config.visibility.through < brings

    def cut(self, corpus: Corpus, view: str, cut: str) -> Corpus:
        """Return the part of a corpus before a cut-off, as a corpus with the id ``view``.

        ``cut`` is a number of sessions or a date. If ``visibility.through`` is set, the part includes the session or
        date at the cut-off.
        """
        when = self.dates.read_cut(cut)
        through = self.config.visibility is not None and self.config.visibility.through
        if when is None:
            return replace(corpus, id=view, sessions=_before_index(corpus.sessions, int(cut) + through))
        until = when + timedelta(microseconds=1) if through else when
        return replace(corpus, id=view, sessions=_before_date(corpus.sessions, until))


def _before_index(sessions: tuple[Session, ...], index: int) -> tuple[Session, ...]:
    """Return the first ``index`` sessions.

    If there is only one session, return a session with its first ``index`` turns.
    """
    if len(sessions) != 1:
        return sessions[:index]
    return (replace(sessions[0], turns=sessions[0].turns[:index]),)


def _before_date(sessions: tuple[Session, ...], date: datetime) -> tuple[Session, ...]:
    """Return the sessions before a date.

    If there is only one session and it has no date, return a session with its turns before the date.
    """
    if len(sessions) != 1 or sessions[0].when is not None:
        return tuple(session for session in sessions if session.when is not None and session.when < date)
    turns = tuple(turn for turn in sessions[0].turns if turn.when is not None and turn.when < date)
    return (replace(sessions[0], turns=turns),)


def _history_fields(context: ContextSection) -> set[str]:
    """Return the names of the row fields from which a history is read."""
    return roots_of(context.field) | roots_of(context.date_field) | roots_of(context.session_id_field)
