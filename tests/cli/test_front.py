"""The front of the command line: global flags, help without imports, two-line errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import app as helptext
from bench.cli import console, global_flags
from bench.errors import UsageError
from bench.visible import visible

HEAVY = ("aiohttp", "anyio", "asyncio", "bench.engine", "distributed", "genai_prices", "jinja2", "nltk", "rich")
PARSERS = ("cyclopts", "pydantic", "ruamel")


def bench(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *arguments], capture_output=True, text=True, cwd=cwd)


def test_global_flags_are_taken_from_anywhere_on_the_line() -> None:
    flags, rest = global_flags.split(
        ["-q", "results", "r1", "--json", "--by", "x", "--log-file=run.log", "--", "--json"]
    )
    assert flags.quiet and flags.json and flags.log_file == Path("run.log")
    assert rest == ["results", "r1", "--by", "x", "--", "--json"]


@pytest.mark.parametrize("line", [["--display", "loud"], ["--workspace"], ["--workspace", "/no/such/folder"]])
def test_a_wrong_global_flag_is_a_usage_error(line: list[str]) -> None:
    with pytest.raises(UsageError):
        global_flags.split(line)


def test_the_stored_help_page_equals_the_table_of_commands(root: Path) -> None:
    assert (root / "bench/cli/help.txt").read_text(encoding="utf-8") == helptext.text()


def test_help_lists_every_exit_code() -> None:
    done = bench("--help")
    assert done.returncode == 0
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130, 143"):
        assert f"\n  {code}" in done.stdout


def test_no_arguments_show_the_help_and_are_a_usage_error() -> None:
    done = bench()
    assert done.returncode == 2
    assert "usage: bench" in done.stdout


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["--help"], [*HEAVY, *PARSERS]),
        (["list"], [*HEAVY, *PARSERS]),
        (["list", "--json"], HEAVY),
        (["--version"], [*HEAVY, *PARSERS]),
    ],
)
def test_looking_around_imports_nothing_heavy(command: list[str], heavy: list[str], root: Path) -> None:
    code = (
        "import sys\nfrom bench.cli import run\n"
        f"code = run({command!r})\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith("[]")


def test_an_unknown_command_is_one_line_what_and_one_line_what_to_do() -> None:
    done = bench("rnu")
    assert done.returncode == 2
    assert done.stdout == ""
    error, hint = done.stderr.strip().splitlines()
    assert error.startswith("error: ") and "rnu" in error
    assert hint.startswith("hint: ")


def test_with_json_an_error_is_an_object_on_stdout() -> None:
    done = bench("run", "--limits", "3", "--json")
    assert done.returncode == 2
    found = json.loads(done.stdout)["error"]
    assert set(found) == {"kind", "message", "hint", "where"}
    assert found["kind"] == "usage" and "--limits" in found["message"]


def test_a_lone_surrogate_still_gives_valid_utf8_json() -> None:
    text = console.dump({"answer": "half \ud83d pair, whole 😀"})
    assert json.loads(text.encode("utf-8"))["answer"] == "half \ud83d pair, whole 😀"


def test_control_characters_are_shown_not_obeyed() -> None:
    assert visible("a\x1b[31mb\u202ec\td") == "a\\x1b[31mb\\u202ec\td"
