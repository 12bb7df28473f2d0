"""One JSON object by a schema, read strictly: a text that is not exactly that object is nothing.

Example::

    one_object('```json\\n{"correctness": 1}\\n```')          # {"correctness": 1}; None with a word around it
    strict_object(text, schema)                             # a mapping that fits, or None
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

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


class RepeatedKey(ValueError):
    """An object holds one key twice, in whatever case."""


def strict_object(text: str, schema: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the one JSON object that a text is, if it fits the schema; one code fence around it is no harm."""
    tree = one_object(text)
    return tree if tree is not None and fits(tree, schema) else None


def one_object(text: str) -> dict[str, object] | None:
    """Return the one JSON object that a text is; None for any other text and for an object with a repeated key."""
    try:
        tree: object = json.loads(unfenced(text), object_pairs_hook=distinct)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def unfenced(text: str) -> str:
    """Return the text inside the one code fence that is all there is, or the text itself."""
    bare = text.strip()
    if not (bare.startswith(FENCE) and bare.endswith(FENCE) and bare.count(FENCE) == 2):
        return bare
    first, newline, rest = bare[len(FENCE) : -len(FENCE)].partition("\n")
    return rest.strip() if newline and (not first.strip() or first.strip().isalnum()) else bare


def ticked(text: str) -> str:
    """Return a text without the lines of its list of boxes that are not ticked; the text itself where none is ticked.

    Example::

        ticked("[ ] yes\\n[x] no")        # "\\n no"
    """
    return _TICKED.sub("", _UNTICKED.sub("", text)) if _TICKED.search(text) and _UNTICKED.search(text) else text


def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs as an object; RepeatedKey for a key that occurs twice."""
    if len({key.lower() for key, _ in pairs}) != len(pairs):
        raise RepeatedKey("a key occurs twice")
    return dict(pairs)


def fits(value: object, schema: object) -> bool:
    """Check the part of JSON Schema that verdicts use: type, enum, const, bounds, properties, required, items."""
    if not isinstance(schema, (dict, Mapping)):
        return True
    wanted = schema.get("type")
    if wanted is not None and not _fits_type(value, wanted):
        return False
    if type(value) in TYPES["number"] and not _fits_bounds(value, schema):
        return False
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if isinstance(value, dict):
        return _fits_properties(value, schema)
    return not isinstance(value, list) or all(fits(each, schema.get("items")) for each in value)


def _fits_type(value: object, wanted: object) -> bool:
    """Types are exact: what ``json`` reads has no other, and true is no number."""
    if isinstance(wanted, str):
        return type(value) in TYPES.get(wanted, ())
    return isinstance(wanted, (list, tuple)) and any(_fits_type(value, name) for name in wanted)


def _fits_bounds(value: object, schema: Mapping[str, object]) -> bool:
    assert isinstance(value, int | float)
    low, high = schema.get("minimum"), schema.get("maximum")
    if value != value or (isinstance(low, int | float) and value < low):
        return False
    return not (isinstance(high, int | float) and value > high)


def _fits_properties(value: Mapping[str, object], schema: Mapping[str, object]) -> bool:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    assert isinstance(properties, Mapping) and isinstance(required, list | tuple)
    if not set(required) <= value.keys():
        return False
    if schema.get("additionalProperties") is False and not value.keys() <= properties.keys():
        return False
    return all(fits(inner, properties.get(key)) for key, inner in value.items())


def _same(value: object, other: object) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)
