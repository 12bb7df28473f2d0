"""``bench schema KIND``: JSON Schema of each file and stream, made from the models that read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, assert_never

if TYPE_CHECKING:
    from pydantic import BaseModel

Kind = Literal["benchmark", "manifest", "provider", "run", "receipt", "event"]
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: Kind) -> dict[str, object]:
    """The schema of one kind, draft 2020-12."""
    if kind == "event":
        return {"$schema": DRAFT, **_events()}
    if kind == "benchmark" or kind == "manifest":
        from bench.config.schemas import json_schema

        return json_schema(kind)
    from bench.config.described import Described

    schema = _model(kind).model_json_schema(by_alias=True, schema_generator=Described)
    if kind == "run":
        _add_flags(schema)
    return {"$schema": DRAFT, **schema}


def _add_flags(schema: dict[str, Any]) -> None:
    """A key of a run file says what the flag of the same name says."""
    from pydantic.alias_generators import to_camel

    from bench.cli.flags import RunFlags
    from bench.config.described import docstrings

    for name, text in docstrings(RunFlags).items():
        shown = schema["properties"].get(to_camel(name.rstrip("_")))
        if shown is not None:
            shown.setdefault("description", text)


def _model(kind: Literal["provider", "run", "receipt"]) -> type[BaseModel]:
    match kind:
        case "provider":
            from bench.config.provider import ProviderConfig

            return ProviderConfig
        case "run":
            from bench.config.run import RunRequest

            return RunRequest
        case "receipt":
            from bench.receipt.schema import SignedReceipt

            return SignedReceipt
        case _:
            assert_never(kind)


def _events() -> dict[str, object]:
    """The lines of ``bench run --json``."""
    text, count, number = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["number", "null"]}
    jobs = {"type": "array", "items": {"type": "object"}}
    fields: dict[str, dict[str, object]] = {
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
