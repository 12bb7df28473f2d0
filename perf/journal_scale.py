"""Fill and read large journals: ``journal_scale.py fill|scan|report|bare FOLDER [--phases N]``, each in one process.

``fill`` writes N phases (four per item). ``scan`` reads what a resume reads. ``report`` builds the report of two jobs
with ten clusters and five question types. ``bare`` is the floor of ``report``: one SELECT with a sort over a flat table
of the same columns.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from pathlib import Path

import anyio
from pydantic import TypeAdapter
from usage import peak_mb

from bench.journal import Journal, JournaledPhase, Key, Reader, RunMeta
from bench.metrics import open_metrics
from bench.model import Phase, State
from bench.plan.job_record import EXTRA_KEY, JobRecord, MetricRecord, ModelNames
from bench.report.fold import fold
from bench.report.results_document import results_json

LANE, ANSWERING, JOBS = "perf/stub", "perf/stub|m", ("perf/stub|m|a", "perf/stub|m|b")
METRICS = ("accuracy", "mrr", "ndcg_at_10", "recall_at_10")
TYPES = ("single", "multi", "temporal", "update", "preference")


def entries(number: int) -> list[JournaledPhase]:
    """Return the four phases of one item; ids are unordered, like hashed ids."""
    unit, corpus = f"q{number * 7919 % 1_000_003:07d}", f"c{number % 10:03d}"
    value = float(number % 3 == 0)
    scored = {
        "state": State.CORRECT if value else State.INCORRECT,
        "labels": {"question_type": TYPES[number % 5]},
        "values": dict.fromkeys(METRICS, value),
    }

    def entry(owner: str, phase: Phase, **more: object) -> JournaledPhase:
        key = Key(owner=owner, phase=phase, corpus=corpus, unit=unit)
        return JournaledPhase(key=key, data={"n": number}, times_us={"total": number}, attempt=1, **more)  # type: ignore[arg-type]

    return [
        entry(LANE, Phase.SEARCH),
        entry(ANSWERING, Phase.ANSWER),
        *(entry(job, Phase.EVALUATE, **scored) for job in JOBS),
    ]


async def fill(folder: Path, phases: int) -> None:
    """Write the journal at the speed of its commits."""
    jobs = TypeAdapter(tuple[JobRecord, ...]).dump_python(
        tuple(job_record(key, phases // 4) for key in JOBS), mode="json"
    )
    meta = RunMeta(run_id=folder.name, plan_digest="perf", identity={}, extra={EXTRA_KEY: jobs})
    async with Journal.create(folder, meta, bound=4000) as journal:
        for number in range(phases // 4):
            await journal.wait_for_room()
            for entry in entries(number):
                journal.append(entry)


async def scan(folder: Path) -> dict[str, object]:
    """Read the finished phases of every owner."""
    found, started, cpu = 0, time.perf_counter(), time.process_time()
    async with Journal.resume(folder) as journal:
        # the opening (import, page check) is the same for every size up to the check's limit
        cpu = time.process_time()
        for owner, phase in ((LANE, Phase.SEARCH), (ANSWERING, Phase.ANSWER), *((job, Phase.EVALUATE) for job in JOBS)):
            found += len(await journal.finished(owner, phase))
    used = time.process_time() - cpu
    return {"found": found, "wall_s": time.perf_counter() - started, "cpu_s": used}


async def report(folder: Path) -> dict[str, object]:
    """Fold every result of every job into a report, and write it as JSON."""
    async with Reader.open(folder) as reader:
        found = await fold(reader)
    text = json.dumps(results_json(found))
    return {"items": sum(job.n_ended for job in found.jobs), "bytes": len(text), "cpu_s": time.process_time()}


def job_record(key: str, items: int) -> JobRecord:
    """Return a job record such as a plan would make it."""
    metrics = open_metrics(METRICS, k=10, folder=Path())
    return JobRecord(
        key=key,
        lane=LANE,
        answer_owner=ANSWERING,
        benchmark="perf",
        benchmark_version="1",
        benchmark_title="perf",
        provider="stub",
        provider_type="hosted",
        models=ModelNames(embedding=None, answering="m", judge=key),
        track="uniform",
        k=10,
        context_budget=None,
        epochs=1,
        epochs_reducer="mean",
        seed=0,
        unit="turn",
        level="turn",
        n_selected=items,
        n_whole=items,
        n_items=items,
        metrics=tuple(
            MetricRecord(
                name=metric.name,
                definition=metric.definition,
                category=metric.category,
                unit=metric.unit,
                lower_is_better=metric.lower_is_better,
            )
            for metric in metrics
        ),
        metric_entries=METRICS,
        metric_folder=".",
        evaluators=("llm-judge",),
        cluster_by="corpus",
        groups={},
        selection={},
        dataset={},
        prompts={},
        config_sha256={},
    )


def bare(folder: Path) -> dict[str, object]:
    """Read a flat table with one SELECT with a sort, row by row."""
    connection = sqlite3.connect(folder / "flat.sqlite")
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        columns = ", ".join(f"{name} REAL" for name in METRICS)
        connection.execute(
            f"CREATE TABLE results (job TEXT, corpus TEXT, item TEXT, epoch INTEGER, state TEXT, {columns})"
        )
        connection.execute("ATTACH ? AS journal", (str(folder / "journal.sqlite"),))
        connection.execute(
            "INSERT INTO results SELECT o.name, s.corpus, s.unit, s.epoch, s.state, 1.0, 0.5, 0.25, 0.125 "
            "FROM journal.score s JOIN journal.owner o ON o.id = s.owner ORDER BY s.entry"
        )
        connection.commit()
    items = 0
    for job in JOBS:
        cursor = connection.execute(
            "SELECT corpus, item, epoch, state, accuracy, mrr, ndcg_at_10, recall_at_10 FROM results "
            "WHERE job = ? ORDER BY corpus, item, epoch",
            (job,),
        )
        for _ in cursor:
            items += 1
    connection.close()
    return {"items": items, "cpu_s": time.process_time()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=["fill", "scan", "report", "bare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--phases", type=int, default=100_000)
    given = parser.parse_args()
    cpu = time.process_time()
    if given.act == "fill":
        anyio.run(fill, given.folder, given.phases)
        found: dict[str, object] = {"phases": given.phases, "cpu_s": time.process_time() - cpu}
    elif given.act == "bare":
        found = bare(given.folder)
    else:
        found = anyio.run(scan if given.act == "scan" else report, given.folder)
    print(json.dumps({**found, "rss_mb": peak_mb()}))


if __name__ == "__main__":
    main()
