"""The numbers of each run, folded once and kept as long as its journal does not change.

A finished run has its numbers in ``results/RUN/report.json``. Where they are missing or older than the journal they
are folded again in a thread of their own; whoever asks meanwhile gets the last ones, or none yet::

    shown = await reports.of("r1")
    shown.document, shown.fresh        # None and False while the first fold is under way
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench.errors import BenchError
from bench.journal import Reader
from bench.journal.paging import sampled_times
from bench.journal.places import CHECKPOINTS, JOURNAL
from bench.model import Phase
from bench.plan.record import JobRecord, read
from bench.report import fold, results_json
from bench.web.times import spread

Json = dict[str, object]
Stamp = tuple[tuple[int, int], ...]

PATIENCE_S = 0.1
"""how long a page waits for numbers that are being folded"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is known of a run's numbers now."""

    document: Json | None
    fresh: bool
    problem: str | None = None


@dataclass(slots=True)
class Reports:
    """Folded documents by run."""

    workspace: Path
    tasks: TaskGroup
    _known: dict[str, tuple[Stamp, Json]] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)
    _busy: dict[str, anyio.Event] = field(default_factory=dict)

    async def of(self, run_id: str) -> Shown:
        """Give a run's numbers; never waits longer than ``PATIENCE_S``."""
        known = self._known.get(run_id)
        if known is not None and known[0] == self._stamp(run_id):
            return Shown(document=known[1], fresh=True)
        if run_id not in self._busy:
            self._busy[run_id] = anyio.Event()
            self.tasks.start_soon(self._fold, run_id)
        with anyio.move_on_after(PATIENCE_S):
            await self._busy[run_id].wait()
        known = self._known.get(run_id)
        return Shown(
            document=known[1] if known else None,
            fresh=known is not None and known[0] == self._stamp(run_id),
            problem=self._problems.get(run_id),
        )

    async def _fold(self, run_id: str) -> None:
        stamp = self._stamp(run_id)
        try:
            work = partial(anyio.run, document_of, self.workspace, run_id)
            self._known[run_id] = (stamp, await anyio.to_thread.run_sync(work))
            self._problems.pop(run_id, None)
        except BenchError as error:
            self._problems[run_id] = str(error)
        finally:
            self._busy.pop(run_id).set()

    def _stamp(self, run_id: str) -> Stamp:
        return stamp_of(self.workspace / CHECKPOINTS / run_id)


def stamp_of(folder: Path) -> Stamp:
    """Changes whenever the journal does."""
    found = []
    for name in (JOURNAL, f"{JOURNAL}-wal"):
        path = folder / name
        stat = path.stat() if path.exists() else None
        found.append((stat.st_mtime_ns, stat.st_size) if stat and stat.st_size else (0, 0))
    return tuple(found)


async def document_of(workspace: Path, run_id: str) -> Json:
    """The document of ``bench results --json``, with how each phase's time was spent beside each job."""
    folder = workspace / CHECKPOINTS / run_id
    async with Reader.open(folder) as reader:
        records = read(reader.meta.extra)
        document = _stored(workspace / "results" / run_id / "report.json", folder, records)
        if document is None:
            document = results_json(await fold(reader))
        jobs = document["jobs"]
        assert isinstance(jobs, list)
        for job, record in zip(jobs, records, strict=True):
            job["times"] = await _times(reader, record)
    return document


async def _times(reader: Reader, record: JobRecord) -> Json:
    owners = {Phase.SEARCH: record.lane, Phase.ANSWER: record.answer_owner, Phase.EVALUATE: record.key}
    found: Json = {}
    for phase, owner in owners.items():
        count, sample = await sampled_times(reader, owner, phase)
        if sample:
            found[str(phase)] = spread(sample, count)
    return found


def _stored(path: Path, folder: Path, records: tuple[JobRecord, ...]) -> Json | None:
    """The published report as one document; None when there is none that is as new as the journal."""
    newest = max(at for at, _ in stamp_of(folder))
    if not path.is_file() or path.stat().st_mtime_ns < newest:
        return None
    try:
        report = json.loads(path.read_bytes())
        results, measured = report["results"], report["measured"]
        pairs = list(zip(results["jobs"], measured["jobs"], records, strict=True))
    except (ValueError, KeyError, TypeError):
        return None
    return {
        "run_id": measured["run_id"],
        "status": measured["status"],
        "partial": results["partial"],
        "jobs": [_whole(fixed, timed, record) for fixed, timed, record in pairs],
    }


def _whole(fixed: Mapping[str, object], timed: Mapping[str, object], record: JobRecord) -> Json:
    both = {**_map(fixed["metrics"]), **_map(timed["metrics"])}
    order = [metric.name for metric in record.metrics]
    names = [name for name in order if name in both] + [name for name in both if name not in order]
    rest = {name: timed[name] for name in ("usage", "isolation", "notes")}
    return {**fixed, **rest, "metrics": {name: both[name] for name in names}}


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
