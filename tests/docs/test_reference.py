"""The reference pages are generated from the code and complete."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from bench.cli.app import COMMANDS
from bench.config.catalog import Catalog, builtin_root
from bench.metrics import catalog
from docs.site import benchmarkpage, generate
from tests.rows import each_row


@cache
def made(name: str) -> str:
    return generate.PAGES[name]()


@pytest.mark.parametrize("name", generate.PAGES)
def test_each_committed_reference_page_equals_the_generated_one(name: str) -> None:
    written = (generate.FOLDER / name).read_text(encoding="utf-8")
    assert written == made(name), "run: python -m docs.site.generate"


def test_no_reference_page_is_written_by_hand() -> None:
    assert {path.name for path in generate.FOLDER.iterdir()} == set(generate.PAGES)


@each_row("command", [name for name, *_ in COMMANDS])
def test_each_command_has_a_section(command: str) -> None:
    assert re.search(rf"^### bench {command}\b", made("cli.md"), re.M)


def test_each_metric_is_in_the_reference() -> None:
    page = made("metrics.md")
    assert [info.name for info in catalog() if f"`{info.name}`" not in page] == []


def test_error_messages_are_listed_with_hint_and_values_of_constants() -> None:
    page = made("messages.md")
    assert "| the YAML aliases expand to more than 10000 nodes | write the values out, without aliases |" in page
    assert "| limit={text} is not valid: expected 1 to 500 | remove the limit (default: 50) |" in page
    assert "| write ${{name}\\|default:''} |" in page


def test_each_environment_variable_of_the_code_is_documented(root: Path) -> None:
    page = made("environment-variables.md")
    for path in (root / "bench").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        read = re.findall(r"MEMORYBENCH_[A-Z_]+\b", source)
        read += re.findall(r'environ(?:ment)?(?:\.get)?[\[(]"([A-Z][A-Z_]+)"', source)
        missing = {name for name in read if f"`{name}`" not in page and name not in ("PATH", "MEMORYBENCH_")}
        assert not missing, path


@each_row("name", sorted({path.stem for path in benchmarkpage.FOLDER.glob("*.md")} - {"index"}))
def test_each_benchmark_page_has_the_generated_config_and_its_written_sections(name: str) -> None:
    written = (benchmarkpage.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert written == benchmarkpage.text(name), "run: python -m docs.site.generate"
    by_hand = written.partition(benchmarkpage.MARK)[0]
    assert [line for line in by_hand.splitlines() if line.startswith("## ")] == [
        "## What it measures", "## Pitfalls", "## Why the numbers here differ",
    ]  # fmt: skip
    for config in benchmarkpage.configs()[name]:
        assert f"## {config.name}\n" in written
        assert config.published.differs or config.extends, "what is computed here instead"


def test_each_public_benchmark_has_a_page_and_vice_versa() -> None:
    pages = {path.stem for path in benchmarkpage.FOLDER.glob("*.md")} - {"index"}
    assert pages == set(benchmarkpage.configs())
    assert (benchmarkpage.FOLDER / "index.md").read_text(encoding="utf-8") == benchmarkpage.index()
    ours = {"demo", "demo-deletion", "rag-template", "legal-rag", "financial-rag", "code-rag"}
    catalog = Catalog.load(builtin_root())
    named = {config.name for several in benchmarkpage.configs().values() for config in several}
    assert named | ours == {entry.name for entry in catalog.benchmarks()}


def test_bench_list_names_the_page_of_each_benchmark(root: Path) -> None:
    from bench.cli.commands.list import benchmarks

    pages = {row["name"]: row["docs"] for row in benchmarks(root)}
    for name, several in benchmarkpage.configs().items():
        assert {pages[config.name] for config in several} == {f"docs/benchmarks/{name}.md"}
    assert pages["demo"] is None
