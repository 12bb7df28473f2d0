"""The Markdown elements of generated pages.

Example::

    table(["key", "meaning"], [[code("k"), "hits asked for"]])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def page(title: str, lead: str, *parts: str) -> str:
    """Return a whole page, with a comment that names its generator."""
    note = "<!-- made by python -m docs.site.generate; do not edit -->"
    return "\n\n".join([note, f"# {title}", lead, *(part for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; in cells, line breaks become spaces and ``|`` is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Return text as code; empty text stays empty."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return a docstring as one Markdown paragraph: double backticks become single ones."""
    return " ".join(text.replace("``", "`").split())


def anchor(heading: str) -> str:
    """Return the id that the site gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")
