"""Concurrency, rates and pauses, as the server counts them."""

from __future__ import annotations

import bisect
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest
from aiohttp import web

from bench.errors import CallError, RateLimited
from bench.http import Endpoint, Feedback, Http, Limits, Request, Retry, Timeouts, recording

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]
Starter = Callable[..., str]
Seen = Callable[..., dict[str, object]]
Starts = Callable[..., list[float]]
Window = Callable[..., int]


def endpoint(name: str = "p.search", **limits: object) -> Endpoint:
    return Endpoint(
        name=name,
        role="provider",
        limits=Limits(**limits),  # type: ignore[arg-type]
        retry=Retry(max_retries=5, delay_s=0.1),
    )


def search(url: str, path: str = "/v1/search") -> Request:
    return Request("POST", f"{url}{path}", json={"query": "cats", "namespace": "n"}, idempotent=True)


async def many(http: Http, where: Endpoint, request: Request, calls: int, workers: int) -> int:
    """Make the calls with that many workers; return how many failed."""
    left = iter(range(calls))
    failed = 0

    async def work() -> None:
        nonlocal failed
        for _ in left:
            try:
                await http.call(where, request)
            except CallError:
                failed += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(workers):
            tasks.start_soon(work)
    return failed


def fullest(instants: list[float]) -> int:
    """Return the most instants in any window of one second."""
    return max(bisect.bisect_left(instants, instant + 1.0) - at for at, instant in enumerate(instants))


async def test_l1_concurrency_1_allows_one_request_in_flight_over_all_endpoints(
    fault_server: Starter, seen: Seen
) -> None:
    url = fault_server("*:latency:ms=20")
    async with Http(concurrency=1) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(many, http, endpoint("a.search"), search(url, "/p/a/v1/search"), 10, 5)
        tasks.start_soon(many, http, endpoint("b.search"), search(url, "/p/b/v1/search"), 10, 5)
    assert max(seen(url, provider=name)["max_in_flight"] for name in "ab") == 1  # type: ignore[type-var]


