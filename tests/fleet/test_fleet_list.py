"""All systems: listed, described, validated, and with evidence for their level."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.provider.file import load_provider
from bench.providers.description import list_entries, list_entry
from tests import forked
from tests.fleet.fleet import CONFIGS, FAKES

LEVELS = {
    "live": {
        "bm25", "vector", "full-context", "oracle", "random", "no-memory", "chroma", "pgvector", "mem0-library",
        "hindsight", "langmem", "aqrag", "contextual-retrieval", "openrouter-rag", "agent-memory-server", "letta",
    },
    "recorded": {"mem0-oss", "graphiti"},
    "documented": {
        "supermemory", "supermemory-v4", "mem0", "zep", "zep-v3", "qdrant", "weaviate", "pinecone",
        "openai-vector-stores", "cognee", "memos", "memobase", "engram",
    },
}  # fmt: skip
"""level -> the systems that claim it"""
CAPTURED = {"mem0-oss", "letta", "graphiti", "agent-memory-server", "hindsight"}
SHIPPED = sorted(path for path in CONFIGS.glob("*.yaml") if not path.name.endswith(".compose.yaml"))


def rows(root: Path) -> dict[str, dict[str, object]]:
    return {str(row["name"]): row for row in list_entries(Catalog.load(root).providers())}


def test_each_system_is_listed_with_its_level(root: Path) -> None:
    found = rows(root)
    for level, names in LEVELS.items():
        for name in names:
            verified = found[name]["verified"]
            assert isinstance(verified, dict) and verified["level"] == level, name
            assert verified["upstream"] and verified["date"]
    assert set(found) == set().union(*LEVELS.values())


def test_first_class_systems_have_the_level_live(root: Path) -> None:
    first = {name for name, row in rows(root).items() if row["first_class"]}
    others = {"langmem", "aqrag", "contextual-retrieval", "openrouter-rag", "agent-memory-server", "letta"}
    assert first == LEVELS["live"] - others


def test_each_recorded_system_has_captures(shared: Path) -> None:
    for name in LEVELS["recorded"] | {"hindsight", "letta", "agent-memory-server"}:
        tree = json.loads(next((shared / "captures" / name).glob("*.json")).read_text(encoding="utf-8"))
        assert name in CAPTURED and tree["origin"] == "recorded"


def test_each_documented_system_has_a_fake() -> None:
    assert LEVELS["documented"] - set(FAKES) == {"engram"}, "it is tested as MCP server"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_config_has_no_warning_and_has_a_description(path: Path) -> None:
    config = load_provider(path)
    assert config.warnings == ()
    assert config.description and config.verified is not None
    assert list_entry(config)["displayName"]


def test_bench_list_providers_lists_all_systems_as_json(tmp_path: Path) -> None:
    done = forked.run(
        [sys.executable, "-m", "bench", "list", "providers", "--json"],
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = {row["name"] for row in json.loads(done.stdout)["providers"]}
    assert set().union(*LEVELS.values()) <= found


@pytest.mark.parametrize(("alias", "name"), [("openai-memory", "openai-vector-stores"), ("LocalBaseline", "bm25")])
def test_aliases_of_a_system_are_found(alias: str, name: str, root: Path) -> None:
    if name == "bm25":
        assert alias in str(rows(root)["bm25"]["aliases"])
    else:
        assert Catalog.load(root).provider(alias).name == name


def test_bench_validate_accepts_all_shipped_configs_without_keys(root: Path) -> None:
    done = forked.run(
        [sys.executable, "-m", "bench", "validate", "configs/providers", "--json"],
        text=True,
        cwd=root,
        env={name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_URL"))},
    )
    output = json.loads(done.stdout)
    assert (done.returncode, output["errors"], output["checked"]) == (0, [], len(SHIPPED))


def test_the_guide_lists_each_system_with_level_and_variables(root: Path) -> None:
    guide = (root / "docs" / "systems.md").read_text(encoding="utf-8")
    lines = {line.split("`")[1]: line for line in guide.splitlines() if line.startswith("| `")}
    for name, row in rows(root).items():
        assert f"`{name}`" in guide, name
        verified, required_variables = row["verified"], row["needs"]
        assert isinstance(verified, dict) and isinstance(required_variables, list)
        if name in lines and " | " in lines[name] and name not in ("aqrag", "contextual-retrieval", "openrouter-rag"):
            assert f"| {verified['level']} |" in lines[name], name
            assert all(variable in lines[name] for variable in required_variables), (name, required_variables)
