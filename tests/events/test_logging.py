"""Where events go: what a terminal shows, what a file keeps, and whose run they belong to."""

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
    """The sinks of one test are no other's."""
    level = logging.getLogger().level
    yield
    events.close()
    logging.getLogger().setLevel(level)


def kept(path: Path) -> list[dict[str, Any]]:
    events.close()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def speak() -> None:
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
def test_a_terminal_shows_as_much_as_was_asked_for(
    capsys: pytest.CaptureFixture[str], flags: dict[str, Any], shown: list[str]
) -> None:
    configure(**flags)
    speak()
    err = capsys.readouterr().err
    assert [name for name in ("a_debug", "a_info", "a_warning", "a_error") if name in err] == shown


@pytest.mark.parametrize(("verbose", "first"), [(False, "a_info"), (True, "a_debug")])
def test_a_file_keeps_info_and_above_whatever_the_terminal_shows(tmp_path: Path, verbose: bool, first: str) -> None:
    configure(quiet=True, verbose=verbose, log_file=tmp_path / "all.log")
    speak()
    assert kept(tmp_path / "all.log")[0]["event"] == first


def test_a_line_of_the_file_is_one_json_object_with_level_name_and_utc_time(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    log().info("said", text="zwei\nZeilen: é 😀", count=3)
    (line,) = kept(tmp_path / "all.log")
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "said", "text": "zwei\nZeilen: é 😀", "count": 3, "level": "info", "logger": "bench"}


def test_other_libraries_speak_through_the_same_file(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with bind(run_id="r"):
        logging.getLogger("aiohttp.client").warning("lost %s", "a socket")
    (line,) = kept(tmp_path / "all.log")
    assert (line["event"], line["logger"], line["level"], line["run_id"]) == (
        "lost a socket", "aiohttp.client", "warning", "r",
    )  # fmt: skip


def test_secrets_are_gone_from_every_depth_of_an_event(tmp_path: Path) -> None:
    redactor.learn("deep-secret-of-a-test")
    configure(log_file=tmp_path / "all.log")
    log().info("x deep-secret-of-a-test", body={"a": ["deep-secret-of-a-test", ("deep-secret-of-a-test", 1)]}, n=7)
    (line,) = kept(tmp_path / "all.log")
    assert line["event"] == "x [redacted]"
    assert line["body"] == {"a": ["[redacted]", ["[redacted]", 1]]}
    assert line["n"] == 7


def test_a_secret_in_an_exception_is_gone_too(tmp_path: Path) -> None:
    redactor.learn("raised-secret-of-a-test")
    configure(quiet=True, log_file=tmp_path / "all.log")
    try:
        raise RuntimeError("raised-secret-of-a-test")
    except RuntimeError as error:
        log().error("failed", exc_info=error)
    (line,) = kept(tmp_path / "all.log")
    assert "RuntimeError: [redacted]" in line["exception"]


def test_a_log_file_in_no_folder_is_a_usage_error_before_anything_is_changed(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    with pytest.raises(UsageError) as told:
        configure(log_file=tmp_path / "no" / "all.log")
    assert str(told.value) == f"--log-file {tmp_path}/no/all.log: no such folder {tmp_path}/no"
    assert told.value.hint == "create the folder first"
    assert logging.getLogger().handlers == before


def test_configuring_again_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "first.log")
    configure(log_file=tmp_path / "second.log")
    log().info("said")
    assert [line["event"] for line in kept(tmp_path / "second.log")] == ["said"]
    assert (tmp_path / "first.log").read_text() == ""


def test_without_configuring_an_event_finds_its_way_to_the_standard_handlers(caplog: pytest.LogCaptureFixture) -> None:
    structlog.reset_defaults()
    with caplog.at_level(logging.INFO):
        log().info("early")
    assert "early" in caplog.text


def test_half_a_surrogate_pair_does_not_break_the_file(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    log().info("said", text="half \ud83d")
    assert kept(tmp_path / "all.log")[0]["text"].startswith("half ")


def test_a_file_is_followed_by_the_next_when_it_is_full(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    (file,) = [one for one in events._handlers if isinstance(one, logging.handlers.RotatingFileHandler)]
    assert (file.maxBytes, file.backupCount) == (20_000_000, 4)
    file.maxBytes = 300
    for number in range(12):
        log().info("said", number=number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.log", *(f"all.log.{one}" for one in range(1, 5))]


def test_a_disk_without_room_loses_the_event_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    return [{key: value for key, value in line.items() if key not in known} for line in kept(path)]


def test_what_is_bound_goes_with_every_event_of_the_block_and_no_other(tmp_path: Path) -> None:
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


def test_an_event_s_own_word_wins_over_what_is_bound(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with bind(item="q1"):
        log().info("said", item="q2")
    assert bound(tmp_path / "all.log") == [{"item": "q2"}]


def test_what_is_bound_is_forgotten_when_the_block_fails(tmp_path: Path) -> None:
    configure(log_file=tmp_path / "all.log")
    with pytest.raises(ZeroDivisionError), bind(item="q1"):
        raise ZeroDivisionError
    log().info("after")
    assert bound(tmp_path / "all.log") == [{}]


def test_tasks_beside_one_another_bind_apart(tmp_path: Path) -> None:
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
    assert all(line["event"] == line["item"] for line in kept(tmp_path / "all.log"))


# ------------------------------------------------------------------------ run_log


def test_a_run_log_holds_what_its_own_run_says_inside_the_block(tmp_path: Path) -> None:
    path = tmp_path / "results" / "r" / "run.log"
    configure(quiet=True)
    with run_log(path, "r"):
        log().info("mine")
        with bind(run_id="other"):
            log().info("theirs")
    log().info("late")
    assert [(line["event"], line["run_id"]) for line in kept(path)] == [("mine", "r")]


def test_a_run_log_is_written_though_nobody_configured_a_thing(tmp_path: Path) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    ours = logging.getLogger(events.NAME)
    before = ours.level
    with run_log(tmp_path / "run.log", "r"):
        log().info("mine")
    assert [line["event"] for line in kept(tmp_path / "run.log")] == ["mine"]
    assert ours.level == before


def test_a_run_log_goes_on_where_it_was(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with run_log(tmp_path / "run.log", "r"):
            log().info(word)
    assert [line["event"] for line in kept(tmp_path / "run.log")] == ["first", "second"]


def test_the_terminal_is_spared_the_traceback_that_the_file_keeps_unless_it_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verbose in (False, True):
        configure(verbose=verbose)
        try:
            raise RuntimeError("boom")
        except RuntimeError as error:
            log().warning("failed", exc_info=error)
        assert ("Traceback" in capsys.readouterr().err) is verbose
