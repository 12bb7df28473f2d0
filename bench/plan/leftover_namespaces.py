"""Find the namespaces of a run that still exist at its providers, from the run's journal.

Example::

    for one in await leftovers(reader):
        one.provider, one.attempts          # "mem0", {"conv-26": 1}: the last attempt of each corpus

A namespace still exists if an ingest attempt used it and the journal does not record that it was cleared. Abandoned
namespaces are ignored. The namespaces of built-in providers are included only on request, because they are in the
run's folder and are deleted with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bench.config.builtin_providers import is_built_in
from bench.journal import CorpusRow, Event, Reader
from bench.plan.job_record import read_jobs
from bench.untyped_values import object_or_empty
from bench.visible_text import counted

ABANDONED = "forgotten"
"""kind of the event that records namespaces as abandoned: bench will not clear them"""
NOT_CLEARED = "not_cleared"
"""kind of the event that records a failed attempt to clear a namespace"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """The namespaces of one lane that still exist at its provider."""

    lane: str
    provider: str
    """label of the provider; a variant is ``name@label``"""
    attempts: Mapping[str, int]
    """corpus -> number of the last ingest attempt whose namespace was not cleared"""
    rows: tuple[Sequence[CorpusRow], ...] = ()
    """the journal rows of each ingest attempt that was not cleared; in a merged run, each journal has its own entry"""

    def is_at(self, names: Collection[str]) -> bool:
        """Return True if ``names`` contains this provider.

        A name without a variant label matches every variant of the provider.
        """
        return self.provider in names or self.provider.partition("@")[0] in names

    def abandonment(self) -> Event:
        """Return an event that records these namespaces as abandoned."""
        text = f"{counted(len(self.rows), f'namespace(|s) at {self.provider} (was|were)')} abandoned: not cleared"
        return Event(kind=ABANDONED, scope=self.lane, message=text, data={"attempts": dict(self.attempts)})


async def leftovers(reader: Reader, *, built_in: bool = False) -> list[Leftover]:
    """Return the lanes with namespaces that still exist, sorted by the key of the lane.

    Lanes of built-in providers are included only if ``built_in`` is True.
    """
    forgotten = await _abandoned(reader)
    lanes = {job.build: job.provider for job in reversed(read_jobs(reader.meta.extra))}  # the first job names the build
    found = []
    for lane, provider in sorted(lanes.items()):
        if is_built_in(provider) and not built_in:
            continue
        left = [
            rows
            async for one in reader.corpora(lane)
            if not one.is_reused
            for rows in one.uncleared
            if rows[0].attempt > forgotten.get((lane, one.corpus), 0)
        ]
        if left:
            attempts = {rows[0].corpus: rows[0].attempt for rows in left}
            found.append(Leftover(lane=lane, provider=provider, attempts=attempts, rows=tuple(left)))
    return found


async def unresolved_events(reader: Reader, events: Sequence[Event]) -> list[Event]:
    """Return the events. A failed clear is left out if its namespace was later cleared or abandoned."""
    if not any(event.kind == NOT_CLEARED and "corpus" in event.data for event in events):
        return list(events)
    left = {(one.lane, corpus) for one in await leftovers(reader) for corpus in one.attempts}
    return [
        event
        for event in events
        if event.kind != NOT_CLEARED or "corpus" not in event.data or (event.scope, event.data["corpus"]) in left
    ]


async def _abandoned(reader: Reader) -> dict[tuple[str, str], int]:
    """Return a map from (lane, corpus) to the number of the last abandoned ingest attempt.

    All earlier attempts are abandoned too.
    """
    events = await reader.events(ABANDONED)
    abandoned = [(one.scope, object_or_empty(one.data["attempts"])) for one in events]
    return {(lane, corpus): int(str(last)) for lane, attempts in abandoned for corpus, last in attempts.items()}
