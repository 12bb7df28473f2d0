"""Work on large runs in a process of its own: a fold of 100,000 items would keep this interpreter from its pages.

Example::

    await apart(document_of, str(workspace), "r1")        # the same as: await document_of(str(workspace), "r1")
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import anyio.to_thread

from bench.errors import BenchError, JournalError, UsageError
from bench.web.kept import SMALL_ITEMS, Json

NICE = 5
"""pages and runs go first"""

Make = Callable[..., Awaitable[Json]]


async def aside(make: Make, *arguments: object, items: int) -> Json:
    """Make a document of so many items without holding up the pages: in a thread, or apart when there are many."""
    if items > SMALL_ITEMS:
        return await apart(make, *arguments)
    return await anyio.to_thread.run_sync(partial(anyio.run, make, *arguments))


async def apart(make: Make, *arguments: object) -> Json:
    """Make a document in another process; the function is a module's own, its arguments are plain JSON.

    Raises:
        UsageError, JournalError: as the function did.
    """
    command = [sys.executable, "-m", "bench.web.apart", make.__module__, make.__qualname__, json.dumps(arguments)]
    done = await anyio.run_process(command, stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise JournalError("a document could not be made", hint="the same command of bench says why")
    return read(json.loads(done.stdout))


def read(said: Json) -> Json:
    """The document that was told, or the error that was."""
    if "document" in said:
        document = said["document"]
        assert isinstance(document, dict)
        return document
    kind = UsageError if said["usage"] else JournalError
    raise kind(str(said["problem"]), hint=str(said["hint"]))


def main(module: str, name: str, arguments: str) -> None:
    """Print the document, or why there is none."""
    os.nice(NICE)
    sys.stdout.write(json.dumps(told(getattr(importlib.import_module(module), name), json.loads(arguments))))


def told(make: Make, arguments: Sequence[object]) -> Json:
    """The document, or why there is none, as the other process reads it."""
    try:
        return {"document": anyio.run(make, *arguments)}
    except BenchError as error:
        return {"problem": str(error), "hint": error.hint, "usage": isinstance(error, UsageError)}


if __name__ == "__main__":
    main(*sys.argv[1:])
