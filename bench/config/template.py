r"""Fill templates of prompts and session texts, with placeholders such as ``${name|filter|filter}``.

A placeholder inside an inserted value is not replaced. ``$${`` is a literal ``${``::

    template = Template.parse("Q: ${question|upper}", ["question"])
    template.render({"question": "why ${x}?"})      # "Q: WHY ${X}?"
    make_filter("truncate", "3")("abcdef")      # "abc"

An inserted session has one line per turn: ``SPEAKER: text``, ``ROLE: text`` or only the text.

An inserted value cannot open or close a tag of the prompt, because such tags are escaped in the value::

    PromptTags.of("<r>${response}</r>").escaped({"response": "x</R foo> y"})      # {"response": "x<\\/R foo> y"}

Tags are also found if they are disguised, for example by white space or full-width characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from string import ascii_uppercase

from bench.config.file import did_you_mean
from bench.config.value_rules import LONGEST_TEXT, pattern_problem
from bench.errors import ConfigError
from bench.model import Turn
from bench.patterns import pattern

Filter = Callable[[object], object]

LINE_NAMES = ("speaker", "role", "text", "content")
"""names of the parts of a turn that the filter ``lines`` can insert"""
_SLOT = pattern(rf"\$\{{({'|'.join(LINE_NAMES)})\}}")


class DateText(str):
    """A date as the dataset writes it. ``when`` is the parsed date; None if it is unknown."""

    when: datetime | None

    def __new__(cls, text: str, when: datetime | None) -> DateText:
        """Create the text of a date. The filters iso, date and time use ``when``."""
        made = super().__new__(cls, text)
        made.when = when
        return made


def turn_text(turn: Turn) -> str:
    """Return the text of a turn, with the caption of its picture if there is one."""
    return f"{turn.text} [shares {turn.caption}]" if turn.caption else turn.text


def render_turn(turn: Turn) -> str:
    """Return ``SPEAKER: text`` or ``ROLE: text`` for a turn. If speaker and role are unknown, return only the text."""
    who = turn.speaker or turn.role
    return f"{who}: {turn_text(turn)}" if who else turn_text(turn)


def turn_object(turn: Turn) -> dict[str, str]:
    """Return a turn as a JSON object with ``content`` and, if one is known, ``speaker`` or ``role``."""
    who = {"speaker": turn.speaker} if turn.speaker else {"role": turn.role} if turn.role else {}
    return {**who, "content": turn_text(turn)}


def iso_utc(when: datetime) -> str:
    """Return an instant in UTC as a text such as ``2023-05-30T23:40:00Z``."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def text_of(value: object) -> str:
    """Return the text that a template without filters inserts for a value.

    A list becomes one line per element, without nulls. An object becomes JSON, and a date becomes ISO 8601.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return iso_utc(value)
    if isinstance(value, list | tuple) and value and all(isinstance(part, Turn) for part in value):
        return "\n".join(render_turn(turn) for turn in value)
    if isinstance(value, list | tuple):
        return "\n".join(text_of(part) for part in value if part is not None)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return _json(value)
    return str(value)


def _json_value(value: object) -> object:
    if isinstance(value, Turn):
        return turn_object(value)
    if isinstance(value, datetime):
        return iso_utc(value)
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    return value


def _json(value: object) -> str:
    return json.dumps(_json_value(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _lines(argument: str | None) -> Filter:
    for name in slot_names(argument or ""):
        if name not in LINE_NAMES:
            raise ValueError(f'the filter "lines" can insert {", ".join(LINE_NAMES)}, but not "{name}"')

    def line(turn: Turn) -> str:
        if argument is None:
            return render_turn(turn)
        values = {"speaker": turn.speaker or turn.role or "", "role": turn.role or turn.speaker or ""}
        return _SLOT.sub(lambda slot: values.get(slot[1], turn_text(turn)), argument)

    def apply(value: object) -> str:
        turns: Sequence[object] = value if isinstance(value, list | tuple) else [value]
        return "\n".join(line(part) if isinstance(part, Turn) else text_of(part) for part in turns)

    return apply


def _date_part(part: slice) -> Filter:
    def apply(value: object) -> str:
        when = _instant(value)
        return iso_utc(when)[part] if isinstance(when, datetime) else text_of(value)

    return apply


def _instant(value: object) -> object:
    return value.when or value if isinstance(value, DateText) else value


def _truncate(argument: str | None) -> Filter:
    if argument is None or not argument.isdecimal():
        raise ValueError('the filter "truncate" needs a number of characters (for example truncate:200)')
    limit = int(argument)
    return lambda value: text_of(value)[:limit]


@dataclass(frozen=True, slots=True)
class Join:
    """The filter ``join``, which joins the elements of a list to one text. Nulls are left out."""

    separator: str

    def __call__(self, value: object) -> str | None:
        if value is None:
            return None
        parts = [part for part in value if part is not None] if isinstance(value, list | tuple) else [value]
        return self.separator.join(render_turn(part) if isinstance(part, Turn) else text_of(part) for part in parts)


def _part_texts(value: object) -> object:
    """Return the texts of a list of message parts. A part is a text, or an object with a text in its field ``text``.

    Other parts, such as pictures, are left out. A value that is not a list is returned unchanged.
    """
    if not isinstance(value, list | tuple):
        return value
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
    return [text for text in texts if isinstance(text, str)]


def _default(argument: str | None) -> Filter:
    return lambda value: (argument or "") if value is None or value == "" else value


def _match(argument: str | None) -> Filter:
    problem = "needs a regular expression" if not argument else pattern_problem(argument, groups=None)
    if problem or argument is None:
        raise ValueError(f"the filter \"match\" {problem} (for example match:'^[^_]+')")
    pattern = re.compile(argument)

    def apply(value: object) -> str | None:
        found = pattern.search(text_of(value)[:LONGEST_TEXT])
        return None if found is None else found[1] if pattern.groups else found[0]

    return apply


def _letter(argument: str | None) -> Filter:
    if argument not in (None, "0", "1"):
        raise ValueError(
            f'the filter "letter" needs the number of the first choice, 0 or 1 (for example letter:1), not {argument!r}'
        )
    start = int(argument or 0)

    def apply(value: object) -> str:
        """Return the letter of the choice with this number.

        Any other text is returned without white space at its ends. A later check reports it if it is not a choice.
        """
        text = text_of(value).strip()
        at = int(text) - start if text.isascii() and text.isdecimal() and len(text) < 4 else -1
        return ascii_uppercase[at] if 0 <= at < len(ascii_uppercase) else text

    return apply


def _without_argument(function: Callable[[object], object]) -> Callable[[str | None], Filter]:
    def make(argument: str | None) -> Filter:
        if argument is not None:
            raise ValueError(f"this filter has no argument, but {argument!r} was given")
        return function

    return make


FILTERS: dict[str, Callable[[str | None], Filter]] = {
    "json": _without_argument(_json),
    "lines": _lines,
    "iso": _without_argument(lambda value: text_of(_instant(value))),
    "date": _without_argument(_date_part(slice(10))),
    "time": _without_argument(_date_part(slice(11, 16))),
    "upper": _without_argument(lambda value: text_of(value).upper()),
    "lower": _without_argument(lambda value: text_of(value).lower()),
    "truncate": _truncate,
    "default": _default,
    "texts": _without_argument(_part_texts),
    "join": lambda argument: Join("\n" if argument is None else argument),
    "match": _match,
    "letter": _letter,
}


def make_filter(name: str, argument: str | None) -> Filter:
    """Return the filter ``name``. ``argument`` is None if the template has no argument for the filter.

    For a missing value, the filter ``default`` returns its argument, and any other filter returns None. ``default``
    also replaces an empty text.

    Raises:
        ValueError: the filter does not accept the argument.
    """
    function = FILTERS[name](argument)
    if name == "default" or isinstance(function, Join):
        return function
    return lambda value: None if value is None else function(value)  # what match does not find stays missing


_NAME = pattern(r"[A-Za-z_][\w-]*(?:\.[\w -]*[\w-])*")
_STRINGIFY = pattern(r"\$\{\s*JSON\s*\.\s*stringify\s*\(\s*session\s*\)\s*;?\s*\}")
_MAP = pattern(
    r"\$\{\s*session\s*\.\s*map\s*\(\s*\(?\s*turn\s*\)?\s*=>\s*`(?P<line>[^`]*)`\s*\)"
    r"\s*\.\s*join\s*\(\s*(?P<quote>['\"])\\n(?P=quote)\s*\)\s*\}"
)
_TURN = pattern(r"\$\{\s*turn\s*\.\s*(\w+)\s*\}")
_QUOTED = pattern(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NAMED = pattern(rf"(?<!\$)\$\{{\s*({_NAME.pattern})\s*(?:\}}|\|(?:{_QUOTED.pattern}|[^'\"}}])*)")
_TOKEN = pattern(rf"{_QUOTED.pattern}|[\s\S]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placeholder:
    """One ``${name|filter|...}`` of a template: a name and the filters that are applied to its value."""

    name: str
    filters: tuple[Filter, ...]

    def fill(self, value: object) -> object:
        """Return the value after all filters; None if the value is missing and no filter sets a default."""
        for step in self.filters:
            value = step(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A parsed template. Two templates are equal if their ``text`` and ``where`` are equal."""

    text: str
    parts: tuple[str | _Placeholder, ...] = field(compare=False)
    names: frozenset[str] = field(compare=False)
    """names of the values that the template inserts"""
    sha256: str = field(compare=False)
    """SHA-256 of the text before values are inserted"""
    where: str | None = None

    @classmethod
    def parse(cls, text: str, names: Collection[str], *, where: str | None = None) -> Template:
        """Parse a template that may use only ``names``.

        The name ``metadata.*`` allows any name that begins with ``metadata.``.

        Raises:
            ConfigError: a name or filter is unknown, or a placeholder contains an expression instead of a name.
        """
        parts = tuple(_parts(text, names, where))
        used = frozenset(part.name for part in parts if isinstance(part, _Placeholder))
        return cls(text=text, parts=parts, names=used, sha256=sha256(text.encode()).hexdigest(), where=where)

    @property
    def needed(self) -> frozenset[str]:
        """Return the names that must have a value, because the template has no default for them."""
        return frozenset(part.name for part in self.parts if isinstance(part, _Placeholder) and part.fill(None) is None)

    def render(self, values: Mapping[str, object]) -> str:
        """Return the text of the template with ``values`` inserted.

        Raises:
            ConfigError: a name without a default has no value.
        """
        return "".join([part if isinstance(part, str) else self._fill(part, values) for part in self.parts])

    def _fill(self, slot: _Placeholder, values: Mapping[str, object]) -> str:
        value = values.get(slot.name)
        if slot.filters:
            value = slot.fill(value)
        if isinstance(value, str):
            return value
        if value is None:
            raise ConfigError(
                f"no value for ${{{slot.name}}}", where=self.where, hint=f"write ${{{slot.name}|default:''}}"
            )
        return text_of(value)


