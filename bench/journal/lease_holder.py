"""The process that holds the write lock of a journal, and whether this process is alive.

If the lock holder ran on this machine and is dead, the lock is free at once. If it runs on another machine or in
another container, the lock is free when its heartbeat is older than ``STALE_S``.
"""

from __future__ import annotations

import os
import platform
import uuid
from dataclasses import dataclass
from pathlib import Path

STALE_S = 30.0
"""age of a heartbeat in seconds from which its lock is free"""
HEARTBEAT_S = 5.0
"""seconds between two heartbeats"""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_live_tokens: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """A process that writes a journal; ``started`` is its start time in clock ticks since boot (0 = unknown)."""

    pid: int
    host: str
    boot: str
    started: int
    token: str

    @classmethod
    def me(cls) -> LeaseHolder:
        """Return this process as the holder of a lock, with a new random token."""
        pid = os.getpid()
        started = _start_ticks(pid) or 0
        return cls(pid=pid, host=platform.node(), boot=_boot_id(), started=started, token=uuid.uuid4().hex)

    def take(self) -> None:
        """Record in this process that the lock with this token is held."""
        _live_tokens.add(self.token)

    def leave(self) -> None:
        """Record in this process that the lock with this token is no longer held."""
        _live_tokens.discard(self.token)

    def lives(self, *, heartbeat_age_s: float) -> bool:
        """Return True if the process may still be alive, so that it may still write to the journal.

        For a process on another machine, only the age of its last heartbeat counts.
        """
        if self.host != platform.node():
            return heartbeat_age_s < STALE_S
        if self.boot != _boot_id():
            return False
        if self.pid == os.getpid():
            return self.token in _live_tokens
        return _is_running(self.pid, self.started)

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # the command name in parentheses may hold blanks and parentheses itself
    return text.rpartition(")")[2].split()


def _start_ticks(pid: int) -> int | None:
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def _is_running(pid: int, started: int) -> bool:
    fields = _stat_fields(pid)
    if fields is not None:
        return fields[0] not in "ZX" and (started == 0 or int(fields[19]) == started)
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
