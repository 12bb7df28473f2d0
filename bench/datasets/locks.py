"""A file lock between processes: the second one waits.

::

    async with locked(Path("data.json.lock")):
        ...
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

_LOOK_AGAIN_S = 0.1


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock; the kernel frees it when the process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _taken(descriptor):  # noqa: ASYNC110 - another process tells nobody when it is done
            await anyio.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
