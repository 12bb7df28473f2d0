"""Read the sessions of one row, check them and parse their dates. Rows of one corpus can still use equal session ids.

Example::

    reader = HistoryReader(config, DateReader("UTC"), ConfigNames(config))
    sessions = reader.read(row, place, row_id="q1")      # list[RawSession], natural order
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bench.config.benchmark.config import BenchmarkConfig, ContextSection
from bench.config.benchmark.file import session_fields
from bench.config.benchmark.values import Value, compile_value, elements
from bench.datasets.dates import DATE_HINT, DateReader
from bench.datasets.rows.config_names import ConfigNames, key_pattern
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_values import (
    id_at,
    in_braces,
    list_at,
    path_name,
    scalar_text,
    text_at,
    value_at,
    value_of,
)
from bench.datasets.turn_reader import RawTurn, TurnReader, is_blank_turn
from bench.errors import DataError
from bench.visible_text import counted

NO_HISTORY_HINT = "correct schema.context, so that each row has a history, or remove the row"
_NO_TURN_LIST_HINT = (
    "write session: {turns: PATH} with the path of the turns; if each element is one text, remove session and write "
    "itemSchema: {id: PATH, content: PATH}"
)
MOST_KEYS = 12


@dataclass(slots=True, kw_only=True)
class RawSession:
    """A session as its row gives it. Sessions of other rows in the corpus can have the same ``id``."""

    id: str
    turns: list[RawTurn]
    when: datetime | None = None
    date_text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    place: RowPlace
    where: str = ""
    """the field that contains the session, for error messages"""
    has_own_id: bool = False
    """true if the data gives the id; false if the id is made from the row's id or from a position"""
    fields: Mapping[str, object] = field(default_factory=dict)
    """the fields of the session object that ``formatTemplate`` in the config uses"""


