"""The layout of the code: names, sizes and imports."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from bench.settings import VARIABLE
from tests.sources import nodes


def test_class_names_are_unique() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, found in nodes().items():
        for node in found:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_python_source_is_parsed_only_under_the_lock_of_python_tree() -> None:
    calls = [
        ast.unparse(node)
        for found in nodes().values()
        for node in found
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") in ("parse", "literal_eval")
        and ast.unparse(node.func) in ("ast.parse", "ast.literal_eval")
    ]
    raw = [text for text in calls if not text.startswith("ast.literal_eval(python_tree(")]
    assert raw == ["ast.parse(source, mode=mode)"]


def test_no_function_has_more_than_60_lines() -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": lines
        for path, found in nodes().items()
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > 60
    }
    assert long == {}


def test_no_package_has_more_than_20_modules() -> None:
    sizes = Counter(path.parent for path in nodes() if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > 20} == {}


ROOMS = tuple(f"bench/{room}" for room in ("journal", "plan", "report", "receipt", "web", "cli"))


def test_documents_in_code_are_classes_and_not_plain_dictionaries() -> None:
    """A document that code reads has a class; any other JSON object is `bench.untyped_values.Json`."""
    plain = [
        f"{path}:{node.lineno}"
        for path, found in nodes().items()
        if any(path.is_relative_to(room) for room in ROOMS)
        for node in found
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "dict"
        and ast.unparse(node.slice) == "(str, object)"
    ]
    assert plain == []


def test_no_default_of_an_adapter_option_uses_an_environment_variable() -> None:
    """A default in the code would not be part of the plan, so the config file must contain it."""
    hidden = [
        f"{path.name}:{node.lineno}"
        for path, found in nodes().items()
        if path.is_relative_to("bench/providers")
        for node in found
        if isinstance(node, ast.AnnAssign) and node.value is not None and VARIABLE.search(ast.unparse(node.value))
    ]
    assert hidden == []


def imported(module: Iterable[ast.AST], names: set[str]) -> Iterator[str]:
    """Yield the modules of the program that a module imports anywhere in its text."""
    for node in module:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in names else node.module


def test_modules_have_no_import_cycle() -> None:
    """Imports in functions and under TYPE_CHECKING count too, because they would only hide a cycle."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): found for path, found in nodes().items()}
    graph = {name: set(imported(found, set(modules))) for name, found in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
