"""Print results on stdout, and everything else on stderr. Only this module prints.

Commands print results with :func:`table`, :func:`json_value` or :func:`line`, and everything else with :func:`note`.
Hidden characters in external text are printed as visible escapes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from bench.cli.global_flags import current
from bench.errors import BenchError, UsageError
from bench.visible_text import visible, visible_json

if TYPE_CHECKING:
    from bench.datasets.rows.reading import ReadingProgress
    from bench.report.tables import Grid

GAP = 3
WORDS = 16
"""Minimum width of a column with texts of several words. Longer texts are wrapped."""


def prepare_streams() -> None:
    """Set stdout and stderr to UTF-8, whatever the locale is. A closed stream is replaced by the null device."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def discard_output() -> None:
    """Redirect stdout and stderr to the null device if they cannot be written.

    So the process can exit without a message of Python.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def dump(value: object, *, indent: int | None = None) -> str:
    """Return ``value`` as JSON text in valid UTF-8, with hidden characters escaped."""
    return visible_json(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))


def require_one_format(flags: Mapping[str, bool]) -> None:
    """Raise UsageError if the user gave more than one flag for an output format.

    ``flags`` maps the name of each such flag except ``--json`` to True if the user gave it.
    """
    formats = [name for name, given in {"--json": current.get().json, **flags}.items() if given]
    if len(formats) > 1:
        raise UsageError(f"{' and '.join(formats)} exclude each other", hint="give one of them")


def json_value(value: object) -> None:
    """Print a value as an indented JSON document on stdout."""
    sys.stdout.write(dump(value, indent=2) + "\n")


def json_line(value: object) -> None:
    """Print a value as one line of JSON on stdout, and flush it, so that a reading program gets it immediately."""
    sys.stdout.write(dump(value) + "\n")
    sys.stdout.flush()


def line(text: str = "") -> None:
    """Print one line of a result on stdout."""
    sys.stdout.write(visible(text) + "\n")


def raw(text: str) -> None:
    """Print a text on stdout unchanged, for example Markdown or CSV that another program reads."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """Print one line on stderr; print nothing if ``-q`` was given."""
    if not current.get().quiet:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()


def error(problem: BenchError) -> None:
    """Print the message and the hint of an error: two lines on stderr, or with ``--json`` one object on stdout."""
    from bench.events import redact

    message, hint = redact(str(problem)), redact(problem.hint)
    if current.get().json:
        where = redact(problem.where) if problem.where else None
        json_line({"error": {"kind": problem.kind, "message": message, "hint": hint, "where": where}})
    else:
        sys.stderr.write(visible(f"error: {message}\nhint: {hint}") + "\n")


def show_reading() -> None:
    """From now on, show the progress when large data files are read.

    On a terminal, one line is updated. Elsewhere, a line is printed per 10%.
    """
    from bench.datasets.rows.reading import progress_sink

    progress_sink.to = None if current.get().quiet else _ReadingLine()


class _ReadingLine:
    def __init__(self) -> None:
        self.shown = ("", -1)

    def __call__(self, reading: ReadingProgress) -> None:
        if is_terminal(sys.stderr):
            sys.stderr.write("\r\x1b[2K" + ("" if reading.done == reading.total else visible(reading.text)))
            sys.stderr.flush()
            return
        tenth = (reading.what, 10 * reading.done // max(reading.total, 1))
        if tenth != self.shown:
            self.shown = tenth
            note(reading.text)


def width() -> int:
    """Return the width of the terminal in columns; 100 without a terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def is_terminal(stream: TextIO) -> bool:
    """Return True if ``stream`` is a terminal that supports escape codes."""
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
    return stream.isatty() and not dumb


