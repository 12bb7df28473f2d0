"""kill -9 during an ingest: acknowledged batches are never sent again, and at most one other batch per worker."""

from __future__ import annotations

import json
import signal
from collections import Counter
from decimal import Decimal
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, World, kill, wait_for

COUNTING = '  count: {method: GET, path: /v1/memories, query: {namespace: "$.runTag"}, value: "$.count"}\n'
PATIENT = PROVIDER.replace("timeout: 2000", "timeout: 60000")
"""a busy machine answers late; tests of timeouts cause them explicitly"""
CORPORA, SESSIONS, WORKERS = 4, 12, 3


async def killed_and_resumed(world: World, stub: MemoryStub, *, at: tuple[int, ...]) -> None:
    """Kill the run each time the server has got that many adds, then let it finish."""
    import anyio.to_thread

    resume = None
    for adds in at:
        flags: dict[str, object] = {"ingest_concurrency": WORKERS}
        if resume is None:
            flags |= {"providers": "faulty", "run_id": "k", "cleanup": "never"}
        process = world.start(resume=resume, **flags)
        await anyio.to_thread.run_sync(lambda: wait_for(lambda: stub.calls("add") >= adds, seconds=180))  # noqa: B023
        await anyio.to_thread.run_sync(kill, process)
        resume = "k"
    outcome = await world.resume("k", cleanup="never")
    assert outcome.exit_code == 0
    assert world.query("k", "select distinct outcome from score") == [("ok",)]


def sent(stub: MemoryStub) -> Counter[str]:
    return Counter(str(body["content"]) for body in stub.seen["add"])


@pytest.mark.parametrize("counts", [True, False], ids=["counts", "search only"])
async def test_after_sigkill_only_unacknowledged_batches_are_sent_again(counts: bool, world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=CORPORA, items=SESSIONS, sessions=SESSIONS)
    world.provider("faulty", base=PATIENT if counts else PATIENT.replace(COUNTING, ""))
    await killed_and_resumed(world, stub, at=(7, 20, 33))
    every = CORPORA * SESSIONS
    assert len(sent(stub)) == every
    assert sum(sent(stub).values()) <= every + 3 * WORKERS
    assert max(stub.cleared, default=0) <= 1, "at most a first unacknowledged batch is cleared"
    held = [len(kept) for kept in stub.spaces.values() if kept]
    assert held == [SESSIONS] * CORPORA, "and nothing is stored twice"


@pytest.mark.parametrize("end", [(signal.SIGKILL,), (signal.SIGINT, signal.SIGINT)], ids=["kill", "interrupt"])
@pytest.mark.parametrize("repeats", [False, True], ids=["counts", "repeats"])
async def test_calls_in_flight_at_the_end_of_a_process_are_in_the_cost(
    end: tuple[signal.Signals, ...], repeats: bool, world_on: WorldOn, bench: Bench
) -> None:
    first_ends = anyio.Event()

    async def stored_without_response(number: int, request: web.Request, body: dict[str, object]) -> None:
        if number > 3 and not first_ends.is_set():
            if not repeats:
                stub.spaces.setdefault(str(body["namespace"]), []).append(body)
            await first_ends.wait()
            await anyio.sleep_forever()

    def stop() -> None:
        wait_for(lambda: stub.calls("add") >= 4, seconds=30)
        for number in end:
            process.send_signal(number)
        process.communicate(timeout=120)

    stub = MemoryStub(answers={"add": stored_without_response})
    world = await world_on(stub, corpora=1, items=4, sessions=SESSIONS)
    world.provider(
        "faulty", base=PATIENT.replace("on_unknown: reset", "on_unknown: repeat" if repeats else "on_unknown: probe")
    )
    prices = {"faulty": {"add": 0.001, "search": 0.01}}
    flags: dict[str, object] = {"cleanup": "never", "prices": prices, "metrics": ["cost_ingest", "cost_total"]}
    process = world.start(providers="faulty", run_id="k", ingest_concurrency=WORKERS, **flags)
    await anyio.to_thread.run_sync(stop)
    first_ends.set()
    outcome = await world.resume("k", cleanup="never")
    assert outcome.exit_code == 0
    billed = stub.calls("add") * Decimal("0.001") + stub.calls("search") * Decimal("0.01")
    unknown = stub.calls("add") - SESSIONS if repeats and end == (signal.SIGKILL,) else 0
    assert (Decimal(outcome.cost_usd), outcome.unknown_costs) == (billed - unknown * Decimal("0.001"), unknown)
    assert outcome.unknown_costs or not repeats or end != (signal.SIGKILL,)
    (job,) = json.loads((await in_thread(bench, "results", "k", "--json")).stdout)["jobs"]
    for metric, queries in (("cost_total", 0), ("cost_ingest", 4)):
        found = job["metrics"][metric]
        assert found["value"] == pytest.approx(float(Decimal(outcome.cost_usd) - queries * Decimal("0.01")))
        assert bool(found["n_unknown"]) == bool(unknown)
    usd = f"USD {'>= ' if unknown else ''}{Decimal(outcome.cost_usd) - 4 * Decimal('0.01'):f}".rstrip("0")
    assert job["memory_cost"]["text"] == f"build {usd}"


