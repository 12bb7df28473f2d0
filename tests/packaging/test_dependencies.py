"""What pyproject asks for is what the package imports: nothing more, nothing less."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from tests.rows import each_row
from tests.sources import nodes

ROOT = Path(__file__).resolve().parents[2]
CALLED = {
    "ruamel.yaml": "ruamel",
    "python-jsonpath": "jsonpath",
    "dask": "dask",
    "mem0ai": "mem0",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "psycopg": "psycopg",
}
"""distributions whose package has another name"""
FROM_OTHERS = {
    "dask",  # what distributed is the scheduler of
    "langgraph",  # the store that langmem writes to, and asks for
    "loguru",  # what fastembed logs with, and asks for
    "markupsafe",  # jinja2's own text type
    "openai",  # the client that mem0ai asks for
    "pydantic_core",  # pydantic's errors, pinned by it to the digit
    "yarl",  # aiohttp's own addresses
}


@cache
def imported() -> frozenset[str]:
    """Top-level packages that some module of bench imports, at its head or inside a function."""
    found = set()
    for module in nodes().values():
        for node in module:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module"
            ):
                found |= {str(one.value).partition(".")[0] for one in node.args if isinstance(one, ast.Constant)}
    return frozenset(found)


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def package_of(requirement: str) -> str:
    name = re.split(r"[\[<>=!~;\s]", requirement, maxsplit=1)[0]
    return CALLED.get(name, name.replace("-", "_"))


@each_row("requirement", project()["dependencies"])
def test_every_dependency_is_imported_somewhere(requirement: str) -> None:
    assert package_of(requirement) in imported(), f"{requirement} earns no place"


def test_everything_that_is_imported_is_asked_for() -> None:
    asked = {package_of(one) for one in project()["dependencies"]}
    for extra in project()["optional-dependencies"].values():
        asked |= {package_of(one) for one in extra}
    foreign = imported() - set(sys.stdlib_module_names) - {"bench"}
    assert foreign - asked - FROM_OTHERS == set()
