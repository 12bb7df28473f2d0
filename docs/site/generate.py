"""Write ``docs/reference``, and the lower parts of the pages in ``docs/benchmarks``, from code and configs::

    python -m docs.site.generate

A test checks that the committed pages are up to date.
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
"""File name -> function that returns the text of the page."""


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