def _parts(text: str, names: Collection[str], where: str | None) -> Iterator[str | _Placeholder]:
    at = 0
    while (start := text.find("${", at)) >= 0:
        if start > at and text[start - 1] == "$":
            yield text[at : start - 1] + "${"
            at = start + 2
            continue
        yield text[at:start]
        slot, at = _placeholder(text, start, names, where)
        yield slot
    yield text[at:]


def slot_names(text: str) -> list[str]:
    """Return the name at the beginning of each ``${...}``. The arguments of filters are not searched for names."""
    return _NAMED.findall(text)


def split_template(text: str, where: str | None) -> Iterator[str | tuple[str, tuple[Filter, ...]]]:
    """Yield the parts of a template: plain texts, and (expression, filters) for each ``${...}``.

    Any text is allowed as an expression, unlike in `Template.parse`.
    """
    at = 0
    while (start := text.find("${", at)) >= 0:
        if text[:start].endswith("$"):
            yield text[at : start - 1] + "${"
            at = start + 2
            continue
        yield text[at:start]
        at = _closing(text, start, where)
        source = text[start:at]
        name, *steps = _split(source[2:-1])
        yield name, tuple(_filter(step, source, where) for step in steps)
    yield text[at:]


def _placeholder(text: str, start: int, names: Collection[str], where: str | None) -> tuple[_Placeholder, int]:
    if match := _STRINGIFY.match(text, start):
        return _require_known(
            _Placeholder(name="session", filters=(make_filter("json", None),)), names, where
        ), match.end()
    if match := _MAP.match(text, start):
        line = _line_template(match, where)
        return _require_known(
            _Placeholder(name="session", filters=(make_filter("lines", line),)), names, where
        ), match.end()
    end = _closing(text, start, where)
    return _expression(text[start:end], names, where), end


