"""What the service was asked to run, durable: one small file a run in ``checkpoints/.service``, and the lock.

An order stands from the moment a run is accepted until it ended or somebody paused it, so a service that was killed
knows at its next start what to go on with::

    with Orders.open(workspace) as orders:            # Locked when another service has the workspace
        orders.add(Order(run_id="r1", request={"benchmarks": ["demo"]}))
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.config.filenames import SEGMENT
from bench.errors import Locked
from bench.journal.places import CHECKPOINTS

FOLDER = ".service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run to carry out."""

    run_id: str
    request: Mapping[str, object] | None = None
    """flags of a run that has no journal yet; None = go on with the journal"""
    number: int = 0
    """place in the queue"""


@dataclass(frozen=True, slots=True)
class Orders:
    """The open folder of orders."""

    folder: Path

    @staticmethod
    @contextmanager
    def open(workspace: Path) -> Iterator[Orders]:
        """Hold the workspace for this service; raise Locked when another one has it."""
        folder = workspace / CHECKPOINTS / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(handle, 64).decode("ascii", "replace").strip() or "another process"
                raise Locked(
                    f"the workspace is served by {holder}", where=str(folder), hint="stop that service first"
                ) from error
            os.truncate(handle, 0)
            os.write(handle, f"pid {os.getpid()}\n".encode())
            yield Orders(folder)
        finally:
            os.close(handle)

    def add(self, order: Order) -> Order:
        """Write an order down at the end of the queue; it is durable when this returns."""
        number = max((one.number for one in self.all()), default=0) + 1
        path = self.folder / f"{order.run_id}.json"
        part = path.with_suffix(".part")
        body = json.dumps({"run_id": order.run_id, "request": order.request, "number": number})
        with part.open("w", encoding="utf-8") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        return Order(run_id=order.run_id, request=order.request, number=number)

    def drop(self, run_id: str) -> None:
        """Forget an order."""
        (self.folder / f"{run_id}.json").unlink(missing_ok=True)

    def all(self) -> list[Order]:
        """Every order in the queue's order; a file that is none is passed over."""
        found = []
        for path in self.folder.glob("*.json"):
            with suppress(ValueError, KeyError, TypeError, OSError):
                order = Order(**json.loads(path.read_text(encoding="utf-8")))
                if SEGMENT.fullmatch(order.run_id) and isinstance(order.number, int):
                    found.append(order)
        return sorted(found, key=lambda order: (order.number, order.run_id))
