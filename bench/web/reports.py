"""The numbers of each run, as ``bench results --json`` gives them, with how time was spent beside each job.

A finished run has its numbers in ``results/RUN/report.json``. Where they are missing or older than the journal they
are folded again, aside::

    shown = await report_of(site, "r1", items=160)
    shown.document, shown.fresh        # None and False while the first fold is under way
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.journal import Reader
from bench.journal.paging import ends_of, sampled_times
from bench.journal.places import CHECKPOINTS, JOURNAL
from bench.model import Phase
from bench.plan.record import JobRecord, read
from bench.report import fold, results_json
from bench.web.apart import aside
from bench.web.kept import Json, Shown, Stamp, patience, stamp_of
from bench.web.site import Site
from bench.web.times import spread


async def report_of(site: Site, run_id: str, *, items: int) -> Shown:
    """Give the numbers of a run of so many items as far as they are known now."""
    make = partial(_made, site.workspace, run_id, items)
    stamp = journal_stamp(site.workspace / CHECKPOINTS / run_id)
    return await site.kept.of(("report", run_id), stamp, make, patience_s=patience(items))


def journal_stamp(folder: Path) -> Stamp:
    """Changes whenever the journal of a run does."""
    return stamp_of(folder / JOURNAL, folder / f"{JOURNAL}-wal")


async def _made(workspace: Path, run_id: str, items: int) -> Json:
    """A stored report is read in no time, however large its run is."""
    folded = 0 if _stored(workspace, run_id) is not None else items
    return await aside(document_of, str(workspace), run_id, items=folded)


async def document_of(place: str, run_id: str) -> Json:
    """The document of ``bench results --json``, with times and ends beside each job."""
    workspace = Path(place)
    async with Reader.open(workspace / CHECKPOINTS / run_id) as reader:
        records = read(reader.meta.extra)
        stored = _stored(workspace, run_id)
        document = _joined(stored, records) if stored is not None else None
        if document is None:
            document = results_json(await fold(reader))
        jobs = document["jobs"]
        assert isinstance(jobs, list)
        for job, record in zip(jobs, records, strict=True):
            job["times"] = await _times(reader, record)
            job["ends"] = await ends_of(reader, record.key, record.epochs)
    return document


async def _times(reader: Reader, record: JobRecord) -> Json:
    found: Json = {}
    for phase, owner in zip((Phase.SEARCH, Phase.ANSWER, Phase.EVALUATE), record.owners, strict=True):
        count, sample = await sampled_times(reader, owner, phase)
        if sample:
            found[str(phase)] = spread(sample, count)
    return found


def _stored(workspace: Path, run_id: str) -> Json | None:
    """The published report; None when there is none that is as new as the journal."""
    path = workspace / "results" / run_id / "report.json"
    newest = max(at for at, _ in journal_stamp(workspace / CHECKPOINTS / run_id))
    try:
        if path.stat().st_mtime_ns < newest:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _joined(report: Json, records: tuple[JobRecord, ...]) -> Json | None:
    """What must repeat and what was measured as one document; None for a file of another shape."""
    try:
        results, measured = _map(report["results"]), _map(report["measured"])
        pairs = list(zip(results["jobs"], measured["jobs"], records, strict=True))  # type: ignore[call-overload]
        return {
            "run_id": measured["run_id"],
            "status": measured["status"],
            "partial": results["partial"],
            "jobs": [_whole(fixed, timed, record) for fixed, timed, record in pairs],
        }
    except (KeyError, TypeError, ValueError):
        return None


def _whole(fixed: Mapping[str, object], timed: Mapping[str, object], record: JobRecord) -> Json:
    both = {**_map(fixed["metrics"]), **_map(timed["metrics"])}
    order = [metric.name for metric in record.metrics]
    names = [name for name in order if name in both] + [name for name in both if name not in order]
    rest = {name: timed[name] for name in ("usage", "isolation", "notes")}
    rest["judge_calibration"] = timed.get("judge_calibration", [])
    epochs = fixed["epochs"]  # a report that does not say it counts each repeat as an item
    return {**fixed, "epochs": epochs, **rest, "metrics": {name: both[name] for name in names}}


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
