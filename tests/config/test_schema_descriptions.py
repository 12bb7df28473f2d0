"""Descriptions in JSON Schemas are the docstrings below the fields; they are read only for a schema."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from bench.cli.commands.schema import Kind, schema_of
from bench.config.file import ConfigModel, fold_key
from bench.config.json_schema import DescribedJsonSchema, docstrings
from bench.config.model import ModelFile
from tests.rows import each_row


class Root(ConfigModel):
    plain: int = 0
    """how many"""
    long_name: str = ""
    """what it is called,
    over two lines"""
    silent: bool = False


class Leaf(Root):
    plain: int = 1
    """how many, in a leaf"""


def test_a_schema_describes_a_field_by_the_docstring_below_it() -> None:
    shown = Root.model_json_schema(schema_generator=DescribedJsonSchema)["properties"]
    assert shown["plain"]["description"] == "how many"
    assert shown["longName"]["description"] == "what it is called,\nover two lines"
    assert "description" not in shown["silent"]


def test_a_model_inherits_docstrings_and_may_override_them() -> None:
    assert docstrings(Leaf) == {"plain": "how many, in a leaf", "long_name": "what it is called,\nover two lines"}


def test_loading_configs_does_not_import_the_schema_generator() -> None:
    script = (
        "import sys, bench.config.provider.config, bench.config.benchmark.config;"
        "print('bench.config.json_schema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


KINDS: tuple[Kind, ...] = ("benchmark", "manifest", "provider", "run", "receipt")


def properties_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield model, property and description, for the file itself and for every block in it."""
    for model, part in {"": schema, **schema.get("$defs", {})}.items():
        for name, shown in part.get("properties", {}).items():
            yield model, name, shown


@each_row("kind", KINDS)
def test_every_property_of_a_schema_is_described(kind: Kind) -> None:
    found = list(properties_of(schema_of(kind)))
    silent = [(model, name) for model, name, shown in found if "description" not in shown and "const" not in shown]
    assert found and not silent


@each_row("kind", KINDS)
def test_no_description_only_repeats_the_name_of_its_property(kind: Kind) -> None:
    for model, name, shown in properties_of(schema_of(kind)):
        text = shown.get("description", "?")
        assert fold_key(text.replace(" ", "").removeprefix("the")) != fold_key(name), (model, name)
        assert len(text.splitlines()) <= 2, (model, name)


def test_every_key_of_a_model_file_is_described() -> None:
    schema = ModelFile.model_json_schema(schema_generator=DescribedJsonSchema)
    assert [name for _, name, shown in properties_of(schema) if "description" not in shown] == []
