"""Read one turn of a row: its text, role, speaker, id, date and caption.

Example::

    names = ConfigNames(config)
    reader = TurnReader(config, context, DateReader("UTC"), names)      # context: a section of schema.context
    reader.read({"role": "user", "content": "Hi"}, "sessions[0][0]", place)      # RawTurn
    names.parts.open                                 # mapped fields that no turn has had so far
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bench.config.benchmark.config import BenchmarkConfig, ContextSection
from bench.config.benchmark.values import Value, compile_value, is_general, scope_of, scoped
from bench.datasets.dates import DATE_HINT, DateReader
from bench.datasets.rows.config_names import ConfigNames, mapped_parts
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_values import missing_error, path_name, scalar_text
from bench.model import Turn
from bench.visible_text import is_blank

USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "content": ("content",),
    "text": ("text",),
    "role": ("role",),
    "speaker": ("speaker",),
    "dialog_id": ("dia_id",),
    "caption": ("blip_caption", "caption"),
}
"""property of a turn -> field names to read if the config has no ``itemSchema``"""
NO_TURN_FIELDS_HINT = "map the content of a turn, and its role or speaker, in schema.context.itemSchema"
"""hint for a YAML config without ``itemSchema``, if the turns have no field with a usual name"""
Getter = Callable[[object], object]


def is_blank_turn(turn: RawTurn | Turn) -> bool:
    """Return True when both the text and the caption of a turn are blank. No memory is made of such a turn."""
    return is_blank(turn.text) and is_blank(turn.caption or "")


@dataclass(slots=True, kw_only=True)
class RawTurn:
    """A turn as its row gives it. ``gold`` is true if the data marks the turn as evidence.

    No provider sees ``gold``.
    """

    id: str | None
    text: str
    role: str | None = None
    speaker: str | None = None
    caption: str | None = None
    when: datetime | None = None
    date_text: str | None = None
    gold: bool = False

    @property
    def quote(self) -> str:
        """Return the speaker and the text of the turn. If the turn has no speaker, the role is used.

        Evidence that quotes a turn is compared with this text.
        """
        return f"{self.speaker or self.role or ''}: {self.text}"


class TurnReader:
    """A reader of the turns of one history. It records which names in the config occur in the turns."""

    def __init__(self, config: BenchmarkConfig, context: ContextSection, dates: DateReader, names: ConfigNames) -> None:
        schema = context.item_schema
        self.dates = dates
        self.names = names
        self.by_name = config.fields_by_name or schema is None
        self.unmapped = self.by_name and not config.fields_by_name
        self.removed = frozenset(config.ingestion.preprocessing.remove_fields)
        self.paths = _turn_paths(config, context)
        self.getters = {name: _getter(paths) for name, paths in self.paths.items()}
        self.general = (
            not self.by_name and schema is not None and (is_general(schema.content) or is_general(schema.text))
        )
        """true if a turn can be a list, a text or a number instead of an object"""
        self.text_parts = [name for name in _text_field_order(config.rendering.dialogue) if name in self.paths]
        hidden = {"speaker_text": "role", "role_content": "speaker"}.get(config.rendering.dialogue)
        self.speaker_parts = [name for name in ("role", "speaker") if name in self.paths and name != hidden]
        self.ids = [name for name in ("dialog_id", "id") if name in self.paths]
        flag = config.evidence.turn_flag
        self.flag = _getter((compile_value(flag),)) if flag else None
        self.flag_found = False
        self.turns_read = 0
        self.undated = 0
        """number of turns without a date, although the config names a date field for turns"""

    def read(self, value: object, where: str, place: RowPlace) -> RawTurn:
        """Read a turn from an object or a text. ``where`` is the turn's place in the row, for error messages.

        Raises:
            DataError: a required field is missing, or has the wrong type.
        """
        if not self.general or value is None:
            if isinstance(value, str):
                return RawTurn(id=None, text=str(value))
            if not isinstance(value, dict):
                raise place.error(where, "must be a turn, not", value)
        turn = value
        if self.removed and isinstance(value, dict):
            turn = scoped({key: part for key, part in value.items() if key not in self.removed}, scope_of(value))
        self.turns_read += 1
        self._look_up_names(value, turn)
        raw = RawTurn(id=self.id_of(turn, where, place), text=self._content(turn, where, place))
        self._set_speaker(raw, turn, where, place)
        if self.names.roles.open and raw.role is not None:
            self.names.roles.meet([raw.role])
        if "caption" in self.getters:
            raw.caption = self._text(turn, "caption", where, place) or None
        if "date" in self.getters:
            self._date(raw, turn, where, place)
        if self.flag is not None and self.flag(value):
            raw.gold = self.flag_found = True
        return raw

    def has_dialog_id(self, value: object) -> bool:
        """Return True when the turn has an id in the config's ``dialogId`` field."""
        return "dialog_id" in self.getters and self.getters["dialog_id"](value) is not None

    def _look_up_names(self, value: object, turn: object) -> None:
        """Search the turn for config names that no row has contained yet.

        ``value`` is the whole turn. ``turn`` is the turn without the fields that the config removes.
        """
        names = self.names
        if names.parts.open:
            names.parts.search([turn])
        if names.turns.open or names.removed.open:
            names.turns.search([value])
            names.removed.search([value])

    def _content(self, turn: object, where: str, place: RowPlace) -> str:
        texts = [text for name in self.text_parts if (text := self._text(turn, name, where, place)) is not None]
        if texts:
            return next((text for text in texts if not is_blank(text)), texts[0])
        path = self.paths[self.text_parts[0]][0]
        hint = NO_TURN_FIELDS_HINT if self.unmapped else _empty_field_hint(path)
        raise missing_error(path, turn, place, prefix=f"{where}.", hint=hint, key=f"itemSchema.{self.text_parts[0]}")

    def _set_speaker(self, raw: RawTurn, turn: object, where: str, place: RowPlace) -> None:
        """Set the role and the speaker of a turn. If the config maps them, the turn must have a role or a speaker."""
        for name in self.speaker_parts:
            setattr(raw, name, self._text(turn, name, where, place))
        if self.speaker_parts and not self.by_name and raw.role is None and raw.speaker is None:
            path = self.paths[self.speaker_parts[0]][0]
            raise missing_error(path, turn, place, prefix=f"{where}.", hint=_empty_field_hint(path))

    def _text(self, turn: object, name: str, where: str, place: RowPlace) -> str | None:
        value = self.getters[name](turn)
        if value is None or type(value) is str:
            return value
        if isinstance(value, str):
            return str(value)
        raise place.error(f"{where}.{path_name(self.paths[name][0])}", "must be text, not", value)

    def _date(self, raw: RawTurn, turn: object, where: str, place: RowPlace) -> None:
        value = self.getters["date"](turn)
        path = self.paths["date"][0]
        if value is None:
            self.undated += 1
            return
        text = scalar_text(value)
        raw.when, raw.date_text = self.dates.read(text) if text else None, text
        if raw.when is None:
            raise place.error(f"{where}.{path_name(path)}", "is not a date that can be read", value, hint=DATE_HINT)

    def id_of(self, turn: object, where: str, place: RowPlace) -> str | None:
        """Return the id of a turn, or None if there is none.

        With an ``itemSchema``, the id is read only if the schema maps it. Without an ``itemSchema``, the id is read
        from a field with a usual name.

        Raises:
            DataError: ``itemSchema`` maps the id but the turn has none, or the value is not an id.
        """
        for name in self.ids:
            value = self.getters[name](turn)
            text = None if isinstance(value, bool) else scalar_text(value)
            if text:
                return text
            if value is not None:
                raise place.error(f"{where}.{path_name(self.paths[name][0])}", "must be an id, not", value)
            if not self.by_name:
                raise missing_error(self.paths[name][0], turn, place, prefix=f"{where}.", key=f"itemSchema.{name}")
        return None


