"""Templates of prompts and session texts: ``${name|filter|filter}``, one pass, no code.

Values are never scanned again and the environment is never read; ``$${`` is a literal ``${``::

    template = Template.parse("Q: ${question|upper}", ["question"])
    template.render({"question": "why ${x}?"})      # "Q: WHY ${X}?"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from bench.config.filters import FILTERS, Filter, make_filter, text_of
from bench.config.findings import did_you_mean
from bench.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w -]*[\w-])*")
_STRINGIFY = re.compile(r"\$\{\s*JSON\s*\.\s*stringify\s*\(\s*session\s*\)\s*;?\s*\}")
_MAP = re.compile(
    r"\$\{\s*session\s*\.\s*map\s*\(\s*\(?\s*turn\s*\)?\s*=>\s*`(?P<line>[^`]*)`\s*\)"
    r"\s*\.\s*join\s*\(\s*(?P<quote>['\"])\\n(?P=quote)\s*\)\s*\}"
)
_TURN = re.compile(r"\$\{\s*turn\s*\.\s*(\w+)\s*\}")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_TOKEN = re.compile(rf"{_QUOTED.pattern}|[\s\S]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """One ``${...}``: a name and what is done to its value."""

    name: str
    filters: tuple[Filter, ...]

    def fill(self, value: object) -> object:
        """The value after every filter; None where it is missing and none of them gives one."""
        for step in self.filters:
            value = step(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A parsed template; the same text at the same place is an equal template."""

    text: str
    parts: tuple[str | _Slot, ...] = field(compare=False)
    names: frozenset[str] = field(compare=False)
    """the names that are used"""
    sha256: str = field(compare=False)
    """of the text with its placeholders in place"""
    where: str | None = None

    @classmethod
    def parse(cls, text: str, names: Collection[str], *, where: str | None = None) -> Template:
        """Parse; ``names`` may hold ``metadata.*``. ConfigError for an unknown name, filter or any code."""
        parts = tuple(_parts(text, names, where))
        used = frozenset(part.name for part in parts if isinstance(part, _Slot))
        return cls(text=text, parts=parts, names=used, sha256=sha256(text.encode()).hexdigest(), where=where)

    @property
    def needed(self) -> frozenset[str]:
        """The names that must have a value: somewhere no default stands in."""
        return frozenset(part.name for part in self.parts if isinstance(part, _Slot) and part.fill(None) is None)

    def render(self, values: Mapping[str, object]) -> str:
        """Fill in the values; ConfigError for one that is missing and has no default."""
        return "".join([part if isinstance(part, str) else self._fill(part, values) for part in self.parts])

    def _fill(self, slot: _Slot, values: Mapping[str, object]) -> str:
        value = slot.fill(values.get(slot.name))
        if value is None:
            raise ConfigError(
                f"no value for ${{{slot.name}}}", where=self.where, hint=f"write ${{{slot.name}|default:''}}"
            )
        return text_of(value)


def _parts(text: str, names: Collection[str], where: str | None) -> Iterator[str | _Slot]:
    at = 0
    while (start := text.find("${", at)) >= 0:
        if start > at and text[start - 1] == "$":
            yield text[at : start - 1] + "${"
            at = start + 2
            continue
        yield text[at:start]
        slot, at = _slot(text, start, names, where)
        yield slot
    yield text[at:]


def _slot(text: str, start: int, names: Collection[str], where: str | None) -> tuple[_Slot, int]:
    if match := _STRINGIFY.match(text, start):
        return _known(_Slot(name="session", filters=(make_filter("json", None),)), names, where), match.end()
    if match := _MAP.match(text, start):
        line = _line_template(match, where)
        return _known(_Slot(name="session", filters=(make_filter("lines", line),)), names, where), match.end()
    end = _closing(text, start, where)
    return _expression(text[start:end], names, where), end


def _closing(text: str, start: int, where: str | None) -> int:
    """The end of the expression: braces balance, quoted text does not count."""
    depth, at = 0, start + 1
    while at < len(text):
        if quoted := _QUOTED.match(text, at):
            at = quoted.end()
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at
    raise ConfigError(f"unclosed {text[start : start + 60]}", where=where, hint='a literal "${" is written "$${"')


def _expression(source: str, names: Collection[str], where: str | None) -> _Slot:
    name, *steps = _split(source[2:-1])
    if not _NAME.fullmatch(name):
        raise _no_code(source, where)
    filters = tuple(_filter(step, source, where) for step in steps)
    return _known(_Slot(name=name, filters=filters), names, where)


def _split(inner: str) -> list[str]:
    """Cut at ``|`` outside quotes."""
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
        raise _no_code(source, where)
    if name not in FILTERS:
        raise ConfigError(
            f'unknown filter "{name}" in {source}{did_you_mean(name, FILTERS)}', where=where, hint=_filter_list()
        )
    quoted = _QUOTED.fullmatch(argument)
    if argument[:1] in ("'", '"') and not quoted:
        raise ConfigError(f"unclosed quote in {source}", where=where, hint=f"write {name}:'text'")
    value = re.sub(r"\\(.)", _unescape, argument[1:-1]) if quoted else argument
    try:
        return make_filter(name, value if colon else None)
    except ValueError as error:
        raise ConfigError(f"{error} in {source}", where=where, hint=_filter_list()) from error


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def _known(slot: _Slot, names: Collection[str], where: str | None) -> _Slot:
    prefix = slot.name.split(".")[0]
    if slot.name in names or ("." in slot.name and f"{prefix}.*" in names):
        return slot
    listed = ", ".join(sorted(names))
    raise ConfigError(
        f'unknown name "{slot.name}" in template{did_you_mean(slot.name, names)}',
        where=where,
        hint=f"names here: {listed}",
    )


def _line_template(match: re.Match[str], where: str | None) -> str:
    """The inner template of the seed's ``session.map`` form, as the lines filter reads it."""
    line = match["line"]
    if any(name not in ("speaker", "text", "role", "content") for name in _TURN.findall(line)):
        raise _no_code(match[0], where)
    plain = _TURN.sub(lambda found: f"${{{found[1]}}}", line)
    if "${" in _TURN.sub("", line):
        raise _no_code(match[0], where)
    return plain


def _no_code(source: str, where: str | None) -> ConfigError:
    return ConfigError(f"{source} is an expression; templates run no code", where=where, hint=_filter_list())


def _filter_list() -> str:
    return f"write ${{name|filter}}; filters: {', '.join(FILTERS)}"
