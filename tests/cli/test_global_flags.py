"""Global flags: accepted at any position, and every other word is left unchanged."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.cli.global_flags import DISPLAYS, SWITCHES, VALUES, Globals, command, current, split
from bench.errors import UsageError
from tests.rows import each_row

OURS = {*SWITCHES, *VALUES, "--"}
WORDS = some.lists(some.text(max_size=8).filter(lambda word: word.partition("=")[0] not in OURS), max_size=6)


@given(words=WORDS, at=some.integers(0, 6), switch=some.sampled_from(sorted(SWITCHES)))
def test_a_switch_is_removed_at_any_position_and_other_words_stay(words: list[str], at: int, switch: str) -> None:
    flags, rest = split([*words[:at], switch, *words[at:]])
    assert rest == words
    assert flags == SWITCHES[switch](Globals()) != Globals()


@given(words=WORDS)
def test_a_line_without_global_flags_is_unchanged(words: list[str]) -> None:
    assert split(words) == (Globals(), words)


@given(before=WORDS, after=some.lists(some.sampled_from(sorted(OURS)), max_size=4))
def test_words_after_two_dashes_belong_to_the_command(before: list[str], after: list[str]) -> None:
    assert split([*before, "--", *after]) == (Globals(), [*before, "--", *after])


@each_row(
    ("word", "expected"),
    [
        ("-q", Globals(quiet=True)),
        ("--quiet", Globals(quiet=True)),
        ("-v", Globals(verbose=True)),
        ("--verbose", Globals(verbose=True)),
        ("--no-color", Globals(color=False)),
        ("--json", Globals(json=True)),
        ("--traceback", Globals(traceback=True)),
        ("--env-file=a.env", Globals(env_file=Path("a.env"))),
        ("--log-file=a=b.log", Globals(log_file=Path("a=b.log"))),
        ("--display=none", Globals(display="none")),
        ("--workspace=/", Globals(workspace=Path("/"))),
    ],
)
def test_each_global_flag_sets_its_own_value(word: str, expected: Globals) -> None:
    assert split([word]) == (expected, [])
    name, equals, value = word.partition("=")
    if equals:
        assert split([name, value]) == (expected, [])


def test_the_last_of_two_equal_flags_applies() -> None:
    flags, _ = split(["--display", "plain", "run", "--display=live"])
    assert flags.display == "live"


def test_the_value_of_a_flag_may_look_like_a_flag() -> None:
    flags, rest = split(["--log-file", "--json", "run"])
    assert (flags.log_file, flags.json, rest) == (Path("--json"), False, ["run"])


@each_row("name", sorted(VALUES))
def test_a_flag_without_its_value_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} needs a value$"):
        split(["run", name])


@each_row("display", DISPLAYS)
def test_each_display_is_accepted(display: str) -> None:
    assert split(["--display", display])[0].display == display


@each_row(
    ("words", "text", "hint"),
    [
        (
            ["--display", ""],
            "--display : expected one of auto, live, plain, json, none",
            "see bench --help",
        ),
        (
            ["--display=Live"],
            "--display Live: expected one of auto, live, plain, json, none",
            "see bench --help",
        ),
        (["--workspace", "/no/such"], "--workspace /no/such: no such folder", "name an existing folder"),
        (["--workspace", __file__], f"--workspace {__file__}: no such folder", "name an existing folder"),
    ],
)
def test_an_invalid_flag_value_is_rejected_with_the_allowed_ones(words: list[str], text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(words)
    assert (str(caught.value), caught.value.hint) == (text, hint)


@each_row(
    ("workspace", "typed"),
    [
        (Path(), "bench results r"),
        (Path("/w"), "bench results r --workspace /w"),
        (Path("my place"), "bench results r --workspace 'my place'"),
        (Path("it's"), "bench results r --workspace 'it'\"'\"'s'"),
    ],
)
def test_a_suggested_command_includes_the_given_workspace(workspace: Path, typed: str) -> None:
    token = current.set(Globals(workspace=workspace))
    try:
        assert command("bench results r") == typed
        assert split(shlex.split(typed))[1] == ["bench", "results", "r"] or not workspace.is_dir()
    except UsageError:
        assert not workspace.is_dir()
    finally:
        current.reset(token)
