"""``bench schema``: the schema accepts what the config models accept, and describes each key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]
from ruamel.yaml import YAML

from bench.cli.commands.schema import DRAFT, Kind, editors_schema, schema_of
from tests.rows import each_row

Bench = Callable[..., Any]
KINDS: tuple[Kind, ...] = ("benchmark", "manifest", "provider", "run", "receipt", "event")


def read(path: Path) -> Any:
    return json.loads(json.dumps(YAML(typ="safe").load(path.read_text("utf-8")), default=str))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_valid_json_schema(bench: Bench, kind: Kind) -> None:
    shown = json.loads(bench("schema", kind).stdout)
    assert shown["$schema"] == DRAFT
    assert shown == editors_schema(kind)
    Draft202012Validator.check_schema(shown)


def test_each_shipped_config_matches_its_schema(root: Path) -> None:
    kinds: dict[str, Kind] = {"benchmarks": "benchmark", "providers": "provider", "runs": "run"}
    validators = {folder: Draft202012Validator(editors_schema(kind)) for folder, kind in kinds.items()}
    checked = 0
    for kind, validator in validators.items():
        for path in sorted((root / "configs" / kind).glob("*.yaml")):
            if not path.stem.endswith(".compose"):
                validator.validate(read(path))
                checked += 1
    assert checked > 30


@each_row(
    ("kind", "document"),
    [
        ("run", {"benchmark": ["demo"]}),
        ("run", {"limit": 0}),
        ("run", {"max_time": 0}),
        ("run", {"workers": 65}),
        ("run", {"limit": "many"}),
        ("provider", {"name": "x", "endpoint": {}}),
        ("benchmark", {"name": 3}),
        ("manifest", {"manifest_version": "1", "nonsense": 1}),
        ("receipt", {}),
        ("event", {"event": "done"}),
        ("event", {"event": "launch", "run_id": "r", "started_at": "x", "jobs": [], "more": 1}),
    ],
)
def test_the_schema_rejects_an_invalid_document(kind: Kind, document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(editors_schema(kind)).validate(document)


@each_row(
    ("kind", "document"),
    [
        ("run", {"benchmarks": "demo", "providers": ["bm25", "oracle"], "answeringModel": "none"}),
        ("run", {"max_time": "6h", "itemTimeout": 30, "timeout": "90s", "workers": "auto"}),
        ("run", {"set": ["bm25.k=3"], "rate": "p.add=5/s", "label": {"a": "b"}, "min_score": ["mrr=0.5"]}),
        ("run", {"metrics": ["mrr", {"name": "ndcg_at_10", "config": {"gain": "linear"}}]}),
        ("benchmark", {"extends": "demo", "data": {"sha256": None}}),
        ("run", {}),
    ],
)
def test_the_schema_accepts_each_spelling_and_type_that_the_program_accepts(
    kind: Kind, document: dict[str, Any]
) -> None:
    assert list(Draft202012Validator(editors_schema(kind)).iter_errors(document)) == []


def test_the_schema_of_a_benchmark_requires_each_mandatory_key() -> None:
    whole = {"name": "x", "version": "1", "data": {}, "schema": {}, "evaluation": {}}
    errors = Draft202012Validator(editors_schema("benchmark")).iter_errors
    assert not list(errors(whole))
    for key in whole:
        assert list(errors({name: value for name, value in whole.items() if name != key})), key


def test_each_key_of_the_run_schema_has_the_description_of_its_flag() -> None:
    keys = cast("dict[str, dict[str, Any]]", schema_of("run")["properties"])
    assert keys["limit"]["description"] == "at most N items: the first N that the other flags select (default: all)"
    assert [name for name, shown in keys.items() if not shown.get("description")] == []


def test_each_event_of_run_json_matches_the_event_schema(bench: Bench) -> None:
    validator = Draft202012Validator(schema_of("event"))
    lines = [
        json.loads(line)
        for line in bench("run", "--providers", "no-memory", "--limit", "2", "--json").stdout.splitlines()
    ]
    assert {line["event"] for line in lines} == {"launch", "progress", "done"}
    for line in lines:
        validator.validate(line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_each_shell_contains_all_commands(bench: Bench, shell: str) -> None:
    from bench.cli.app import COMMANDS

    text = bench("completion", shell).stdout
    assert all(name in text for name, *_ in COMMANDS)
