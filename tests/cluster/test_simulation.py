"""The simulation respects rate limits, and shards reduce only time that is spent on latency."""

from __future__ import annotations

import pytest

from perf.scale_sim import ENDPOINTS, Endpoint, Load, Shard, limited, simulate, time_text


def wall_s(found: dict[str, object]) -> float:
    return float(str(found["wall_s"]))


def test_a_simulated_run_is_not_faster_than_its_tightest_limit() -> None:
    for shards in (1, 2, 5):
        found = simulate(ENDPOINTS, items=1000, shards=shards, concurrency=200)
        assert wall_s(found) >= 1000 / 50


def test_without_limits_shards_divide_the_time_but_not_the_cost() -> None:
    free = limited(ENDPOINTS, [f"{one.name}=none" for one in ENDPOINTS])
    one, four = (simulate(free, items=1600, shards=shards, concurrency=8) for shards in (1, 4))
    assert one["bound_by"] == four["bound_by"] == "latency"
    assert wall_s(one) / wall_s(four) == pytest.approx(4, rel=0.15)
    assert one["cost_usd"] == pytest.approx(four["cost_usd"], rel=0.01)


def test_without_spread_the_time_is_calls_times_latency_divided_by_concurrency() -> None:
    steady = [Endpoint("add", None, 0.0, 0.0), Endpoint("search", None, 0.05, 0.0)]
    found = simulate(steady, items=8000, shards=1, concurrency=10)
    assert wall_s(found) == pytest.approx(8000 * 0.05 * 1.046 / 10, rel=0.02), "the mean of a lognormal, not its median"


def test_a_simulated_run_uses_no_more_tokens_than_its_limit_and_one_burst() -> None:
    tight = limited(ENDPOINTS, ["answer=600000t/m"])
    found = simulate(tight, items=1000, shards=1, concurrency=200)
    assert wall_s(found) >= 1000 * tight[2].tokens / 10_000 - 6
    assert found["bound_by"] == "answer tokens"
    assert limited(tight, ["answer=none"])[2].token_rate is None


def test_batches_of_ten_take_a_tenth_of_the_adds() -> None:
    slow = limited(ENDPOINTS, ["add=2/s", "search=none"])
    single, ten = (
        simulate(slow, items=400, shards=1, concurrency=32, load=Load(memories_a_corpus=500, batch=batch))
        for batch in (1, 10)
    )
    assert wall_s(single) >= 2 * 500 / 2
    assert 2 * 50 / 2 <= wall_s(ten) < wall_s(single) / 5


def test_jobs_with_one_build_pay_and_wait_for_one_ingest() -> None:
    paid = [Endpoint("add", 1.0, 0.1, 1.0), Endpoint("search", None, 0.1, 0.01)]
    one, three = (
        simulate(paid, items=200, shards=1, concurrency=8, load=Load(jobs=jobs, spread=0.0)) for jobs in (1, 3)
    )
    assert (one["cost_usd"], three["cost_usd"]) == (pytest.approx(59 + 2), pytest.approx(59 + 6))
    assert wall_s(three) - wall_s(one) == pytest.approx(400 * 0.1 / 8, rel=0.1)


def test_failed_calls_are_repeated_after_their_wait() -> None:
    free = [Endpoint("add", None, 0.0, 0.0), Endpoint("search", None, 1.0, 0.0)]
    base, lost, refused = (
        wall_s(simulate(free, items=4000, shards=1, concurrency=8, load=Load(spread=0.0, **shares)))
        for shares in ({}, {"lost": 0.1}, {"refused": 0.01})
    )
    assert lost / base == pytest.approx(1 + 0.1 * 1.0 + 0.01 * 2.0, rel=0.03), "mean waits of 1 and 2 s"
    assert refused / base > 1 + 0.01 * 1.5, "an endpoint that refused one call is closed to all"


def test_a_long_run_is_extrapolated_from_its_steady_state() -> None:
    some = [ENDPOINTS[0], ENDPOINTS[1]]
    whole = Shard(some, Load(), items=60_000, share=1.0, concurrency=8, seed=7).run()[0]
    assert wall_s(simulate(some, items=60_000, shards=1, concurrency=8)) == pytest.approx(whole, rel=0.01)


def test_time_text_uses_the_most_readable_unit() -> None:
    assert [time_text(one) for one in (38, 720, 26640, 267840)] == ["38 s", "12.0 min", "7.4 h", "3.1 days"]
