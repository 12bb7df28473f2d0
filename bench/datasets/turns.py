"""One turn of a row: what was said, by whom, with which id, date and picture.

::

    reader = TurnReader(config, dates, names)
    reader.read({"role": "user", "content": "Hi"}, "sessions[0][0]", place)      # RawTurn
    names.parts.open                                 # mapped keys that no turn of the file had so far
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from bench.config.benchmark import BenchmarkConfig
from bench.config.jsonpath import Path, compile_path
from bench.datasets.dates import DateReader
from bench.datasets.naming import ConfigNames, mapped_parts
from bench.datasets.place import RowPlace
from bench.datasets.values import missing, name_of, scalar_text

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
        for name in self.said:
            if (text := self._text(turn, name, where, place)) is not None:
                return text
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
