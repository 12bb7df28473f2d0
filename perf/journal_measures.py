"""P6, P7 and P11: measurements of the journal."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
from figures import Figure, child, number
from journal_scale import entries

from bench.journal import Journal, JournaledPhase, RunMeta
from bench.journal.file import create, open_writing, run_in_thread
from bench.journal.row_writer import RowWriter

ROUNDS = 3
WORKERS = 100


@contextmanager
def filled(phases: int) -> Iterator[Path]:
    """Create a journal with this number of phases."""
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        child("journal_scale.py", "fill", f"{folder}/run", "--phases", str(phases))
        yield Path(folder) / "run"


def p6_resume_scan(*, full: bool) -> list[Figure]:
    """Measure the time in which a resume reads the finished phases."""
    large, small = (1_000_000, 100_000) if full else (100_000, 10_000)
    took: dict[int, float] = {}
    for phases in (small, large):
        with filled(phases) as folder:
            scans = [child("journal_scale.py", "scan", str(folder)) for _ in range(ROUNDS)]
        assert {scan["found"] for scan in scans} == {phases}
        took[phases] = statistics.median(number(scan, "cpu_s") for scan in scans)
    limit_s = 0.5 * large / 1_000_000
    growth = took[large] / took[small]
    return [
        Figure(id="P6", what=f"a resume finds {large:,} finished phases, CPU s", value=took[large],
               goal=f"<= {limit_s:g} s", ok=took[large] <= limit_s, gated=True),
        Figure(id="P6", what=f"a resume finds {large:,} finished phases, against {small:,} phases", value=growth,
               goal="<= 12 x", ok=growth <= 12, gated=True),
    ]  # fmt: skip


def p7_group_commit(*, full: bool) -> list[Figure]:
    """Measure phases per second with group commits against one commit per phase (FULL, concurrency 100)."""
    many, few = (20_000, 1000) if full else (6000, 300)
    items = [entries(number) for number in range(many // 4)]
    ratios, each_us = [], []
    for _ in range(ROUNDS):
        single_s = anyio.run(_one_by_one, items[: few // 4]) / few
        grouped_s = anyio.run(_grouped, items) / many
        ratios.append(single_s / grouped_s)
        each_us.append((single_s * 1e6, grouped_s * 1e6))
    ratio = statistics.median(ratios)
    return [
        Figure(id="P7", what="phases per second: group commits against a commit per phase", value=ratio, goal=">= 20 x",
               ok=ratio >= 20, gated=True, detail={"ratios": ratios, "each_us": each_us})
    ]  # fmt: skip


async def _grouped(items: Sequence[Sequence[JournaledPhase]]) -> float:
    """Write with 100 workers that append and continue."""
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        async with Journal.create(Path(folder) / "run", _meta(), bound=10 * WORKERS) as journal:

            async def write(item: Sequence[JournaledPhase]) -> None:
                await journal.wait_for_room()
                for entry in item:
                    journal.append(entry)

            started = time.perf_counter()
            await _share_out(items, write)
            await journal.flush()
            return time.perf_counter() - started


async def _one_by_one(items: Sequence[Sequence[JournaledPhase]]) -> float:
    """Write with the same workers and statements, but one transaction per phase."""
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        path = Path(folder) / "run" / "journal.sqlite"
        await create(path, _meta())
        async with open_writing(path) as connection:
            store, one_transaction = RowWriter(0), anyio.Lock()

            def transact(raw: sqlite3.Connection, entry: JournaledPhase) -> None:
                store.write(raw, [entry])
                raw.commit()

            async def write(item: Sequence[JournaledPhase]) -> None:
                for entry in item:
                    # keeps true that a transaction holds the rows of one phase only
                    async with one_transaction:
                        await run_in_thread(connection, partial(transact, entry=entry))

            started = time.perf_counter()
            await _share_out(items, write)
            return time.perf_counter() - started


async def _share_out(
    items: Sequence[Sequence[JournaledPhase]], write: Callable[[Sequence[JournaledPhase]], Awaitable[None]]
) -> None:
    """Let the workers write the phases of the items; one turn of the loop replaces the calls of an item."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await write(item)
            await anyio.sleep(0)

    async with anyio.create_task_group() as workers:
        for _ in range(WORKERS):
            workers.start_soon(work)


def _meta() -> RunMeta:
    return RunMeta(run_id="run", plan_digest="perf", identity={})


def p11_report(*, full: bool) -> list[Figure]:
    """Measure the report of all results against a bare SELECT with a sort, by CPU of the whole process."""
    results = 1_000_000 if full else 100_000
    floor, ours, peaks = [], [], []
    with filled(results * 2) as folder:
        child("journal_scale.py", "bare", str(folder))
        for _ in range(ROUNDS):
            floor.append(number(child("journal_scale.py", "bare", str(folder)), "cpu_s"))
            read = child("journal_scale.py", "report", str(folder))
            assert read["items"] == results
            ours.append(number(read, "cpu_s"))
            peaks.append(number(read, "rss_mb"))
    ratio, peak = statistics.median(ours) / statistics.median(floor), max(peaks)
    detail = {"ours_s": ours, "floor_s": floor}
    return [
        Figure(id="P11", what=f"CPU time of the report of {results:,} results against a bare SELECT", value=ratio,
               goal="<= 1.5 x", ok=ratio <= 1.5, gated=True, detail=detail),
        Figure(id="P11", what=f"report of {results:,} results, peak memory, MB", value=peak, goal="<= 100 MB",
               ok=peak <= 100, gated=True),
    ]  # fmt: skip
