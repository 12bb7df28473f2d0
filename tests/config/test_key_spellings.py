"""Laws over every shipped file: both spellings of a key give the same config, and unknown keys are reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from bench.cli.commands.schema import schema_of
from bench.config.benchmark.config import config_sha256
from bench.config.catalog import Catalog, builtin_root
from bench.config.file import ConfigModel, Source, load, model_at
from bench.config.json_schema import KINDS, json_schema
from bench.config.model import ModelFile
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.config.run import RunRequest
from bench.errors import ConfigError
from tests.rows import each_row

ROOT = builtin_root()
PROVIDERS = sorted(path for path in (ROOT / "configs/providers").glob("*.yaml") if not path.stem.endswith(".compose"))
BENCHMARKS = sorted((ROOT / "configs/benchmarks").glob("*.yaml"))
FOREIGN = frozenset(
    {"headers", "body", "query", "vars", "env", "capture", "multipart", "until", "fail_on", "local", "match"}
)


def snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


def respelt(model: type[ConfigModel], tree: object, path: tuple[str | int, ...] = ()) -> object:
    """Return the tree with the other spelling of each key of a model; keys of an API stay."""
    if isinstance(tree, list):
        return [respelt(model, one, (*path, at)) for at, one in enumerate(tree)]
    if not isinstance(tree, Mapping):
        return tree
    reader = model_at(model, path)
    found: dict[str, object] = {}
    for key, value in tree.items():
        other = snake(key) if any(char.isupper() for char in key) else to_camel(key)
        known = reader is not None and any(key in (name, info.alias) for name, info in reader.model_fields.items())
        unchanged = not known or (
            reader is not None and any(info.alias == "from" == key for info in reader.model_fields.values())
        )
        spelt = key if unchanged else other
        inner = value if snake(key) in FOREIGN else respelt(model, value, (*path, key))
        found[spelt] = inner
    return found


@each_row("path", PROVIDERS)
def test_a_provider_file_is_the_same_in_camelCase_and_snake_case(path: Path) -> None:
    source = Source.read(path)
    other = respelt(ProviderConfig, source.tree)
    assert isinstance(other, dict) and other != source.tree
    again = load_provider(Source(path=path, tree=other))
    assert again.model_dump() == load_provider(source).model_dump()
    assert again.sha256 == load_provider(source).sha256


@each_row("path", BENCHMARKS)
def test_a_benchmark_file_is_the_same_in_camelCase_and_snake_case(path: Path, tmp_path: Path) -> None:
    from ruamel.yaml import YAML

    from bench.config.benchmark.config import BenchmarkFile

    for code in path.parent.glob("*.py"):
        (tmp_path / code.name).write_bytes(code.read_bytes())
    other = tmp_path / path.name
    with other.open("w", encoding="utf-8") as out:
        YAML(typ="safe", pure=True).dump(respelt(BenchmarkFile, Source.read(path).tree), out)
    catalog = Catalog.load(ROOT)
    one, two = catalog.read_benchmark(path), catalog.read_benchmark(other)
    assert config_sha256(one) == config_sha256(two)
    assert one.notes == two.notes


def maps(model: type[ConfigModel], tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every map that a model reads."""
    if isinstance(tree, Mapping):
        if model_at(model, path) is not None:
            yield path
        for key, value in tree.items():
            if snake(key) not in FOREIGN:
                yield from maps(model, value, (*path, key))
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            yield from maps(model, value, (*path, at))


@each_row("name", ["chroma", "zep", "openai-vector-stores", "mem0"])
def test_an_unknown_key_is_reported_in_every_map_of_a_provider_file(name: str) -> None:
    import copy

    path = ROOT / "configs/providers" / f"{name}.yaml"
    source = Source.read(path)
    for place in maps(ProviderConfig, source.tree):
        tree = copy.deepcopy(source.tree)
        node: object = tree
        for part in place:
            node = node[part]  # type: ignore[index]
        assert isinstance(node, dict)
        node["zzUnknown"] = 1
        with pytest.raises(ConfigError) as caught:
            load_provider(Source(path=path, tree=tree))
        assert 'unknown field "zzUnknown"' in str(caught.value), place


# --------------------------------------------------------------------- schemas


def properties(schema: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    definitions = schema.get("$defs", {})
    assert isinstance(definitions, Mapping)
    for block in (schema, *definitions.values()):
        yield from block.get("properties", {}).items()


@pytest.mark.parametrize("kind", KINDS)
def test_each_JSON_schema_declares_draft_2020_12(kind: str) -> None:
    schema = json_schema(kind)  # type: ignore[arg-type]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["type"] == "object"


def test_the_benchmark_schema_has_camelCase_keys() -> None:
    names = {name for name, _ in properties(json_schema("benchmark"))}
    assert {"displayName", "schema", "questionTypes", "localPath", "itemSchema", "defaultLimit", "from"} <= names
    assert not any("_" in name for name in names)


def test_the_manifest_schema_has_snake_case_keys() -> None:
    schema = json_schema("manifest")
    shown = schema["properties"]
    assert isinstance(shown, Mapping)
    assert {"manifest_version", "data_file", "required_capabilities", "id_field"} <= set(shown)


def test_the_schema_requires_the_fields_that_the_model_requires() -> None:
    assert schema_of("provider")["required"] == ["name", "type"]
    required = json_schema("benchmark")["required"]
    assert isinstance(required, list) and set(required) == {"name", "version", "data", "schema", "evaluation"}


@pytest.mark.parametrize(
    ("model", "text"),
    [(ModelFile, "name: m\nzz: 1\n"), (RunRequest, "zz: 1\n"), (ProviderConfig, "name: m\ntype: local\nzz: 1\n")],
)
def test_every_kind_of_file_refuses_unknown_keys(model: type[ConfigModel], text: str) -> None:
    with pytest.raises(ConfigError, match='unknown field "zz"'):
        load(Source.parse(text, Path("m.yaml")), model)
