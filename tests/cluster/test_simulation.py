"""The simulation obeys the limits that it is given, and shards help only where latency holds a run up."""

from __future__ import annotations

import pytest

from perf.scale_sim import ENDPOINTS, Endpoint, limited, simulate, time_text


def wall_s(found: dict[str, object]) -> float:
    return float(str(found["wall_s"]))


def test_no_run_is_faster_than_its_tightest_limit() -> None:
    for shards in (1, 2, 5):
        found = simulate(ENDPOINTS, items=1000, shards=shards, concurrency=200)
        assert wall_s(found) >= 1000 / 50


def test_without_limits_shards_divide_the_time_and_not_the_cost() -> None:
    free = limited(ENDPOINTS, [f"{one.name}=none" for one in ENDPOINTS])
    one, four = (simulate(free, items=1600, shards=shards, concurrency=8) for shards in (1, 4))
    assert one["bound_by"] == four["bound_by"] == "latency"
    assert wall_s(one) / wall_s(four) == pytest.approx(4, rel=0.15)
    assert one["cost_usd"] == pytest.approx(four["cost_usd"], rel=0.01)


def test_without_spread_the_time_is_calls_by_latency_by_concurrency() -> None:
    steady = [Endpoint("add", None, 0.0, 0.0), Endpoint("search", None, 0.05, 0.0)]
    found = simulate(steady, items=8000, shards=1, concurrency=10)
    assert wall_s(found) == pytest.approx(8000 * 0.05 * 1.046 / 10, rel=0.02), "the mean of a lognormal, not its median"


def test_times_are_told_in_the_unit_that_reads_best() -> None:
    assert [time_text(one) for one in (38, 720, 26640, 267840)] == ["38 s", "12.0 min", "7.4 h", "3.1 days"]
