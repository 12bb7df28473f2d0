"""JSON by schema from a judge: strict reading, one repair request, then the text as it is.

Example::

    judge = SchemaJudge(model)
    completion = await judge.ask(prompt)                       # prompt.json_schema says what is wanted
    verdict = strict_object(completion.text, prompt.json_schema)   # a mapping, or None: the item is unscored

Nothing is guessed from keywords: a text that is not exactly one object of the schema is no verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from bench.model import ChatMessage, Completion, Model, Prompt
from bench.models.chat import joined

FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
REPAIR = (
    "That is not one JSON object that fits the schema. Reply again with that JSON object only, "
    "no other text, no code fence. The schema:\n"
)
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


class SchemaJudge:
    """A model as a judge: what it says is repaired once when it does not fit the prompt's schema."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def ask(self, prompt: Prompt) -> Completion:
        """Give the model's answer, the repaired one if there had to be one, with what both cost."""
        answer = await self._model.complete(prompt)
        schema = prompt.json_schema
        if schema is None or answer.finish in ("length", "refusal") or strict_object(answer.text, schema) is not None:
            return answer
        return joined(answer, await self._model.complete(_repair(prompt, answer, schema)))


def strict_object(text: str, schema: Mapping[str, object]) -> Mapping[str, object] | None:
    """Read exactly one JSON object that fits the schema; one code fence around it is no harm."""
    fenced = FENCE.match(text)
    try:
        tree: object = json.loads(fenced.group(1) if fenced else text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) and fits(tree, schema) else None


def fits(value: object, schema: object) -> bool:
    """Check the part of JSON Schema that verdicts use: type, enum, const, bounds, properties, required, items."""
    if not isinstance(schema, (dict, Mapping)):
        return True
    if not _fits_type(value, schema.get("type")) or not _fits_bounds(value, schema):
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
    return wanted is None or (isinstance(wanted, (list, tuple)) and any(_fits_type(value, name) for name in wanted))


def _fits_bounds(value: object, schema: Mapping[str, object]) -> bool:
    if type(value) not in TYPES["number"]:
        return True
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


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key occurs twice")
    return tree


def _repair(prompt: Prompt, answer: Completion, schema: Mapping[str, object]) -> Prompt:
    said = ChatMessage(role="assistant", content=answer.text or "(nothing)")
    request = ChatMessage(role="user", content=REPAIR + json.dumps(schema, ensure_ascii=False, sort_keys=True))
    return replace(prompt, messages=(*prompt.messages, said, request))
