"""Logging: the terminal, log files, bound values, run logs."""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog

from bench import events
from bench.errors import UsageError
from bench.events import bind, configure, log, redactor, run_log


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Close the sinks after each test."""
    level = logging.getLogger().level
    yield
    events.close()
    logging.getLogger().setLevel(level)


def read_log(path: Path) -> list[dict[str, Any]]:
    events.close()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def log_each_level() -> None:
    for level in ("debug", "info", "warning", "error"):
        getattr(log(), level)(f"a_{level}")


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ({}, ["a_warning", "a_error"]),
        ({"quiet": True}, ["a_error"]),
        ({"verbose": True}, ["a_debug", "a_info", "a_warning", "a_error"]),
        ({"verbose": True, "quiet": True}, ["a_error"]),
    ],
)
def test_the_terminal_shows_events_by_quiet_and_verbose(
    capsys: pytest.CaptureFixture[str], flags: dict[str, Any], shown: list[str]
) -> None:
    configure(**flags)
    log_each_level()
    err = capsys.readouterr().err
    assert [name for name in ("a_debug", "a_info", "a_warning", "a_error") if name in err] == shown


@pytest.mark.parametrize(("verbose", "first"), [(False, "a_info"), (True, "a_debug")])
def test_the_log_file_contains_info_and_above(tmp_path: Path, verbose: bool, first: str) -> None:
    configure(quiet=True, verbose=verbose, log_file=tmp_path / "all.log")
    log_each_level()
    assert read_log(tmp_path / "all.log")[0]["event"] == first


def test_a_line_of_the_log_file_is_one_JSON_object(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    log().info("noted", text="zwei\nZeilen: é 😀", count=3)
    (line,) = read_log(tmp_path / "all.log")
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "noted", "text": "zwei\nZeilen: é 😀", "count": 3, "level": "info", "logger": "bench"}


def test_other_libraries_log_to_the_same_file(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with bind(run_id="r"):
        logging.getLogger("aiohttp.client").warning("lost %s", "a socket")
    (line,) = read_log(tmp_path / "all.log")
    assert (line["event"], line["logger"], line["level"], line["run_id"]) == (
        "lost a socket", "aiohttp.client", "warning", "r",
    )  # fmt: skip


def test_secrets_are_hidden_at_every_depth_of_an_event(tmp_path: Path) -> None:
    redactor.learn("deep-secret-of-a-test")
    configure(log_file=tmp_path / "all.log")
    log().info("x deep-secret-of-a-test", body={"a": ["deep-secret-of-a-test", ("deep-secret-of-a-test", 1)]}, n=7)
    (line,) = read_log(tmp_path / "all.log")
    assert line["event"] == "x [redacted]"
    assert line["body"] == {"a": ["[redacted]", ["[redacted]", 1]]}
    assert line["n"] == 7


def test_a_secret_in_an_exception_is_hidden(tmp_path: Path) -> None:
    redactor.learn("raised-secret-of-a-test")
    configure(quiet=True, log_file=tmp_path / "all.log")
    try:
        raise RuntimeError("raised-secret-of-a-test")
    except RuntimeError as error:
        log().error("failed", exc_info=error)
    (line,) = read_log(tmp_path / "all.log")
    assert "RuntimeError: [redacted]" in line["exception"]


def test_a_log_file_in_a_missing_folder_is_a_UsageError(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    with pytest.raises(UsageError) as expected:
        configure(log_file=tmp_path / "no" / "all.log")
    assert str(expected.value) == f"--log-file {tmp_path}/no/all.log: no such folder {tmp_path}/no"
    assert expected.value.hint == "create the folder first"
    assert logging.getLogger().handlers == before


def test_configuring_again_replaces_the_log_file(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "first.log")
    configure(log_file=tmp_path / "second.log")
    log().info("noted")
    assert [line["event"] for line in read_log(tmp_path / "second.log")] == ["noted"]
    assert (tmp_path / "first.log").read_text() == ""


def test_without_configure_an_event_uses_the_standard_handlers(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    with caplog.at_level(logging.INFO):
        log().info("early")
    assert "early" in caplog.text


def test_half_of_a_surrogate_pair_can_be_logged(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    log().info("noted", text="half \ud83d")
    assert read_log(tmp_path / "all.log")[0]["text"].startswith("half ")


def test_a_full_log_file_is_rotated(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    (file,) = [one for one in events._handlers if isinstance(one, logging.handlers.RotatingFileHandler)]
    assert (file.maxBytes, file.backupCount) == (20_000_000, 4)
    file.maxBytes = 300
    for number in range(12):
        log().info("noted", number=number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.log", *(f"all.log.{one}" for one in range(1, 5))]


def test_a_full_disk_loses_only_the_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(quiet=True, log_file=tmp_path / "all.log")
    (file,) = [one for one in events._handlers if isinstance(one, logging.handlers.RotatingFileHandler)]
    assert file.stream is not None
    file.stream.close()
    file.stream = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closed below
    log().info("lost")
    assert capsys.readouterr().err == ""
    with contextlib.suppress(OSError):
        file.stream.close()
    file.stream = None


# --------------------------------------------------------------------------- bind


def bound(path: Path) -> list[dict[str, Any]]:
    known = {"event", "level", "logger", "timestamp"}
    return [{key: value for key, value in line.items() if key not in known} for line in read_log(path)]


def test_bound_values_are_part_of_every_event_in_the_block(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    log().info("before")
    with bind(run_id="r", item=None, attempt=2):
        with bind(item="q1", attempt=3):
            log().info("inside")
        log().info("outside")
    log().info("after")
    assert bound(tmp_path / "all.log") == [
        {},
        {"run_id": "r", "item": "q1", "attempt": 3},
        {"run_id": "r", "attempt": 2},
        {},
    ]


def test_a_value_of_the_event_overrides_a_bound_value(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with bind(item="q1"):
        log().info("noted", item="q2")
    assert bound(tmp_path / "all.log") == [{"item": "q2"}]


def test_bound_values_end_if_the_block_fails(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with pytest.raises(ZeroDivisionError), bind(item="q1"):
        raise ZeroDivisionError
    log().info("after")
    assert bound(tmp_path / "all.log") == [{}]


def test_concurrent_tasks_bind_separately(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")

    async def one(name: str) -> None:
        with bind(item=name):
            await anyio.sleep(0)
            log().info(name)

    async def both() -> None:
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(one, name)

    anyio.run(both)
    assert all(line["event"] == line["item"] for line in read_log(tmp_path / "all.log"))


# ------------------------------------------------------------------------ run_log


def test_a_run_log_contains_only_the_events_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "results" / "r" / "run.log"
    configure(quiet=True)
    with run_log(path, "r"):
        log().info("mine")
        with bind(run_id="other"):
            log().info("theirs")
    log().info("late")
    assert [(line["event"], line["run_id"]) for line in read_log(path)] == [("mine", "r")]


def test_a_run_log_is_written_without_configure(tmp_path: Path) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    ours = logging.getLogger(events.NAME)
    before = ours.level
    with run_log(tmp_path / "run.log", "r"):
        log().info("mine")
    assert [line["event"] for line in read_log(tmp_path / "run.log")] == ["mine"]
    assert ours.level == before


def test_a_run_log_is_appended(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with run_log(tmp_path / "run.log", "r"):
            log().info(word)
    assert [line["event"] for line in read_log(tmp_path / "run.log")] == ["first", "second"]


def test_the_terminal_shows_tracebacks_only_with_verbose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verbose in (False, True):
        configure(verbose=verbose)
        try:
            raise RuntimeError("boom")
        except RuntimeError as error:
            log().warning("failed", exc_info=error)
        assert ("Traceback" in capsys.readouterr().err) is verbose
