"""A clock jump changes only timestamps, and no wait, duration or rate."""

from __future__ import annotations

from datetime import timedelta

import pytest
from aiohttp import web

from bench.http.rate_limiter import parse_wait_s, server_time
from bench.journal import Reader, rows
from bench.report.fold import fold
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub

HOUR = 3600.0


@pytest.mark.parametrize("jump_s", [-HOUR, HOUR, -20 * 365 * 24 * HOUR])
async def test_a_clock_jump_during_a_run_does_not_change_durations(
    jump_s: float, world_on: WorldOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [0.0]
    real = rows.time.time
    monkeypatch.setattr(rows.time, "time", lambda: real() + ahead[0])

    def jumping(number: int, _request: web.Request, _body: object) -> None:
        ahead[0] = jump_s if number > 2 else 0.0

    world = await world_on(MemoryStub({"add": jumping}), corpora=2, items=2)
    outcome = await world.run(providers="faulty", run_id="r", metrics=["ingest_throughput", "latency_max"])
    assert outcome.exit_code == 0
    async with Reader.open(world.workspace / "checkpoints/r") as reader:
        (job,) = (await fold(reader)).jobs
    throughput, latency = job.metrics["ingest_throughput"].value, job.metrics["latency_max"].value
    assert throughput is not None and throughput > 0.1
    assert latency is not None and 0 <= latency < 60_000
    times = "select min(queue_us), min(limiter_us), min(network_us), min(provider_us) from call"
    assert all(least >= 0 for least in world.query("r", times)[0])


async def test_the_time_between_a_stop_and_its_resume_is_not_counted_as_ingest_time(
    world_on: WorldOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = MemoryStub({"add": lambda number, *_: web.json_response({}, status=400) if number == 4 else None})
    world = await world_on(refused, corpora=2, items=2)
    await world.run(providers="faulty", run_id="r", metrics=["ingest_throughput"], ingest_concurrency=1)
    real = rows.time.time
    monkeypatch.setattr(rows.time, "time", lambda: real() + HOUR)
    outcome = await world.resume("r")
    assert outcome.exit_code == 0
    async with Reader.open(world.workspace / "checkpoints/r") as reader:
        throughput = (await fold(reader)).jobs[0].metrics["ingest_throughput"].value
    assert throughput is not None and throughput > 0.1


async def test_a_retry_after_date_is_relative_to_the_date_header_of_the_server() -> None:
    headers = {"Date": "Thu, 01 Jan 1970 00:10:00 GMT", "Retry-After": "Thu, 01 Jan 1970 00:10:05 GMT"}
    assert parse_wait_s(headers["Retry-After"], now=server_time(headers)) == 5.0
    assert server_time({}) == pytest.approx(rows.time.time(), abs=60)
    assert server_time({"Date": "yesterday"}) == pytest.approx(rows.time.time(), abs=60)


def test_now_does_not_follow_a_jump_of_the_system_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows.now()
    monkeypatch.setattr(rows.time, "time", lambda: 0.0)
    assert timedelta(0) <= rows.now() - before < timedelta(minutes=1)