async def test_l1_concurrency_8_is_used_and_never_exceeded(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:latency:ms=50")
    async with Http(concurrency=8) as http:
        await many(http, endpoint(), search(url), 80, 40)
    assert 6 <= int(seen(url)["max_in_flight"]) <= 8  # type: ignore[call-overload]


async def test_an_endpoint_at_its_own_concurrency_limit_blocks_no_other_endpoint(
    fault_server: Starter, seen: Seen
) -> None:
    url = fault_server("add:hang")
    add = Request("POST", f"{url}/v1/add", json={"content": "x", "namespace": "n"})
    async with Http(concurrency=4) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(many, http, endpoint("p.add", concurrency=2), add, 6, 6)
        while seen(url, "add").get("in_flight") != 2:
            await anyio.sleep(0.01)
        await many(http, endpoint(), search(url), 20, 2)
        tasks.cancel_scope.cancel()
    assert seen(url, "add")["max_in_flight"] == 2


@pytest.mark.parametrize(("rate", "calls"), [(50.0, 200), (200.0, 500)])
async def test_l2_no_second_has_more_calls_than_rate_plus_burst(
    fault_server: Starter, window: Window, starts: Starts, rate: float, calls: int
) -> None:
    url = fault_server("search:latency:ms=20")
    with recording() as sent:
        async with Http(concurrency=40) as http:
            await many(http, endpoint(rps=rate), search(url), calls, 40)
    burst = max(1.0, rate / 40)
    assert fullest(sorted(call.started_at.timestamp() for call in sent)) <= rate + burst
    # on a busy machine a server that wakes up late sees separate calls at once, and a late timer costs a token;
    # perf/limiter.py measures both on a quiet one
    assert window(url) <= 1.25 * rate + burst
    instants = starts(url)
    assert (len(instants) - 1) / (
        instants[-1] - instants[0]
    ) >= 0.75 * rate  # perf/limiter.py measures it, this machine may be busy


async def test_a_rate_token_is_taken_only_when_a_slot_is_free(fault_server: Starter, starts: Starts) -> None:
    """While the slots are full, no tokens may collect that let out a burst afterwards."""
    url = fault_server("add:latency:ms=1000", "search:latency:ms=1")
    add = Request("POST", f"{url}/v1/add", json={"content": "x", "namespace": "n"})
    async with Http(concurrency=2) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(many, http, endpoint("p.add"), add, 2, 2)
        await anyio.sleep(0.05)
        await many(http, endpoint(rps=10), search(url), 8, 8)
    instants = starts(url)  # half a call of slack, and a busy machine delays the server's view of each
    assert instants[-1] - instants[0] >= (7 - 0.5) / 10 - 0.1


async def test_a_call_that_waits_for_its_rate_limiter_holds_no_global_slot(fault_server: Starter) -> None:
    url = fault_server()
    async with Http(concurrency=2) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(many, http, endpoint("slow.search", rps=1), search(url, "/p/slow/v1/search"), 30, 30)
        await anyio.sleep(0.1)
        started = time.perf_counter()
        await many(http, endpoint("fast.search"), search(url, "/p/fast/v1/search"), 50, 2)
        assert time.perf_counter() - started < 10, "as long as the slow ones take: 29 s"
        tasks.cancel_scope.cancel()


async def test_endpoints_with_the_same_name_share_one_rate_limiter(fault_server: Starter, window: Window) -> None:
    url = fault_server()
    with recording() as sent:
        async with Http(concurrency=20) as http, anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(many, http, endpoint(rps=20), search(url), 20, 5)
    assert fullest(sorted(call.started_at.timestamp() for call in sent)) <= 21
    assert window(url) <= 1.25 * 20 + 1


async def test_a_rate_of_the_run_replaces_the_rate_of_the_endpoint(fault_server: Starter, window: Window) -> None:
    url = fault_server()
    with recording() as sent:
        async with Http(concurrency=20, rates={"p": Limits(rps=10)}) as http:
            await many(http, endpoint(rps=1000), search(url), 15, 10)
    assert fullest(sorted(call.started_at.timestamp() for call in sent)) <= 11
    assert window(url) <= 1.25 * 10 + 1


def test_a_rate_of_the_run_replaces_the_pace_and_keeps_the_other_limits() -> None:
    own = Limits(rpm=60, burst=3, min_interval_s=1.0, tpm=1000, concurrency=2)
    assert own.under(None) == own
    assert own.under(Limits(rps=50)) == Limits(rps=50, tpm=1000, concurrency=2)
    assert own.under(Limits(concurrency=9)) == Limits(rpm=60, burst=3, min_interval_s=1.0, tpm=1000, concurrency=9)


async def test_share_scales_the_rate_for_one_of_several_machines(fault_server: Starter, window: Window) -> None:
    url = fault_server()
    with recording() as sent:
        async with Http(concurrency=20, share=0.5) as http:
            await many(http, endpoint(rpm=1200), search(url), 15, 10)
    assert fullest(sorted(call.started_at.timestamp() for call in sent)) <= 11
    assert window(url) <= 1.25 * 10 + 1


@pytest.mark.parametrize("name", ["openai/gpt-4.1", "openai/gpt-4.1.answering"])
async def test_a_limit_of_the_run_applies_to_a_model_with_a_dot_in_its_name(serve: Serve, name: str) -> None:
    here = most = 0

    async def busy(request: web.Request) -> web.Response:
        nonlocal here, most
        here += 1
        most = max(most, here)
        await anyio.sleep(0.03)
        here -= 1
        return web.json_response({})

    async with Http(concurrency=20, rates={name: Limits(concurrency=2)}) as http:
        await many(http, endpoint("openai/gpt-4.1.answering"), search(await serve(busy)), 8, 8)
    assert most == 2


async def test_share_scales_the_tokens_per_minute_for_one_of_several_machines(
    fault_server: Starter, starts: Starts
) -> None:
    url = fault_server()
    async with Http(share=0.5) as http:
        for tokens in (3_000, 150):  # 500 tokens a second, 3,000 at once
            await http.call(endpoint(tpm=60_000), replace(search(url), tokens=tokens))
    first, second = starts(url)
    assert second - first >= 0.25


async def test_min_interval_s_separates_the_starts_of_calls(fault_server: Starter, starts: Starts) -> None:
    url = fault_server()
    with recording() as sent:
        async with Http(concurrency=20) as http:
            await many(http, endpoint(min_interval_s=0.1), search(url), 8, 8)
    begun = sorted(call.started_at.timestamp() for call in sent)
    assert min(later - sooner for sooner, later in itertools.pairwise(begun)) >= 0.095
    instants = starts(url)  # a busy machine delays the server's view of each
    assert instants[-1] - instants[0] >= 7 * 0.1 - 0.1


async def test_tokens_per_minute_space_out_large_calls(fault_server: Starter, starts: Starts) -> None:
    url = fault_server()
    request = Request("POST", f"{url}/v1/search", json={"query": "x", "namespace": "n"}, idempotent=True, tokens=600)
    async with Http(concurrency=20) as http:
        await many(http, endpoint(tpm=60_000), request, 14, 14)
    instants = starts(url)
    # 1,000 tokens a second, 6,000 at once: 10 calls at once, the last 4 at one every 0.6 s
    assert instants[9] - instants[0] < 0.5
    assert 2.0 <= instants[-1] - instants[0] <= 3.5


async def test_l3_retry_after_pauses_the_whole_endpoint_and_no_other(fault_server: Starter, starts: Starts) -> None:
    url = fault_server(
        "search:status:code=429,calls=1,match=cats,retry_after=2",
        "search:status:code=429,calls=1,skip=1,match=cats,retry_date=3",
    )
    others: list[float] = []

    async def add() -> None:
        while True:
            began = time.perf_counter()
            body = {"content": "x", "namespace": "n"}
            await http.call(endpoint("p.add"), Request("POST", f"{url}/v1/add", json=body))
            others.append(time.perf_counter() - began)
            await anyio.sleep(0.1)

    async with Http(concurrency=10, random=random.Random(1)) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(add)
        async with anyio.create_task_group() as searches:
            searches.start_soon(http.call, endpoint(), search(url))
            await anyio.sleep(0.15)
            searches.start_soon(many, http, endpoint(), search(url), 4, 4)
        tasks.cancel_scope.cancel()
    first, second, *later = starts(url)
    assert len(later) == 5
    assert second - first >= 2.0
    # calls sent together with the second one could not know of the pause; a date in whole seconds, three ahead, is at
    # least two ahead
    held = [instant for instant in later if instant - second > 0.1]
    assert held and min(held) - second >= 2.0
    assert len(others) > 20 and max(others) < 0.5


async def test_retry_after_on_a_503_is_respected(fault_server: Starter, starts: Starts) -> None:
    url = fault_server("search:status:code=503,calls=1,retry_after=1")
    async with Http() as http:
        await http.call(endpoint(), search(url))
    first, second = starts(url)
    assert second - first >= 1.0


async def test_retry_after_beyond_the_deadline_fails_the_call_at_once(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:status:code=429,retry_after=3600")
    where = Endpoint(name="p.search", role="provider", timeouts=Timeouts(call_s=5))
    async with Http() as http:
        with recording() as calls:
            for _ in range(2):
                with anyio.fail_after(1), pytest.raises(RateLimited) as caught:
                    await http.call(where, search(url))
                assert (caught.value.retry_after_s or 0) > 3000
    assert [call.status for call in calls] == [429], "a call that was not sent is not recorded"
    assert seen(url)["calls"] == 1


async def test_a_pause_beyond_the_deadline_fails_the_calls_that_already_wait(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:status:code=429,retry_after=3600,skip=1", "search:latency:ms=200")
    where = Endpoint(name="p.search", role="provider", limits=Limits(concurrency=1), timeouts=Timeouts(call_s=5))
    async with Http(concurrency=4) as http:
        with anyio.fail_after(3):
            assert await many(http, where, search(url), 6, 6) == 5
    assert seen(url)["calls"] == 2


async def test_l5_a_provider_that_answers_429_takes_no_slot_from_another(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("a/search:status:code=429,retry_after=5", "search:latency:ms=20")
    request = search(url, "/p/b/v1/search")
    async with Http(concurrency=4) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(many, http, endpoint("a.search"), search(url, "/p/a/v1/search"), 20, 4)
        await anyio.sleep(0.05)
        started = time.perf_counter()
        await many(http, endpoint("b.search"), request, 100, 4)
        beside = time.perf_counter() - started
        tasks.cancel_scope.cancel()
    assert beside < 4.5, "a slot that waits for the Retry-After of a is held for 5 s"
    assert seen(url, provider="b")["max_in_flight"] == 4, "b used every slot while a waited"


async def test_l4_auto_concurrency_settles_below_the_concurrency_limit_of_the_server(
    fault_server: Starter, seen: Seen, reset: Callable[[str], None]
) -> None:
    url = fault_server("search:concurrency:limit=5", "search:latency:ms=20")
    where = Endpoint(name="p.search", role="provider", retry=Retry(max_retries=8, delay_s=0.05))
    async with Http(concurrency="auto", random=random.Random(3)) as http:
        failed, began = 0, time.perf_counter()
        while time.perf_counter() - began < 5:
            failed += await many(http, where, search(url), 100, 20)
        reset(url)
        failed += await many(http, where, search(url), 500, 20)
        assert 1 <= (http.window("p.search") or 0) <= 6
    counts = seen(url)
    statuses = counts["statuses"]
    assert failed == 0
    assert int(counts["max_in_flight"]) <= 6  # type: ignore[call-overload]
    assert statuses["429"] < 0.2 * int(counts["calls"])  # type: ignore[index,call-overload]


@pytest.mark.parametrize(("pause_s", "refuses_s"), [(1, 2.5), pytest.param(9, 20, marks=pytest.mark.long)])
async def test_l9_auto_concurrency_falls_to_one_on_429_and_grows_again(
    fault_server: Starter, seen: Seen, faults: Callable[[str, list[str]], None], pause_s: int, refuses_s: float
) -> None:
    """429 with Retry-After for a while, then a healthy server."""
    url = fault_server("search:latency:ms=10")
    where = Endpoint(
        name="p.search", role="provider", retry=Retry(max_retries=8, delay_s=0.05), timeouts=Timeouts(call_s=120)
    )
    sizes: list[int] = []
    async with Http(concurrency="auto", random=random.Random(3)) as http, anyio.create_task_group() as tasks:

        async def watch() -> None:
            while True:
                sizes.append(http.window("p.search") or 0)
                await anyio.sleep(0.02)

        tasks.start_soon(watch)
        assert await many(http, where, search(url), 200, 16) == 0
        assert sizes[-1] > 4
        refused_from = len(sizes)
        faults(url, ["search:latency:ms=10", f"search:status:code=429,retry_after={pause_s}"])
        async with anyio.create_task_group() as searches:
            searches.start_soon(many, http, where, search(url), 400, 16)
            await anyio.sleep(refuses_s)
            during = sizes[refused_from:]
            faults(url, ["search:latency:ms=10"])
        tasks.cancel_scope.cancel()
    assert min(during) == during[-1] == 1
    assert sizes[-1] > 4
    assert int(seen(url)["calls"]) >= 600  # type: ignore[call-overload]


async def test_rate_limit_headers_slow_calls_down_before_the_server_answers_429(serve: Serve) -> None:
    instants: list[float] = []

    async def handler(_request: web.Request) -> web.Response:
        instants.append(time.perf_counter())
        left = max(0, 2 - len(instants))
        return web.json_response({}, headers={"X-Left": str(left), "X-Reset": "500ms"})

    where = endpoint(feedback=Feedback(remaining="X-Left", reset="X-Reset"))
    async with Http() as http:
        await many(http, where, Request("GET", f"{await serve(handler)}/v1/search"), 3, 1)
    assert instants[1] - instants[0] >= 0.4
    assert instants[2] - instants[1] >= 0.4


async def test_zero_remaining_calls_without_a_reset_header_pause_for_one_second(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response({}, headers={"X-Left": "0"})

    async with Http() as http:
        request = Request("GET", f"{await serve(handler)}/")
        where = endpoint(feedback=Feedback(remaining="X-Left"))
        started = time.perf_counter()
        await many(http, where, request, 2, 1)
    assert 0.9 <= time.perf_counter() - started < 2


@pytest.mark.parametrize("calls", [400, pytest.param(2000, marks=pytest.mark.long)])
async def test_l10_five_percent_of_mixed_faults_cost_less_than_a_tenth_more_calls(
    fault_server: Starter, seen: Seen, calls: int
) -> None:
    # faults with equal probability hit the same requests unless they skip different numbers of calls
    faults = ("status:code=429,", "status:code=503,skip=7,", "reset:skip=13,", "drip:bytes=1,ms=1000,skip=29,")
    url = fault_server(*(f"search:{fault}prob=0.0125" for fault in faults))
    where = replace(endpoint(), timeouts=Timeouts(attempt_s=0.5))
    async with Http(concurrency=20, random=random.Random(5)) as http:
        failed = await many(http, where, search(url), calls, 20)
    assert failed == 0
    assert int(seen(url)["calls"]) <= 1.1 * calls  # type: ignore[call-overload]


async def test_queue_limiter_network_and_provider_times_add_up_to_the_call(fault_server: Starter) -> None:
    url = fault_server("search:latency:ms=100")
    async with Http(concurrency=1) as http:
        with recording() as calls:
            started = time.perf_counter()
            await many(http, endpoint(), search(url), 3, 3)
            whole_us = (time.perf_counter() - started) * 1e6
    assert [100_000 <= call.provider_us > call.limiter_us + call.network_us for call in calls] == [True] * 3
    last = calls[-1]
    assert last.queue_us > 180_000
    total = last.queue_us + last.limiter_us + last.network_us + last.provider_us
    assert 0.7 * whole_us < total <= whole_us + 1_000


async def test_waits_for_the_rate_limiter_and_for_retries_count_as_limiter_time(fault_server: Starter) -> None:
    url = fault_server("search:status:code=429,retry_after=1,calls=1")
    async with Http() as http:
        with recording() as calls:
            await http.call(endpoint(), search(url))
            await many(http, endpoint("r.search", rps=4), search(url), 3, 3)
    assert calls[0].outcome == "rate_limited" and calls[0].limiter_us < 50_000
    assert calls[1].outcome == "ok" and calls[1].limiter_us > 900_000 and calls[1].queue_us < 100_000
    assert calls[-1].limiter_us > 300_000


async def test_recording_holds_the_calls_of_child_tasks_and_no_others(fault_server: Starter) -> None:
    url = fault_server()
    async with Http() as http, anyio.create_task_group() as tasks:

        async def item(calls_wanted: int) -> None:
            with recording() as calls:
                await many(http, endpoint(), search(url), calls_wanted, 2)
            assert len(calls) == calls_wanted

        for wanted in (1, 3, 5):
            tasks.start_soon(item, wanted)


@pytest.mark.parametrize(("count", "refused"), [(1, False), (3, False), (9, True)])
async def test_the_retry_wait_is_spread_over_its_whole_bounded_span(count: int, refused: bool) -> None:
    from bench.http.call_log import CallState
    from bench.http.errors import AttemptFailed
    from bench.http.retry import wait_s

    http, chance = Http(), random.Random(7)
    where = Endpoint(name="x", role="provider", retry=Retry(delay_s=2.0, max_delay_s=60.0))
    state = CallState(
        endpoint=where,
        request=Request("GET", "http://127.0.0.1/"),
        limiter=http._limiter(where),
        body=None,
        since=0.0,
        lost=count,
        refused=count,
    )
    span = min(60.0, 2.0 * 2 ** (count - 1))
    failed = AttemptFailed(RateLimited("x"), repeat=True, refused=refused)
    waits = [wait_s(state, failed, chance) for _ in range(500)]
    assert all(0 <= wait <= span for wait in waits)
    assert min(waits) < 0.1 * span and max(waits) > 0.9 * span
    with_wait = AttemptFailed(RateLimited("x"), repeat=True, refused=True, wait_s=5.0)
    assert all(5.0 <= wait_s(state, with_wait, chance) <= 6.0 for _ in range(100))
