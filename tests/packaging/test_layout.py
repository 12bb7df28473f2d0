"""The layout of the code: what lets a reader find a line from the tree alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import bench

PACKAGE = Path(bench.__file__).parent


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path.relative_to(PACKAGE.parent): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def test_a_class_name_stands_for_one_class(trees: dict[Path, ast.Module]) -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_function_is_read_on_one_screen(trees: dict[Path, ast.Module]) -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": lines
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > 60
    }
    assert long == {}
