"""Cache documents that are slow to create, and create them again in the background when their source changes.

``make_in_process`` creates the document of a large run in another process, so that pages stay fast.

Example::

    shown = await cache.get(("report", "r1"), stamp, make, max_wait_s=0.08)
    shown.document, shown.fresh        # None and False while the first document is created
    await make_in_process(make_results, str(workspace), "r1")      # gives what make_results(str(workspace), "r1") gives

A request waits only a short time for a document. Then it gets the latest known document, or None.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench.errors import BenchError, JournalError, UsageError
from bench.events import log
from bench.untyped_values import Json

Document = TypeVar("Document", bound=Mapping[str, object])
DocumentMaker = Callable[..., Awaitable[Document]]
Stamp = tuple[tuple[int, int], ...]

SHORT_WAIT_S = 0.04
"""maximum seconds that a page waits for a document that is slow to create"""
LONG_WAIT_S = 10.0
"""maximum seconds that a page waits for a document that is usually created in a fraction of a second"""
SMALL_ITEMS = 3000
STRUCTURE_ERRORS = (LookupError, TypeError, ValueError)
"""exceptions that code raises when a file does not have the expected structure"""
MAX_DOCUMENTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedDocument(Generic[Document]):
    """The latest known document, or None if there is none; ``fresh`` is True if the document is current."""

    document: Document | None
    fresh: bool
    problem: BenchError | None = None


@dataclass(slots=True)
class DocumentCache:
    """The cached documents of one site. A full cache drops the document that was requested least recently."""

    tasks: TaskGroup
    _known: dict[Hashable, tuple[Stamp, Mapping[str, object] | BenchError]] = field(default_factory=dict)
    _busy: dict[Hashable, anyio.Event] = field(default_factory=dict)

    async def get(
        self, key: Hashable, stamp: Stamp, make: Callable[[], Awaitable[Document]], *, max_wait_s: float
    ) -> CachedDocument[Document]:
        """Return the document of ``key``; create it with ``make`` if the cached document has another stamp.

        If the creation takes longer than ``max_wait_s`` seconds, return the latest known document. The creation
        continues in the background.
        """
        with anyio.move_on_after(max_wait_s):
            while self._current(key, stamp) is None:  # what is under way may be of an earlier stamp
                if key not in self._busy:
                    self._busy[key] = anyio.Event()
                    self.tasks.start_soon(self._make, key, stamp, make)
                await self._busy[key].wait()
        _, found = self._known.get(key, (stamp, None))
        return CachedDocument(
            document=None if isinstance(found, BenchError) else cast("Document | None", found),
            fresh=self._current(key, stamp) is not None,
            problem=found if isinstance(found, BenchError) else None,
        )

    def _current(self, key: Hashable, stamp: Stamp) -> Mapping[str, object] | BenchError | None:
        known = self._known.get(key)
        if known is None or known[0] != stamp:
            return None
        self._known[key] = self._known.pop(key)
        return known[1]

    async def _make(self, key: Hashable, stamp: Stamp, make: DocumentMaker[Mapping[str, object]]) -> None:
        found: Mapping[str, object] | BenchError
        try:
            found = await make()
        except BenchError as error:
            found = error
        except OSError as error:
            found = JournalError(f"a file was removed or cannot be read: {error.strerror}")
        except STRUCTURE_ERRORS as error:  # one odd run must not end the site
            log().error("document_not_made", key=str(key), error=repr(error))
            found = JournalError(f"its files contain data that this version cannot read ({type(error).__name__})")
        self._known.pop(key, None)
        self._known[key] = (stamp, found)
        while len(self._known) > MAX_DOCUMENTS:
            self._known.pop(next(iter(self._known)))
        self._busy.pop(key).set()


def max_wait_s(items: int) -> float:
    """Return the maximum seconds that a page waits for a document of a run with this many items."""
    return LONG_WAIT_S if items <= SMALL_ITEMS else SHORT_WAIT_S


def stamp_of(*paths: Path) -> Stamp:
    """Return the modification times and sizes of the files, which differ after a file has changed."""
    found = []
    for path in paths:
        stat = path.stat() if path.exists() else None
        found.append((stat.st_mtime_ns, stat.st_size) if stat and stat.st_size else (0, 0))
    return tuple(found)


PROCESS_NICENESS = 5
"""niceness of the other process, so that pages and runs have priority"""


async def make_off_loop(make: DocumentMaker[Document], *arguments: object, items: int) -> Document:
    """Create a document without blocking the pages.

    The work is done in a thread, or in another process if the run has many items.
    """
    if items > SMALL_ITEMS:
        return await make_in_process(make, *arguments)
    return await anyio.to_thread.run_sync(partial(anyio.run, make, *arguments))


async def make_in_process(make: DocumentMaker[Document], *arguments: object) -> Document:
    """Create a document in another process.

    ``make`` must be a function of a module, and its arguments must be JSON values.

    Raises:
        UsageError: ``make`` raised a UsageError in the other process.
        JournalError: ``make`` raised another error, or the other process failed.
    """
    command = [sys.executable, "-m", "bench.web.cache", make.__module__, make.__qualname__, json.dumps(arguments)]
    done = await anyio.run_process(command, stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise JournalError(
            "the content of this page could not be computed",
            hint="run the command of this page in a terminal, for example bench results RUN_ID, to see the reason",
        )
    return cast("Document", document_from_result(json.loads(done.stdout)))


def document_from_result(result: Json) -> Json:
    """Return the document in the JSON result of the other process, or raise the error in this result."""
    if "document" in result:
        document = result["document"]
        assert isinstance(document, dict)
        return document
    kind = UsageError if result["usage"] else JournalError
    raise kind(str(result["problem"]), hint=str(result["hint"]))


def main(module: str, name: str, arguments: str) -> None:
    """Create a document, and print it or its error as JSON. This function runs in the other process."""
    os.nice(PROCESS_NICENESS)
    sys.stdout.write(json.dumps(result_json(getattr(importlib.import_module(module), name), json.loads(arguments))))


def result_json(make: DocumentMaker[Mapping[str, object]], arguments: Sequence[object]) -> Json:
    """Create a document, and return it or its error in the form that ``document_from_result`` reads."""
    try:
        return {"document": anyio.run(make, *arguments)}
    except BenchError as error:
        return {"problem": str(error), "hint": error.hint, "usage": isinstance(error, UsageError)}


if __name__ == "__main__":
    main(*sys.argv[1:])
