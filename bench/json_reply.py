"""Read a text that must be one JSON object of a given schema. The result is None for any other text.

Example::

    one_object('```json\\n{"correctness": 1}\\n```')          # {"correctness": 1}; None with other text around it
    schema = ReplySchema({"type": "object", "required": ["a"]})    # compiled once, sent as it is
    schema.read('{"a": 1}'), schema.read("{}")                # {"a": 1}, None
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
FENCE = "```"
_TICKED = re.compile(r"[\[(] ?[xX✓✔] ?[\])]|[☑☒✅]")
_UNTICKED = re.compile(r"(?:\[ {0,3}\]|\( {1,3}\)|☐)[^\n\[☐☑☒✅]*")

Check = Callable[[object], bool]

_LAST: list[tuple[str, dict[str, object] | None]] = [("", None)]
"""the text that was parsed last, and its object"""


class RepeatedKey(ValueError):
    """Raised for a JSON object that has a key twice, ignoring case."""


class ReplySchema(dict[str, object]):
    """A JSON Schema that can be sent in requests and can check a reply.

    The check covers type, enum, const, minimum, maximum, properties, required, additionalProperties and items. Types
    are exact: true is not a number.
    """

    accepts: Check

    def __init__(self, schema: Mapping[str, object]) -> None:
        super().__init__(schema)
        self.accepts = _compile_check(self)

    @classmethod
    def of(cls, schema: Mapping[str, object]) -> ReplySchema:
        """Convert a JSON Schema to a ReplySchema. A ReplySchema is returned unchanged."""
        return schema if isinstance(schema, ReplySchema) else cls(schema)

    def requiring(self, *required: str) -> ReplySchema:
        """Return a copy of the schema in which only the keys ``required`` are required."""
        return ReplySchema({**self, "required": list(required)})

    def read(self, text: str) -> dict[str, object] | None:
        """Return the JSON object in the text; None if the object does not match the schema.

        The text must be only this object, with or without a code fence around it.
        """
        tree = one_object(text)
        return tree if tree is not None and self.accepts(tree) else None


def object_schema(**properties: Mapping[str, object]) -> ReplySchema:
    """Return the schema of an object that must have exactly these keys. Each key has its own schema."""
    return ReplySchema(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    )


def one_object(text: str) -> dict[str, object] | None:
    """Return the JSON object that is the whole text, with or without a code fence around it.

    Return None for any other text, and for an object with a repeated key. The last result is cached, so do not change
    the returned object.
    """
    read, tree = _LAST[0]
    if read is not text:
        tree = _parsed(text)
        _LAST[0] = (text, tree)
    return tree


def _parsed(text: str) -> dict[str, object] | None:
    bare = unfenced(text)
    try:
        tree, end = _DECODER.raw_decode(bare)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) and end == len(bare) else None


def unfenced(text: str) -> str:
    """Return the text without white space at both ends, and without a code fence around the whole text."""
    bare = text.strip()
    if bare[:3] != FENCE or not bare.endswith(FENCE) or bare.count(FENCE) != 2:
        return bare
    first, newline, rest = bare[len(FENCE) : -len(FENCE)].partition("\n")
    return rest.strip() if newline and (not first.strip() or first.strip().isalnum()) else bare


def without_unticked(text: str) -> str:
    r"""Return a text without its check boxes and without the labels of boxes that are not ticked.

    If all boxes are ticked, or if no box is ticked, the text is not changed.

    Example::

        without_unticked("[ ] yes\n[x] no")        # "\n no"
    """
    return _TICKED.sub("", _UNTICKED.sub("", text)) if _TICKED.search(text) and _UNTICKED.search(text) else text


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs as a dict. Raise RepeatedKey if two keys are equal, ignoring case."""
    found = dict(pairs)
    if len(set(map(str.lower, found))) != len(pairs):
        raise RepeatedKey("a key occurs twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


def _compile_check(schema: Mapping[str, object]) -> Check:
    """Return a function that checks a value against the schema."""
    types = _types(schema["type"]) if schema.get("type") is not None else None
    low, high = _limit(schema.get("minimum"), -math.inf), _limit(schema.get("maximum"), math.inf)
    lists = list(_allowed_values(schema))
    fields = _check_fields(schema)
    items = schema.get("items")
    element = _compile_check(items) if isinstance(items, Mapping) else None

    def check(value: Any) -> bool:
        kind = type(value)
        if types is not None and kind not in types:
            return False
        if kind is dict:
            if not fields(value):
                return False
        elif kind is list:
            if element is not None and not all(map(element, value)):
                return False
        elif (kind is float or kind is int) and not low <= value <= high:
            return False
        return not lists or all(any(_same(value, one) for one in choices) for choices in lists)

    return check


def _types(wanted: object) -> tuple[type, ...]:
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, (list, tuple)) else []
    return tuple(kind for name in names for kind in TYPES.get(name, ()))


def _limit(given: object, otherwise: float) -> float:
    return given if isinstance(given, int | float) else otherwise


def _allowed_values(schema: Mapping[str, object]) -> Iterator[tuple[object, ...]]:
    if isinstance(enum := schema.get("enum"), list | tuple):
        yield tuple(enum)
    if "const" in schema:
        yield (schema["const"],)


def _check_fields(schema: Mapping[str, object]) -> Check:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    assert isinstance(properties, Mapping) and isinstance(required, list | tuple)
    known, needed = properties.keys(), frozenset(required)
    closed = schema.get("additionalProperties") is False
    checks = [(name, _compile_check(one)) for name, one in properties.items() if isinstance(one, Mapping)]

    def check(value: Any) -> bool:
        for name, fits in checks:
            if name in value and not fits(value[name]):
                return False
        keys = value.keys()
        return needed <= keys and (not closed or keys <= known)

    return check


def _same(value: object, other: object) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)
