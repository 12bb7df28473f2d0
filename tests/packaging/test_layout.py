"""The layout of the code: what lets a reader find a line from the tree alone."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from bench.settings import VARIABLE
from tests.sources import nodes


def test_a_class_name_stands_for_one_class() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, found in nodes().items():
        for node in found:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_python_is_parsed_in_one_place_where_threads_wait_for_each_other() -> None:
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


def test_a_function_is_read_on_one_screen() -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": lines
        for path, found in nodes().items()
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > 60
    }
    assert long == {}


def test_a_room_has_at_most_twenty_modules() -> None:
    sizes = Counter(path.parent for path in nodes() if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > 20} == {}


ROOMS = tuple(f"bench/{room}" for room in ("journal", "plan", "report", "receipt", "web", "cli"))


def test_no_plain_dictionary_is_between_journal_and_page() -> None:
    """A document that code reads has a class; any other JSON object is `bench.scalars.Json`."""
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


def test_no_option_of_an_adapter_takes_a_variable_that_its_file_does_not_mention() -> None:
    """A default in the code would be seen by no plan; a file says it."""
    hidden = [
        f"{path.name}:{node.lineno}"
        for path, found in nodes().items()
        if path.is_relative_to("bench/providers")
        for node in found
        if isinstance(node, ast.AnnAssign) and node.value is not None and VARIABLE.search(ast.unparse(node.value))
    ]
    assert hidden == []


def imported(module: Iterable[ast.AST], names: set[str]) -> Iterator[str]:
    """The modules of the program that one imports, wherever in its text."""
    for node in module:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in names else node.module


def test_no_module_imports_itself_by_way_of_others() -> None:
    """An import in a function or under TYPE_CHECKING counts too: it would only hide the circle."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): found for path, found in nodes().items()}
    graph = {name: set(imported(found, set(modules))) for name, found in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
