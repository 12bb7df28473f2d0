"""From arguments to an exit code: each error of a command is two lines, or one JSON object."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import cli
from bench.cli import app, global_flags
from bench.cli import signals as interrupts
from bench.errors import BenchError, CallError, ConfigError, DiskFull, Locked, UsageError, VerificationError
from bench.events import redactor

Raising = Callable[[BaseException], None]


@pytest.fixture(autouse=True)
def restored_process_settings() -> Iterator[None]:
    """Restore what a command line sets for its process."""
    threshold = gc.get_threshold()
    token = global_flags.current.set(global_flags.Globals())
    yield
    global_flags.current.reset(token)
    gc.set_threshold(*threshold)


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Raising:
    """Let each command raise an error."""

    def end_with(error: BaseException) -> None:
        def call(arguments: object) -> int:
            raise error

        monkeypatch.setattr(app, "call", call)

    return end_with


def run_status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["status", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("no such thing", hint="try another"), 2, "error: no such thing\nhint: try another\n"),
        (UsageError("odd"), 2, "error: odd\nhint: show the flags with: bench status --help\n"),
        (
            ConfigError("bad key", where="a.yaml:3:5"),
            2,
            "error: a.yaml:3:5: bad key\nhint: check the file with: bench validate FILE\n",
        ),
        (DiskFull("2 phases are stored"), 3, "error: 2 phases are stored\nhint: make room, then resume the run\n"),
        (CallError("down"), 3, "error: down\nhint: fix the cause, then resume the run\n"),
        (
            Locked("held"),
            6,
            "error: held\nhint: wait until that process has ended, or stop the run with: bench pause RUN_ID\n",
        ),
        (VerificationError("x", "torn"), 5, "error: torn\nhint: do not use this receipt\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "out.csv"),
            3,
            "error: out.csv: No space left on device\n"
            "hint: make room, then repeat the command; continue a run with: bench resume RUN_ID\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "out.csv"),
            2,
            "error: out.csv: Permission denied\nhint: check that the path exists and that you have access to it\n",
        ),
        (OSError("nameless"), 2, "error: nameless\nhint: check that the path exists and that you have access to it\n"),
    ],
)
def test_a_known_error_prints_error_and_hint_and_has_its_exit_code(
    raising: Raising, capsys: pytest.CaptureFixture[str], error: Exception, code: int, text: str
) -> None:
    raising(error)
    assert run_status(capsys) == (code, "", text)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("taken", hint="another"), 2, "error: taken\nhint: another\n"),
        (
            Locked("held"),
            6,
            "error: held\nhint: wait until that process has ended, or stop the run with: bench pause RUN_ID\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "x"),
            2,
            "error: x: Permission denied\nhint: check that the path exists and that you have access to it\n",
        ),
    ],
)
def test_a_single_error_inside_exception_groups_is_reported_as_that_error(
    raising: Raising, capsys: pytest.CaptureFixture[str], error: Exception, code: int, text: str
) -> None:
    raising(ExceptionGroup("outer", [ExceptionGroup("inner", [error])]))
    assert run_status(capsys) == (code, "", text)


def test_several_errors_in_a_group_print_the_traceback_of_each(
    raising: Raising, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(ExceptionGroup("both", [UsageError("one"), ValueError("other")]))
    code, _, err = run_status(capsys)
    assert code == 1
    assert "UsageError: one" in err and "ValueError: other" in err


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ConfigError("bad", where="a:1"),
            {
                "kind": "config",
                "message": "a:1: bad",
                "hint": "check the file with: bench validate FILE",
                "where": "a:1",
            },
        ),
        (UsageError("odd", hint="so"), {"kind": "usage", "message": "odd", "hint": "so", "where": None}),
        (
            PermissionError(errno.EACCES, "Permission denied", "x"),
            {
                "kind": "usage",
                "message": "x: Permission denied",
                "hint": "check that the path exists and that you have access to it",
                "where": None,
            },
        ),
    ],
)
def test_with_json_an_error_is_one_object_on_stdout_and_stderr_is_empty(
    raising: Raising, capsys: pytest.CaptureFixture[str], error: Exception, expected: dict[str, Any]
) -> None:
    raising(error)
    _, out, err = run_status(capsys, "--json")
    assert json.loads(out) == {"error": expected}
    assert err == ""


def test_a_hint_of_the_error_replaces_the_default_hint(raising: Raising, capsys: pytest.CaptureFixture[str]) -> None:
    raising(UsageError("which run?", hint="bench list runs"))
    assert run_status(capsys)[2] == "error: which run?\nhint: bench list runs\n"


def test_an_unexpected_exception_exits_1_with_its_traceback(
    raising: Raising, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(ZeroDivisionError("by zero"))
    code, out, err = run_status(capsys)
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith(
        "error: ZeroDivisionError: by zero\nhint: this is a bug in bench: report it with the lines above\n"
    )


def test_a_plain_BenchError_exits_1_with_its_traceback(raising: Raising, capsys: pytest.CaptureFixture[str]) -> None:
    raising(BenchError("cannot be"))
    code, _, err = run_status(capsys)
    assert code == 1
    assert "Traceback" in err and err.endswith("hint: run again with --traceback and report it\n")


@pytest.mark.parametrize("error", [UsageError("x"), PermissionError(errno.EACCES, "x")])
def test_traceback_shows_the_traceback_of_a_known_error(
    raising: Raising, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    raising(error)
    assert "Traceback" not in run_status(capsys)[2]
    assert run_status(capsys, "--traceback")[2].startswith("Traceback")


def test_secrets_are_redacted_in_messages_and_tracebacks(raising: Raising, capsys: pytest.CaptureFixture[str]) -> None:
    redactor.learn("the-word-of-this-test")
    raising(CallError("401: the-word-of-this-test"))
    _, _, err = run_status(capsys, "--traceback")
    assert "the-word-of-this-test" not in err
    assert "error: 401: [redacted]\n" in err
    raising(RuntimeError("the-word-of-this-test"))
    assert "the-word-of-this-test" not in run_status(capsys)[2]


def test_escape_codes_in_an_error_are_printed_escaped(raising: Raising, capsys: pytest.CaptureFixture[str]) -> None:
    raising(ConfigError("bad \x1b[31mkey"))
    assert run_status(capsys)[2].startswith("error: bad \\x1b[31mkey\n")


def test_a_closed_pipe_exits_141_without_a_message(
    raising: Raising, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    raising(BrokenPipeError())
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.run(["status"]) == 141
        assert str(Path(f"/proc/self/fd/{out.fileno()}").readlink()) == os.devnull, "what is flushed later goes nowhere"
    assert capsys.readouterr().err == ""


def test_a_json_error_into_a_closed_pipe_exits_141(raising: Raising, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(ConfigError("bad key"))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.run(["status", "--json"]) == 141


@pytest.mark.parametrize(
    ("interrupt", "code", "name"), [(KeyboardInterrupt(), 130, "SIGINT"), (interrupts.Terminated(), 143, "SIGTERM")]
)
def test_an_interrupt_reports_signal_stage_and_hint(
    raising: Raising, capsys: pytest.CaptureFixture[str], interrupt: KeyboardInterrupt, code: int, name: str
) -> None:
    interrupts.stage("the report was being written", hint="bench results r")
    raising(interrupt)
    assert run_status(capsys) == (
        code,
        "",
        f"error: the command was stopped by {name}; the report was being written\nhint: bench results r\n",
    )
    assert json.loads(run_status(capsys, "--json")[1])["error"]["kind"] == "interrupted"


def test_sigterm_raises_Terminated_after_listen() -> None:
    interrupts.listen()
    with pytest.raises(interrupts.Terminated):
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_command_without_a_return_value_exits_0(bench: Callable[..., Any]) -> None:
    assert bench("completion", "bash").returncode == 0


def test_help_exits_0_and_no_command_prints_the_help_and_exits_2(bench: Callable[..., Any]) -> None:
    asked, long = bench("--help").stdout, bench("-h").stdout
    assert asked == long == bench(check=2).stdout
    assert asked.splitlines()[2] == "usage: bench COMMAND [flags]        bench COMMAND --help shows a command's flags"


def test_version_prints_one_line_with_number_commit_and_extras(
    bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.version import __version__

    monkeypatch.setenv("MEMORYBENCH_GIT_COMMIT", "3f2a91c0d4")
    (line,) = bench("--version").stdout.splitlines()
    assert line.split()[:2] == ["bench", __version__]
    assert line.startswith(f"bench {__version__} (commit 3f2a91c")
    document = json.loads(bench("version", "--json").stdout)
    assert (document["version"], document["commit"][:7]) == (__version__, "3f2a91c")
    assert "parquet" in line.partition("extras: ")[2], "pyarrow is installed here"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("rnu", 'did you mean "bench run"?'),
        ("result", 'did you mean "bench results"?'),
        ("zzzz", "list the commands with: bench --help"),
    ],
)
def test_an_unknown_command_suggests_the_nearest_one(bench: Callable[..., Any], typed: str, hint: str) -> None:
    done = bench(typed, check=2)
    assert (done.stdout, done.stderr) == ("", f'error: there is no command "{typed}"\nhint: {hint}\n')


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("run", "--limit", "-3"), "--limit", "show the flags with: bench run --help"),
        (("run", "--limit", "1.5"), '--limit: "1.5" is not a whole number', "show the flags with: bench run --help"),
        (("run", "-k", "2.0"), '-k: "2.0" is not a whole number', "show the flags with: bench run --help"),
        (("plan", "--seed", "0x"), '--seed: "0x" is not a whole number', "show the flags with: bench plan --help"),
        (("run", "--metrics"), "--metrics needs a value", "show the flags with: bench run --help"),
        (("run", "--metric"), "--metric needs a value", "show the flags with: bench run --help"),
        (("verify", "x", "--pubkey"), "--pubkey needs a value", "show the flags with: bench verify --help"),
        (("compare", "a", "--provider"), "--provider needs a value", "show the flags with: bench compare --help"),
        (("run", "--max-cost", "much"), 'unable to convert "much" into float', "show the flags with: bench run --help"),
        (("serve", "--port", "3e3"), '"3e3" is not a whole number', "show the flags with: bench serve --help"),
        (("serve", "--max-runs", "0"), "--max-runs 0: expected at least 1", "show the flags with: bench serve --help"),
        (("score", "x", "--benchmark", "demo", "-k", "1.9"), '"1.9" is no', "show the flags with: bench score --help"),
        (("keys", "revoke", "x", "--from-index", "1.2"), '"1.2" is no', "show the flags with: bench keys --help"),
        (("run", "--nonsense"), "--nonsense", "show the flags with: bench run --help"),
        (("merge", "a"), "--into", "show the flags with: bench merge --help"),
        (("fork", "r"), "--from", "show the flags with: bench fork --help"),
        (("schema", "cat"), "cat", "show the flags with: bench schema --help"),
        (("describe",), "name", "show the flags with: bench describe --help"),
        (
            ("--display", "loud", "run"),
            "--display loud: expected one of auto, live, plain, json, none",
            "see bench --help",
        ),
        (("run", "--log-file"), "--log-file needs a value", "see bench --help"),
    ],
)
def test_an_invalid_flag_is_named_with_the_help_that_shows_the_flags(
    bench: Callable[..., Any], arguments: tuple[str, ...], error: str, hint: str
) -> None:
    first, second = bench(*arguments, check=2).stderr.splitlines()
    assert first.startswith("error: ") and error.lower() in first.lower()
    assert second == f"hint: {hint}"


def test_an_invalid_global_flag_is_reported_as_json_with_json(bench: Callable[..., Any]) -> None:
    found = json.loads(bench("run", "--display", "loud", "--json", check=2).stdout)["error"]
    assert (found["kind"], found["where"]) == ("usage", None)


@pytest.mark.parametrize("name", [name for name, *_ in app.COMMANDS if name not in ("log", "keys")])
def test_each_command_has_a_help_page_that_begins_with_its_usage(bench: Callable[..., Any], name: str) -> None:
    page = bench(name, "--help").stdout
    assert page.startswith(f"Usage: bench {name}")
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("name", "inner"), [("log", ("verify", "abandon")), ("keys", ("new", "list", "rotate", "revoke"))]
)
def test_the_help_of_a_command_group_lists_its_subcommands(
    bench: Callable[..., Any], name: str, inner: tuple[str, ...]
) -> None:
    page = bench(name, "--help").stdout
    assert all(one in page for one in inner)


def test_output_is_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.cli import console

    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    console.prepare_streams()
    console.line("日本 \ud83d")
    latin.flush()
    assert latin.buffer.getvalue() == "日本 \\ud83d\n".encode()


def test_run_and_main_stay_functions_after_a_command_was_imported(bench: Callable[..., Any]) -> None:
    bench("plan", "--providers", "no-memory", "--limit", "1")
    assert callable(cli.run) and callable(cli.main), "no module of a command hides them"
