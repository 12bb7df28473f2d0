"""The dependencies in pyproject.toml are exactly the imported packages."""

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
    "dask",  # distributed is its scheduler
    "langgraph",  # the store of langmem, which requires it
    "loguru",  # the logger of fastembed, which requires it
    "markupsafe",  # the text type of jinja2
    "openai",  # the client of mem0ai, which requires it
    "pydantic_core",  # errors of pydantic, which pins it exactly
    "yarl",  # URLs of aiohttp
}


@cache
def imported() -> frozenset[str]:
    """Return the top-level packages that modules of bench import, also inside functions."""
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
def test_each_dependency_is_imported(requirement: str) -> None:
    assert package_of(requirement) in imported(), f"{requirement} is not imported"


def test_each_imported_package_is_a_dependency() -> None:
    asked = {package_of(one) for one in project()["dependencies"]}
    for extra in project()["optional-dependencies"].values():
        asked |= {package_of(one) for one in extra}
    foreign = imported() - set(sys.stdlib_module_names) - {"bench"}
    assert foreign - asked - FROM_OTHERS == set()
