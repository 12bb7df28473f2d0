"""Writes ``docs/reference``, and the lower parts of ``docs/benchmarks``: made from code and configs, none can drift.

    python -m docs.site.generate

A test keeps the committed pages equal to what this writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.site import (
    benchmarkpage,
    codespage,
    commandpage,
    messagespage,
    metricspage,
    schemapage,
    storagepage,
    variablespage,
)

FOLDER = Path(__file__).resolve().parent.parent / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": commandpage.text,
    "benchmark-config.md": lambda: schemapage.text("benchmark"),
    "manifest.md": lambda: schemapage.text("manifest"),
    "provider-config.md": lambda: schemapage.text("provider"),
    "run-file.md": lambda: schemapage.text("run"),
    "receipt.md": lambda: schemapage.text("receipt"),
    "metrics.md": metricspage.text,
    "journal-and-events.md": storagepage.text,
    "exit-codes.md": codespage.text,
    "messages.md": messagespage.text,
    "environment-variables.md": variablespage.text,
}
"""File name to the function that makes its text."""


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in PAGES.items():
        (FOLDER / name).write_text(text(), encoding="utf-8")
    for name in benchmarkpage.configs():
        (benchmarkpage.FOLDER / f"{name}.md").write_text(benchmarkpage.text(name), encoding="utf-8")
    (benchmarkpage.FOLDER / "index.md").write_text(benchmarkpage.index(), encoding="utf-8")


if __name__ == "__main__":
    main()
