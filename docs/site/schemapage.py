"""The pages of config keys and of the receipt, from the JSON Schemas that ``bench schema`` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from bench.cli.commands.schema import schema_of
from docs.site.markdown import anchor, code, page, prose, table

Kind = Literal["benchmark", "manifest", "provider", "run", "receipt"]
Schema = Mapping[str, object]

REQUEST = "RequestSection"
LARGEST = 2**31 - 1
"""The maximum of numbers without a maximum of their own; the pages do not show it."""
VALUE = "true or false or whole number or number or text"
"""The form of a value that can be anything but a list or map; the pages call it a value."""

INTRODUCTIONS: Mapping[Kind, tuple[str, str]] = {
    "benchmark": (
        "Benchmark config (YAML)",
        "Every key of `configs/benchmarks/NAME.yaml`. Keys may be camelCase or snake_case. To write one, see "
        "[Add a benchmark](../add-a-benchmark.md).",
    ),
    "manifest": (
        "Benchmark manifest (JSON)",
        "Every key of `configs/benchmarks/NAME/manifest.json`. To write one, see "
        "[Add a benchmark](../add-a-benchmark.md).",
    ),
    "provider": (
        "Provider config (YAML)",
        "Every key of `configs/providers/NAME.yaml`. Keys may be camelCase or snake_case. Keys under `headers`, "
        "`body`, `query` and `vars` belong to the API. For examples, see [Add a provider](../add-a-provider.md).",
    ),
    "run": (
        "Run file (YAML)",
        "Every key of a file for `bench run -c FILE`. A flag overrides the key of the same name.",
    ),
    "receipt": (
        "Receipt (JSON)",
        "Every field of a receipt of schema `bench.receipt/1`. For its meaning, see "
        "[What a receipt proves](../what-a-receipt-proves.md).",
    ),
}


def text(kind: Kind) -> str:
    """Return the page of one kind of file."""
    title, lead = INTRODUCTIONS[kind]
    schema = schema_of(kind)
    known = _map(schema.get("$defs"))
    shown = f"`bench schema {kind}` prints the same keys as a JSON Schema. Editors complete and check files with it."
    parts = [_keys(schema)]
    for name in _reached(schema, known):
        if _map(known[name].get("properties")):
            parts += [f"## {_title(name)}", prose(str(known[name].get("description", "")))]
            parts += _part(known[name], known.get(REQUEST, {}) if name != REQUEST else {})
    return page(title, f"{lead}\n\n{shown}", *parts)


def _part(schema: Schema, shared: Schema) -> list[str]:
    """Return the table of a part; the keys that it shares with a request are one line."""
    common = _map(shared.get("properties"))
    if not common or any(_map(schema.get("properties")).get(name) != inner for name, inner in common.items()):
        return [_keys(schema)]
    own = {name: inner for name, inner in _map(schema.get("properties")).items() if name not in common}
    if not own:
        return ["The keys are those of [Request](#request)."]
    return ["The keys are those of [Request](#request) and these:", _keys({**schema, "properties": own})]


def _title(name: str) -> str:
    """Return the name of a part on its page, without the kind of file: ``Score`` for ``ReceiptScore``."""
    return name.removesuffix("Section").removeprefix("Receipt").removeprefix("Manifest")


def _keys(schema: Schema) -> str:
    needed = _list(schema.get("required"))
    rows = (
        [code(name), _type(inner), _default(inner, name in needed), prose(str(inner.get("description", "")))]
        for name, inner in _map(schema.get("properties")).items()
    )
    return table(["key", "value", "default", "meaning"], rows)


def _reached(schema: Schema, known: Mapping[str, Schema]) -> list[str]:
    """Return the names of the parts, in the order in which the page refers to them."""
    found: list[str] = []
    for name in _references(schema.get("properties")):
        for one in (name, *_reached(known[name], known)):
            if one not in found:
                found.append(one)
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield str(value["$ref"]).rpartition("/")[2]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = _title(str(schema["$ref"]).rpartition("/")[2])
        return f"[{name}](#{anchor(name)})" if name != "Phase" else "phase"
    choices = _list(schema.get("anyOf")) or _list(schema.get("oneOf"))
    if choices:
        kinds = [_type(one) for one in choices if isinstance(one, Mapping) and one.get("type") != "null"]
        return (
            " or ".join(dict.fromkeys(kinds)).replace(VALUE, "value").replace("value or list of value", "value or list")
        )
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in _list(schema["enum"]))
    return _plain(schema)


def _plain(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            inner = schema.get("items")
            return f"list of {_type(inner)}" if isinstance(inner, Mapping) and inner else "list"
        case "object":
            inner = schema.get("additionalProperties")
            return f"map to {_type(inner)}" if isinstance(inner, Mapping) else "map"
        case "integer":
            return f"whole number{_range(schema)}"
        case "number":
            return f"number{_range(schema)}"
        case "boolean":
            return "true or false"
        case "string":
            return "text" if "pattern" not in schema else f"text like `{schema['pattern']}`"
    return "anything"


def _range(schema: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ((sign, schema.get(key)) for key, sign in signs.items())
    return "".join(
        f" {sign} {bound:.16g}" for sign, bound in bounds if isinstance(bound, int | float) and bound != LARGEST
    )


def _default(schema: Schema, needed: bool) -> str:
    if needed:
        return "required"
    default = schema.get("default")
    if default in (None, [], {}) or isinstance(default, Mapping):
        return ""
    return code(json.dumps(default, ensure_ascii=False))


def _map(value: object) -> Mapping[str, Schema]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
