"""The sessions of one row: found, dated and checked, before ids are made unique across a corpus.

::

    reader = HistoryReader(config)
    sessions = reader.read(row, place, row_id="q1")      # list[RawSession], natural order
    reader.unseen()                                      # mapped turn keys that no turn of the file had
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bench.config.benchmark import BenchmarkConfig
from bench.config.findings import did_you_mean
from bench.config.jsonpath import Path, compile_path
from bench.datasets.dates import DateReader
from bench.datasets.place import RowPlace
from bench.datasets.values import list_at, missing, name_of, scalar_text, text_at, value_at

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "content": ("content",),
    "text": ("text",),
    "role": ("role",),
    "speaker": ("speaker",),
    "dialog_id": ("dia_id",),
    "caption": ("blip_caption", "caption"),
}
"""the names that the manifest dialect reads"""


@dataclass(slots=True, kw_only=True)
class RawTurn:
    """A turn as the row gives it; ``gold`` is its flag, which goes no farther than the evidence."""

    id: str | None
    text: str
    role: str | None
    speaker: str | None
    caption: str | None
    when: datetime | None
    gold: bool = False


@dataclass(slots=True, kw_only=True)
class RawSession:
    """A session as the row gives it; ``id`` may occur twice in a corpus."""

    id: str
    turns: list[RawTurn]
    when: datetime | None = None
    date_text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    place: RowPlace
    date_field: str = ""


class HistoryReader:
    """Reads histories by one config; remembers which turn keys it met."""

    def __init__(self, config: BenchmarkConfig, dates: DateReader) -> None:
        context = config.fields.context
        self.kind = context.type
        self.by_name = config.fields_by_name or context.item_schema is None
        self.field = compile_path(context.field, bare=True)
        self.date_field = _path(context.date_field)
        self.id_field = _path(context.session_id_field)
        self.session_key = _key_pattern(context.session_pattern)
        self.date_key = _key_pattern(context.date_pattern)
        self.flag = _path(config.evidence.turn_flag)
        self.dialogue = config.rendering.dialogue
        self.removed = frozenset(config.ingestion.preprocessing.remove_fields)
        self.metadata = config.memory_metadata
        self.dates = dates
        self.turn_paths = _turn_paths(config)
        self.met: set[str] = set()
        self.turns_met = 0
        self.gold_met = False
        self.turn_keys: set[str] = set()

    def read(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> list[RawSession]:
        """Give the sessions in natural order: numeric key order or array order."""
        match self.kind:
            case "string":
                text = text_at(row, self.field, place)
                return [self._simple(row_id, text, row, place)]
            case "object":
                return list(self._keyed(row, place))
            case "array":
                return list(self._listed(row, place, row_id))

    def unseen(self) -> list[tuple[str, str]]:
        """(key of itemSchema, nearest key of a turn) for each mapped key that no turn had."""
        if self.by_name or self.turns_met == 0:
            return []
        return [
            (name, did_you_mean(str(path.steps[-1]), self.turn_keys))
            for name, (path, *_) in self.turn_paths.items()
            if name not in self.met
        ]

    def _simple(self, session_id: str, text: str, row: Mapping[str, object], place: RowPlace) -> RawSession:
        turn = RawTurn(id=None, text=text, role=None, speaker=None, caption=None, when=None)
        metadata = {name: row[name] for name in self.metadata if row.get(name) is not None}
        return RawSession(id=session_id, turns=[turn], metadata=metadata, place=place)

    def _keyed(self, row: Mapping[str, object], place: RowPlace) -> Iterator[RawSession]:
        holder = value_at(row, self.field, place)
        if not isinstance(holder, Mapping):
            raise place.error(name_of(self.field), "must be an object, not", holder)
        dates = {match[1]: key for key in holder if (match := self.date_key.fullmatch(key))}
        numbered = {int(match[1]): key for key in holder if (match := self.session_key.fullmatch(key))}
        for number in sorted(numbered):
            key = numbered[number]
            where = f"{name_of(self.field)}.{key}"
            match = self.session_key.fullmatch(key)
            date_key = dates.get(match[1]) if match else None
            turns = self._turns(holder[key], where, place)
            when, text = self._date(
                holder.get(date_key) if date_key else None, f"{name_of(self.field)}.{date_key}", place
            )
            yield RawSession(id=key, turns=turns, when=when, date_text=text, place=place, date_field=where)

    def _listed(self, row: Mapping[str, object], place: RowPlace, row_id: str) -> Iterator[RawSession]:
        elements = list_at(row, self.field, place)
        dates = self._parallel(row, self.date_field, len(elements), place)
        ids = self._parallel(row, self.id_field, len(elements), place)
        for index, element in enumerate(elements):
            where = f"{name_of(self.field)}[{index}]"
            if isinstance(element, str):
                session = self._simple(f"{row_id}.{index + 1}", element, row, place)
            elif isinstance(element, Mapping):
                session = self._single(element, index, where, place)
            else:
                session = RawSession(id=f"session_{index + 1}", turns=self._turns(element, where, place), place=place)
            if ids is not None:
                session.id = self._session_id(ids[index], _nth(self.id_field, index), place)
            if dates is not None:
                where = _nth(self.date_field, index)
                session.when, session.date_text = self._date(dates[index], where, place, required=True)
            session.date_field = where
            yield session

    def _single(self, element: Mapping[str, object], index: int, where: str, place: RowPlace) -> RawSession:
        """An object of the array is a session of one turn; its id and date are the session's."""
        turn = self._turn(element, where, place)
        session_id = None if self._from_dialog_id(element) else turn.id
        if session_id is not None:
            turn.id = None
        text = self._text_of(element, "date")
        when, turn.when = turn.when, None
        return RawSession(id=session_id or f"session_{index + 1}", turns=[turn], when=when, date_text=text, place=place)

    def _from_dialog_id(self, element: Mapping[str, object]) -> bool:
        return self._value(element, "dialog_id") is not None

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

    def _session_id(self, value: object, where: str, place: RowPlace) -> str:
        text = None if isinstance(value, bool) else scalar_text(value)
        if not text:
            raise place.error(where, "must be a session id, not", value)
        return text

    def _date(
        self, value: object, where: str, place: RowPlace, *, required: bool = False
    ) -> tuple[datetime | None, str | None]:
        if value is None:
            if required:
                raise place.error(where, "is null, a date is needed")
            return None, None
        text = scalar_text(value)
        when = self.dates.read(text) if text is not None else None
        if when is None:
            raise place.error(where, "is no date that can be read", value, hint="see dateFormats in the config")
        return when, text

    def _turns(self, value: object, where: str, place: RowPlace) -> list[RawTurn]:
        if not isinstance(value, list):
            raise place.error(where, "must be a list of turns, not", value)
        return [self._turn(turn, f"{where}[{index}]", place) for index, turn in enumerate(value)]

    def _turn(self, value: object, where: str, place: RowPlace) -> RawTurn:
        if isinstance(value, str):
            return RawTurn(id=None, text=value, role=None, speaker=None, caption=None, when=None)
        if not isinstance(value, Mapping):
            raise place.error(where, "must be a turn, not", value)
        gold = self.flag is not None and bool(self.flag.get(value))
        self.gold_met = self.gold_met or gold
        turn = {key: part for key, part in value.items() if key not in self.removed} if self.removed else value
        self.turns_met += 1
        if not self.by_name and len(self.met) < len(self.turn_paths):
            self._meet(turn)
        role, speaker = self._who(turn, where, place)
        when, _ = self._date(self._value(turn, "date"), f"{where}.date", place, required="date" in self.turn_paths)
        return RawTurn(
            id=self._turn_id(turn, where, place),
            text=self._said(turn, where, place),
            role=role,
            speaker=speaker,
            caption=self._text(turn, "caption", where, place) or None,
            when=when,
            gold=gold,
        )

    def _meet(self, turn: Mapping[str, object]) -> None:
        """Remember which mapped keys occur, for the error about keys that never do."""
        self.turn_keys.update(str(key) for key in turn)
        self.met.update(name for name in self.turn_paths if self._value(turn, name) is not None)

    def _value(self, turn: object, name: str) -> object:
        found = (path.get(turn) for path in self.turn_paths.get(name, ()))
        return next((value for value in found if value is not None), None)

    def _text_of(self, turn: object, name: str) -> str | None:
        return scalar_text(self._value(turn, name))

    def _text(self, turn: object, name: str, where: str, place: RowPlace) -> str | None:
        value = self._value(turn, name)
        if value is None or isinstance(value, str):
            return value
        raise place.error(f"{where}.{name_of(self.turn_paths[name][0])}", "must be text, not", value)

    def _said(self, turn: object, where: str, place: RowPlace) -> str:
        order = ("text", "content") if self.dialogue == "speaker_text" else ("content", "text")
        for name in order:
            if (text := self._text(turn, name, where, place)) is not None:
                return text
        path = next(self.turn_paths[name][0] for name in order if name in self.turn_paths)
        raise missing(path, turn, place, prefix=f"{where}.")

    def _who(self, turn: object, where: str, place: RowPlace) -> tuple[str | None, str | None]:
        """Role and speaker; what is mapped must be there, of two at least one."""
        role = None if self.dialogue == "speaker_text" else self._text(turn, "role", where, place)
        speaker = None if self.dialogue == "role_content" else self._text(turn, "speaker", where, place)
        mapped = [name for name in ("role", "speaker") if name in self.turn_paths]
        if not self.by_name and mapped and role is None and speaker is None:
            raise missing(self.turn_paths[mapped[0]][0], turn, place, prefix=f"{where}.")
        return role, speaker

    def _turn_id(self, turn: object, where: str, place: RowPlace) -> str | None:
        for name in ("dialog_id", "id"):
            if name not in self.turn_paths:
                continue
            value = self._value(turn, name)
            if value is not None:
                return self._session_id(value, f"{where}.{name_of(self.turn_paths[name][0])}", place)
            if not self.by_name:
                raise missing(self.turn_paths[name][0], turn, place, prefix=f"{where}.")
        return None


def _nth(path: Path | None, index: int) -> str:
    return f"{name_of(path)}[{index}]" if path else f"[{index}]"


def _path(text: str | None) -> Path | None:
    return None if text is None else compile_path(text, bare=True)


def _key_pattern(pattern: str) -> re.Pattern[str]:
    before, after = pattern.split("*")
    return re.compile(f"{re.escape(before)}([0-9]+){re.escape(after)}")


def _turn_paths(config: BenchmarkConfig) -> dict[str, tuple[Path, ...]]:
    """Part of a turn -> where it may stand."""
    schema = config.fields.context.item_schema
    if config.fields_by_name or schema is None:
        return {part: tuple(compile_path(name, bare=True) for name in names) for part, names in USUAL_NAMES.items()}
    mapped = schema.model_dump(exclude_none=True)
    return {part: (compile_path(str(path), bare=True),) for part, path in mapped.items()}
