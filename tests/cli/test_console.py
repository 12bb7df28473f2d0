"""Printed output: results on stdout, the rest on stderr, escaped control characters, complete numbers."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from bench.cli import console
from bench.cli.global_flags import Globals, current
from bench.errors import UsageError
from bench.visible_text import HIDDEN, visible
from tests.rows import each_row

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("CI", "NO_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    token = current.set(Globals())
    yield
    current.reset(token)


def with_flags(**flags: Any) -> None:
    current.set(replace(Globals(), **flags))


# -------------------------------------------------------------------------- texts


@given(some.text())
def test_visible_text_has_no_control_or_bidirectional_character(text: str) -> None:
    shown = visible(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", shown)
    assert shown.count("\n") == text.count("\n") and shown.count("\t") == text.count("\t")


@given(
    some.text(some.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])).filter(
        lambda text: not HIDDEN.search(text)
    )
)
def test_visible_leaves_ordinary_text_unchanged(text: str) -> None:
    assert visible(text) == text


@each_row(
    ("text", "shown"),
    [
        ("a\rb", "a\\x0db"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2028", "\\u2028"),
    ],
)
def test_visible_escapes_control_characters(text: str, shown: str) -> None:
    assert visible(text) == shown


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, some.sampled_from([None, 2]))
def test_dumped_json_can_be_read_back_from_utf_8(value: object, indent: int | None) -> None:
    text = console.dump(value, indent=indent).encode("utf-8")
    assert json.loads(text) == value


@each_row("value", [float("nan"), float("inf"), {"a": [float("-inf")]}, {"half": "\ud83d", "n": float("nan")}])
def test_dump_rejects_nan_and_infinity(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        console.dump(value)


def test_results_go_to_stdout_and_notes_to_stderr(capsys: Capture) -> None:
    console.line("a\x07")
    console.line()
    console.raw("raw\x07")
    console.json_line({"b": "é"})
    console.json_value({"c": [1]})
    console.note("note\x07")
    out, err = capsys.readouterr()
    assert out == 'a\\x07\n\nraw\x07{"b": "é"}\n{\n  "c": [\n    1\n  ]\n}\n'
    assert err == "note\\x07\n"


def test_quiet_hides_notes_but_not_results_or_errors(capsys: Capture) -> None:
    with_flags(quiet=True)
    console.note("note")
    console.line("result")
    console.error(UsageError("wrong"))
    assert capsys.readouterr() == ("result\n", "error: wrong\nhint: see bench --help\n")


# ---------------------------------------------------------------------- terminals


@pytest.mark.parametrize(
    ("variables", "flags", "terminal", "color"),
    [
        ({}, {}, True, True),
        ({"TERM": "dumb"}, {}, False, False),
        ({"CI": "true"}, {}, False, False),
        ({"NO_COLOR": "1"}, {}, True, False),
        ({"NO_COLOR": ""}, {}, True, True),
        ({}, {"color": False}, True, False),
    ],
)
def test_terminal_and_color_detection_follow_environment_and_flags(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], flags: dict[str, bool], terminal: bool, color: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with_flags(**flags)
    assert console.is_terminal(Terminal()) is terminal
    assert console.has_color(Terminal()) is color
    assert not console.is_terminal(io.StringIO())
    assert not console.has_color(io.StringIO())


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("60", 60), ("nonsense", 100)])
def test_the_table_width_is_COLUMNS_or_100(monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int) -> None:
    monkeypatch.setattr(sys, "__stdout__", io.StringIO())
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert console.width() == width


# ------------------------------------------------------------------------- tables


def test_a_table_prints_title_head_and_rows_with_numbers_right_aligned(capsys: Capture) -> None:
    console.table(("name", "n"), [("a", "1"), ("long name", "100")], title="things", right=(1,))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].strip() == "things"
    assert lines[1].split() == ["name", "n"]
    assert [line.split()[-1] for line in lines[3:]] == ["1", "100"]
    assert len({len(line) for line in lines[3:]}) == 1, "numbers end at one column"


@example(cells=[("\u2e80\u2e80", 0)], width=1)
@given(
    cells=some.lists(some.tuples(some.text(min_size=1, max_size=6), some.integers(0, 10**12)), min_size=1, max_size=4),
    width=some.integers(1, 60),
)
def test_no_number_is_truncated_at_any_terminal_width(cells: list[tuple[str, int]], width: int) -> None:
    written, before = io.StringIO(), sys.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        sys.stdout = written
        try:
            console.table(("x", "n"), [(name, str(number)) for name, number in cells], right=(1,))
        finally:
            sys.stdout = before
    for _, number in cells:
        assert re.search(rf"(?<!\d){number}(?!\d)", written.getvalue())


def test_a_word_longer_than_the_line_is_printed_whole(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "abcdefghijklmnopqrstuvwxyz" * 4
    console.table(("item", "why"), [("q1", text)])
    assert text in capsys.readouterr().out


WIDE = ("item", "sha256", "why", "n")
IDS = [(f"item-{at}", str(at) * 64, "some words that can be wrapped where it helps " * 3, "10") for at in (1, 2)]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_table_fits_the_width_without_splitting_an_identifier_or_word(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    console.table(
        WIDE, IDS, title="a title that is longer than the narrowest screen of those that are tried", right=(3,)
    )
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= max(width, 64 + 10)
    words = out.split()
    for item, digest, why, _ in IDS:
        assert item in words and digest in words
        assert set(why.split()) <= set(words)


def test_a_table_in_a_pipe_prints_one_line_per_row(capsys: Capture) -> None:
    console.table(WIDE, IDS, right=(3,))
    assert any(line.split()[0] == "item-1" and "1" * 64 in line for line in capsys.readouterr().out.splitlines()[2:])


def test_optional_columns_are_dropped_in_their_order_on_narrow_terminals(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, row = ("a", "bbbbbbbbbb", "cccccccccc", "dddddddddd"), ("1", "2", "3", "4")
    shown = []
    for width in (60, 50, 40, 20):
        monkeypatch.setenv("COLUMNS", str(width))
        console.table(head, [row], right=(1, 2, 3), optional=(3, 1))
        out = capsys.readouterr().out
        shown.append("".join(name[0] for name in head if name in out))
    assert shown == ["abcd", "abcd", "abc", "ac"]


def test_markup_and_escape_codes_in_a_cell_are_printed_as_text(capsys: Capture) -> None:
    console.table(("[red]head", "b\x1b"), [("[bold]x[/bold]", "\x1b[31m")], title="[i]t\x07")
    out = capsys.readouterr().out
    for text in ("[red]head", "b\\x1b", "[bold]x[/bold]", "\\x1b[31m", "[i]t\\x07"):
        assert text in out
    assert "\x1b" not in out


def test_a_table_without_rows_prints_its_head(capsys: Capture) -> None:
    console.table(("a", "b"), [])
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()][:1] == [["a", "b"]]


def test_a_table_is_colored_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stdout", stream)
        console.table(("a",), [("1",)], title="t")
        assert ("\x1b[" in stream.getvalue()) is coloured