def has_color(stream: TextIO) -> bool:
    """Return True if output on ``stream`` may be colored."""
    return is_terminal(stream) and current.get().color and not os.environ.get("NO_COLOR")


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[int] = (),
    optional: Sequence[int] = (),
    breaks: Sequence[int] = (),
) -> None:
    """Print a table on stdout.

    Numbers, identifiers and single words are never cut. If the table is wider than the terminal, the ``optional``
    columns are left out, one after the other. If the table is still too wide, each row is printed as lines of name and
    value, but never in a pipe. ``right`` are the positions of columns with numbers. A line is drawn above each row in
    ``breaks``.
    """
    lines = [tuple(map(visible, row)) for row in rows]
    columns = [_TableColumn.of(at, visible(name), lines, at in right) for at, name in enumerate(head)]
    for at in optional:
        if _least_width(columns) > width():
            columns = [one for one in columns if one.at != at]
    if title is not None:
        wrapped = textwrap.wrap(visible(title), width(), break_long_words=False, break_on_hyphens=False)
        heading = "\n".join(wrapped)
        raw(f"\x1b[1m{heading}\x1b[0m\n" if has_color(sys.stdout) else f"{heading}\n")
    if _least_width(columns) > width() and lines and (is_terminal(sys.stdout) or "COLUMNS" in os.environ):
        raw(_blocks(columns, lines))
    else:
        raw(_page(columns, lines, breaks))


def grids(tables: Iterable[Grid]) -> None:
    """Print tables one below the other, each with its notes."""
    for grid in tables:
        table(grid.head, grid.rows, title=grid.title, right=grid.right, optional=grid.optional, breaks=grid.breaks)
        for text in grid.notes:
            line(f"note: {text}")
        if grid.notes:
            line()


@dataclass(frozen=True, slots=True)
class _TableColumn:
    """A column of a table, with the minimum width at which no word of the column is cut."""

    at: int
    name: str
    number: bool
    least: int

    @classmethod
    def of(cls, at: int, name: str, lines: Sequence[Sequence[str]], number: bool) -> _TableColumn:
        from rich.cells import cell_len

        cells = [name, *(row[at] for row in lines)]
        widest = max(map(cell_len, cells))
        if number or at == 0:
            return cls(at, name, number, widest)
        word = max((cell_len(word) for text in cells for word in text.split()), default=0)
        return cls(at, name, number, max(word, cell_len(name), min(widest, WORDS)))


def _least_width(columns: Sequence[_TableColumn]) -> int:
    return sum(one.least + GAP for one in columns)


def _page(columns: Sequence[_TableColumn], lines: Sequence[Sequence[str]], breaks: Sequence[int]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    color = has_color(sys.stdout)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for one in columns:
        fixed = one.number or one.at == 0 or not any(" " in row[one.at] for row in lines)
        grid.add_column(
            Text(one.name),
            justify="right" if one.number else "left",
            no_wrap=fixed,
            overflow="fold",
            min_width=one.least,
        )
    for place, row in enumerate(lines):
        if place in breaks and place:
            grid.add_section()
        grid.add_row(*(Text(row[one.at]) for one in columns))
    system: Literal["auto"] | None = "auto" if color else None
    page = io.StringIO()
    screen = max(width(), _least_width(columns))
    Console(file=page, width=screen, no_color=not color, color_system=system, force_terminal=color).print(grid)
    return page.getvalue()


def _blocks(columns: Sequence[_TableColumn], lines: Sequence[Sequence[str]]) -> str:
    """Return the rows of a table as text, with one line of name and value per cell. Long texts are wrapped."""
    names = max(len(one.name) for one in columns)
    blocks = []
    for row in lines:
        block = []
        for one in columns:
            if row[one.at].strip():
                start = f" {one.name:<{names}}  "
                block += _wrapped(row[one.at], start)
        blocks.append("\n".join(block))
    return "\n" + "\n\n".join(blocks) + "\n\n"


def _wrapped(text: str, start: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        max(width(), len(start) + WORDS),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def paragraph(text: str) -> None:
    """Print a text on stdout, wrapped between words to the width of the terminal."""
    for part in textwrap.wrap(visible(text), width(), break_long_words=False, break_on_hyphens=False):
        raw(part + "\n")
