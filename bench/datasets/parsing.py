"""One row, understood: its id, its corpus, its sessions and its items.

::

    parser = RowParser(config)
    parsed = parser.parse(values, place)
    item = parser.finish(parsed.items[0], position=1, corpus=parsed.corpus, lookup=built.lookup)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from bench.config.benchmark import BenchmarkConfig
from bench.config.jsonpath import compile_path
from bench.datasets.corpora import Built
from bench.datasets.dates import DateReader
from bench.datasets.evidence import UNRESOLVED, EvidenceRule, Lookup
from bench.datasets.history import HistoryReader, RawSession
from bench.datasets.naming import ConfigNames
from bench.datasets.place import RowPlace
from bench.datasets.questions import QuestionReader, RawItem
from bench.datasets.tables import without_empty_cells
from bench.datasets.values import id_at
from bench.model import Corpus, Item, Session
from bench.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRow:
    """A row before its corpus is whole."""

    id: str
    corpus: str
    sessions: list[RawSession]
    items: list[RawItem]
    metadata: Mapping[str, object]
    size: int = 0


class RowParser:
    """Everything that one config says about rows, compiled once."""

    def __init__(self, config: BenchmarkConfig) -> None:
        self.config = config
        dates = DateReader(config.timezone, config.date_formats)
        self.dates = dates
        self.names = ConfigNames(config)
        self.history = HistoryReader(config, dates, self.names)
        self.questions = QuestionReader(config, dates, self.history.turns, self.names)
        self.rule = EvidenceRule.of(config)
        self.removed_roles = frozenset(config.ingestion.preprocessing.remove_roles)
        self.one_item_a_row = config.fields.questions is None and config.flatten is None
        self.shared = config.corpus is not None
        self.needs_whole_corpus = self.shared or config.visibility is not None
        self._id_path = None if config.row_id_candidates else compile_path(config.fields.item_id, bare=True)
        self._corpus_path = compile_path(config.corpus.field, bare=True) if config.corpus else None
        self._id_known = self._id_path is not None
        fields = {key: compile_path(path, bare=True) for key, path in config.fields.metadata.items()}
        self._metadata = fields
        self._context = compile_path(config.fields.context.field, bare=True)
        self.lost: tuple[RawItem, str] | None = None
        """the first item with evidence that names nothing of its history, and that reference"""
        self.lost_items = 0
        self.lost_whole = 0
        """items of which all evidence is so"""
        self._deletion_field = config.deletion.target if config.deletion else ""

    def parse(self, row: Mapping[str, object], place: RowPlace) -> ParsedRow:
        """Read a row; DataError for the first thing that is wrong with it."""
        row_id = self._row_id(row, place)
        place = place.named(row_id)
        corpus = id_at(row, self._corpus_path, place) if self._corpus_path else row_id
        sessions = self.history.read(row, place, row_id)
        items = list(self.questions.read(row, place, row_id))
        if self.config.visibility is not None:
            self._check_cuts(items, sessions, place)
        return ParsedRow(id=row_id, corpus=corpus, sessions=sessions, items=items, metadata=self._of_row(row))

    def _row_id(self, row: Mapping[str, object], place: RowPlace) -> str:
        if not self._id_known:
            known = next((name for name in self.config.row_id_candidates if row.get(name) is not None), None)
            self._id_path = None if known is None else compile_path(known, bare=True)
            self._id_known = True
        return f"row_{place.index + 1}" if self._id_path is None else id_at(row, self._id_path, place)

    def _of_row(self, row: Mapping[str, object]) -> dict[str, object]:
        """Metadata that belongs to the history, for session templates and prompts."""
        if not self._metadata:
            return {}
        scopes = [without_empty_cells(row), self._context.get(row)]
        pairs = ((key, path.get(scope)) for key, path in self._metadata.items() for scope in scopes)
        return {key: value for key, value in pairs if value is not None}

    def finish(self, raw: RawItem, position: int, corpus: str, lookup: Lookup, last: Session | None = None) -> Item:
        """Look up the evidence and give the item."""
        evidence, flags = self.rule.resolve(raw, lookup)
        if UNRESOLVED in flags:
            self.lost = self.lost or (raw, self.rule.unresolved(raw, lookup))
            self.lost_items += 1
            self.lost_whole += not evidence.sessions
        if raw.deletion is not None and raw.deletion.target not in lookup.sessions:
            text = f'names no memory of the corpus "{corpus}" (item "{raw.id}")'
            raise raw.place.error(self._deletion_field, text, raw.deletion.target, hint="name the row to delete")
        return Item(
            id=raw.id,
            position=position,
            corpus=corpus,
            question=raw.question,
            answers=raw.answers,
            question_type=raw.question_type,
            question_date=raw.question_date or (last.when if last is not None else None),
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

    def lost_evidence(self) -> str:
        """A sentence on evidence that names nothing of its history; empty where there is none."""
        if self.lost is None:
            return ""
        item, reference = self.lost
        whole = f" ({self.lost_whole} of them nothing else, so they have no retrieval score)" if self.lost_whole else ""
        return (
            f"{self.config.place('evidence')}: {self.lost_items} items name evidence that is no session and no turn of "
            f'their history, or a session without text{whole}: "{reference}" of item "{item.id}" ({item.place}); map '
            "the ids of sessions (sessionIdField) or turns (itemSchema.id, dialogId)"
        )

    def last_session(self, sessions: Sequence[Session]) -> Session | None:
        """The latest session by time, when the config takes question dates from it."""
        if self.config.question_date.source != "last_session":
            return None
        dated = [session for session in sessions if session.when is not None]
        return max(dated, key=lambda session: (session.when is not None, session.when), default=None)

    def reduce(self, built: Built, items: Sequence[Item]) -> Built:
        """Keep only evidence sessions (``lazy``), or those and the first others (``shared``)."""
        history = self.config.history
        if history.mode == "full":
            return built
        wanted = {session for item in items for session in item.evidence.sessions}
        others = [session.id for session in built.corpus.sessions if session.id not in wanted]
        if history.mode == "shared":
            wanted.update(others[: history.shared_sample_size])
        kept = tuple(session for session in built.corpus.sessions if session.id in wanted)
        return replace(built, corpus=replace(built.corpus, sessions=kept))

    def _check_cuts(self, items: Sequence[RawItem], sessions: Sequence[RawSession], place: RowPlace) -> None:
        """A date cuts nothing off a history without dates: it would hide all of it."""
        dated = any(session.when or any(turn.when for turn in session.turns) for session in sessions)
        cut = next((item.cut for item in items if item.cut and self.dates.read_cut(item.cut)), None)
        if cut is not None and sessions and not dated:
            text = f'sees what was before "{cut}", and no session or turn has a date'
            raise place.error("", text, hint="give the sessions dates, or make the cut-off an index")

    def cut(self, corpus: Corpus, view: str, cut: str) -> Corpus:
        """What an item with this cut-off sees: sessions before the index or date."""
        when = self.dates.read_cut(cut)
        before = _before_index(corpus.sessions, int(cut)) if when is None else _before_date(corpus.sessions, when)
        return replace(corpus, id=view, sessions=before)


def _before_index(sessions: tuple[Session, ...], index: int) -> tuple[Session, ...]:
    """The first ``index`` sessions; where the history is one session, its first ``index`` turns."""
    if len(sessions) != 1:
        return sessions[:index]
    return (replace(sessions[0], turns=sessions[0].turns[:index]),)


def _before_date(sessions: tuple[Session, ...], date: datetime) -> tuple[Session, ...]:
    """The sessions before a date; where the history is one session without a date, its turns before it."""
    if len(sessions) != 1 or sessions[0].when is not None:
        return tuple(session for session in sessions if session.when is not None and session.when < date)
    turns = tuple(turn for turn in sessions[0].turns if turn.when is not None and turn.when < date)
    return (replace(sessions[0], turns=turns),)
