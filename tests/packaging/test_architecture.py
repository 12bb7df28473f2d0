"""The architecture page matches the import graph."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.sources import nodes

FACES = {"__init__", "__main__", "api"}
"""modules that may import any package"""
Graph = dict[str, set[str]]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def layers(page: str) -> list[str]:
    """Return the lines of the block of layers, top first."""
    (block,) = [block for block in blocks(page) if block.body.startswith("cli\n")]
    return block.body.splitlines()


@pytest.fixture(scope="module")
def imports() -> Graph:
    """Return package -> all its imports: own packages as ``bench.NAME``, libraries by name."""
    graph: Graph = defaultdict(set)
    for path, found in nodes().items():
        room = path.parts[1].removesuffix(".py")
        graph[room] |= set(_imported(found)) - {f"bench.{room}"}
    return dict(graph)


def _imported(module: Iterable[ast.AST]) -> Iterator[str]:
    for node in module:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            yield f"bench.{rest[0]}" if first == "bench" and rest else first


@pytest.mark.parametrize("name", ["architecture.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(name: str, root: Path) -> None:
    named = set(re.findall(r"`(bench/[\w./]+)`", (root / "docs" / name).read_text(encoding="utf-8")))
    assert named, name
    assert {path for path in named if "NAME" not in path and not (root / path).exists()} == set()


def test_the_layers_of_the_page_are_those_that_ci_enforces(layers: list[str], root: Path) -> None:
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    enforced = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert layers == [line.replace("(", "").replace(")", "") for line in enforced]


def test_no_package_imports_a_layer_above_it(layers: list[str], imports: Graph) -> None:
    height = {room: at for at, line in enumerate(layers) for room in re.findall(r"\w+", line)}
    joined = {frozenset(line.split(" : ")) for line in layers if " : " in line}
    for room, names in imports.items():
        for other in (name.removeprefix("bench.") for name in names if name.startswith("bench.")):
            if room not in FACES and other in height:
                down = height[room] < height[other] or frozenset({room, other}) in joined
                assert down, f"{room} imports {other}"


def test_each_package_has_a_row_in_the_page(page: str, layers: list[str], root: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^`]", page, re.M)
    rooms = [room for line in layers for room in re.findall(r"\w+", line)]
    assert sorted(rows) == sorted(rooms)
    found = {
        path.stem for path in (root / "bench").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    beside = {"api", "packs", "lazy_exports", "version"} | {"__init__", "__main__"}
    assert found - beside == set(rooms) - beside


def test_libraries_are_imported_only_in_the_packages_that_the_page_lists(page: str, imports: Graph) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|$", page, re.M)
    assert len(rows) > 5
    for library, rooms in rows:
        users = {room for room, names in imports.items() if library in names}
        assert users == set(re.findall(r"\w+", rooms)), library


@pytest.mark.parametrize(
    ("room", "never"), [("engine", "report"), ("report", "engine"), ("report", "http"), ("metrics", "journal")]
)
def test_imports_that_the_page_excludes_do_not_exist(imports: Graph, room: str, never: str) -> None:
    assert f"bench.{never}" not in imports[room]
