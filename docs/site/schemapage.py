"""The pages of config keys and of the receipt, from the JSON Schemas that ``bench schema`` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from bench.cli.commands.schema import schema_of
from docs.site.markdown import anchor, code, page, prose, table

Kind = Literal["benchmark", "manifest", "provider", "run", "receipt"]
Schema = Mapping[str, object]

REQUEST = "RequestSection"
LARGEST = 2**31 - 1
"""The maximum of numbers without a maximum of their own; the pages do not show it."""
ENOUGH = 4
"""Number of equal keys from which a part refers to another one instead of repeating them."""
FORMS: Mapping[str, str] = {
    r"^(?:[0-7][0-9A-HJKMNP-TV-Z]{25})$": "ULID",
    r"^(mean|other|macro:.+)$": "`mean`, `other`, `macro:DIMENSION`",
    r"^\d+/\d+$": "text such as `1/4`",
    r"^[a-z0-9][a-z0-9._-]{0,63}$": "text of 1 to 64 characters",
}
"""Pattern of a text -> its form in words."""
VALUE = "true or false or whole number or number or text"
"""The form of a value that can be anything but a list or map; the pages call it a value."""
LISTS = re.compile(r"\b(text|value)(?: or list of \1(?: or list)?)+\b")
"""A text or value that may also be a list, or a list of lists."""

INTRODUCTIONS: Mapping[Kind, tuple[str, str]] = {
    "benchmark": (
        "Benchmark config (YAML)",
        "The keys of `configs/benchmarks/NAME.yaml`. Keys can be camelCase or snake_case. [Add a "
        "benchmark](../add-a-benchmark.md) shows how to write such a file.",
    ),
    "manifest": (
        "Benchmark manifest (JSON)",
        "The keys of `configs/benchmarks/NAME/manifest.json`. [Add a benchmark](../add-a-benchmark.md) shows how to "
        "write such a file.",
    ),
    "provider": (
        "Provider config (YAML)",
        "The keys of `configs/providers/NAME.yaml`. Keys can be camelCase or snake_case. Keys under `headers`, `body`, "
        "`query` and `vars` belong to the API. [Add a provider](../add-a-provider.md) shows examples.",
    ),
    "run": (
        "Run file (YAML)",
        "The keys of a file for `bench run -c FILE`. A flag overrides the key of the same name.",
    ),
    "receipt": (
        "Receipt (JSON)",
        "The fields of a receipt of schema `bench.receipt/1`. [What a receipt proves](../what-a-receipt-proves.md) "
        "describes what a signature means. Only `memoryCost` and `benchmark.dataset.files` can be missing.",
    ),
}


def text(kind: Kind) -> str:
    """Return the page of one kind of file."""
    title, lead = INTRODUCTIONS[kind]
    schema = schema_of(kind)
    known = _map(schema.get("$defs"))
    shown = f"`bench schema {kind}` prints this list as a JSON Schema, with which editors complete and check files."
    parts = [_keys(schema, kind)]
    described: list[str] = []
    for name in _reached(schema, known):
        if _map(known[name].get("properties")):
            parts += [f"## {_title(name)}", prose(str(known[name].get("description", "")))]
            base = next((one for one in (REQUEST, *described) if _extends(name, one, known)), None)
            parts += _part(known[name], base, known, kind)
            described.append(name)
    return page(title, f"{lead}\n\n{shown}", *parts)


def _common(schema: Schema, other: Schema) -> list[str]:
    """Return the names of the keys that both parts describe in the same way."""
    keys, others = _map(schema.get("properties")), _map(other.get("properties"))
    return [name for name, inner in keys.items() if others.get(name) == inner]


def _extends(name: str, other: str, known: Mapping[str, Schema]) -> bool:
    """Return True when a part has keys of its own next to those of another part, which need no second description."""
    if name in (other, REQUEST) or other not in known:
        return False
    common = len(_common(known[name], known[other]))
    return ENOUGH <= common < len(_map(known[name].get("properties")))


def _part(schema: Schema, base: str | None, known: Mapping[str, Schema], kind: Kind) -> list[str]:
    """Return the table of a part; the keys that another part has too are one line."""
    if base is None:
        return [_keys(schema, kind)]
    common, link = _common(schema, known[base]), f"[{_title(base)}](#{anchor(_title(base))})"
    lead = f"The keys of {link}, and these:"
    if len(common) < len(_map(known[base].get("properties"))):
        lead = f"The keys {', '.join(map(code, common))} are as in {link}. Further keys:"
    own = {name: inner for name, inner in _map(schema.get("properties")).items() if name not in common}
    return [lead, _keys({**schema, "properties": own}, kind)]


def _title(name: str) -> str:
    """Return the name of a part on its page, without the kind of file: ``Score`` for ``ReceiptScore``."""
    return name.removesuffix("Section").removeprefix("Receipt").removeprefix("Manifest")


def _keys(schema: Schema, kind: Kind) -> str:
    """Return the table of the keys; the fields of a receipt have no defaults."""
    needed = _list(schema.get("required"))
    rows = (
        [code(name), _type(inner), _default(inner, name in needed), prose(str(inner.get("description", "")))]
        for name, inner in _map(schema.get("properties")).items()
    )
    if kind == "receipt":
        return table(["field", "value", "meaning"], ([name, value, meaning] for name, value, _, meaning in rows))
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
        if schema.get("default") is not None and {"type": "null"} in choices:
            kinds.append("`null`")
        return LISTS.sub(r"\1 or list", " or ".join(dict.fromkeys(kinds)).replace(VALUE, "value"))
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
            return _text(str(schema["pattern"])) if "pattern" in schema else "text"
    return "anything"


def _text(pattern: str) -> str:
    digits = re.fullmatch(r"\^\(\?:\[0-9a-f\]\{(\d+)\}\)\$", pattern)
    return f"{digits[1]} hex digits" if digits else FORMS.get(pattern, f"text like `{pattern}`")


def _range(schema: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ((sign, schema.get(key)) for key, sign in signs.items())
    shown = [f"{sign} {bound:.16g}" for sign, bound in bounds if isinstance(bound, int | float) and bound != LARGEST]
    return f" ({', '.join(shown)})" if len(shown) > 1 else "".join(f" {one}" for one in shown)


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
