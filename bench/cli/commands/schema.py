"""``bench schema KIND``: print the JSON Schema of one kind of file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, assert_never

if TYPE_CHECKING:
    from pydantic import BaseModel

    from bench.untyped_values import Json

Kind = Literal["benchmark", "manifest", "provider", "run", "receipt", "event"]
PAIRS = ("set", "rate", "label", "minScore")
SHORT: dict[str, dict[str, Any]] = {"WaitBlock": {"const": "sentinel"}, "MetricChoice": {"type": "string"}}
"""name of a definition -> schema of the short value that a file may have instead of the block"""
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one kind of file."""
    if kind == "event":
        return {"$schema": DRAFT, **_event_schema()}
    if kind == "benchmark" or kind == "manifest":
        from bench.config.json_schema import json_schema

        return json_schema(kind)
    from bench.config.json_schema import DescribedJsonSchema

    schema = _model_class(kind).model_json_schema(by_alias=True, schema_generator=DescribedJsonSchema)
    if kind == "run":
        _add_descriptions(schema)
    return {"$schema": DRAFT, **schema}


def editors_schema(kind: Kind) -> Json:
    """Return a JSON Schema for editors that accepts every form of a file that bench can read.

    Each key can be in camel case or snake case, and a list can be a single entry. ``bench validate`` is stricter.
    """
    schema: dict[str, Any] = schema_of(kind)
    if kind in ("event", "receipt"):  # written by the program, in one way
        return schema
    if kind == "run":
        _allow_flag_syntax(schema["properties"])
        _add_aliases(schema["properties"])
    blocks: dict[str, dict[str, Any]] = schema.get("$defs", {})
    for block in blocks.values():
        if kind == "benchmark":  # a file that extends another one states only what differs
            block.pop("required", None)
        _accept_both_spellings(block)
        if kind == "benchmark":
            _allow_null(block)
    _accept_both_spellings(schema)
    if kind == "benchmark":
        schema["anyOf"] = [{"required": ["extends"]}, {"allOf": schema.pop("allOf")}]
    for name in SHORT.keys() & blocks.keys():
        blocks[name] = {"anyOf": [SHORT[name], blocks[name]]}
    return schema


def _allow_null(block: dict[str, Any]) -> None:
    """Allow null for each key of a block, and for each entry of a mapping.

    In a config that extends another config, null removes a key or an entry of the other config.
    """
    null = {"type": "null"}
    for name, key in block.get("properties", {}).items():
        if isinstance(values := key.get("additionalProperties"), dict):
            key["additionalProperties"] = {"anyOf": [values, null]}
        about = {"description": key["description"]} if "description" in key else {}
        block["properties"][name] = {"anyOf": [key, null], **about}


def _allow_flag_syntax(keys: dict[str, dict[str, Any]]) -> None:
    """In the schema of a run file, allow a text ``NAME=VALUE`` or a list of such texts instead of a mapping.

    This is the syntax of the command line.
    """
    text: dict[str, Any] = {"type": "string"}
    ways = [text, {"type": "array", "items": text}]
    for name in PAIRS:
        keys[name] = {"anyOf": [keys[name], *ways], "description": keys[name].get("description", "")}


def _add_aliases(keys: dict[str, dict[str, Any]]) -> None:
    """Add the alternative names of keys to the schema of a run file."""
    from bench.config.file import keys_of
    from bench.config.run import NO_BREAKER, RunRequest

    for name, info in RunRequest.model_fields.items():
        first, *others = keys_of(name, info)
        for other in others:
            keys[other] = keys[first]
    for name in NO_BREAKER:
        keys[name] = {"type": "boolean", "description": "circuitBreaker: false"}


def _accept_both_spellings(part: dict[str, Any]) -> None:
    keys = {key: _one_or_list(inner) for key, inner in part.get("properties", {}).items()}
    if keys:
        part["properties"] = {name: inner for key, inner in keys.items() for name in _spellings(key)}
    needed = [{"anyOf": [{"required": [name]} for name in _spellings(key)]} for key in part.pop("required", ())]
    if needed:
        part["allOf"] = needed


def _spellings(key: str) -> dict[str, None]:
    from pydantic.alias_generators import to_snake

    return dict.fromkeys((key, to_snake(key)))


def _one_or_list(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows a single entry instead of a list, also for lists in a mapping."""
    if isinstance(schema.get("additionalProperties"), dict):
        return {**schema, "additionalProperties": _one_or_list(schema["additionalProperties"])}
    ways = schema.get("anyOf", [schema])
    single = [way["items"] for way in ways if way.get("type") == "array" and "items" in way]
    about = {name: value for name, value in schema.items() if name in ("title", "description", "default")}
    return {**about, "anyOf": [*ways, *single]} if single else schema


def _add_descriptions(schema: dict[str, Any]) -> None:
    """Copy the description of each flag to the key of a run file that has the same name."""
    from pydantic.alias_generators import to_camel

    from bench.cli.flags import RunFlags
    from bench.config.json_schema import docstrings

    for name, text in docstrings(RunFlags).items():
        shown = schema["properties"].get(to_camel(name.rstrip("_")))
        if shown is not None:
            shown.setdefault("description", text)


def _model_class(kind: Literal["provider", "run", "receipt"]) -> type[BaseModel]:
    match kind:
        case "provider":
            from bench.config.provider.config import ProviderConfig

            return ProviderConfig
        case "run":
            from bench.config.run import RunRequest

            return RunRequest
        case "receipt":
            from bench.receipt.schema import SignedReceipt

            return SignedReceipt
        case _:
            assert_never(kind)


def _event_schema() -> Json:
    """Return the JSON Schema of a line that ``bench run --json`` prints."""
    text, count, number = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["number", "null"]}
    jobs = {"type": "array", "items": {"type": "object"}}
    fields: dict[str, Json] = {
        "launch": {"run_id": text, "started_at": text, "jobs": jobs},
        "progress": {
            "run_id": text,
            "planned": count,
            "ended": count,
            "in_flight": count,
            "oldest_request_s": number,
            "rate_per_s": number,
            "rate_limited": count,
            "cost_usd": text,
            "cost_unknown_calls": count,
            "eta_s": number,
            "elapsed_s": number,
            "index_wait": {"type": ["object", "null"]},
        },
        "stopping": {"reason": text, "in_flight": count},
        "done": {
            "run_id": text,
            "status": text,
            "exit_code": {"type": "integer"},
            "message": text,
            "jobs": jobs,
            "cost_usd": text,
            "cost_unknown_calls": count,
            "resume": {"type": ["string", "null"]},
        },
    }
    lines = [
        {
            "type": "object",
            "properties": {"event": {"const": name}, **inner},
            "required": ["event", *inner],
            "additionalProperties": False,
        }
        for name, inner in fields.items()
    ]
    return {"title": "One line of bench run --json", "oneOf": lines}
