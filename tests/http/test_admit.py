"""Calls that do not use HTTP pass the same limits and record the same rows (``Http.admit``)."""

from __future__ import annotations

import time

import anyio
import pytest

from bench.errors import Rejected
from bench.http import Endpoint, Http, Limits, recording

SQL = Endpoint(name="store.search", role="provider")


async def test_admit_respects_the_global_concurrency() -> None:
    most = 0
    async with Http(concurrency=1) as http:

        async def admitted_call() -> None:
            nonlocal most
            async with http.admit(SQL, "SELECT"):
                most = max(most, http.in_flight)
                assert http.oldest() == "store.search"
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(admitted_call)
        assert (most, http.in_flight) == (1, 0)


async def test_admit_records_a_call_with_its_outcome_and_times() -> None:
    async with Http() as http:
        with recording() as calls:
            async with http.admit(SQL, "SELECT"):
                await anyio.sleep(0.01)
            with pytest.raises(Rejected):
                async with http.admit(SQL, "SELECT"):
                    raise Rejected("no such table")
    assert [(call.endpoint, call.outcome, call.status) for call in calls] == [
        ("store.search", "ok", None),
        ("store.search", "rejected", None),
    ]
    assert calls[0].provider_us >= 9_000 and calls[0].network_us == 0


async def test_a_canceled_admitted_call_counts_as_paid_and_frees_its_slot() -> None:
    async with Http(concurrency=1) as http:
        with recording() as calls, anyio.move_on_after(0.01):
            async with http.admit(SQL, "SELECT"):
                await anyio.sleep(60)
        assert [(call.outcome, call.cost_usd, call.reports_usage) for call in calls] == [("canceled", None, True)]
        with anyio.fail_after(1):
            async with http.admit(SQL, "SELECT"):
                pass


async def test_admit_respects_the_rates_of_the_run() -> None:
    async with Http(rates={"store": Limits(rps=50, burst=1)}) as http:
        started = time.perf_counter()
        with recording() as calls:
            for _ in range(4):
                async with http.admit(SQL, "SELECT"):
                    pass
    assert time.perf_counter() - started > 0.045, "a late start may catch up half of the 20 ms between two calls"
    assert any(call.limiter_us for call in calls)


async def test_auto_concurrency_grows_while_admitted_calls_succeed() -> None:
    async with Http(concurrency="auto") as http:

        async def admitted_call() -> None:
            async with http.admit(SQL, "SELECT"):
                await anyio.sleep(0.002)

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(admitted_call)
        window = http.window("store.search")
    assert window is not None and window > 4
