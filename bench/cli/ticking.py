"""Something said again and again while a block runs.

Example::

    async with ticking(10.0, lambda: console.note("still at it")):
        await what_takes_long()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from bench.engine.run import inmost


@asynccontextmanager
async def ticking(every_s: float, tick: Callable[[], None]) -> AsyncIterator[None]:
    """Call ``tick`` every ``every_s`` seconds inside the block; an error of the block leaves as itself."""

    async def on_and_on() -> None:
        while True:
            await anyio.sleep(every_s)
            tick()

    try:
        async with anyio.create_task_group() as ticker:
            ticker.start_soon(on_and_on)
            yield
            ticker.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise inmost(group) from group