class HistoryReader:
    """A reader of all histories of a row. A config can name several history fields."""

    def __init__(self, config: BenchmarkConfig, dates: DateReader, names: ConfigNames) -> None:
        self.contexts = [ContextReader(config, context, dates, names) for context in config.fields.contexts]
        self.turns = self.contexts[0].turns
        """reader for the turns of the first history; it also reads turns that evidence quotes"""

    @property
    def turns_read(self) -> int:
        return sum(context.turns.turns_read for context in self.contexts)

    @property
    def undated(self) -> int:
        return sum(context.turns.undated for context in self.contexts)

    @property
    def has_texts(self) -> bool:
        return any(context.has_texts for context in self.contexts)

    @property
    def flag_found(self) -> bool:
        return any(context.turns.flag_found for context in self.contexts)

    def read(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> list[RawSession]:
        """Return the sessions of all histories of a row. The sessions of the first history come first."""
        found: list[RawSession] = []
        for context in self.contexts:
            found += context.read(row, place, row_id, len(found))
        return found

    def no_memory_error(self, row: Mapping[str, object], place: RowPlace, sessions: Sequence[RawSession]) -> DataError:
        """Create the error for a row without any text that a memory can contain."""
        return self.contexts[0].no_memory_error(row, place, sessions)


class ContextReader:
    """A reader of one history of a row."""

    def __init__(self, config: BenchmarkConfig, context: ContextSection, dates: DateReader, names: ConfigNames) -> None:
        self.kind = context.type
        self.field = compile_value(context.field)
        self.id = value_of(context.id)
        self.parts = context.session
        self.session_id = value_of(self.parts.id if self.parts else None)
        self.session_date = value_of(self.parts.date if self.parts else None)
        self.session_turns = value_of(self.parts.turns if self.parts else None)
        self.date_field = value_of(context.date_field)
        self.id_field = value_of(context.session_id_field)
        self.pattern = context.session_pattern
        self.session_key = key_pattern(context.session_pattern)
        self.date_key = key_pattern(context.date_pattern)
        self.metadata = config.memory_metadata
        self.fields = session_fields(config)
        self.words = config.ingestion.chunk.words if config.ingestion.chunk else None
        self.has_texts = False
        """true if a session read so far is one text, which ``ingestion.chunk`` can cut"""
        self.deletes = config.deletion is not None
        """true if memories are deleted by the id of their row; rows with equal texts then stay separate"""
        self.dates = dates
        self.names = names
        self.turns = TurnReader(config, context, dates, names)

    def read(self, row: Mapping[str, object], place: RowPlace, row_id: str, before: int) -> list[RawSession]:
        """Return the sessions of one history.

        Sessions under numbered keys are sorted by number, and listed sessions keep their order. ``before`` is the
        number of sessions in earlier histories of the row.
        """
        match self.kind:
            case "string":
                name = row_id if before == 0 else f"{row_id}.{before + 1}"
                return [self._named(self._text_session(name, text_at(row, self.field, place), row, place), row, place)]
            case "session":
                return [self._named(self._whole(row, place, before), row, place)]
            case "object":
                return list(self._keyed_sessions(row, place))
            case "array":
                return list(self._listed_sessions(row, place, row_id, before))

    def _named(self, session: RawSession, row: Mapping[str, object], place: RowPlace) -> RawSession:
        """Set the session's id to the value at the config's ``id`` path.

        If the config has no such path, the id does not change.
        """
        if self.id is not None:
            session.id, session.has_own_id = id_at(row, self.id, place), True
        return session

    def _whole(self, row: Mapping[str, object], place: RowPlace, before: int) -> RawSession:
        """Return the history as one session whose turns are the elements of the history field."""
        list_at(row, self.field, place)
        turns = [self.turns.read(turn, where, place) for where, turn in elements(self.field, row)]
        return RawSession(id=f"session_{before + 1}", turns=turns, place=place, where=path_name(self.field))

    def no_memory_error(self, row: Mapping[str, object], place: RowPlace, sessions: Sequence[RawSession]) -> DataError:
        """Create the error for a row without memories. The message shows the content of the history field."""
        name, value = path_name(self.field), self.field.get(row)
        if sessions:
            turns = sum(len(session.turns) for session in sessions)
            blank = sum(is_blank_turn(turn) for session in sessions for turn in session.turns)
            lacking = (
                "no turn" if not turns else "no text" if blank == turns else "no turn with a role outside removeRoles"
            )
            return place.error(
                name,
                f"contains no memory: it has {counted(len(sessions), 'session(|s)')}, but {lacking}",
                hint=NO_HISTORY_HINT,
            )
        if isinstance(value, Mapping):
            keys = ", ".join(list(value)[:MOST_KEYS]) or "no key"
            text = f'contains no session: {name} has {keys}; none matches sessionPattern "{self.pattern}"'
            return place.error("", text, hint=_keyed_history_hint(name, value))
        leave = f"; data.where: {{{in_braces(self.field.text)}: {{present: true}}}} excludes such rows"
        return place.error(
            name, "contains no memory: it is empty", hint=NO_HISTORY_HINT + (leave if self.field.single else "")
        )

    def _text_session(self, session_id: str, text: str, row: Mapping[str, object], place: RowPlace) -> RawSession:
        self.has_texts = True
        metadata = {name: row[name] for name in self.metadata if row.get(name) is not None}
        pieces = [text] if self.words is None else split_chunks(text, self.words)
        turns = [RawTurn(id=None, text=piece) for piece in pieces if piece]
        return RawSession(id=session_id, turns=turns, metadata=metadata, place=place, has_own_id=self.deletes)

    def _keyed_sessions(self, row: Mapping[str, object], place: RowPlace) -> Iterator[RawSession]:
        """Yield the sessions whose keys end with a number, such as ``session_2``, sorted by this number."""
        holder = value_at(row, self.field, place)
        if not isinstance(holder, Mapping):
            raise place.error(path_name(self.field), "must be an object, not", holder)
        self.names.sessions.meet(holder)
        dates = {match[1]: key for key in holder if (match := self.date_key.fullmatch(key))}
        numbers = {key: match[1] for key in holder if (match := self.session_key.fullmatch(key))}
        for key in sorted(numbers, key=lambda name: int(numbers[name])):
            where = f"{path_name(self.field)}.{key}"
            turns = self._turns(holder[key], where, place)
            session = RawSession(id=key, turns=turns, place=place, where=where, has_own_id=True)
            if (date_key := dates.get(numbers[key])) is not None and holder[date_key] is not None:
                self._set_date(session, holder[date_key], f"{path_name(self.field)}.{date_key}")
            yield session

    def _listed_sessions(
        self, row: Mapping[str, object], place: RowPlace, row_id: str, before: int
    ) -> Iterator[RawSession]:
        list_at(row, self.field, place)
        found = elements(self.field, row)
        dates = self._parallel_list(row, self.date_field, len(found), place)
        ids = self._parallel_list(row, self.id_field, len(found), place)
        for index, (where, element) in enumerate(found):
            if self.parts is not None:
                session = self._object_session(element, f"session_{before + index + 1}", where, place)
            else:
                session = self._element_session(element, before + index, where, row, place, row_id)
            if ids is not None:
                session.id, session.has_own_id = (
                    _session_id(ids[index], _element_field(self.id_field, index), place),
                    True,
                )
            if dates is not None:
                session.where = _element_field(self.date_field, index)
                self._set_date(session, dates[index], session.where)
            yield session

    def _object_session(self, element: object, name: str, where: str, place: RowPlace) -> RawSession:
        """Return the session of a list element that is an object with id, date and turns."""
        if self.names.session_parts.open:
            self.names.session_parts.search([element])
        if self.session_turns is None:
            turns = self._turns(element, where, place)
        else:
            inside = list_at(element, self.session_turns, place, prefix=f"{where}.")
            assert isinstance(inside, list)
            turns = [
                self.turns.read(turn, f"{where}.{at}", place) for at, turn in elements(self.session_turns, element)
            ]
        session = RawSession(id=name, turns=turns, place=place, where=where)
        if self.session_id is not None:
            session.id, session.has_own_id = id_at(element, self.session_id, place, prefix=f"{where}."), True
        if self.session_date is not None and (date := self.session_date.get(element)) is not None:
            self._set_date(session, date, f"{where}.{path_name(self.session_date)}")
        if self.fields and isinstance(element, Mapping):
            session.fields = {key: element[key] for key in self.fields if element.get(key) is not None}
            self.names.session_fields.search([element])
        return session

    def _element_session(
        self, element: object, index: int, where: str, row: Mapping[str, object], place: RowPlace, row_id: str
    ) -> RawSession:
        """Return the session of a list element.

        If the element is a list, it contains the turns of the session. If it is an object, it is the session's only
        turn. If it is a text, it is the session's content.
        """
        if isinstance(element, str):
            session = self._text_session(f"{row_id}.{index + 1}", element, row, place)
            if self.turns.general and (name := self.turns.id_of(element, where, place)):
                session.id, session.has_own_id = name, True
            return session
        name = f"session_{index + 1}"
        if isinstance(element, Mapping):
            return self._turn_session(element, name, where, place)
        return RawSession(id=name, turns=self._turns(element, where, place), place=place, where=where)

    def _turn_session(self, element: Mapping[str, object], name: str, where: str, place: RowPlace) -> RawSession:
        """Return a session with one turn. The session gets the date and the id of the turn.

        If the turn has its id in the field ``dialogId``, the turn keeps this id. The id of the session is then
        ``name``.
        """
        turn = self.turns.read(element, where, place)
        session = RawSession(id=name, turns=[turn], when=turn.when, date_text=turn.date_text, place=place, where=where)
        if turn.id is not None and not self.turns.has_dialog_id(element):
            session.id, session.has_own_id, turn.id = turn.id, True, None
        turn.when = None
        return session

    def _turns(self, value: object, where: str, place: RowPlace) -> list[RawTurn]:
        if not isinstance(value, list):
            hint = _NO_TURN_LIST_HINT if isinstance(value, Mapping | str) else None
            raise place.error(where, "must be a list of turns, not", value, hint=hint)
        return [self.turns.read(turn, f"{where}{at}", place) for at, turn in elements(_ITSELF, value)]

    def _parallel_list(
        self, row: Mapping[str, object], path: Value | None, length: int, place: RowPlace
    ) -> list[object] | None:
        """Return the list at ``path``, or None if ``path`` is None. The list must have one value per session."""
        if path is None:
            return None
        values = list_at(row, path, place)
        if len(values) != length:
            text = f"has {counted(len(values), 'entr(y|ies)')} for {counted(length, 'session(|s)')}"
            raise place.error(path_name(path), text, hint="give one entry per session")
        return values

    def _set_date(self, session: RawSession, value: object, where: str) -> None:
        if value is None:
            raise session.place.error(where, "is null; expected a date")
        text = scalar_text(value)
        session.when, session.date_text = self.dates.read(text) if text else None, text
        if session.when is None:
            raise session.place.error(where, "is not a date that can be read", value, hint=DATE_HINT)


def _keyed_history_hint(name: str, holder: Mapping[str, object]) -> str:
    """Return a hint for a history object that has no session under a numbered key."""
    lists = [key for key, value in holder.items() if isinstance(value, list)]
    if not lists:
        return NO_HISTORY_HINT
    path = f"$.{name}.{lists[-1]}"
    return f'if the sessions are in a list, write context: {{field: "{path}", type: array}}'


def _session_id(value: object, where: str, place: RowPlace) -> str:
    text = None if isinstance(value, bool) else scalar_text(value)
    if not text:
        raise place.error(where, "must be a session id, not", value)
    return text


def _element_field(path: Value | None, index: int) -> str:
    return f"{path_name(path)}[{index}]" if path else f"[{index}]"


_ITSELF = compile_value("$")
_ENDS = re.compile(r"(?<=[.!?])(?=\s)|(?<=\n)")


def split_chunks(text: str, words: int) -> list[str]:
    """Split a text into chunks of at most ``words`` words. Chunks end where a sentence or a line ends.

    A sentence is only cut if it is longer than a chunk.
    """
    found: list[str] = []
    held, count = "", 0
    for sentence in _ENDS.split(text):
        piece, size = sentence, len(sentence.split())
        if count + size > words and held.strip():
            found.append(held.strip())
            held, count = "", 0
        if size > words:
            *whole, piece = _split_words(piece, words)
            found += whole
            size = len(piece.split())
        held, count = held + piece, count + size
    return [*found, held.strip()] if held.strip() else found


def _split_words(text: str, words: int) -> list[str]:
    """Split a text into pieces of ``words`` words each. The last piece can be shorter."""
    starts = [match.start() for match in re.finditer(r"\S+", text)][::words]
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
