"""The latencies of a built-in provider are its own CPU time, without other work of the process."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import pytest

from bench.journal import CorpusKind, Reader
from bench.journal.pages import sampled_times
from bench.model import Phase
from bench.plan.job_record import read_jobs
from bench.processor_time import cpu_timed, cpu_timer, wall_timed
from bench.receipt.base_model import json_of
from bench.receipt.build import ReceiptSettings, build
from bench.report.fold import fold
from tests.small_world import World

Worlds = Callable[..., World]
BUILT_INS = ["random", "bm25", "full-context", "oracle", "no-memory"]


def busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@cpu_timed
async def search() -> str:
    busy(0.01)
    await anyio.sleep(0)
    busy(0.01)
    return "found"


async def test_cpu_time_of_other_tasks_is_not_in_the_latency_of_a_built_in_search() -> None:
    async def others() -> None:
        for _ in range(4):
            busy(0.05)
            await anyio.sleep(0)

    with cpu_timer() as work:
        async with anyio.create_task_group() as group:
            group.start_soon(others)
            assert await search() == "found"
    assert work.us is not None and 20_000 <= work.us < 40_000


async def test_the_time_of_a_database_or_a_local_model_counts_as_wall_clock_time() -> None:
    @cpu_timed
    async def asking() -> None:
        busy(0.01)
        with wall_timed():
            busy(0.01)
            await anyio.sleep(0.05)
        await anyio.sleep(0.05)

    with cpu_timer() as work:
        await asking()
    assert work.us is not None and 70_000 <= work.us < 110_000


async def test_cpu_timed_passes_exceptions_and_cancellation_through() -> None:
    @cpu_timed
    async def failing() -> None:
        await anyio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await failing()

    @cpu_timed
    async def waiting() -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await waiting()
    assert scope.cancelled_caught


async def test_the_times_of_a_built_in_search_add_up(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=6)
    await world.run(providers=BUILT_INS, answering_model="none", run_id="r", concurrency=6)
    async with Reader.open(world.workspace / "checkpoints/r") as reader:
        for record in read_jobs(reader.meta.extra):
            _, rows = await sampled_times(reader, record.lane, Phase.SEARCH)
            assert rows
            for times in rows:
                assert times["network"] == times["limiter"] == 0
                assert times["provider"] >= 0 and times["total"] <= times["queue"] + times["provider"]


async def test_the_ingest_of_a_built_in_takes_its_processor_time_at_any_concurrency(world_of: Worlds) -> None:
    world = world_of(corpora=6, items=6)
    names = ("ingest_latency_mean", "ingest_latency_mean.queue")
    await world.run(providers="bm25", answering_model="none", run_id="r", concurrency=6, metrics=names)
    async with Reader.open(world.workspace / "checkpoints/r") as reader:
        (record,) = read_jobs(reader.meta.extra)
        corpora = [one async for one in reader.corpora(record.build)]
        (job,) = (await fold(reader)).jobs
        settings = ReceiptSettings(receipt_id="0" * 26, folder=world.workspace, issued_at="2099-01-01T00:00:00.000Z")
        measured = json_of((await build(reader, job, settings)).body)["scores"]["measured"]  # type: ignore[index, call-overload]
    by_corpus = [[row.times_us for row in one.last if row.kind == CorpusKind.BATCH] for one in corpora]
    adds = [add for some in by_corpus for add in some]
    latency, queue = (job.metrics[name].value for name in names)
    assert latency is not None and queue is not None
    assert latency * 6_000 == pytest.approx(sum(add["provider"] for add in adds))
    assert measured["ingest_us"]["max"] == max(sum(add["provider"] for add in some) for some in by_corpus)  # type: ignore[index, call-overload]
    assert queue * 6_000 == pytest.approx(sum(add["queue"] for add in adds))
    assert all(add["provider"] + add["queue"] <= add["total"] + 1 and add["queue"] > 0 for add in adds)
