"""Batches of a run in its journal: batches to be sent, batches that were sent, and whether any batch is open.

Example::

    log = JournaledBatches(live)
    await log.intend(record)            # durable before the upload
    records = await open_batches(live)  # of earlier processes, in order

A process that ends with nothing in flight settles all batches before: what fails then is sent again by ``retry``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import anyio

from bench.journal import Event, Reader

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from bench.engine.run_context import Live
    from bench.models.batch import BatchRecord, BatchSender

INTENDED, SENT, SETTLED = "batch_intended", "batch_sent", "batches_settled"
WAITING_ITEMS = 2_000
"""items of a lane that may wait for a batch at once"""


@dataclass(frozen=True, slots=True)
class JournaledBatches:
    """The journaled batches of one run, and the senders that send them."""

    live: Live
    senders: list[BatchSender] = field(default_factory=list)

    async def start(self, tasks: TaskGroup) -> None:
        """Let every sender begin, with what an earlier process of the run has sent."""
        records = await open_batches(self.live) if self.senders else []
        for sender in self.senders:
            sender.start(tasks, [one for one in records if one.endpoint == sender.endpoint.name])

    def settle(self) -> None:
        """Note that no call waits for any batch."""
        if self.senders:
            self.live.journal.append(Event(kind=SETTLED))

    async def intend(self, record: BatchRecord) -> None:
        data = {"key": record.key, "calls": list(record.calls)}
        self.live.journal.append(Event(kind=INTENDED, scope=record.endpoint, data=data, at=record.at))
        await self.live.journal.flush()

    async def sent(self, record: BatchRecord) -> None:
        data = {"key": record.key, "remote": record.remote}
        self.live.journal.append(Event(kind=SENT, scope=record.endpoint, data=data))
        await self.live.journal.flush()

    def tell(self, text: str) -> None:
        self.live.progress.events.append(text)

    @property
    def stopped(self) -> bool:
        return self.live.stopping.asked


@asynccontextmanager
async def batching(batches: JournaledBatches | None) -> AsyncIterator[None]:
    """Carry batches while the block runs; they are settled where it ends by itself."""
    if batches is None:
        yield
        return
    async with anyio.create_task_group() as tasks:
        await batches.start(tasks)
        yield
        if not batches.stopped:
            batches.settle()
        tasks.cancel_scope.cancel()


async def open_batches(live: Live) -> list[BatchRecord]:
    """Return what earlier processes of the run sent and may not have received, in order."""
    from bench.models.batch import BatchRecord

    found: dict[str, BatchRecord] = {}
    if live.resumed:
        async with Reader.open(live.folder) as reader:
            events = [event for _, event in await reader.events()]
        for event in events:
            key = str(event.data.get("key"))
            if event.kind == SETTLED:
                found.clear()
            elif event.kind == INTENDED:
                calls = tuple(map(str, cast("Sequence[object]", event.data["calls"])))
                found[key] = BatchRecord(key=key, endpoint=event.scope, calls=calls, at=event.at)
            elif event.kind == SENT and key in found:
                found[key].remote = str(event.data["remote"])
    return list(found.values())
