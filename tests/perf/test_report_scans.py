"""The budget of SQL statements of a report that read all rows of an owner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from journal_scale import entries, job_record
from pydantic import TypeAdapter

from bench.journal import Journal, Reader, RunMeta
from bench.journal.file import open_reading
from bench.plan.job_record import EXTRA_KEY, JobRecord
from bench.report.fold import fold
from tests.journal.journal_samples import call

ITEMS = 30
SHARED = 10
"""statements per lane, its answers, and the journal"""
OF_A_JOB = 3
"""statements per job: scores, generations and call log"""
READS_ROWS = re.compile(r"\b(?:FROM|JOIN) (?:phase|entry|score|verdict|call)\b")
READS_FEW = re.compile(r"\bjson_each\(|\bLIMIT \d|\) <= \(")


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
async def test_a_report_stays_within_its_budget_of_full_reads(tmp_path: Path, n_jobs: int) -> None:
    jobs = [f"perf/stub|m|{number}" for number in range(n_jobs)]
    await fill(tmp_path / "run", jobs)
    scans = await scans_of(tmp_path / "run")
    assert len(scans) <= SHARED + OF_A_JOB * n_jobs, "\n\n".join(scans)
    assert len(set(scans)) == len(scans), "a statement is executed twice"


async def fill(folder: Path, jobs: Sequence[str]) -> None:
    """Write a journal of jobs that share a lane and its answers."""
    records = tuple(job_record(job, ITEMS) for job in jobs)
    dumped = TypeAdapter(tuple[JobRecord, ...]).dump_python(records, mode="json")
    meta = RunMeta(run_id=folder.name, plan_digest="perf", identity={}, extra={EXTRA_KEY: dumped})
    async with Journal.create(folder, meta) as journal:
        for number in range(ITEMS):
            search, answer, scored, _ = entries(number)
            for entry in (search, answer, *(replace(scored, key=replace(scored.key, owner=job)) for job in jobs)):
                await journal.append_durable(replace(entry, calls=(call(),)))


async def scans_of(folder: Path) -> list[str]:
    """Return the statements of one report that read more than a few rows by key."""
    asked: list[str] = []
    async with Reader.open(folder) as opened, open_reading(opened.path) as connection:
        await connection.set_trace_callback(asked.append)
        await fold(Reader(opened.path, connection, opened.meta, opened.resumes))
    return [one for one in asked if READS_ROWS.search(one) and not READS_FEW.search(one)]
