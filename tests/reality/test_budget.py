"""Costs of a run: the journal has every call that the server got, and ``--max-cost`` limits the whole run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from bench.engine.stopping import Stop
from bench.journal import Reader
from bench.plan.unpriced_calls import require_prices
from tests.cli.test_builds import in_thread
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING, World

Worlds = Callable[..., World]
Bench = Callable[..., Any]
PRICES = {"faulty": {"add": 0.001, "search": 0.01}}
SEARCHED = PROVIDER.replace(
    '  count: {method: GET, path: /v1/memories, query: {namespace: "$.runTag"}, value: "$.count"}\n', ""
)


@pytest.fixture
def world(world_of: Worlds) -> World:
    """A provider whose namespaces are probed by a search, which has a price."""
    made = world_of(corpora=4, items=6)
    made.provider("faulty", base=SEARCHED)
    return made


def billed(world: World) -> Decimal:
    """Return the costs of all calls that the server got."""
    return world.calls("add") * Decimal("0.001") + world.calls("search") * Decimal("0.01")


async def spent(world: World, run_id: str) -> tuple[Decimal, int]:
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        return await reader.spending()


async def test_every_call_of_a_run_is_in_the_journal_with_its_cost(world: World) -> None:
    outcome = await world.run(providers="faulty", run_id="r", prices=PRICES, isolation="full")
    assert outcome.exit_code == 0
    assert Decimal(outcome.cost_usd) == billed(world) == (await spent(world, "r"))[0]
    total = world.control("stats")["providers"]["default"]["endpoints"]
    assert world.query("r", "select count(*) from call") == [(sum(one["calls"] for one in total.values()),)]


async def test_no_search_starts_after_the_limit_also_in_the_checks_of_an_index(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=6)
    world.provider("faulty", base=SEARCHED)
    for number in range(1, 9):
        before, limit = billed(world), Decimal(number) / 100 + Decimal("0.005")
        outcome = await world.run(
            providers="faulty", run_id=f"r{number}", prices=PRICES, max_cost=float(limit), concurrency=1
        )
        assert outcome.stop is Stop.MAX_COST
        assert billed(world) - before == Decimal(outcome.cost_usd) < limit + Decimal("0.01")
    outcome = await world.resume("r8", max_cost=1)
    assert outcome.exit_code == 0
    assert [probe[0] for probe in world.query("r8", "select kind from probe order by kind")] == [
        "emptiness",
        "sentinel",
    ]


async def test_max_cost_limits_a_run_over_all_its_resumes(world: World) -> None:
    outcome = await world.run(providers="faulty", run_id="r", prices=PRICES, max_cost=0.1, concurrency=1)
    assert (outcome.exit_code, outcome.stop) == (3, Stop.MAX_COST)
    assert Decimal(outcome.cost_usd) == billed(world) == (await spent(world, "r"))[0]
    before = billed(world)
    for _ in range(2):
        outcome = await world.resume("r")
        assert (outcome.exit_code, outcome.stop) == (3, Stop.MAX_COST)
        assert Decimal(outcome.cost_usd) == billed(world) == before
    outcome = await world.resume("r", max_cost=1)
    assert outcome.exit_code == 0
    assert Decimal(outcome.cost_usd) == billed(world) == (await spent(world, "r"))[0]


async def test_status_calls_of_an_index_wait_are_in_the_journal_after_sigint(world_on: WorldOn) -> None:
    def pending(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return web.json_response({"status": "pending"})

    stub = MemoryStub(answers={"status": pending})
    world = await world_on(stub, corpora=1, items=2)
    patient = SEARCHED.replace("timeout: 2000", "timeout: 60000")
    world.provider("faulty", base=patient, extra=WAITING.replace("timeout_s: 3", "timeout_s: 300"))
    outcome = await world.run(providers="faulty", run_id="r", prices=PRICES)
    assert outcome.stop is Stop.SIGINT
    assert world.query("r", "select count(*) from call where endpoint = 'faulty.status'") == [(stub.calls("status"),)]


@pytest.mark.parametrize("fault", ["add:status:code=500", "search:status:code=503", "add:reset", "search:hang"])
async def test_failed_calls_are_in_the_journal(world_of: Worlds, fault: str) -> None:
    world = world_of(fault, corpora=2, items=2)
    world.provider("faulty", base=SEARCHED.replace("timeout: 2000", "timeout: 200"))
    await world.run(providers="faulty", run_id="r", prices=PRICES)
    endpoints: dict[str, Any] = world.control("stats")["providers"]["default"]["endpoints"]
    for name in ("add", "search"):
        (found,) = world.query("r", f"select count(*) from call where endpoint = 'faulty.{name}'")[0]
        assert found == endpoints.get(name, {}).get("calls", 0)


async def test_a_call_of_a_service_without_a_price_has_an_unknown_cost(world: World) -> None:
    outcome = await world.run(providers="faulty", run_id="r")
    calls = world.calls("add") + world.calls("search")
    assert (outcome.cost_usd, outcome.unknown_costs) == ("0", calls)
    assert await spent(world, "r") == (0, calls)


async def test_the_message_for_a_spent_budget_names_max_cost_and_its_value(world: World) -> None:
    outcome = await world.run(providers="faulty", run_id="r", prices=PRICES, max_cost=0.05, concurrency=1)
    assert "--max-cost" in outcome.message and "0.05" in outcome.message


UNPRICED = "openai/unknown-model"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--providers", "bm25", "--answering-model", UNPRICED], UNPRICED),
        (["--providers", "faulty"], "faulty"),
        (["--providers", "faulty", "--answering-model", UNPRICED], "faulty"),
    ],
)
def test_max_cost_without_any_known_price_is_refused_before_the_run_starts(
    world: World, bench: Bench, monkeypatch: pytest.MonkeyPatch, flags: list[str], named: str
) -> None:
    for name, value in {**world.variables, "OPENAI_API_KEY": "test-key"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.workspace)
    done = bench("run", "--benchmarks", "facts", *flags, "--run-id", "r", "--max-cost", "5", check=2)
    assert "--max-cost 5 cannot stop this run" in done.stderr and "prices" in done.stderr and named in done.stderr
    assert not (world.workspace / "checkpoints").exists()
    planned = bench("plan", "--benchmarks", "facts", *flags, "--max-cost", "5")
    assert "--max-cost 5 does not count calls of" in planned.stdout and named in planned.stdout


async def test_max_cost_with_some_unknown_prices_notes_which_calls_do_not_count(world: World) -> None:
    world.variables["OPENAI_API_KEY"] = "test-key"
    plan = world.plan(providers="faulty", answering_model=UNPRICED, prices=PRICES, max_cost=5)
    require_prices(plan)
    (note,) = [text for text in plan.notes if "--max-cost" in text]
    assert UNPRICED in note and "faulty" not in note


def test_max_cost_of_a_free_run_needs_no_price(world: World) -> None:
    free = {"providers": "bm25", "answering_model": "builtin/extractive", "max_cost": 5}
    require_prices(world.plan(**free))
    require_prices(world.plan(**free | {"providers": "faulty", "prices": {"faulty": {"add": 0, "search": 0}}}))
    assert not [text for text in world.plan(**free).notes if "--max-cost" in text]


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (
            {"input": "0.00015", "output": "0.0006"},
            ["per thousand tokens, write 0.15", "per thousand tokens, write 0.6"],
        ),
        ({"input": "0.0000025"}, ["per token, write 2.5"]),
        ({"input": "0.02", "output": "0.02", "cache_read": "0.002"}, []),
        ({"input": "0", "output": "0"}, []),
    ],
)
def test_a_price_per_token_or_per_thousand_tokens_is_noted_in_the_plan(
    world: World, prices: dict[str, str], expected: list[str]
) -> None:
    world.variables["OPENAI_API_KEY"] = "test-key"
    plan = world.plan(providers="bm25", answering_model=UNPRICED, prices={UNPRICED: prices})
    notes = [text for text in plan.notes if "lower than any list price" in text]
    assert len(notes) == len(expected) and all(words in text for words, text in zip(expected, notes, strict=True))


@pytest.mark.parametrize("prices", [PRICES, {}])
async def test_after_retries_of_pages_the_cost_is_the_same_everywhere(
    world_on: WorldOn, bench: Bench, prices: dict[str, Any]
) -> None:
    def page(number: int, request: web.Request, body: dict[str, object]) -> web.Response:
        if number % 3 == 0:
            return web.json_response({"error": "later"}, status=503)
        hits = stub.found(stub.spaces.get(str(body["namespace"]), []), str(body["query"]), 50)
        start = int(str(request.query.get("after", 0)))
        more = {"next": str(start + 2)} if start + 2 < len(hits) else {}
        return web.json_response({"results": hits[start : start + 2], **more})

    stub = MemoryStub(answers={"search": page})
    world = await world_on(stub, corpora=2, items=4, sessions=8)
    response = '    response: {results: "$.results"'
    paged = SEARCHED.replace(response, "    page: {cursor: $.next, param: after}\n" + response)
    world.provider("faulty", base=paged.replace("maxRetries: 1", "maxRetries: 9"))
    outcome = await world.run(providers="faulty", run_id="r", prices=prices, metrics="mrr,cost_total")
    adds, searches = stub.calls("add"), stub.calls("search") - stub.calls("search") // 3
    usd = adds * Decimal("0.001") + searches * Decimal("0.01") if prices else Decimal(0)
    expected = (usd, 0 if prices else adds + searches)
    assert outcome.exit_code == 0
    assert (Decimal(outcome.cost_usd), outcome.unknown_costs) == expected

    async def document(*arguments: str) -> Any:
        return json.loads((await in_thread(bench, *arguments, "--json")).stdout)

    await in_thread(bench, "keys", "new")
    await in_thread(bench, "sign", "r")
    status, (job,) = await document("status", "r"), (await document("results", "r"))["jobs"]
    assert (Decimal(status["cost_usd"]), status["cost_unknown_calls"]) == expected
    for parts in ([job["usage"]["provider"]], [job["memory_cost"]["build"], job["memory_cost"]["query"]]):
        unknown = sum(one["cost_unknown_calls"] for one in parts)
        assert (sum(Decimal(one["cost_usd"]) for one in parts), unknown) == expected
    (path,) = (world.workspace / "results/r/receipts").glob("*[!s].json")
    receipt = json.loads(path.read_text())
    assert receipt["scores"]["cost"]["usdMicros"] == (usd * 1_000_000 if prices else None)
    sheet = {one["name"]: one for one in (await document("sheet", "r"))["sheets"][0]["facts"]}
    assert (sheet["cost of build"]["known"], sheet["cost per query"]["known"]) == (bool(prices), bool(prices))
    if prices:
        assert job["metrics"]["cost_total"]["value"] == pytest.approx(float(usd))
        rows = map(json.loads, path.with_suffix(".items.jsonl").read_text().splitlines())
        micros = sum(row["costUsdMicros"] for row in rows if "costUsdMicros" in row)
        assert micros == Decimal(job["memory_cost"]["query"]["cost_usd"]) * 1_000_000