async def test_a_timeout_while_an_unacknowledged_batch_is_checked_clears_nothing(world_on: WorldOn) -> None:
    never = anyio.Event()

    def lost(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        if number == 3 and request.transport is not None:
            request.transport.abort()
        return None

    async def hangs(number: int, request: web.Request, body: dict[str, object]) -> None:
        if stub.calls("add") >= 3:
            await never.wait()

    stub = MemoryStub(answers={"add": lost, "count": hangs, "search": hangs})
    world = await world_on(stub, corpora=1, items=1, sessions=4)
    world.provider("faulty", base=PROVIDER.replace("timeout: 2000", "timeout: 300"))
    await world.run(providers="faulty", run_id="r", cleanup="never")
    never.set()
    assert stub.cleared == []
    rows = world.query("r", "select outcome, json_extract(data, '$.doubt') from corpus_row where kind = 'failed'")
    assert rows == [("timeout", 1)]


def test_corpus_rows_without_batch_intents_of_an_older_version_are_in_doubt_on_resume(tmp_path: Path) -> None:
    from bench.engine.corpora.corpus_state import CorpusState, Step
    from bench.journal import CorpusKind, CorpusRow

    def row(kind: CorpusKind, **data: object) -> CorpusRow:
        return CorpusRow(lane="l", corpus="c", attempt=1, kind=kind, data=data)

    older = [row(CorpusKind.INTENT), row(CorpusKind.BATCH, batch=0), row(CorpusKind.BATCH, batch=1)]
    assert CorpusState.of(older).next_step(durability="service", resumed=True) is Step.DOUBT
    assert not CorpusState.of(older).is_marked
    now = [row(CorpusKind.INTENT), row(CorpusKind.INTENT, batch=0), row(CorpusKind.BATCH, batch=0)]
    assert CorpusState.of(now).next_step(durability="service", resumed=True) is Step.CONTINUE
    assert CorpusState.of([*now, row(CorpusKind.INTENT, batch=1)]).doubts == {1}


async def test_a_batch_is_sent_only_after_its_intent_is_durable(world_on: WorldOn) -> None:
    durable: list[int] = []

    def look(number: int, request: web.Request, body: dict[str, object]) -> None:
        sql = "select count(*) from corpus_row where kind = 'intent' and json_extract(data, '$.batch') is not null"
        durable.append(world.query("r", sql)[0][0])

    world = await world_on(MemoryStub(answers={"add": look}), corpora=1, items=1, sessions=SESSIONS)
    assert (await world.run(providers="faulty", run_id="r")).exit_code == 0
    assert len(durable) == SESSIONS
    assert [number for number, intents in enumerate(durable, 1) if intents < number] == []


async def test_the_searches_of_a_check_that_ended_before_a_kill_are_in_the_call_log(world_on: WorldOn) -> None:
    ends = anyio.Event()

    async def hangs(number: int, request: web.Request, body: dict[str, object]) -> None:
        if number == 4 and not ends.is_set():
            await ends.wait()
            await anyio.sleep_forever()

    def stop() -> None:
        wait_for(lambda: stub.calls("search") >= 4, seconds=30)
        wait_for(lambda: world.query("k", logged) == [(3,)], seconds=30)
        kill(process)

    logged = "select count(*) from call where endpoint = 'faulty.search'"
    stub = MemoryStub(answers={"search": hangs})
    world = await world_on(stub, corpora=1, items=2, sessions=SESSIONS)
    world.provider("faulty", base=PATIENT.replace(COUNTING, ""))
    prices = {"faulty": {"add": 0.001, "search": 0.01}}
    process = world.start(providers="faulty", run_id="k", cleanup="never", prices=prices)
    await anyio.to_thread.run_sync(stop)
    assert world.query("k", logged) == [(3,)]
    ends.set()
    outcome = await world.resume("k", cleanup="never")
    searches = stub.calls("search") - 1
    assert outcome.exit_code == 0 and Decimal(outcome.cost_usd) == SESSIONS * Decimal("0.001") + searches * Decimal(
        "0.01"
    )
