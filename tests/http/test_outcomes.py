"""Each kind of response: which error class, how many calls reach the server, which text."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest
from aiohttp import web

from bench.errors import (
    AuthError,
    BenchError,
    CallError,
    MappingError,
    QuotaError,
    RateLimited,
    Rejected,
    Unavailable,
)
from bench.events import redactor
from bench.http import Endpoint, Http, Limits, ReportedUsage, Request, Response, Retry, Timeouts, recording
from tests.local_server import deaf_server

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]
Starter = Callable[..., str]
Seen = Callable[..., dict[str, object]]

QUICK = Endpoint(
    name="p.search",
    role="provider",
    retry=Retry(max_retries=3, delay_s=0.02),
    timeouts=Timeouts(attempt_s=5.0, connect_s=1.0),
    key_variable="P_KEY",
)
SEARCH = {"query": "cats", "namespace": "n1"}


def search(url: str, **more: object) -> Request:
    return Request("POST", f"{url}/v1/search", json=SEARCH, **{"idempotent": True, **more})  # type: ignore[arg-type]


async def failure(url: str, request: Request | None = None, endpoint: Endpoint = QUICK) -> BenchError:
    async with Http(concurrency=4, random=random.Random(1)) as http:
        with pytest.raises(CallError) as caught:
            await http.call(endpoint, request or search(url))
    return caught.value


@pytest.mark.parametrize("code", [400, 404, 405, 409, 410, 413, 422, 418, 300])
async def test_a_status_that_rejects_the_request_is_not_retried(fault_server: Starter, seen: Seen, code: int) -> None:
    url = fault_server(f"search:status:code={code}")
    error = await failure(url)
    assert type(error) is Rejected
    assert f"POST /v1/search -> {code}" in str(error)
    assert seen(url)["calls"] == 1


@pytest.mark.parametrize("code", [401, 403])
async def test_l7_a_bad_key_is_an_auth_error_after_one_call_and_names_the_variable(
    fault_server: Starter, seen: Seen, code: int
) -> None:
    url = fault_server(f"search:status:code={code}")
    error = await failure(url)
    assert type(error) is AuthError and error.stops_lane
    assert "p.search" in str(error) and str(code) in str(error) and "P_KEY" in str(error)
    assert seen(url)["calls"] == 1


async def test_a_used_up_quota_is_a_quota_error_after_one_call(fault_server: Starter, serve: Serve, seen: Seen) -> None:
    url = fault_server("search:status:code=402")
    assert type(await failure(url)) is QuotaError
    assert seen(url)["calls"] == 1

    async def used_up(_request: web.Request) -> web.Response:
        return web.json_response({"error": {"code": "insufficient_quota", "message": "x"}}, status=429)

    assert type(await failure(await serve(used_up))) is QuotaError


@pytest.mark.parametrize("code", [408, 425, 500, 502, 503, 504])
async def test_a_server_error_is_retried_until_the_retries_are_used(
    fault_server: Starter, seen: Seen, code: int
) -> None:
    url = fault_server(f"search:status:code={code}")
    error = await failure(url)
    assert type(error) is Unavailable and error.kind == "unavailable"
    assert seen(url)["calls"] == 4


async def test_a_server_that_recovers_during_the_retries_gives_its_response(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:status:code=503,calls=2")
    async with Http() as http:
        with recording() as calls:
            response = await http.call(QUICK, search(url))
    assert response.status == 200 and response.attempts == 3
    assert [(call.attempt, call.status, call.outcome) for call in calls] == [
        (1, 503, "unavailable"),
        (2, 503, "unavailable"),
        (3, 200, "ok"),
    ]
    assert seen(url)["calls"] == 3


async def test_a_429_is_retried_even_for_a_call_that_is_not_idempotent(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:status:code=429,calls=2")
    async with Http() as http:
        response = await http.call(QUICK, search(url, idempotent=False))
        assert http.refusals == 2
    assert response.status == 200 and seen(url)["calls"] == 3


async def test_a_429_on_every_attempt_is_a_rate_limited_error(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:status:code=429")
    assert type(await failure(url)) is RateLimited
    assert seen(url)["calls"] == 4


@pytest.mark.parametrize("fault", ["status:code=503", "reset", "truncate:bytes=10"])
async def test_l8_an_add_whose_response_was_lost_is_not_repeated(fault_server: Starter, seen: Seen, fault: str) -> None:
    url = fault_server(f"add:{fault}")
    add = Request("POST", f"{url}/v1/add", json={"content": "x", "namespace": "n"})
    assert type(await failure(url, add)) is Unavailable
    assert seen(url, "add")["calls"] == 1


async def test_l8_an_add_with_an_idempotency_key_is_repeated_and_stored_once(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("add:status:code=503,effect=1,per_key=1")
    add = Request(
        "POST",
        f"{url}/v1/add",
        json={"content": "x y", "namespace": "n"},
        headers={"Idempotency-Key": "k1"},
        idempotent=True,
    )
    async with Http() as http:
        assert (await http.call(QUICK, add)).status == 200
        found = await http.call(QUICK, Request("POST", f"{url}/v1/search", json={"query": "x", "namespace": "n"}))
    assert seen(url, "add")["calls"] == 2
    assert found.json()["total"] == 1  # type: ignore[index]


async def test_an_add_that_never_reached_the_server_is_repeated() -> None:
    add = Request("POST", "http://127.0.0.1:9/v1/add", json={"content": "x"})
    async with Http() as http:
        with recording() as calls, pytest.raises(Unavailable, match="POST /v1/add"):
            await http.call(QUICK, add)
    assert len(calls) == 4 and {call.status for call in calls} == {None}


@pytest.mark.parametrize(
    ("statuses", "kind", "calls"),
    [
        ({503: "fail"}, Rejected, 1),
        ({503: "stop"}, QuotaError, 1),
        ({503: "retry"}, Unavailable, 4),
    ],
)
async def test_a_configured_action_of_a_status_decides_error_class_and_retries(
    fault_server: Starter, seen: Seen, statuses: dict[int, str], kind: type[CallError], calls: int
) -> None:
    url = fault_server("search:status:code=503")
    endpoint = Endpoint(name="p.search", role="provider", retry=QUICK.retry, statuses=statuses)  # type: ignore[arg-type]
    assert type(await failure(url, endpoint=endpoint)) is kind
    assert seen(url)["calls"] == calls


async def test_a_409_configured_as_retry_is_repeated_for_a_call_that_is_not_idempotent(
    fault_server: Starter, seen: Seen
) -> None:
    url = fault_server("add:status:code=409,effect=0,calls=1")
    endpoint = Endpoint(name="p.add", role="provider", retry=QUICK.retry, statuses={409: "retry"})
    async with Http() as http:
        add = Request("POST", f"{url}/v1/add", json={"content": "x", "namespace": "n"})
        assert (await http.call(endpoint, add)).status == 200
    assert seen(url, "add")["calls"] == 2


async def test_a_status_in_ok_statuses_is_returned_as_a_response(fault_server: Starter) -> None:
    url = fault_server("search:status:code=404")
    async with Http() as http:
        response = await http.call(QUICK, search(url, ok_statuses=frozenset({404})))
    assert response.status == 404


async def test_i3_an_unavailable_error_in_a_200_body_is_retried(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:error200:calls=1")

    def read(response: Response) -> ReportedUsage | None:
        body = response.json()
        if "error" in body:  # type: ignore[operator]
            raise Unavailable(f"search: {body}")
        return ReportedUsage(model="m")

    async with Http() as http:
        with recording() as calls:
            response = await http.call(QUICK, search(url, read=read))
    assert "results" in response.json()  # type: ignore[operator]
    assert [(call.status, call.outcome, call.model) for call in calls] == [(200, "unavailable", None), (200, "ok", "m")]
    assert seen(url)["calls"] == 2


async def test_a_rejected_error_in_a_200_body_is_not_retried(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:error200")

    def read(_response: Response) -> None:
        raise Rejected("search: no such namespace")

    assert type(await failure(url, search(url, read=read))) is Rejected
    assert seen(url)["calls"] == 1


@pytest.mark.parametrize(("fault", "text"), [("html", "HTML"), ("blank", "empty"), ("badjson", "not JSON")])
async def test_p6_a_body_that_is_not_json_is_a_mapping_error_after_one_call(
    fault_server: Starter, seen: Seen, fault: str, text: str
) -> None:
    url = fault_server(f"search:{fault}")

    def read(response: Response) -> None:
        response.json()

    error = await failure(url, search(url, read=read))
    assert type(error) is MappingError and text in str(error)
    assert seen(url)["calls"] == 1


@pytest.mark.parametrize("fault", ["truncate:bytes=10", "reset"])
async def test_p6_a_truncated_response_is_retried(fault_server: Starter, seen: Seen, fault: str) -> None:
    url = fault_server(f"search:{fault},calls=1" if ":" in fault else f"search:{fault}:calls=1")
    async with Http() as http:
        response = await http.call(QUICK, search(url))
    assert response.status == 200 and seen(url)["calls"] == 2


async def test_m6_a_response_above_max_response_bytes_is_a_mapping_error_after_one_call(
    fault_server: Starter, seen: Seen
) -> None:
    url = fault_server("search:huge:kb=20000")
    endpoint = Endpoint(name="p.search", role="provider", retry=QUICK.retry, max_response_bytes=100_000)
    error = await failure(url, endpoint=endpoint)
    assert type(error) is MappingError and "100000 bytes" in str(error)
    assert seen(url)["calls"] == 1


async def test_m6_a_response_without_content_length_is_limited_by_max_response_bytes(serve: Serve) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(10_000):
            await answer.write(b"x" * 65_536)
        return answer

    endpoint = Endpoint(name="p.search", role="provider", max_response_bytes=1_000_000)
    error = await failure(await serve(endless), endpoint=endpoint)
    assert type(error) is MappingError


async def test_p10_a_redirect_to_another_host_is_rejected_and_the_key_is_not_sent_there(serve: Serve) -> None:
    reached: list[str] = []

    async def other(request: web.Request) -> web.Response:
        reached.append(request.path)
        return web.json_response({})

    elsewhere = await serve(other)

    async def here(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{elsewhere}/v1/search"})

    error = await failure(await serve(here), search(await serve(here), headers={"X-API-Key": "k"}))
    assert type(error) is Rejected and "not followed" in str(error)
    assert reached == []


async def test_a_redirect_on_the_same_host_keeps_method_and_body(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        if not request.path.endswith("/"):
            return web.Response(status=307, headers={"Location": request.path + "/"})
        return web.json_response({"method": request.method, "body": await request.json()})

    async with Http() as http:
        response = await http.call(QUICK, search(await serve(handler)))
    assert response.json() == {"method": "POST", "body": SEARCH}


async def test_a_redirect_that_would_drop_the_body_is_rejected(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    assert type(await failure(await serve(handler))) is Rejected


async def test_an_endless_redirect_is_rejected_after_six_calls(serve: Serve) -> None:
    calls = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=307, headers={"Location": request.path})

    assert type(await failure(await serve(handler))) is Rejected
    assert calls == 6


async def test_w4_a_key_that_the_server_echoes_is_in_no_error_text(fault_server: Starter) -> None:
    secret = "tok-31337-very-secret"
    redactor.learn(secret)
    url = fault_server("search:echo_auth:code=400")
    error = await failure(url, search(url, headers={"Authorization": f"Bearer {secret}"}))
    assert secret not in str(error) and "[redacted]" in str(error)


async def test_w4_a_key_in_the_query_is_in_no_error_text(fault_server: Starter) -> None:
    url = fault_server("search:status:code=400", "--record")
    error = await failure(url, search(url, query=(("key", "abc-not-registered"),)))
    assert "abc-not-registered" not in str(error)


async def test_l6_a_hanging_server_is_a_timeout_after_attempt_s(fault_server: Starter, seen: Seen) -> None:
    url = fault_server("search:hang")
    endpoint = Endpoint(
        name="p.search", role="provider", retry=Retry(max_retries=1, delay_s=0.01), timeouts=Timeouts(attempt_s=0.3)
    )
    with anyio.fail_after(5):
        error = await failure(url, endpoint=endpoint)
    assert type(error) is Unavailable and error.kind == "timeout" and "0.3 s" in str(error)
    assert seen(url)["calls"] == 2


@pytest.mark.parametrize(("fault", "calls"), [("search:hang", 1), ("search:status:code=503", 2)])
async def test_without_repeats_timeouts_a_timeout_is_not_retried_but_a_503_is(
    fault_server: Starter, seen: Seen, fault: str, calls: int
) -> None:
    url = fault_server(fault)
    endpoint = Endpoint(name="p.search", role="provider", retry=Retry(max_retries=1, delay_s=0.01))
    async with Http(attempt_s=0.3, repeats_timeouts=False) as http:
        with pytest.raises(Unavailable):
            await http.call(endpoint, search(url))
    assert seen(url)["calls"] == calls


async def test_l6_a_response_that_arrives_too_slowly_is_a_timeout(fault_server: Starter) -> None:
    url = fault_server("search:drip:bytes=1,ms=200")
    endpoint = Endpoint(name="p.search", role="provider", retry=Retry(max_retries=0), timeouts=Timeouts(attempt_s=0.5))
    with anyio.fail_after(5):
        error = await failure(url, endpoint=endpoint)
    assert isinstance(error, Unavailable) and error.kind == "timeout"


async def test_call_s_limits_the_time_of_all_attempts_together(fault_server: Starter) -> None:
    url = fault_server("search:hang")
    endpoint = Endpoint(
        name="p.search",
        role="provider",
        retry=Retry(max_retries=50, delay_s=0.01),
        timeouts=Timeouts(attempt_s=0.4, call_s=1.0),
    )
    with anyio.fail_after(3):
        error = await failure(url, endpoint=endpoint)
    assert error.kind == "timeout"


async def test_a_connection_that_is_not_accepted_in_time_is_a_timeout() -> None:
    timeouts = Timeouts(attempt_s=30, connect_s=0.1)
    with deaf_server() as url:
        error = await failure(url, endpoint=replace(QUICK, retry=Retry(max_retries=0), timeouts=timeouts))
    assert (type(error), error.kind) == (Unavailable, "timeout")


async def test_l6_http_reports_the_oldest_request_in_flight(fault_server: Starter) -> None:
    url = fault_server("search:hang")
    async with Http() as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.call, QUICK, search(url))
        await anyio.sleep(0.3)
        assert http.in_flight == 1 and http.oldest() == "p.search"
        assert 0.1 < (http.oldest_s() or 0) < 2
        tasks.cancel_scope.cancel()
    assert http.in_flight == 0 and http.oldest() is None and http.oldest_s() is None


async def test_a_canceled_call_counts_as_paid_and_frees_its_slot(fault_server: Starter) -> None:
    url = fault_server("search:hang:calls=1")
    async with Http(concurrency=1) as http:
        with recording() as calls:
            with anyio.move_on_after(0.2):
                await http.call(replace(QUICK, price_usd="0.01"), search(url))
            assert [(call.outcome, call.cost_usd) for call in calls] == [("canceled", "0.01")]
            assert (await http.call(QUICK, search(url))).status == 200


async def test_a_call_canceled_while_it_waits_for_a_slot_frees_its_place(fault_server: Starter) -> None:
    url = fault_server("search:latency:ms=300")
    async with Http(concurrency=1) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.call, QUICK, search(url))
        await asyncio.sleep(0.05)
        for _ in range(3):
            with anyio.move_on_after(0.02):
                await http.call(QUICK, search(url))
        assert (await http.call(QUICK, search(url))).status == 200


async def test_a_call_canceled_before_it_has_a_slot_frees_its_place_at_the_endpoint(
    fault_server: Starter,
) -> None:
    url = fault_server("search:latency:ms=200")
    narrow = replace(QUICK, limits=Limits(concurrency=1))
    async with Http(concurrency=1) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.call, replace(QUICK, name="q.search"), search(url))
        await asyncio.sleep(0.05)
        with anyio.move_on_after(0.02):
            await http.call(narrow, search(url))
        with anyio.fail_after(30):
            assert (await http.call(narrow, search(url))).status == 200


async def test_the_price_of_a_call_is_counted_once_over_its_retries(fault_server: Starter) -> None:
    url = fault_server("search:status:code=503,calls=1")
    async with Http() as http:
        with recording() as calls:
            await http.call(replace(QUICK, price_usd="0.25"), search(url))
    assert [(call.outcome, call.cost_usd) for call in calls] == [("unavailable", None), ("ok", "0.25")]


async def test_a_request_body_that_json_cannot_hold_is_a_mapping_error_and_is_not_sent() -> None:
    error = await failure("http://127.0.0.1:9", Request("POST", "http://127.0.0.1:9/", json={"x": float("nan")}))
    assert isinstance(error, MappingError)


async def test_a_lone_surrogate_in_a_request_body_reaches_the_server_unchanged(serve: Serve) -> None:
    text = 'emoji \U0001f600, quote ", U+2028 \u2028, lone \ud83d, ${x} and $.x'

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read(), content_type="application/json")

    async with Http() as http:
        response = await http.call(QUICK, Request("POST", await serve(echo), json={"text": text}))
    assert response.json() == {"text": text}


async def test_a_header_that_cannot_be_sent_is_rejected_without_a_call(fault_server: Starter, seen: Seen) -> None:
    url = fault_server()
    assert type(await failure(url, search(url, headers={"X-A": "a\r\nX-B: b"}))) is Rejected
    assert seen(url)["calls"] == 0


async def test_an_invalid_url_is_a_call_error() -> None:
    assert isinstance(await failure("http://"), CallError)
