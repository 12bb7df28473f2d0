"""The one place that prints: results on stdout, everything else on stderr.

Commands call :func:`table`, :func:`json_value` or :func:`line` for results and :func:`note` for the rest, and
never touch ``print`` or ``sys`` themselves. Hidden characters of text from outside are shown.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TextIO

from bench.cli.global_flags import current
from bench.errors import BenchError, UsageError
from bench.visible import in_json, visible

GAP = 3
WORDS = 16
"""The least a column of words is given before its lines are wrapped."""


def prepare_streams() -> None:
    """Make stdout and stderr UTF-8 whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def dump(value: object, *, indent: int | None = None) -> str:
    """JSON text of ``value`` that is valid UTF-8 and holds no hidden character as it is."""
    return in_json(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))


def one_form(flags: Mapping[str, bool]) -> None:
    """Refuse two forms of one output; ``--json`` is one more beside those that are given."""
    asked = [name for name, given in {"--json": current.get().json, **flags}.items() if given]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other", hint="give one of them")


def json_value(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(dump(value, indent=2) + "\n")


def json_line(value: object) -> None:
    """Print one JSON line on stdout and flush it: an event stream is read while it grows."""
    sys.stdout.write(dump(value) + "\n")
    sys.stdout.flush()


def line(text: str = "") -> None:
    """Print one line of a result on stdout."""
    sys.stdout.write(visible(text) + "\n")


def raw(text: str) -> None:
    """Print text on stdout as it is: a document a tool will read (markdown, csv)."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """Print one line on stderr unless ``-q``."""
    if not current.get().quiet:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()


def error(problem: BenchError) -> None:
    """Say what went wrong and what to do: two lines on stderr, or one JSON object on stdout."""
    from bench.events import redact

    message, hint = redact(str(problem)), redact(problem.hint)
    if current.get().json:
        where = redact(problem.where) if problem.where else None
        json_line({"error": {"kind": problem.kind, "message": message, "hint": hint, "where": where}})
    else:
        sys.stderr.write(visible(f"error: {message}\nhint: {hint}") + "\n")


def width() -> int:
    """Columns to lay a table out for: the terminal's, or 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def is_terminal(stream: TextIO) -> bool:
    """Say whether escape codes are welcome on ``stream``."""
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
    return stream.isatty() and not dumb


def has_color(stream: TextIO) -> bool:
    """Say whether ``stream`` may be coloured."""
    return is_terminal(stream) and current.get().color and not os.environ.get("NO_COLOR")


def is_identifier(cell: str) -> bool:
    """Say whether a cell is one long word: half of it names nothing."""
    return len(cell) > WORDS and not re.search(r"\s", cell)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, right: Sequence[int] = ()
) -> None:
    """Print a table on stdout; ``right`` names the columns that hold numbers.

    A table too wide for the terminal is printed whole: the terminal wraps a number, it never cuts one. An identifier (a
    fingerprint, a digest, a path: a long text without spaces) is never folded. On a terminal that is too narrow for
    it, it ends in an ellipsis; elsewhere, where it may be copied from, it is whole.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    color = has_color(sys.stdout)
    head, lines = [visible(name) for name in head], [tuple(map(visible, row)) for row in rows]
    named = None if title is None else Text(visible(title))
    grid = Table(box=box.SIMPLE_HEAD, title=named, title_justify="left", pad_edge=False, title_style="bold")
    least = 0
    for index, name in enumerate(head):
        cells = [row[index] for row in lines]
        named_by = index not in right and index != 0 and any(map(is_identifier, cells))
        fixed = index in right or index == 0 or (named_by and not is_terminal(sys.stdout))
        grid.add_column(
            Text(name),
            justify="right" if index in right else "left",
            no_wrap=fixed or named_by,
            overflow="ellipsis" if named_by and not fixed else "fold",
        )
        widest = max(cell_len(name), *map(cell_len, cells), 0)
        least += (widest if fixed else min(widest, WORDS)) + GAP
    for row in lines:
        grid.add_row(*map(Text, row))
    system: Literal["auto"] | None = "auto" if color else None
    page = io.StringIO()
    screen = max(width(), least)
    Console(file=page, width=screen, no_color=not color, color_system=system, force_terminal=color).print(grid)
    raw(page.getvalue())