def _closing(text: str, start: int, where: str | None) -> int:
    """Return the index after the ``}`` that closes the ``${`` at ``start``. Braces in quotes do not count."""
    depth, at = 0, start + 1
    while at < len(text):
        if quoted := _QUOTED.match(text, at):
            at = quoted.end()
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at
    raise ConfigError(
        f'unclosed placeholder "{text[start : start + 60]}"',
        where=where,
        hint='close it with "}"; write a literal "${" as "$${"',
    )


def _expression(source: str, names: Collection[str], where: str | None) -> _Placeholder:
    name, *steps = _split(source[2:-1])
    if not _NAME.fullmatch(name):
        raise _expression_error(source, where)
    filters = tuple(_filter(step, source, where) for step in steps)
    return _require_known(_Placeholder(name=name, filters=filters), names, where)


def _split(inner: str) -> list[str]:
    """Split a text at each ``|`` outside of quotes."""
    pieces = [""]
    for part in _TOKEN.findall(inner):
        if part == "|":
            pieces.append("")
        else:
            pieces[-1] += part
    return [piece.strip() for piece in pieces]


def _filter(step: str, source: str, where: str | None) -> Filter:
    name, colon, argument = step.partition(":")
    name, argument = name.strip(), argument.strip()
    if not re.fullmatch(r"\w+", name):
        raise _expression_error(source, where)
    if name not in FILTERS:
        raise ConfigError(
            f'unknown filter "{name}" in {source}{did_you_mean(name, FILTERS)}', where=where, hint=_filter_list()
        )
    quoted = _QUOTED.fullmatch(argument)
    if argument[:1] in ("'", '"') and not quoted:
        raise ConfigError(f"unclosed quote in {source}", where=where, hint=f"write {name}:'text'")
    value = argument[1:-1] if quoted else argument
    if quoted and name != "match":  # an expression keeps its backslashes
        value = re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), value)
    try:
        return make_filter(name, value if colon else None)
    except ValueError as error:
        raise ConfigError(f"{error} in {source}", where=where, hint=_filter_list()) from error


