"""L: concurrency, rates, deadlines, refused keys and retries, measured at the server."""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing

import pytest

from bench.journal import RunState
from bench.model import State
from tests.local_server import deaf_server
from tests.small_world import World

Worlds = Callable[..., World]


@pytest.mark.parametrize(("concurrency", "least", "most"), [(1, 1, 1), (8, 6, 8)])
async def test_L1_requests_in_flight_at_the_server_match_the_concurrency(
    world_of: Worlds, concurrency: int, least: int, most: int
) -> None:
    world = world_of("*:latency:ms=30", corpora=4, items=10)
    outcome = await world.run(providers="faulty", concurrency=concurrency)
    assert outcome.exit_code == 0
    assert least <= world.control("stats")["max_in_flight"] <= most


async def test_L2_no_second_has_more_searches_than_rate_plus_burst(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=20", corpora=1, items=200)
    outcome = await world.run(providers="faulty", rate=["faulty.search=50/s"], concurrency=40, isolation="off")
    assert outcome.jobs[0].states == {State.MEASURED: 200}
    with closing(sqlite3.connect(outcome.folder / "journal.sqlite")) as journal:
        sent = [
            at / 1e6
            for (at,) in journal.execute(
                "SELECT started_us FROM call WHERE endpoint LIKE '%search' ORDER BY started_us"
            )
        ]
    assert max(bisect_left(sent, at + 1) - place for place, at in enumerate(sent)) <= 50 + 1.25
    window = world.control("window?provider=default&endpoint=search&seconds=1")
    # on a busy machine the server wakes up late and sees separate requests as a group
    assert 0.75 * 50 <= window["max"] <= 1.25 * 50 + 1.25


async def test_L5_a_provider_that_always_answers_429_slows_no_other(world_of: Worlds) -> None:
    world = world_of("search:latency:ms=200", corpora=2, items=20)
    world.provider("busy", **{"${FAULT_URL}": "${FAULT_URL}/p/busy"})

    def took_s() -> float:
        calls = world.control("timeline?provider=default")
        return max(end for _, end, *_ in calls) - min(begin for begin, *_ in calls)

    alone = await world.run(providers="faulty", concurrency=4)
    alone_s = took_s()
    world.control("reset", {"keep": []})
    world.fault("search:latency:ms=200", "busy/search:status:code=429,retry_after=5")

    both = await world.run(providers=["busy", "faulty"], concurrency=4, max_time=alone_s * 1.2 + 2)
    assert alone.jobs[0].states == {State.MEASURED: 40}
    busy, healthy = both.jobs
    assert healthy.states == {State.MEASURED: 40}
    assert State.MEASURED not in busy.states
    assert took_s() <= 1.2 * alone_s


async def test_L6_a_hanging_item_ends_at_item_timeout_and_the_run_ends(world_of: Worlds) -> None:
    world = world_of(
        "search:hang:match=What opens the vault K0x0",
        "search:drip:bytes=1,ms=10000,match=vault K0x1",
        corpora=1,
        items=6,
    )
    outcome = await world.run(providers="faulty", item_timeout=1, isolation="off")
    assert outcome.jobs[0].states == {State.ERROR: 2, State.MEASURED: 4}
    kinds = world.query(outcome.run_id, "select outcome, count(*) from phase where phase = 3 group by outcome")
    assert dict(kinds) == {"ok": 4, "timeout": 2}


async def test_L7_a_bad_key_stops_its_provider_and_no_other(world_of: Worlds) -> None:
    world = world_of(corpora=2, items=20)
    world.provider("locked", **{"${FAULT_URL}": "${FAULT_URL}/p/locked"})
    world.fault("locked/search:status:code=401,match=What")
    outcome = await world.run(providers=["locked", "faulty"], concurrency=2)
    locked, healthy = outcome.jobs
    assert (outcome.exit_code, outcome.status) == (3, RunState.STOPPED)
    assert healthy.states == {State.MEASURED: 40}
    assert locked.stopped is not None and locked.pending > 30
    refusals = world.control("stats")["providers"]["locked"]["endpoints"]["search"]["statuses"]["401"]
    assert refusals <= 4


async def test_L6_a_connection_that_is_not_accepted_ends_at_its_deadline(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=3)
    with deaf_server() as url:
        world.variables["DEAF_URL"] = url
        world.provider("deaf", **{"${FAULT_URL}": "${DEAF_URL}", "timeout: 2000": "timeout: 300"})
        began = time.monotonic()
        outcome = await world.run(providers=["deaf", "faulty"], isolation="off", item_timeout=2)
    deaf_job, healthy = outcome.jobs
    assert healthy.states == {State.MEASURED: 3}
    assert deaf_job.states == {State.ERROR: 3}
    kinds = world.query(outcome.run_id, "select distinct outcome from phase where outcome <> 'ok'")
    assert kinds == [("timeout",)]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("code", [400, 404, 422])
async def test_L7_a_rejected_request_is_one_call_per_item(world_of: Worlds, code: int) -> None:
    world = world_of(f"search:status:code={code},match=What", corpora=1, items=5)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.jobs[0].states == {State.ERROR: 5}
    assert world.calls("search") == 5


async def test_L8_an_add_without_idempotency_is_checked_and_stored_once(world_of: Worlds) -> None:
    world = world_of("add:status:code=503,effect=1,calls=1", corpora=1, items=6)
    outcome = await world.run(providers="faulty", cleanup="never")
    assert outcome.exit_code == 0
    spaces = world.control("namespaces?provider=default")
    assert [space["count"] for space in spaces.values() if space["count"]] == [3]
    assert world.calls("clear") == 0
    events = world.query(outcome.run_id, "select kind from event")
    assert ("corpus_reset",) not in events


async def test_L8_an_add_with_an_idempotency_key_is_repeated(world_of: Worlds) -> None:
    world = world_of("add:status:code=503,effect=1,per_key=1", corpora=1, items=6)
    world.provider("faulty", **{"path: /v1/add": "path: /v1/add\n    idempotency: {header: Idempotency-Key}"})
    outcome = await world.run(providers="faulty", cleanup="never")
    assert outcome.exit_code == 0
    spaces = world.control("namespaces?provider=default")
    assert [space["count"] for space in spaces.values()] == [3]


async def test_L10_mixed_faults_cost_at_most_ten_percent_more_calls_than_needed(world_of: Worlds) -> None:
    # faults of equal probability hit the same requests unless they have different offsets
    kinds = ("status:code=429,", "status:code=503,skip=7,", "reset:skip=13,", "drip:bytes=1,ms=1000,skip=29,")
    world = world_of(*(f"search:{kind}prob=0.05,match=What" for kind in kinds), corpora=4, items=200)
    world.provider("faulty", **{"maxRetries: 1": "maxRetries: 9", "timeout: 2000": "timeout: 1000"})
    outcome = await world.run(providers="faulty", concurrency=40, isolation="off")
    assert outcome.jobs[0].states == {State.MEASURED: 800}
    searches = world.control("stats")["providers"]["default"]["endpoints"]["search"]
    met = sum(searches["faults"].values())
    assert {"429", "503"} <= searches["statuses"].keys() and met > 120
    assert searches["calls"] <= 1.10 * (800 + met)


async def test_L11_one_corpus_of_50_that_is_refused_aborts_no_other(world_of: Worlds) -> None:
    world = world_of("add:status:code=400,match=vault K31x", corpora=50, items=2)
    outcome = await world.run(providers="faulty", max_error_rate=0.5)
    assert (outcome.exit_code, outcome.status) == (0, RunState.COMPLETE)
    assert outcome.jobs[0].states == {State.MEASURED: 98, State.ERROR: 2}
    ended = world.query(outcome.run_id, "select corpus, outcome, count(*) from phase where phase = 5 group by 1, 2")
    assert sorted(ended) == sorted((f"c{n}", "rejected" if n == 31 else "ok", 2) for n in range(50))
    refused = world.query(outcome.run_id, "select corpus, outcome from corpus_row where kind = 'failed'")
    assert refused == [("c31", "rejected")]
    assert world.query(outcome.run_id, "select count(*) from corpus_row where kind = 'ready'") == [(49,)]


async def test_L7_a_refused_key_ends_the_run_although_corpora_are_waiting(world_of: Worlds) -> None:
    world = world_of("search:status:code=401,match=What", corpora=30, items=1)
    outcome = await world.run(providers="faulty", concurrency=2)
    assert (outcome.exit_code, outcome.status) == (3, RunState.STOPPED)
    assert world.calls("search") < 30 * 2


@pytest.mark.parametrize("refused", ["answering_model", "judge_model"])
async def test_L7_a_model_with_a_refused_key_stops_its_own_jobs_and_no_other(world_of: Worlds, refused: str) -> None:
    world = world_of("chat:status:code=401,match=m-locked", corpora=2, items=10)
    world.variables.update(OPENAI_BASE_URL=f"{world.url}/v1", OPENAI_API_KEY="test-key-of-no-service")
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n",
    )
    models = {"answering_model": ["builtin/extractive"], "judge_model": ["openai/stub-echo"]}
    models[refused] = ["openai/m-locked", *models[refused]]
    outcome = await world.run(benchmarks="judged", providers="faulty", concurrency=2, **models)
    locked, healthy = outcome.jobs
    assert (outcome.exit_code, outcome.status) == (3, RunState.STOPPED)
    assert locked.stopped is not None and locked.pending >= 16
    assert healthy.stopped is None and healthy.pending == 0
    assert world.control("stats")["providers"]["default"]["endpoints"]["chat"]["statuses"]["401"] <= 4
