"""The live display on a terminal: shared names have no column, and a narrow terminal shows all numbers."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.run_display import bar_text
from tests import forked
from tests.rows import each_row

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_a_terminal(workspace: Path, columns: int, **variables: str) -> str:
    """Return what ``bench run`` of two providers writes to a terminal of that width."""
    parent, child = pty.openpty()
    quiet = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    environment = {**quiet, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40", **variables}
    command = [sys.executable, "-m", "bench", "run", "--providers", "bm25", "no-memory", "--limit", "40"]
    process = forked.Popen(command, cwd=workspace, env=environment, stderr=child, stdout=subprocess.DEVNULL)
    os.close(child)
    written = b""
    while select.select([parent], [], [], 60)[0]:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        written += part
    os.close(parent)
    assert process.wait(60) == 0
    return written.decode(errors="replace")


@pytest.mark.parametrize(("columns", "bars"), [(80, False), (140, True)])
def test_a_narrow_terminal_shows_the_numbers_of_each_phase_without_bars(
    tmp_path: Path, columns: int, bars: bool
) -> None:
    text = ESCAPES.sub("", on_a_terminal(tmp_path, columns))
    assert re.search(r"provider +ingest +search +answer +evaluate +score", text), text
    assert "benchmark  provider" not in text
    assert ("█" in text) is bars
    assert "/80 items" in text


def test_NO_COLOR_leaves_only_codes_that_move_the_cursor(tmp_path: Path) -> None:
    text = on_a_terminal(tmp_path, 100, NO_COLOR="1")
    assert not [code for code in ESCAPES.findall(text) if code.endswith("m")]


@each_row(
    ("done", "total", "cells", "text"),
    [(0, 0, 8, "-"), (1, 2, 8, "████░░░░ 1/2"), (3, 2, 4, "████ 3/2"), (1, 3, 0, "1/3")],
)
def test_bar_text_limits_the_bar_to_its_cells(done: int, total: int, cells: int, text: str) -> None:
    assert bar_text(done, total, cells) == text
