"""``RunContext.attempt``: exceptions become failures with kind and message; times and costs of calls."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.budget import Budget
from bench.engine.progress import Progress
from bench.engine.run_context import CallOwner, Failure, RunContext, RunScope, _times
from bench.engine.stopping import Stop, StopControl
from bench.errors import (
    AuthError,
    BenchError,
    ConfigError,
    Contaminated,
    DiskFull,
    EvaluatorFailed,
    IngestFailed,
    JournalError,
    MappingError,
    NotReady,
    PluginFault,
    QuotaError,
    RateLimited,
    Rejected,
    Unavailable,
    Unsupported,
)
from bench.http import Http
from bench.http.call_log import record
from bench.journal import Journal, RunMeta
from bench.model import Call
from tests.rows import each_row
from tests.small_world import World

START = datetime(2026, 3, 1, tzinfo=UTC)


def call(**changes: object) -> Call:
    values: dict[str, object] = {
        "endpoint": "p.search", "role": "provider", "attempt": 1, "status": 200, "outcome": "ok", "started_at": START,
    }  # fmt: skip
    return Call(**{**values, **changes})  # type: ignore[arg-type]


OWNER = CallOwner("facts/no-memory")


@pytest.fixture
async def run(tmp_path: Path) -> RunContext:
    """A run that has not started; its resources are not open."""
    world = World.make(tmp_path, corpora=1, items=1)
    progress, stopping, folder = Progress(), StopControl(), tmp_path / "checkpoints/r"
    return RunContext(
        run_id="r", folder=folder, plan=world.plan(providers="no-memory"),
        journal=Journal.create(folder, RunMeta(run_id="r", plan_digest="d", identity={})), http=Http(),
        environment=world.environment, progress=progress, stopping=stopping,
        budget=Budget(max_usd=Decimal("0.5"), stopping=stopping, progress=progress), scope=RunScope(), resumed=False,
    )  # fmt: skip


@each_row(
    ("error", "kind", "message", "stops"),
    [
        (AuthError("who are you"), "auth", "who are you", True),
        (QuotaError("no money"), "quota", "no money", True),
        (RateLimited("slower"), "rate_limited", "slower", False),
        (Unavailable("gone"), "unavailable", "gone", False),
        (Unavailable("late", timed_out=True), "timeout", "late", False),
        (Rejected("no"), "rejected", "no", False),
        (MappingError("no field"), "mapping", "no field", False),
        (IngestFailed("bad"), "ingest_failed", "bad", False),
        (NotReady("later"), "not_ready", "later", False),
        (Contaminated("strangers"), "contaminated", "strangers", False),
        (Unsupported("cannot"), "unsupported", "cannot", False),
        (PluginFault("theirs"), "plugin", "theirs", False),
        (EvaluatorFailed("rule"), "evaluator", "rule", False),
        (ConfigError("half a file"), "config", "half a file", False),
        (TimeoutError(), "timeout", "the time limit of the item has passed", False),
        (TimeoutError("mine"), "timeout", "mine", False),
        (KeyError("memory"), "plugin", "KeyError: 'memory'", False),
        (AssertionError(), "plugin", "AssertionError: ", False),
        (ExceptionGroup("g", [ExceptionGroup("h", [AuthError("deep")]), Rejected("other")]), "auth", "deep", True),
    ],
)
def test_each_exception_maps_to_one_kind_of_failure(error: Exception, kind: str, message: str, stops: bool) -> None:
    failure = Failure.of(error)
    assert (failure.kind, failure.message, failure.stops_lane) == (kind, message, stops)
    known = {"plugin": PluginFault.default_hint, "auth": AuthError.default_hint}
    assert failure.hint == (error.hint if isinstance(error, BenchError) else known.get(kind, ""))


async def test_a_successful_attempt_has_its_value_and_time(run: RunContext) -> None:
    async def act() -> str:
        await anyio.sleep(0.01)
        return "done"

    done = await run.attempt(act, OWNER)
    assert (done.value, done.failure, done.outcome, done.message, done.calls) == ("done", None, "ok", "", ())
    assert done.times_us["total"] == done.times_us["provider"] >= 10_000
    assert {done.times_us[part] for part in ("queue", "limiter", "network")} == {0}


async def test_a_failed_attempt_has_its_outcome_and_message(run: RunContext) -> None:
    async def act() -> str:
        raise Rejected("no such thing")

    done = await run.attempt(act, OWNER)
    assert (done.value, done.outcome, done.message) == (None, "rejected", "no such thing")


async def test_a_bug_in_a_plugin_is_reported_with_file_and_function(run: RunContext) -> None:
    async def act() -> str:
        raise ZeroDivisionError("once more")

    done = await run.attempt(act, OWNER)
    assert done.outcome == "plugin"
    assert done.message.startswith("ZeroDivisionError: once more (test_run_context.py:")
    assert done.message.endswith(", in act)")
    done = await run.attempt(act, OWNER, plugin_fault=EvaluatorFailed)
    assert done.failure is not None
    assert (done.failure.kind, done.failure.hint) == ("evaluator", EvaluatorFailed.default_hint)


@pytest.mark.parametrize("error", [JournalError("torn"), DiskFull("full")])
async def test_a_journal_error_stops_the_run(run: RunContext, error: JournalError) -> None:
    async def act() -> str:
        raise error

    with pytest.raises(JournalError) as raised:
        await run.attempt(act, OWNER)
    assert raised.value is error


async def test_a_cancelled_attempt_has_no_outcome(run: RunContext) -> None:
    with anyio.move_on_after(0.01) as scope:
        await run.attempt(lambda: anyio.sleep(30), OWNER)
        pytest.fail("a cancelled phase has no outcome")
    assert scope.cancelled_caught


async def test_KeyboardInterrupt_is_not_a_failure_of_an_item(run: RunContext) -> None:
    async def act() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run.attempt(act, OWNER)


async def test_the_traceback_of_a_plugin_error_is_logged_once_per_place(
    run: RunContext, caplog: pytest.LogCaptureFixture
) -> None:
    async def here(number: int) -> None:
        raise ValueError(f"item {number}")

    async def there() -> None:
        raise ValueError("item 9")

    caplog.set_level(logging.INFO, logger="bench")
    for number in range(3):
        await run.attempt(lambda: here(number), OWNER)  # noqa: B023  awaited here
    await run.attempt(there, OWNER)
    logged = [record for record in caplog.records if "plugin_error" in str(record.msg)]
    assert len(logged) == 4, "each error is in the log"
    assert len(run.logged_places) == 2
    assert [place.split(", in ")[1] for place in sorted(run.logged_places)] == ["here)", "there)"]


# ------------------------------------------------------------------ times


def test_the_times_of_a_phase_are_summed_over_its_successful_calls() -> None:
    calls = [
        call(queue_us=1, limiter_us=20, network_us=300, provider_us=4000),
        call(outcome="timeout", queue_us=7, limiter_us=7, network_us=7, provider_us=7),
        call(queue_us=1, limiter_us=10, network_us=100, provider_us=1000),
    ]
    assert _times(calls, 9999) == {"total": 9999, "queue": 2, "limiter": 30, "network": 400, "provider": 5000}


def test_a_phase_without_a_successful_call_has_no_provider_time() -> None:
    assert _times([call(outcome="timeout", provider_us=7)], 50) == {
        "total": 50, "queue": 0, "limiter": 0, "network": 0, "provider": 0,
    }  # fmt: skip


# ------------------------------------------------------------------ money


async def budget_of(max_usd: str | None) -> tuple[Budget, Progress, StopControl]:
    progress, stopping = Progress(), StopControl()
    limit = None if max_usd is None else Decimal(max_usd)
    return Budget(max_usd=limit, stopping=stopping, progress=progress), progress, stopping


@given(costs=st.lists(st.decimals("0", "5", places=9).map(str), max_size=12))
def test_costs_are_added_exactly(costs: list[str]) -> None:
    async def spend() -> Progress:
        budget, progress, stopping = await budget_of(None)
        for cost in costs:
            budget.spend(call(cost_usd=cost, role="judge"))
        assert not stopping.requested
        return progress

    progress = anyio.run(spend)
    assert progress.cost_usd == sum(map(Decimal, costs), Decimal(0))
    assert (progress.calls, progress.unknown_costs) == (len(costs), 0)


async def test_max_cost_stops_a_run_at_its_limit() -> None:
    budget, progress, stopping = await budget_of("0.3")
    budget.spend(call(cost_usd="0.1", role="answering"))
    budget.spend(call(cost_usd="0.199999999", role="answering"))
    assert not stopping.requested
    budget.spend(call(cost_usd="0.000000001", role="judge"))
    assert (stopping.reason, progress.cost_usd) == (Stop.MAX_COST, Decimal("0.3"))


@each_row(
    ("changes", "unknown"),
    [
        ({"role": "answering"}, 1),
        ({"role": "judge"}, 1),
        ({"role": "embedding"}, 1),
        ({"role": "provider"}, 1),
        ({"role": "judge", "outcome": "timeout", "status": None}, 0),
        ({"role": "judge", "cost_usd": "0"}, 0),
    ],
)
async def test_calls_of_unknown_price_are_counted_separately(changes: dict[str, object], unknown: int) -> None:
    budget, progress, _ = await budget_of("1")
    budget.spend(call(**changes))
    assert (progress.unknown_costs, progress.cost_usd) == (unknown, Decimal(0))


async def test_rate_limited_calls_are_counted_by_status_429() -> None:
    budget, progress, _ = await budget_of(None)
    for one in (call(status=429, outcome="rate_limited"), call(status=503, outcome="unavailable"), call()):
        budget.spend(one)
    assert (progress.calls, progress.rate_limited) == (3, 1)


async def test_the_cost_of_a_failed_phase_counts(run: RunContext) -> None:
    async def act() -> str:
        record(call(role="judge", cost_usd="0.6"))
        raise Unavailable("the answer was lost")

    done = await run.attempt(act, OWNER)
    assert (done.outcome, len(done.calls)) == ("unavailable", 1)
    assert (run.stopping.reason, run.progress.cost_usd) == (Stop.MAX_COST, Decimal("0.6"))


def test_each_error_kind_is_a_lowercase_word() -> None:
    def below(cls: type[BenchError]) -> list[type[BenchError]]:
        return [cls, *(one for child in cls.__subclasses__() for one in below(child))]

    assert all(one.kind.replace("_", "").isalpha() and one.kind.islower() for one in below(BenchError))
