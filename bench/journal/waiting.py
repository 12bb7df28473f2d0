"""Who waits for rows to become durable, and for how many of them.

Example::

    done = waiting.add(acknowledged + pending)      # then: await done.wait()
    waiting.release(acknowledged)                   # after a commit; True while somebody still waits
"""

from __future__ import annotations

from anyio import Event


class Waiting:
    """Waiters by the count of durable rows that they wait for."""

    def __init__(self) -> None:
        self._waiters: list[tuple[int, Event]] = []

    def add(self, count: int) -> Event:
        """Wait for ``count`` durable rows: the event is set once there are as many."""
        done = Event()
        self._waiters.append((count, done))
        return done

    def release(self, acknowledged: int) -> bool:
        """Let go who has what was waited for; True when somebody is left."""
        for count, done in self._waiters:
            if count <= acknowledged:
                done.set()
        self._waiters = [(count, done) for count, done in self._waiters if count > acknowledged]
        return bool(self._waiters)

    def release_all(self) -> None:
        """Let go everybody: nothing will become durable any more."""
        for _, done in self._waiters:
            done.set()
