"""Strict fields: what a body may hold, checked the way a service would.

Example::

    check = table(query=text(), top_k=optional(whole(least=1, most=100)), filters=table(user_id=text()))
    list(check({"query": "x", "topk": 3}, ("body",)))
    # [Fault("unknown", ("body", "topk"), 3), Fault("missing", ("body", "filters"), ...)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request."""

    kind: str
    """missing, unknown, type, size, value, json"""
    place: Place
    value: object

    @property
    def name(self) -> str:
        return str(self.place[-1])

    @property
    def message(self) -> str:
        return {
            "missing": "Field required",
            "unknown": "Extra inputs are not permitted",
            "json": "JSON decode error",
            "size": "Input is too large or too small",
        }.get(self.kind, "Input has the wrong type or value")

    @property
    def fastapi(self) -> str:
        words = {"missing": "missing", "unknown": "extra_forbidden", "size": "less_than_equal", "json": "json_invalid"}
        return words.get(self.kind, "value_error")


Check = Callable[[object, Place], Iterator[Fault]]


def text(*choices: str, pattern: str | None = None, most: int | None = None, empty: bool = True) -> Check:
    """Text, of a choice, a form or a length."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield Fault("type", place, value)
        elif (choices and value not in choices) or (pattern and not re.fullmatch(pattern, value)):
            yield Fault("value", place, value)
        elif (most is not None and len(value) > most) or (not empty and not value):
            yield Fault("size", place, value)

    return check


def whole(*, least: int = 1, most: int = 10_000) -> Check:
    """A whole number in a range."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield Fault("type", place, value)
        elif not least <= value <= most:
            yield Fault("size", place, value)

    return check


def of(*kinds: type) -> Check:
    """A value of a JSON type."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, kinds):
            yield Fault("type", place, value)

    return check


def flag() -> Check:
    """True or false."""
    return of(bool)


def vector(size: int | None = None) -> Check:
    """A list of numbers of one length."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, list) or not all(isinstance(part, int | float) for part in value):
            yield Fault("type", place, value)
        elif size is not None and len(value) != size:
            yield Fault("dimension", place, len(value))

    return check


@dataclass(frozen=True, slots=True)
class Optional_:
    """A field that may be absent."""

    check: Check

    def __call__(self, value: object, place: Place) -> Iterator[Fault]:
        return self.check(value, place)


def optional(check: Check) -> Check:
    """A field that may be absent; when it is there it is checked."""
    return Optional_(check)


def table(fields: dict[str, Check] | None = None, /, **more: Check) -> Check:
    """An object with exactly these fields."""
    known = {**(fields or {}), **more}

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault("type", place, value)
            return
        for name, inner in value.items():
            if name in known:
                yield from known[name](inner, (*place, name))
            else:
                yield Fault("unknown", (*place, name), inner)
        for name, field in known.items():
            if name not in value and not isinstance(field, Optional_):
                yield Fault("missing", (*place, name), value)

    return check


def many(each: Check, *, least: int = 0, most: int = 10_000) -> Check:
    """A list."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault("type", place, value)
            return
        if not least <= len(value) <= most:
            yield Fault("size", place, len(value))
        for index, inner in enumerate(value):
            yield from each(inner, (*place, index))

    return check


def mapping(*kinds: type) -> Check:
    """An object with any names and values of these types (any by default): metadata."""

    def check(value: object, place: Place) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault("type", place, value)
            return
        for name, inner in value.items():
            if kinds and not isinstance(inner, kinds):
                yield Fault("type", (*place, name), inner)

    return check


INSTANT = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})"


def instant() -> Check:
    """A date with time and zone."""
    return text(pattern=INSTANT)


UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
