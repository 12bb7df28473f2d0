"""Descriptions in JSON Schemas come from the docstrings below the fields, and only when a schema is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench.config.described import Described, docstrings
from bench.config.source import ConfigModel


class Root(ConfigModel):
    plain: int = 0
    """how many"""
    long_name: str = ""
    """what it is called,
    over two lines"""
    silent: bool = False


class Leaf(Root):
    plain: int = 1
    """how many, said anew"""


def test_a_field_carries_the_docstring_below_it_under_its_outer_name() -> None:
    shown = Root.model_json_schema(schema_generator=Described)["properties"]
    assert shown["plain"]["description"] == "how many"
    assert shown["longName"]["description"] == "what it is called,\nover two lines"
    assert "description" not in shown["silent"]


def test_a_model_inherits_descriptions_and_may_give_its_own() -> None:
    assert docstrings(Leaf) == {"plain": "how many, said anew", "long_name": "what it is called,\nover two lines"}


def test_reading_a_config_reads_no_python_source() -> None:
    script = "import sys, bench.config.provider, bench.config.benchmark; print('bench.config.described' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_key_of_a_run_file_and_of_a_benchmark_file_is_described() -> None:
    from bench.cli.schemas import schema_of

    benchmark: Any = schema_of("benchmark")
    for part in [schema_of("run"), benchmark, *benchmark["$defs"].values()]:
        properties: Any = part.get("properties", {})
        assert [name for name, shown in properties.items() if "description" not in shown] == []
