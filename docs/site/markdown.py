"""The few pieces of Markdown that generated pages are made of.

Example::

    table(["key", "meaning"], [[code("k"), "hits asked for"]])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def page(title: str, lead: str, *parts: str) -> str:
    """A whole page; states where it comes from."""
    note = "<!-- made by python -m docs.site.generate; do not edit -->"
    return "\n\n".join([note, f"# {title}", lead, *(part for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold anything but line breaks."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def code(text: str) -> str:
    """Text as code; empty stays empty."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """A docstring as Markdown: its double backticks are single ones there."""
    return " ".join(text.replace("``", "`").split())


def anchor(heading: str) -> str:
    """The id that the site gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")
