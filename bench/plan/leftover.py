"""The namespaces that a run has left at its providers, as its journal records them.

Example::

    for one in await leftovers(reader):
        one.provider, one.attempts          # "mem0", {"conv-26": 1}: the last attempt of each corpus

A namespace is left when an attempt of its corpus has rows, but no row records that the namespace was cleared, and no
event records that it was abandoned. Built-in providers are ignored: their data is in the run's folder and is deleted
with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bench.config.builtin_providers import BUILT_IN
from bench.journal import CorpusRow, Event, Reader
from bench.plan.job_record import read_jobs
from bench.scalars import object_or_empty
from bench.visible import counted

ABANDONED = "forgotten"
"""kind of the event that records abandoned namespaces"""
NOT_CLEARED = "not_cleared"
"""kind of the event that records a failed clear"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """The namespaces of one lane that are left at its provider."""

    lane: str
    provider: str
    """label of the provider; a variant is ``name@label``"""
    attempts: Mapping[str, int]
    """corpus -> its last attempt"""
    rows: tuple[Sequence[CorpusRow], ...] = ()
    """the rows of each attempt that was not cleared; in a merged run, the rows of each journal are separate"""

    def is_at(self, names: Collection[str]) -> bool:
        """Return True when the names include this provider; a name without a label includes each of its variants."""
        return self.provider in names or self.provider.partition("@")[0] in names

    def abandonment(self) -> Event:
        """Return the event that records the namespaces as abandoned."""
        text = f"{counted(len(self.rows), f'namespace(|s) at {self.provider} (was|were)')} abandoned: not cleared"
        return Event(kind=ABANDONED, scope=self.lane, message=text, data={"attempts": dict(self.attempts)})


async def leftovers(reader: Reader) -> list[Leftover]:
    """Return the lanes with uncleared namespaces, in the order of their keys."""
    forgotten = await _abandoned(reader)
    lanes = {job.build: job.provider for job in reversed(read_jobs(reader.meta.extra))}  # the first job names the build
    found = []
    for lane, provider in sorted(lanes.items()):
        if provider.partition("@")[0] in BUILT_IN:
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
    """Return the events without the failed clears of namespaces that were cleared or abandoned later."""
    if not any(event.kind == NOT_CLEARED and "corpus" in event.data for event in events):
        return list(events)
    left = {(one.lane, corpus) for one in await leftovers(reader) for corpus in one.attempts}
    return [
        event
        for event in events
        if event.kind != NOT_CLEARED or "corpus" not in event.data or (event.scope, event.data["corpus"]) in left
    ]


async def _abandoned(reader: Reader) -> dict[tuple[str, str], int]:
    """Return (lane, corpus) -> last abandoned attempt; all attempts before it are abandoned too."""
    events = [event for _, event in await reader.events() if event.kind == ABANDONED]
    abandoned = [(one.scope, object_or_empty(one.data["attempts"])) for one in events]
    return {(lane, corpus): int(str(last)) for lane, attempts in abandoned for corpus, last in attempts.items()}
