"""The filters of templates: one small function a name, none of them runs code.

A session is a sequence of turns. A turn's line is ``ROLE: content``, ``SPEAKER: text`` or bare text,
and a caption adds `` [shares CAPTION]``::

    make_filter("truncate", "3")("abcdef")      # "abc"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from bench.model import Turn

Filter = Callable[[object], object]

_SLOT = re.compile(r"\$\{(speaker|text|role|content)\}")


class DateText(str):
    """A date as its file writes it, with the instant that it means."""

    when: datetime | None

    def __new__(cls, text: str, when: datetime | None) -> DateText:
        """The text; ``when`` is what the filters iso, date and time show."""
        made = super().__new__(cls, text)
        made.when = when
        return made


def said(turn: Turn) -> str:
    """The text of a turn, with what its picture shows."""
    return f"{turn.text} [shares {turn.caption}]" if turn.caption else turn.text


def render_turn(turn: Turn) -> str:
    """The line of a turn. Text is never escaped, trimmed or re-encoded."""
    who = turn.speaker or turn.role
    return f"{who}: {said(turn)}" if who else said(turn)


def turn_object(turn: Turn) -> dict[str, str]:
    """A turn as JSON: role or speaker, and content; nothing else."""
    who = {"speaker": turn.speaker} if turn.speaker else {"role": turn.role} if turn.role else {}
    return {**who, "content": said(turn)}


def iso(when: datetime) -> str:
    """An instant as everything here shows it: ``2023-05-30T23:40:00Z``."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def text_of(value: object) -> str:
    """The text of a value without any filter."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return iso(value)
    if _is_turns(value):
        return "\n".join(render_turn(turn) for turn in value)  # type: ignore[attr-defined]
    if isinstance(value, list | tuple):
        return "\n".join(text_of(part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _is_turns(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(part, Turn) for part in value)


def _plain(value: object) -> object:
    if isinstance(value, Turn):
        return turn_object(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _lines(argument: str | None) -> Filter:
    def line(turn: Turn) -> str:
        if argument is None:
            return render_turn(turn)
        values = {"speaker": turn.speaker or turn.role or "", "role": turn.role or turn.speaker or ""}
        return _SLOT.sub(lambda slot: values.get(slot[1], said(turn)), argument)

    def apply(value: object) -> str:
        turns: Sequence[object] = value if isinstance(value, list | tuple) else [value]
        return "\n".join(line(part) if isinstance(part, Turn) else text_of(part) for part in turns)

    return apply


def _date_part(part: slice) -> Filter:
    def apply(value: object) -> str:
        when = _instant(value)
        return iso(when)[part] if isinstance(when, datetime) else text_of(value)

    return apply


def _instant(value: object) -> object:
    return value.when or value if isinstance(value, DateText) else value


def _truncate(argument: str | None) -> Filter:
    if argument is None or not argument.isdecimal():
        raise ValueError("truncate needs a number of characters, as in truncate:200,")
    limit = int(argument)
    return lambda value: text_of(value)[:limit]


def _join(argument: str | None) -> Filter:
    separator = "\n" if argument is None else argument

    def apply(value: object) -> str:
        parts = value if isinstance(value, list | tuple) else [value]
        return separator.join(render_turn(part) if isinstance(part, Turn) else text_of(part) for part in parts)

    return apply


def _default(argument: str | None) -> Filter:
    return lambda value: (argument or "") if value is None or value == "" else value


def _bare(function: Callable[[object], object]) -> Callable[[str | None], Filter]:
    def make(argument: str | None) -> Filter:
        if argument is not None:
            raise ValueError(f"the filter takes no argument, got {argument!r},")
        return function

    return make


FILTERS: dict[str, Callable[[str | None], Filter]] = {
    "json": _bare(_json),
    "lines": _lines,
    "iso": _bare(lambda value: text_of(_instant(value))),
    "date": _bare(_date_part(slice(10))),
    "time": _bare(_date_part(slice(11, 16))),
    "upper": _bare(lambda value: text_of(value).upper()),
    "lower": _bare(lambda value: text_of(value).lower()),
    "truncate": _truncate,
    "default": _default,
    "join": _join,
}


def make_filter(name: str, argument: str | None) -> Filter:
    """Build a filter; a missing value passes through all but ``default``. ValueError for a bad argument."""
    function = FILTERS[name](argument)
    if name == "default":
        return function
    return lambda value: None if value is None else function(value)