def _empty_field_hint(path: Value) -> str | None:
    """Return a hint for a field that is empty in some turns. Return None if ``path`` is not a plain field name."""
    plain = re.fullmatch(r"\w+", path.text)
    return f"fix the row; if this field can be empty, write \"${{{path.text}|default:''}}\"" if plain else None


def _text_field_order(dialogue: str) -> tuple[str, str]:
    return ("text", "content") if dialogue == "speaker_text" else ("content", "text")


def _turn_paths(config: BenchmarkConfig, context: ContextSection) -> dict[str, tuple[Value, ...]]:
    """Return a map from each property of a turn to the paths at which it is searched, in order."""
    if config.fields_by_name or context.item_schema is None:
        return {part: tuple(compile_value(name) for name in names) for part, names in USUAL_NAMES.items()}
    return {part: (compile_value(path),) for part, path in mapped_parts(config, context).items()}


def _getter(paths: tuple[Value, ...]) -> Getter:
    """Return a function that reads the first value at ``paths`` that is not null."""
    first = paths[0]
    if len(paths) > 1:
        return lambda turn: next((value for path in paths if (value := path.get(turn)) is not None), None)
    if len(first.steps) == 1 and isinstance(first.steps[0], str):
        key, get = first.steps[0], first.get
        return lambda turn: turn.get(key) if isinstance(turn, dict) else get(turn)
    return first.get
