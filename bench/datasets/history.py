"""The sessions of one row: found, dated and checked, before ids are made unique across a corpus.

Here too:

* One turn of a row: what was said, by whom, with which id, date and picture.

Example::

    reader = HistoryReader(config, dates)
    sessions = reader.read(row, place, row_id="q1")      # list[RawSession], natural order
    reader = TurnReader(config, dates, names)
    reader.read({"role": "user", "content": "Hi"}, "sessions[0][0]", place)      # RawTurn
    names.parts.open                                 # mapped keys that no turn of the file had so far
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bench.config.benchmark import BenchmarkConfig
from bench.config.jsonpath import Path, compile_path
from bench.datasets.config_names import ConfigNames, key_pattern, mapped_parts
from bench.datasets.dates import DateReader
from bench.datasets.row import RowPlace, list_at, missing, name_of, scalar_text, text_at, value_at
from bench.errors import DataError
from bench.model import Turn
from bench.visible import is_blank

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "content": ("content",),
    "text": ("text",),
    "role": ("role",),
    "speaker": ("speaker",),
    "dialog_id": ("dia_id",),
    "caption": ("blip_caption", "caption"),
}
"""the names that are read where no itemSchema says others"""

UNMAPPED = "say in schema.context.itemSchema which field of a turn holds its content, and which its role or speaker"
"""where a YAML config says nothing about turns, and they have no usual names"""
Take = Callable[[Mapping[str, object]], object]


def is_blank_turn(turn: RawTurn | Turn) -> bool:
    """Say whether a turn has nothing to remember: a text that is blank, and no caption. It makes no memory."""
    return is_blank(turn.text) and is_blank(turn.caption or "")


@dataclass(slots=True, kw_only=True)
class RawTurn:
    """A turn as the row gives it; ``gold`` is its flag, which goes no farther than the evidence."""

    id: str | None
    text: str
    role: str | None = None
    speaker: str | None = None
    caption: str | None = None
    when: datetime | None = None
    date_text: str | None = None
    gold: bool = False

    @property
    def said(self) -> str:
        """Its words and who said them: how evidence without ids names a turn."""
        return f"{self.speaker or self.role or ''}: {self.text}"


class TurnReader:
    """Reads turns by one config and shows its names which keys and roles they have."""

    def __init__(self, config: BenchmarkConfig, dates: DateReader, names: ConfigNames) -> None:
        self.dates = dates
        self.names = names
        self.by_name = config.fields_by_name or config.fields.context.item_schema is None
        self.unmapped = self.by_name and not config.fields_by_name
        self.removed = frozenset(config.ingestion.preprocessing.remove_fields)
        self.paths = _paths(config)
        self.take = {name: _taker(paths) for name, paths in self.paths.items()}
        self.said = [name for name in _order(config.rendering.dialogue) if name in self.paths]
        hidden = {"speaker_text": "role", "role_content": "speaker"}.get(config.rendering.dialogue)
        self.who = [name for name in ("role", "speaker") if name in self.paths and name != hidden]
        self.ids = [name for name in ("dialog_id", "id") if name in self.paths]
        flag = config.evidence.turn_flag
        self.flag = _taker((compile_path(flag, bare=True),)) if flag else None
        self.gold_met = False
        self.turns_met = 0
        self.undated = 0
        """turns without the date that the config maps"""

    def read(self, value: object, where: str, place: RowPlace) -> RawTurn:
        """Read a turn, an object or a bare text; DataError with its place."""
        if isinstance(value, str):
            return RawTurn(id=None, text=value)
        if not isinstance(value, dict):
            raise place.error(where, "must be a turn, not", value)
        turn = {key: part for key, part in value.items() if key not in self.removed} if self.removed else value
        self.turns_met += 1
        self._meet(value, turn)
        raw = RawTurn(id=self._id(turn, where, place), text=self._said(turn, where, place))
        self._who(raw, turn, where, place)
        if self.names.roles.open and raw.role is not None:
            self.names.roles.meet([raw.role])
        if "caption" in self.take:
            raw.caption = self._text(turn, "caption", where, place) or None
        if "date" in self.take:
            self._date(raw, turn, where, place)
        if self.flag is not None and self.flag(value):
            raw.gold = self.gold_met = True
        return raw

    def names_itself(self, value: Mapping[str, object]) -> bool:
        """True when the turn has an id of its own kind (``dialogId``)."""
        return "dialog_id" in self.take and self.take["dialog_id"](value) is not None

    def _meet(self, value: Mapping[str, object], turn: Mapping[str, object]) -> None:
        """Show the names that are still open a turn, as the file has it and without what the config removes."""
        names = self.names
        if names.parts.open:
            names.parts.look([turn])
        if names.turns.open or names.removed.open:
            names.turns.look([value])
            names.removed.look([value])

    def _said(self, turn: Mapping[str, object], where: str, place: RowPlace) -> str:
        texts = [text for name in self.said if (text := self._text(turn, name, where, place)) is not None]
        if texts:
            return next((text for text in texts if not is_blank(text)), texts[0])
        hint = UNMAPPED if self.unmapped else None
        raise missing(self.paths[self.said[0]][0], turn, place, prefix=f"{where}.", hint=hint)

    def _who(self, raw: RawTurn, turn: Mapping[str, object], where: str, place: RowPlace) -> None:
        """Role and speaker: what is mapped must be there, of two at least one."""
        for name in self.who:
            setattr(raw, name, self._text(turn, name, where, place))
        if self.who and not self.by_name and raw.role is None and raw.speaker is None:
            raise missing(self.paths[self.who[0]][0], turn, place, prefix=f"{where}.")

    def _text(self, turn: Mapping[str, object], name: str, where: str, place: RowPlace) -> str | None:
        value = self.take[name](turn)
        if value is None or isinstance(value, str):
            return value
        raise place.error(f"{where}.{name_of(self.paths[name][0])}", "must be text, not", value)

    def _date(self, raw: RawTurn, turn: Mapping[str, object], where: str, place: RowPlace) -> None:
        value = self.take["date"](turn)
        path = self.paths["date"][0]
        if value is None:
            self.undated += 1
            return
        text = scalar_text(value)
        raw.when, raw.date_text = self.dates.read(text) if text else None, text
        if raw.when is None:
            raise place.error(f"{where}.{name_of(path)}", "is no date that can be read", value)

    def _id(self, turn: Mapping[str, object], where: str, place: RowPlace) -> str | None:
        for name in self.ids:
            value = self.take[name](turn)
            text = None if isinstance(value, bool) else scalar_text(value)
            if text:
                return text
            if value is not None:
                raise place.error(f"{where}.{name_of(self.paths[name][0])}", "must be an id, not", value)
            if not self.by_name:
                raise missing(self.paths[name][0], turn, place, prefix=f"{where}.")
        return None


def _order(dialogue: str) -> tuple[str, str]:
    return ("text", "content") if dialogue == "speaker_text" else ("content", "text")


def _paths(config: BenchmarkConfig) -> dict[str, tuple[Path, ...]]:
    """Part of a turn -> where it may stand."""
    if config.fields_by_name or config.fields.context.item_schema is None:
        return {part: tuple(compile_path(name, bare=True) for name in names) for part, names in USUAL_NAMES.items()}
    return {part: (compile_path(path, bare=True),) for part, path in mapped_parts(config).items()}


def _taker(paths: tuple[Path, ...]) -> Take:
    """The first value that is there; a plain field name costs one look-up (turns come by the million)."""
    first = paths[0]
    if len(paths) == 1 and len(first.steps) == 1 and isinstance(first.steps[0], str):
        key = first.steps[0]
        return lambda turn: turn.get(key)
    return lambda turn: next((value for path in paths if (value := path.get(turn)) is not None), None)


LOOK = "a row needs a history: correct schema.context, or take the row out"
MOST_KEYS = 12


@dataclass(slots=True, kw_only=True)
class RawSession:
    """A session as the row gives it; ``id`` may occur twice in a corpus."""

    id: str
    turns: list[RawTurn]
    when: datetime | None = None
    date_text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    place: RowPlace
    where: str = ""
    """the field that holds it, for errors"""
    named: bool = False
    """the id is the data's own, not made of the row's id or a position"""


class HistoryReader:
    """Reads histories by one config."""

    def __init__(self, config: BenchmarkConfig, dates: DateReader, names: ConfigNames) -> None:
        context = config.fields.context
        self.kind = context.type
        self.field = compile_path(context.field, bare=True)
        self.date_field = _path(context.date_field)
        self.id_field = _path(context.session_id_field)
        self.pattern = context.session_pattern
        self.session_key = key_pattern(context.session_pattern)
        self.date_key = key_pattern(context.date_pattern)
        self.metadata = config.memory_metadata
        self.deletes = config.deletion is not None
        """a row is deleted by its id, so no two are one"""
        self.dates = dates
        self.names = names
        self.turns = TurnReader(config, dates, names)

    def read(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> list[RawSession]:
        """Give the sessions in natural order: numeric key order or array order."""
        match self.kind:
            case "string":
                return [self._simple(row_id, text_at(row, self.field, place), row, place)]
            case "object":
                return list(self._keyed(row, place))
            case "array":
                return list(self._listed(row, place, row_id))

    def nothing(self, row: Mapping[str, object], place: RowPlace, sessions: Sequence[RawSession]) -> DataError:
        """The error for a row that gives nothing to remember, with what stands where its history should."""
        name, value = name_of(self.field), self.field.get(row)
        if sessions:
            turns = sum(len(session.turns) for session in sessions)
            blank = sum(is_blank_turn(turn) for session in sessions for turn in session.turns)
            what = "has a turn" if not turns else "has text" if blank == turns else "are ingested (removeRoles)"
            return place.error(name, f"gives no memory: it has {len(sessions)} sessions, and none {what}", hint=LOOK)
        if isinstance(value, Mapping):
            keys = ", ".join(list(value)[:MOST_KEYS]) or "no key"
            text = f'gives no session: {name} has {keys}; none fits sessionPattern "{self.pattern}"'
            return place.error("", text, hint=_of_keys(name, value))
        return place.error(name, "gives no memory: it is empty", hint=LOOK)

    def _simple(self, session_id: str, text: str, row: Mapping[str, object], place: RowPlace) -> RawSession:
        metadata = {name: row[name] for name in self.metadata if row.get(name) is not None}
        turns = [RawTurn(id=None, text=text)] if text else []
        return RawSession(id=session_id, turns=turns, metadata=metadata, place=place, named=self.deletes)

    def _keyed(self, row: Mapping[str, object], place: RowPlace) -> Iterator[RawSession]:
        """Numbered keys by number, never as strings; a date key without its session is ignored."""
        holder = value_at(row, self.field, place)
        if not isinstance(holder, Mapping):
            raise place.error(name_of(self.field), "must be an object, not", holder)
        self.names.sessions.meet(holder)
        dates = {match[1]: key for key in holder if (match := self.date_key.fullmatch(key))}
        numbers = {key: match[1] for key in holder if (match := self.session_key.fullmatch(key))}
        for key in sorted(numbers, key=lambda name: int(numbers[name])):
            where = f"{name_of(self.field)}.{key}"
            turns = self._turns(holder[key], where, place)
            session = RawSession(id=key, turns=turns, place=place, where=where, named=True)
            if (date_key := dates.get(numbers[key])) is not None and holder[date_key] is not None:
                self._set_date(session, holder[date_key], f"{name_of(self.field)}.{date_key}")
            yield session

    def _listed(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> Iterator[RawSession]:
        elements = list_at(row, self.field, place)
        dates = self._parallel(row, self.date_field, len(elements), place)
        ids = self._parallel(row, self.id_field, len(elements), place)
        for index, element in enumerate(elements):
            session = self._element(element, index, row, place, row_id)
            if ids is not None:
                session.id, session.named = _session_id(ids[index], _nth(self.id_field, index), place), True
            if dates is not None:
                session.where = _nth(self.date_field, index)
                self._set_date(session, dates[index], session.where)
            yield session

    def _element(
        self, element: object, index: int, row: Mapping[str, object], place: RowPlace, row_id: str
    ) -> RawSession:
        """A list is a session, an object a session of one turn, a text simple content."""
        if isinstance(element, str):
            return self._simple(f"{row_id}.{index + 1}", element, row, place)
        where = f"{name_of(self.field)}[{index}]"
        name = f"session_{index + 1}"
        if isinstance(element, Mapping):
            return self._single(element, name, where, place)
        return RawSession(id=name, turns=self._turns(element, where, place), place=place, where=where)

    def _single(self, element: Mapping[str, object], name: str, where: str, place: RowPlace) -> RawSession:
        """The id and date of a lone turn are its session's."""
        turn = self.turns.read(element, where, place)
        session = RawSession(id=name, turns=[turn], when=turn.when, date_text=turn.date_text, place=place, where=where)
        if turn.id is not None and not self.turns.names_itself(element):
            session.id, session.named, turn.id = turn.id, True, None
        turn.when = None
        return session

    def _turns(self, value: object, where: str, place: RowPlace) -> list[RawTurn]:
        if not isinstance(value, list):
            raise place.error(where, "must be a list of turns, not", value)
        return [self.turns.read(turn, f"{where}[{index}]", place) for index, turn in enumerate(value)]

    def _parallel(
        self, row: Mapping[str, object], path: Path | None, length: int, place: RowPlace
    ) -> list[object] | None:
        """A list beside the sessions, of the same length."""
        if path is None:
            return None
        values = list_at(row, path, place)
        if len(values) != length:
            text = f"has {len(values)} entries for {length} sessions"
            raise place.error(name_of(path), text, hint="give one entry a session")
        return values

    def _set_date(self, session: RawSession, value: object, where: str) -> None:
        if value is None:
            raise session.place.error(where, "is null, a date is needed")
        text = scalar_text(value)
        session.when, session.date_text = self.dates.read(text) if text else None, text
        if session.when is None:
            hint = "see dateFormats in the config"
            raise session.place.error(where, "is no date that can be read", value, hint=hint)


def _of_keys(name: str, holder: Mapping[str, object]) -> str:
    """What to write where sessions are not under numbered keys."""
    lists = [key for key, value in holder.items() if isinstance(value, list)]
    if not lists:
        return LOOK
    path = f"$.{name}.{lists[-1]}"
    return f'if the sessions are in a list, write context: {{field: "{path}", type: array}}'


def _session_id(value: object, where: str, place: RowPlace) -> str:
    text = None if isinstance(value, bool) else scalar_text(value)
    if not text:
        raise place.error(where, "must be a session id, not", value)
    return text


def _nth(path: Path | None, index: int) -> str:
    return f"{name_of(path)}[{index}]" if path else f"[{index}]"


def _path(text: str | None) -> Path | None:
    return None if text is None else compile_path(text, bare=True)
