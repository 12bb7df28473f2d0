"""Write a journal: enqueue rows, commit them in groups, know what is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench.journal.rows import CorpusRow, Entry, Finished, Key, Resume, Row, RunMeta, RunState
from bench.model import Phase


class Journal:
    """The one writer of a run; use as ``async with Journal.create(...) as journal``."""

    meta: RunMeta
    resumes: tuple[Resume, ...]
    durable: Mapping[tuple[Phase, str], int]
    """phase rows made durable by this process, by (phase, outcome); INGESTED counts as ingest, READY as index"""
    acknowledged: int
    """rows made durable by this process"""
    pending: int
    """rows enqueued and not yet durable"""
    on_commit: Callable[[Sequence[Row]], None] | None
    """called on the event loop after each commit with the rows that became durable"""

    @staticmethod
    def create(folder: Path, meta: RunMeta, *, bound: int = 1000, linger_s: float = 0.01) -> AbstractAsyncContextManager[Journal]:
        """Make ``folder/journal.sqlite``; UsageError when it is there already."""
        ...

    @staticmethod
    def resume(path: Path, *, bound: int = 1000, linger_s: float = 0.01) -> AbstractAsyncContextManager[Journal]:
        """Open a run folder or journal file for writing.

        Raises Locked (another live process holds it), JournalError (corrupt, foreign, newer; the file is
        left as it was) or DiskFull.
        """
        ...

    def append(self, row: Row) -> None:
        """Enqueue a row; it is durable within about 10 ms. Raises what made the writer fail, if it failed."""

    async def room(self) -> None:
        """Wait until fewer than ``bound`` rows are pending (10 x concurrency); instant when there is room."""

    async def put(self, row: Row) -> None:
        """Enqueue a row and wait until it is durable: for intents."""

    async def flush(self) -> None:
        """Wait until everything that was appended is durable."""

    async def set_state(self, state: RunState, reason: str = "") -> None:
        """Record how the run stands; durable when this returns."""

    async def record_resume(self, data: Mapping[str, object]) -> None:
        """Record this process's versions, code state and run-time settings."""

    async def amend(self, **extra: object) -> None:
        """Add to ``meta.extra`` (for example the preregistration entry); durable when this returns."""

    async def finished(self, owner: str, phase: Phase) -> Finished:
        """Load which units of an owner have an ``ok`` row: one scan, about 0.2 us a unit."""
        ...

    async def load(self, keys: Iterable[Key], *, payloads: bool = True) -> dict[Key, Entry]:
        """Load the latest attempt of each key that has one (any outcome), a few hundred keys at a time."""
        ...

    async def corpus(self, lane: str, corpus: str) -> list[CorpusRow]:
        """Load what this run did with a corpus: every attempt, in the order written."""
        ...
