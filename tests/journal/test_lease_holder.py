"""``LeaseHolder.lives``: whether the process that holds a run still runs, as far as this machine can know."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.journal import lease_holder as module
from bench.journal.lease_holder import STALE_S, LeaseHolder, _is_running, _start_ticks
from tests.rows import each_row


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another running process."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def named(process: subprocess.Popen[bytes]) -> LeaseHolder:
    return replace(LeaseHolder.me(), pid=process.pid, started=_start_ticks(process.pid) or 0)


def test_every_lease_holder_has_its_own_token() -> None:
    one, two = LeaseHolder.me(), LeaseHolder.me()
    assert one.token != two.token
    assert replace(one, token="") == replace(two, token="")
    assert str(one) == f"pid {os.getpid()} on {one.host}"


def test_a_holder_in_this_process_lives_from_take_to_leave() -> None:
    me = LeaseHolder.me()
    assert not me.lives(heartbeat_age_s=0), "an earlier opening of this process"
    me.take()
    assert me.lives(heartbeat_age_s=10**6)
    me.leave()
    me.leave()
    assert not me.lives(heartbeat_age_s=0)


def test_a_running_process_of_this_machine_lives_with_any_heartbeat_age(other: subprocess.Popen[bytes]) -> None:
    assert named(other).lives(heartbeat_age_s=10**6)
    assert replace(named(other), started=0).lives(heartbeat_age_s=0), "its start is not known"


def test_an_ended_process_is_dead_at_once_even_as_a_zombie(other: subprocess.Popen[bytes]) -> None:
    known = named(other)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not known.lives(heartbeat_age_s=0), "a zombie holds nothing"
    other.wait()
    assert not known.lives(heartbeat_age_s=0)


def test_a_holder_whose_pid_was_reused_is_dead(other: subprocess.Popen[bytes]) -> None:
    known = named(other)
    assert not replace(known, started=known.started - 1).lives(heartbeat_age_s=0)


def test_a_holder_from_an_earlier_boot_is_dead(other: subprocess.Popen[bytes]) -> None:
    assert not replace(named(other), boot="another").lives(heartbeat_age_s=0)


@each_row(("age_s", "lives"), [(0, True), (STALE_S - 0.1, True), (STALE_S, False), (10**6, False)])
def test_a_holder_on_another_machine_lives_until_its_heartbeat_is_stale(age_s: float, lives: bool) -> None:
    assert replace(LeaseHolder.me(), host="elsewhere").lives(heartbeat_age_s=age_s) is lives


def test_the_heartbeat_interval_is_at_most_a_fifth_of_stale_s() -> None:
    assert module.HEARTBEAT_S * 5 <= STALE_S


def test_a_command_name_with_spaces_and_parentheses_does_not_break_the_pid_check(tmp_path: Path) -> None:
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
    """A system without ``/proc`` and without a boot id."""
    monkeypatch.setattr(module, "_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(module, "_stat_fields", lambda pid: None)
    monkeypatch.setattr(module, "Path", lambda name: tmp_path / "absent")


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_process_is_checked_by_a_signal_to_its_pid(
    other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module._boot_id() == ""
    assert _start_ticks(other.pid) is None
    assert _is_running(other.pid, 0)
    other.kill()
    other.wait()
    assert not _is_running(other.pid, 0)

    def permission_denied(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", permission_denied)
    assert _is_running(1, 0), "a process of another user is running"
