"""``--batch``: no call is paid twice after any interruption, and the rows are those of live calls."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.errors import ConfigError, UsageError
from bench.journal import Reader
from bench.models import batch
from bench.plan.cost_estimate import estimate
from bench.plan.job_record import read_jobs
from bench.report.exports.export import rows_of
from tests.local_server import LocalServers
from tests.reality.batch_stub import BatchStub
from tests.small_world import World, kill

DIALECTS = ["openai", "anthropic"]
JUDGED = "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n"
PRICES = {name: {"input": 2, "output": 10, "batch": 0.5} for name in ("acme/m1", "acme/j1")}
FLAGS: dict[str, object] = {
    "benchmarks": "judged", "providers": "bm25", "answering_model": "acme/m1", "judge_model": "acme/j1",
    "prices": PRICES, "k": 2,
}  # fmt: skip
ITEMS = 6
LIVE_ONLY = ("run_id", "latency", "cost", "flags", "metrics")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"QUIET_S": 0.02, "FIRST_POLL_S": 0.01, "LONGEST_POLL_S": 0.02}.items():
        monkeypatch.setattr(batch, name, value)


Made = Callable[..., Awaitable[World]]


@pytest.fixture
async def world_with(tmp_path: Path) -> AsyncIterator[Made]:
    servers = LocalServers()

    async def make(stub: BatchStub, dialect: str) -> World:
        world = World.make(tmp_path, corpora=1, items=ITEMS, sessions=3)
        url = await servers.start(stub.handle)
        world.write("configs/benchmarks/judged.yaml", JUDGED)
        address = f"{url}/v1" if dialect == "openai" else url
        world.write(
            "configs/models/acme.yaml", f"name: acme\ndialect: {dialect}\nbase_url: {address}\nauth: {{type: none}}\n"
        )
        return world

    yield make
    await servers.close()


async def rows(world: World, run_id: str) -> list[dict[str, Any]]:
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        (record,) = read_jobs(reader.meta.extra)
        return [row async for row in rows_of(reader, run_id, record)]


def without_live_values(row: dict[str, Any]) -> dict[str, Any]:
    scores = {name: value for name, value in row["metrics"].items() if "latency" not in name and "cost" not in name}
    return {name: value for name, value in row.items() if name not in LIVE_ONLY} | {"scores": scores}


async def check_same_as_live(world: World, stub: BatchStub, run_id: str) -> None:
    """Check that every body was processed once, and that the rows are those of a run without batches."""
    assert set(stub.paid.values()) == {1}, "nothing is paid twice"
    assert len(stub.paid) == 2 * ITEMS
    await world.run(run_id="live", **FLAGS)
    live, batched = await rows(world, "live"), await rows(world, run_id)
    assert [without_live_values(row) for row in batched] == [without_live_values(row) for row in live]
    assert all("batched" in row["flags"] for row in batched)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_two_batches_give_the_rows_of_twelve_live_calls_for_half_the_price(
    world_with: Made, dialect: str
) -> None:
    stub = BatchStub()
    world = await world_with(stub, dialect)
    outcome = await world.run(run_id="b", batch=True, **FLAGS)
    assert outcome.exit_code == 0
    assert [len(job.requests) for job in stub.jobs.values()] == [ITEMS, ITEMS]
    assert not [call for call in stub.seen if call in ("POST /v1/chat/completions", "POST /v1/messages")]
    assert float(outcome.cost_usd) == pytest.approx(2 * ITEMS * (1000 * 2 + 10 * 10) / 1e6 / 2)
    await check_same_as_live(world, stub, "b")
    for row in await rows(world, "b"):
        assert row["latency"].keys() == {"search"}


async def test_the_plan_estimates_the_batch_price(world_with: Made) -> None:
    world = await world_with(BatchStub(), "openai")
    alone, batched = (estimate(world.plan(batch=one, **FLAGS)).cost_usd for one in (False, True))
    assert alone is not None and batched == alone / 2


async def test_calls_of_all_repeats_and_models_are_collected_in_few_batches(world_with: Made) -> None:
    stub = BatchStub()
    world = await world_with(stub, "openai")
    flags = FLAGS | {"answering_model": ["acme/m1", "acme/m2"], "epochs": 3}
    outcome = await world.run(run_id="b", batch=True, **flags)
    assert outcome.exit_code == 0
    sizes = sorted(len(job.requests) for job in stub.jobs.values())
    assert len(sizes) <= 6 and sum(sizes) == ITEMS * 3 * 4, "each repeat of each model is a separate call"


async def stopped_at(world: World, stub: BatchStub, number: int, *, after: bool, run_id: str, resume: bool) -> None:
    """Cancel a run at one of its requests, as a kill would."""
    stub.hang(number, after=after)
    async with anyio.create_task_group() as tasks:
        if resume:
            tasks.start_soon(world.resume, run_id)
        else:

            async def begin() -> None:
                await world.run(run_id=run_id, batch=True, **FLAGS)

            tasks.start_soon(begin)
        with anyio.fail_after(60):
            await stub.reached.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_resume_finds_a_batch_that_was_sent_and_does_not_send_it_again(
    world_with: Made, dialect: str, after: bool
) -> None:
    stub = BatchStub()
    world = await world_with(stub, dialect)
    create = 2 if dialect == "openai" else 1
    await stopped_at(world, stub, create, after=after, run_id="b", resume=False)
    assert len(stub.jobs) == after, "the response with the id of the batch is lost"
    await stopped_at(world, stub, 3, after=after, run_id="b", resume=True)
    outcome = await world.resume("b")
    assert outcome.exit_code == 0
    assert sum(len(job.requests) for job in stub.jobs.values()) == 2 * ITEMS, "each request is in one batch"
    await check_same_as_live(world, stub, "b")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_outage_of_the_batch_endpoint_creates_no_second_batch(world_with: Made, dialect: str) -> None:
    stub = BatchStub()
    chance = random.Random(3)
    stub.outage = lambda: chance.choice(["", "before", "after"])
    world = await world_with(stub, dialect)
    outcome = await world.run(run_id="b", batch=True, **FLAGS)
    assert outcome.exit_code == 0
    assert sum(len(job.requests) for job in stub.jobs.values()) == 2 * ITEMS, "each request is in one batch"
    stub.outage = lambda: ""
    await check_same_as_live(world, stub, "b")


@pytest.mark.parametrize("lost", ["expired", "cancelled"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_expired_or_canceled_calls_go_into_the_next_batch(world_with: Made, dialect: str, lost: str) -> None:
    fates = {1: ["ok", lost, "overloaded"], 2: ["ok", lost, "ok"]}
    stub = BatchStub()
    number_of: dict[str, int] = {}

    def fate(number: int, body: dict[str, Any]) -> str:
        at = number_of.setdefault(str(body["messages"]), len(number_of))
        return fates.get(number, ["ok"])[at % len(fates.get(number, ["ok"]))]

    stub.fate = fate
    world = await world_with(stub, dialect)
    outcome = await world.run(run_id="b", batch=True, **FLAGS)
    assert outcome.exit_code == 0
    assert len(stub.jobs) > 2
    await check_same_as_live(world, stub, "b")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_rejected_call_in_a_batch_fails_only_its_item(world_with: Made, dialect: str) -> None:
    stub = BatchStub()
    stub.fate = lambda number, body: (
        "bad" if number == 1 and "K0x3" in str(body["messages"]).split("Question")[-1] else "ok"
    )
    world = await world_with(stub, dialect)
    outcome = await world.run(run_id="b", batch=True, max_error_rate=1, **FLAGS)
    failed = [row for row in await rows(world, "b") if row["error"]]
    assert [(row["item_id"], row["error"]["kind"]) for row in failed] == [("c0q3", "rejected")]
    assert outcome.exit_code in (0, 4)
    reported = 100 if dialect == "openai" else 0
    assert float(outcome.cost_usd) == pytest.approx((2 * (ITEMS - 1) * (1000 * 2 + 10 * 10) + reported * 2) / 1e6 / 2)


async def test_batch_needs_a_model_with_a_batch_endpoint_and_no_item_timeout(world_with: Made) -> None:
    world = await world_with(BatchStub(), "google")
    with pytest.raises(ConfigError, match="acme/m1 has no known batch endpoint"):
        await world.run(run_id="b", batch=True, **FLAGS)
    with pytest.raises(UsageError, match="--item-timeout cannot be combined with --batch"):
        world.plan(batch=True, item_timeout="5m", **FLAGS)


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_missing_batch_endpoint_is_rejected_and_not_retried(world_with: Made, status: int) -> None:
    stub = BatchStub()
    stub.missing = status
    world = await world_with(stub, "openai")
    await world.run(run_id="b", batch=True, **FLAGS)
    assert {row["error"]["kind"] for row in await rows(world, "b")} == {"rejected"}
    assert len(stub.seen) == 1


@pytest.mark.long
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fifty_kills_of_a_batch_run_pay_no_call_twice(world_with: Made, dialect: str) -> None:
    stub, chance = BatchStub(), random.Random(5)
    world = await world_with(stub, dialect)
    resume = None
    for _ in range(50):
        stub.hang(chance.randint(1, 4), after=chance.random() < 0.5)
        process = world.start(resume=resume, **({} if resume else {"run_id": "b", "batch": True, **FLAGS}))
        with anyio.move_on_after(20):
            while process.poll() is None and not stub.reached.is_set():
                await anyio.sleep(0.05)
        await anyio.to_thread.run_sync(kill, process)
        if process.returncode == 0:
            break
        folder = world.workspace / "checkpoints/b"
        resume = "b" if folder.is_dir() else None
    outcome = await world.resume("b")
    assert outcome.exit_code == 0
    await check_same_as_live(world, stub, "b")
