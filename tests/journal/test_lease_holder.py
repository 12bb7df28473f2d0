"""Who may write: which process still lives, as far as this machine can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.journal import rows as module
from bench.journal.rows import STALE_S, LeaseHolder, _is_running, _start_ticks
from tests.rows import each_row


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that lives."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def named(process: subprocess.Popen[bytes]) -> LeaseHolder:
    return replace(LeaseHolder.me(), pid=process.pid, started=_start_ticks(process.pid) or 0)


def test_every_opening_has_a_token_of_its_own() -> None:
    one, two = LeaseHolder.me(), LeaseHolder.me()
    assert one.token != two.token
    assert replace(one, token="") == replace(two, token="")
    assert str(one) == f"pid {os.getpid()} on {one.host}"


def test_this_process_lives_as_long_as_it_holds() -> None:
    me = LeaseHolder.me()
    assert not me.lives(heartbeat_age_s=0), "an earlier opening of this process"
    me.take()
    assert me.lives(heartbeat_age_s=10**6)
    me.leave()
    me.leave()
    assert not me.lives(heartbeat_age_s=0)


def test_another_process_lives_whatever_its_heartbeat(other: subprocess.Popen[bytes]) -> None:
    assert named(other).lives(heartbeat_age_s=10**6)
    assert replace(named(other), started=0).lives(heartbeat_age_s=0), "its start is not known"


def test_a_process_that_has_ended_is_dead_at_once(other: subprocess.Popen[bytes]) -> None:
    known = named(other)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not known.lives(heartbeat_age_s=0), "a zombie holds nothing"
    other.wait()
    assert not known.lives(heartbeat_age_s=0)


def test_a_pid_that_was_given_away_is_another_process(other: subprocess.Popen[bytes]) -> None:
    known = named(other)
    assert not replace(known, started=known.started - 1).lives(heartbeat_age_s=0)


def test_a_machine_that_was_booted_since_holds_nothing(other: subprocess.Popen[bytes]) -> None:
    assert not replace(named(other), boot="another").lives(heartbeat_age_s=0)


@each_row(("age_s", "lives"), [(0, True), (STALE_S - 0.1, True), (STALE_S, False), (10**6, False)])
def test_a_holder_on_another_machine_lives_by_its_heartbeat(age_s: float, lives: bool) -> None:
    assert replace(LeaseHolder.me(), host="elsewhere").lives(heartbeat_age_s=age_s) is lives


def test_a_heartbeat_fits_several_times_into_what_counts_as_dead() -> None:
    assert module.HEARTBEAT_S * 5 <= STALE_S


def test_a_command_name_with_blanks_and_brackets_is_no_obstacle(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to(sys.executable)
    process = subprocess.Popen([odd, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert _is_running(process.pid, _start_ticks(process.pid) or 0)
        assert not _is_running(process.pid, 1)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system that tells nothing of its processes and was never booted."""
    monkeypatch.setattr(module, "_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(module, "_stat_fields", lambda pid: None)
    monkeypatch.setattr(module, "Path", lambda name: tmp_path / "absent")


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_pid_is_asked(other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._boot_id() == ""
    assert _start_ticks(other.pid) is None
    assert _is_running(other.pid, 0)
    other.kill()
    other.wait()
    assert not _is_running(other.pid, 0)

    def of_somebody_else(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", of_somebody_else)
    assert _is_running(1, 0), "it is there, and is not ours"