def _require_known(slot: _Placeholder, names: Collection[str], where: str | None) -> _Placeholder:
    prefix = slot.name.split(".")[0]
    if slot.name in names or ("." in slot.name and f"{prefix}.*" in names):
        return slot
    listed = ", ".join(sorted(names))
    raise ConfigError(
        f'unknown name "{slot.name}" in a template{did_you_mean(slot.name, names)}',
        where=where,
        hint=f"known names: {listed}",
    )


def _line_template(match: re.Match[str], where: str | None) -> str:
    """Convert ``${session.map(turn => `...`).join(...)}`` to the argument of the filter ``lines``.

    ``match`` is the whole expression. Return the text between the backticks, with ``${turn.speaker}`` changed to
    ``${speaker}``.

    Raises:
        ConfigError: the text contains any other expression.
    """
    line = match["line"]
    if any(name not in LINE_NAMES for name in _TURN.findall(line)):
        raise _expression_error(match[0], where)
    plain = _TURN.sub(lambda found: f"${{{found[1]}}}", line)
    if "${" in _TURN.sub("", line):
        raise _expression_error(match[0], where)
    return plain


def _expression_error(source: str, where: str | None) -> ConfigError:
    return ConfigError(f"{source} is an expression, which templates do not support", where=where, hint=_filter_list())


def _filter_list() -> str:
    return f"write ${{name|filter}}; filters: {', '.join(FILTERS)}"


_CLOSING = pattern(r"</([A-Za-z_][\w.:-]{0,60})>")
_HIDDEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_OPENS = r"(?:[<＜﹤‹〈]|&(?:lt|#0{0,4}60|#x0{0,4}3c);)"
_FULL_WIDTH = 0xFEE0
ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class PromptTags:
    """The XML-like tags of one prompt, such as ``<r>``.

    ``pattern`` matches the beginning of these tags, in any spelling. It is None if the prompt has no closing tag.
    """

    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, prompt: str) -> PromptTags:
        """Return the tags of a prompt that have a closing tag, such as ``</r>``."""
        return _prompt_tags(prompt)

    def escaped(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return the values with the tags of the prompt escaped, so that a value cannot open or close a tag."""
        pattern = self.pattern
        if pattern is None or not pattern.search("\n".join(values.values())):
            return values
        return {name: pattern.sub(lambda found: found.group() + ESCAPE, value) for name, value in values.items()}


@lru_cache(maxsize=256)  # prompts are few and items many
def _prompt_tags(prompt: str) -> PromptTags:
    names = sorted(set(_CLOSING.findall(prompt)), key=lambda name: (-len(name), name))
    if not names:
        return PromptTags(None)
    within = rf"[\s/／⁄∕\\{_HIDDEN}]*"
    spelled = "|".join(map(_spelling_pattern, names))
    return PromptTags(re.compile(rf"{_OPENS}(?={within}(?:{spelled})(?!\w))", re.IGNORECASE))


def _spelling_pattern(name: str) -> str:
    """Return a pattern that matches a tag name.

    Letters may be full-width, and invisible characters may be between the letters.
    """
    signs = (f"[{re.escape(sign)}{chr(ord(sign) + _FULL_WIDTH)}]" for sign in name)
    return rf"[{_HIDDEN}]*".join(signs)
