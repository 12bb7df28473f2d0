"""Record batches of model calls in the journal of a run, so that a resumed run can fetch the results of each batch.

Example::

    log = JournaledBatches(run)
    await log.intend(record)            # durable before the upload
    records = await open_batches(run)  # of earlier processes, in order

``bench retry`` sends the failed calls of a batch again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from bench.journal import Event, Reader
from bench.untyped_values import list_texts

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from bench.engine.run_context import RunContext
    from bench.models.batch import BatchRecord, BatchSender

INTENDED, SENT, SETTLED = "batch_intended", "batch_sent", "batches_settled"
WAITING_ITEMS = 2_000
"""number of items of a lane that can wait for batches at the same time"""


@dataclass(frozen=True, slots=True)
class JournaledBatches:
    """The tasks that send the batches of a run; each batch is recorded in the journal."""

    run: RunContext
    senders: list[BatchSender] = field(default_factory=list)

    async def start(self, tasks: TaskGroup) -> None:
        """Start every task.

        Each task also fetches the missing results of the batches that earlier processes sent to its endpoint.
        """
        records = await open_batches(self.run) if self.senders else []
        for sender in self.senders:
            sender.start(tasks, [one for one in records if one.endpoint == sender.endpoint.name])

    def settle(self) -> None:
        """Record in the journal that no call waits for the result of a batch any more."""
        if self.senders:
            self.run.journal.append(Event(kind=SETTLED))

    async def intend(self, record: BatchRecord) -> None:
        data = {"key": record.key, "calls": list(record.calls)}
        self.run.journal.append(Event(kind=INTENDED, scope=record.endpoint, data=data, at=record.at))
        await self.run.journal.flush()

    async def sent(self, record: BatchRecord) -> None:
        data = {"key": record.key, "remote": record.remote}
        self.run.journal.append(Event(kind=SENT, scope=record.endpoint, data=data))
        await self.run.journal.flush()

    def tell(self, text: str) -> None:
        self.run.progress.events.append(text)

    @property
    def stopped(self) -> bool:
        return self.run.stopping.requested


@asynccontextmanager
async def batching(batches: JournaledBatches | None) -> AsyncIterator[None]:
    """Send batches during the ``with`` block.

    If the block ends without an error or a request to stop, record that no call waits for a batch any more.
    """
    if batches is None:
        yield
        return
    async with anyio.create_task_group() as tasks:
        await batches.start(tasks)
        yield
        if not batches.stopped:
            batches.settle()
        tasks.cancel_scope.cancel()


async def open_batches(run: RunContext) -> list[BatchRecord]:
    """Return the batches of earlier processes whose results may be missing, oldest first."""
    from bench.models.batch import BatchRecord

    found: dict[str, BatchRecord] = {}
    if run.resumed:
        async with Reader.open(run.folder) as reader:
            events = await reader.events()
        for event in events:
            key = str(event.data.get("key"))
            if event.kind == SETTLED:
                found.clear()
            elif event.kind == INTENDED:
                calls = list_texts(event.data["calls"])
                found[key] = BatchRecord(key=key, endpoint=event.scope, calls=calls, at=event.at)
            elif event.kind == SENT and key in found:
                found[key].remote = str(event.data["remote"])
    return list(found.values())
