"""The SQLite journal of a run. It contains the complete state of the run.

``Journal`` writes a journal; only one process can do this at a time. ``Reader`` reads a journal from any process at any
time. ``merge`` combines several journals of one plan. Rows are frozen dataclasses::

    async with Journal.create(folder, meta) as journal:
        journal.append(JournaledPhase(key=Key(owner=lane, phase=Phase.SEARCH, corpus="c1", unit="q1")))
        await journal.flush()

    async with Reader.open(folder) as reader:
        async for record in reader.items(chain):
            print(record.item, record.state)

Importing this package is fast, because SQLite is loaded only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.journal.rows import (
    Chain,
    CorpusKind,
    CorpusRow,
    Event,
    Finished,
    JournaledPhase,
    JournalRow,
    Key,
    ProbeRow,
    ResumeRow,
    RunMeta,
    RunState,
)
from bench.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from bench.journal.merger import MergeOutcome, merge
    from bench.journal.reader import Reader
    from bench.journal.records import CorpusRecord, ItemRecord, JournalOrigin, Status, UsageTotals, Values
    from bench.journal.write_queue import Journal

__all__ = [
    "Chain",
    "CorpusKind",
    "CorpusRecord",
    "CorpusRow",
    "Event",
    "Finished",
    "ItemRecord",
    "Journal",
    "JournalOrigin",
    "JournalRow",
    "JournaledPhase",
    "Key",
    "MergeOutcome",
    "ProbeRow",
    "Reader",
    "ResumeRow",
    "RunMeta",
    "RunState",
    "Status",
    "UsageTotals",
    "Values",
    "merge",
]

__getattr__ = lazy_exports(
    __name__,
    merger="MergeOutcome merge",
    reader="Reader",
    records="CorpusRecord ItemRecord JournalOrigin UsageTotals Status Values",
    write_queue="Journal",
)
