"""Start of the command line: global flags, help without imports, errors as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import app as helptext
from bench.cli import console, global_flags

HEAVY = ("aiohttp", "anyio", "asyncio", "bench.engine", "distributed", "genai_prices", "jinja2", "nltk", "rich")
PARSERS = ("cyclopts", "pydantic", "ruamel")


def bench(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *arguments], capture_output=True, text=True, cwd=cwd)


def test_global_flags_are_accepted_anywhere_before_two_dashes() -> None:
    flags, rest = global_flags.split(
        ["-q", "results", "r1", "--json", "--by", "x", "--log-file=run.log", "--", "--json"]
    )
    assert flags.quiet and flags.json and flags.log_file == Path("run.log")
    assert rest == ["results", "r1", "--by", "x", "--", "--json"]


def test_the_stored_help_text_matches_the_table_of_commands(root: Path) -> None:
    assert (root / "bench/cli/help.txt").read_text(encoding="utf-8") == helptext.text()


def test_help_lists_every_exit_code() -> None:
    done = bench("--help")
    assert done.returncode == 0
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130, 143"):
        assert f"\n  {code}" in done.stdout


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["--help"], [*HEAVY, *PARSERS]),
        (["list"], [*HEAVY, *PARSERS]),
        (["list", "--json"], HEAVY),
        (["--version"], [*HEAVY, *PARSERS]),
    ],
)
def test_help_list_and_version_import_no_heavy_module(command: list[str], heavy: list[str], root: Path) -> None:
    code = (
        "import sys\nfrom bench.cli import run\n"
        f"code = run({command!r})\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith("[]")


def test_with_json_a_usage_error_is_one_object_on_stdout() -> None:
    done = bench("run", "--limits", "3", "--json")
    assert done.returncode == 2
    found = json.loads(done.stdout)["error"]
    assert set(found) == {"kind", "message", "hint", "where"}
    assert found["kind"] == "usage" and "--limits" in found["message"]


def test_a_lone_surrogate_is_printed_as_valid_utf_8_json() -> None:
    text = console.dump({"answer": "half \ud83d pair, whole 😀"})
    assert json.loads(text.encode("utf-8"))["answer"] == "half \ud83d pair, whole 😀"
