"""A round of shards: each end of a shard is reported for that shard, and the others are unaffected."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest

from bench.cluster import round as rounds
from bench.cluster.backend import Fleet, ShardTask, TaskState
from bench.cluster.coordinator import shards_of
from bench.cluster.messages import ClusterProgress, Refusal, Shard, ShardCounters, ShardOrder, ShardResult, pack
from bench.cluster.progress import ShardStore
from bench.cluster.round import Round
from bench.cluster.worker import delete_shards
from bench.engine import Stop
from bench.engine.run import SHARDS
from bench.engine.stopping import StopControl
from bench.plan import Plan
from tests.small_world import World

A = TypeVarTuple("A")
T = TypeVar("T")

WHOLE = ShardResult(pack=None, whole=True)
Ending = ShardResult | str | None
"""the result of a task, its error, or None if the result was lost"""


@dataclass
class Planned(ShardTask):
    """A task with a predefined end."""

    ending: Ending
    state: TaskState = "finished"
    cancelled: bool = False

    async def result(self) -> ShardResult | None:
        return self.ending if isinstance(self.ending, ShardResult) else None

    async def error(self) -> str:
        return str(self.ending)

    async def cancel(self) -> None:
        self.cancelled = True


@dataclass
class PlannedFleet(Fleet):
    """Workers whose tasks have predefined ends, by the number of the shard."""

    endings: dict[int, Ending] = field(default_factory=dict)
    states: dict[int, TaskState] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=lambda: {"w1": 1, "w2": 1})
    address: str = "tcp://h:1"
    alive: bool = True
    submitted: list[int] = field(default_factory=list)
    tasks: dict[int, Planned] = field(default_factory=dict)
    preferred: dict[int, Sequence[str]] = field(default_factory=dict)
    most: int = 0
    stopped: int = 0
    dropped: list[str] = field(default_factory=list)
    asked: list[tuple[object, tuple[object, ...]]] = field(default_factory=list)
    on_submit: Callable[[ShardOrder], None] = lambda order: None
    on_drop: Callable[[str], None] | None = None
    """None = the tasks of a dropped worker are finished by others"""
    on_poll: Callable[[int], None] = lambda look: None
    polls: int = 0
    """number of calls of ``slots``"""

    def submit(self, function: object, order: ShardOrder, /, *, name: str, preferred: Sequence[str]) -> Planned:
        number = order.shard.number
        task = Planned(self.endings.get(number, WHOLE), self.states.get(number, "finished"))
        self.submitted.append(number)
        self.tasks[number], self.preferred[number] = task, preferred
        assert name == f"r.{number}of{order.shard.count}-t"
        self.on_submit(order)
        return task

    def finish(self) -> None:
        """Set all tasks to finished."""
        for task in self.tasks.values():
            task.state = "finished"

    async def slots(self) -> dict[str, int]:
        self.polls += 1
        self.on_poll(self.polls)
        return self.there

    async def stop(self) -> None:
        self.stopped += 1
        self.finish()

    async def drop(self, worker: str) -> None:
        self.dropped.append(worker)
        if self.on_drop is None:
            self.finish()
        else:
            self.on_drop(worker)

    async def ask(
        self, function: Callable[[*A], Awaitable[T]], *arguments: *A, within_s: float
    ) -> dict[str, T | BaseException]:
        self.asked.append((function, arguments))
        return {}


@dataclass
class Coordinator:
    """A coordinator with one round over a fleet."""

    plan: Plan
    fleet: PlannedFleet
    round: Round
    shards: list[Shard]

    async def carry_out(self) -> dict[int, str]:
        await self.round.carry_out(deque(self.shards))
        return self.round.problems


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(rounds, "WATCH_EVERY_S", 0.0)


@pytest.fixture
def coordinator(tmp_path: Path) -> Callable[..., Coordinator]:
    def make(
        *, shards: int = 3, slots: int = 2, silent_s: float = 60.0, max_usd: float | None = None, **fleet: Any
    ) -> Coordinator:
        world = World.make(tmp_path / "w", "http://127.0.0.1:9", corpora=4, items=2)
        plan = world.plan(providers="oracle", run_id="r")
        home = tmp_path / "r"
        (home / SHARDS).mkdir(parents=True)
        own = PlannedFleet(**fleet)

        def order(shard: Shard) -> ShardOrder:
            return ShardOrder.of(plan, shard, environment=world.environment, share=1.0, left_usd=None, token="t")

        made = Round(
            fleet=own, store=ShardStore(home), progress=ClusterProgress(plan, "r"),
            stopping=StopControl(on_stop=lambda reason: None), order=order, slots=slots, silent_s=silent_s,
            max_usd=max_usd,
        )  # fmt: skip
        return Coordinator(plan, own, made, shards_of(plan, shards))

    return make


def counters(number: int, *, cost: str = "0", worker: str = "w1") -> ShardCounters:
    return ShardCounters(shard=number, attempt="a", worker=worker, cost_usd=Decimal(cost))


async def test_each_shard_is_submitted_once_and_never_more_than_the_slots_at_a_time(
    coordinator: Callable[..., Coordinator],
) -> None:
    one = coordinator(shards=8, slots=3)
    out: list[int] = []
    one.fleet.on_submit = lambda order: out.append(len(one.round.out) + 1)
    assert await one.carry_out() == {}
    assert one.fleet.submitted == list(range(1, 9))
    assert max(out) == 3
    assert [order.shard.number for order in one.round.done] == list(range(1, 9))


async def test_workers_delete_the_shards_that_the_coordinator_has_collected(
    coordinator: Callable[..., Coordinator],
) -> None:
    one = coordinator(endings={2: "ValueError: odd"}, states={2: "error"})
    await one.carry_out()
    await one.round.delete_collected()
    ((function, (_, names)),) = one.fleet.asked
    assert (function, names) == (delete_shards, ["r.1of3", "r.3of3"])


@pytest.mark.parametrize("alive", [True, False])
async def test_no_worker_is_asked_to_delete_without_collected_shards_or_scheduler(
    coordinator: Callable[..., Coordinator], alive: bool
) -> None:
    one = coordinator(alive=alive)
    if not alive:
        await one.carry_out()
    await one.round.delete_collected()
    assert one.fleet.asked == []


REFUSED = Refusal(kind="config", message="a.yaml: bad", hint="fix it", worker="w2", exit_code=2)


@pytest.mark.parametrize(
    ("ending", "state", "problem"),
    [
        ("ValueError: odd", "error", "ValueError: odd"),
        (None, "cancelled", "the scheduler tcp://h:1 canceled the shard"),
        (None, "finished", "its journal was lost during the transfer; the worker still has it"),
        (ShardResult(pack=None, refusal=REFUSED), "finished", "worker w2: a.yaml: bad (fix it)"),
        (ShardResult(pack=None, message="odd end"), "finished", "ended early: odd end"),
        (ShardResult(pack=None, stop=Stop.MAX_TIME), "finished", "ended early: max_time"),
    ],
)
async def test_a_failed_shard_is_reported_and_the_others_are_collected(
    coordinator: Callable[..., Coordinator], ending: Ending, state: str, problem: str
) -> None:
    one = coordinator(endings={2: ending}, states={2: state})
    assert await one.carry_out() == {2: problem}
    assert [order.shard.number for order in one.round.done] == [1, 3]


async def test_a_rejected_key_is_reported_per_job_and_not_as_a_problem_of_the_shard(
    coordinator: Callable[..., Coordinator],
) -> None:
    stopped = {"job": "401: the key is refused"}
    one = coordinator(
        endings={1: ShardResult(pack=None, stopped=stopped), 2: ShardResult(pack=None, stopped={"job": "another"})}
    )
    assert await one.carry_out() == {}
    assert {job: (failure.kind, failure.message) for job, failure in one.round.refused.items()} == {
        "job": ("stopped", "401: the key is refused")
    }


async def test_counters_of_a_returned_shard_are_added_to_the_progress(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(endings={1: ShardResult(pack=None, whole=True, counters=counters(1, cost="0.25"))})
    await one.carry_out()
    assert one.round.progress.cost_usd == Decimal("0.25")
    assert one.round.progress.silent_s(1) == 0.0, "it is back"


async def test_a_returned_journal_is_stored_and_sent_with_the_next_order(
    coordinator: Callable[..., Coordinator], tmp_path: Path
) -> None:
    world = World.make(tmp_path / "other", "http://127.0.0.1:9")
    outcome = await world.run(providers="oracle", run_id="s")
    sent = pack(outcome.folder, whole=True)
    one = coordinator(shards=1, endings={1: ShardResult(pack=sent, message="half")})
    assert await one.carry_out() == {1: "ended early: half"}
    orders: list[ShardOrder] = []
    one.fleet.on_submit = orders.append
    one.fleet.endings = {1: WHOLE}
    await one.round.carry_out(deque(one.shards))
    (again,) = orders
    assert again.pack is not None and again.pack.stores is None
    assert again.phases > 0


async def test_a_shard_prefers_the_worker_that_has_its_journal(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator()
    one.round.preferred = {"r.2of3": ["w2"]}
    await one.carry_out()
    assert one.fleet.preferred == {1: (), 2: ["w2"], 3: ()}


# ------------------------------------------------------------------------ stopping


async def test_after_a_stop_request_no_shard_is_submitted_and_the_fleet_is_stopped_once(
    coordinator: Callable[..., Coordinator],
) -> None:
    one = coordinator(shards=4, slots=2, states={1: "pending", 2: "pending"})
    one.fleet.endings = dict.fromkeys((1, 2), ShardResult(pack=None, stop=Stop.PAUSED))
    one.fleet.on_submit = lambda order: one.round.stopping.request(Stop.PAUSED) if order.shard.number == 2 else None
    assert await one.carry_out() == {}, "a shard that was stopped is no problem"
    assert one.fleet.submitted == [1, 2]
    assert one.fleet.stopped == 1


async def test_a_run_stopped_before_its_start_submits_no_shard(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator()
    one.round.stopping.request(Stop.SIGINT)
    assert await one.carry_out() == {}
    assert (one.fleet.submitted, one.fleet.stopped) == ([], 0)


async def test_a_shard_that_reached_the_budget_stops_the_run(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=4, slots=1, endings={1: ShardResult(pack=None, stop=Stop.MAX_COST)})
    assert await one.carry_out() == {}
    assert one.round.stopping.reason is Stop.MAX_COST
    assert one.fleet.submitted == [1]


@pytest.mark.parametrize(("cost", "stops"), [("0.99", False), ("1", True), ("1.5", True)])
async def test_the_cost_of_all_shards_together_is_limited_by_the_budget(
    coordinator: Callable[..., Coordinator], cost: str, stops: bool
) -> None:
    one = coordinator(
        shards=2, slots=1, max_usd=1.0, endings={1: ShardResult(pack=None, whole=True, counters=counters(1, cost=cost))}
    )
    await one.carry_out()
    assert (one.round.stopping.reason is Stop.MAX_COST) is stops
    assert one.fleet.submitted == ([1] if stops else [1, 2])


# ---------------------------------------------------------------------- lost workers


async def test_a_lost_scheduler_fails_all_shards_that_are_not_returned(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=4, slots=2, states={2: "pending"})

    def go(order: ShardOrder) -> None:
        one.fleet.alive = order.shard.number < 2

    one.fleet.on_submit = go
    assert await one.carry_out() == dict.fromkeys((2, 3, 4), "the scheduler tcp://h:1 does not answer any more")
    assert [order.shard.number for order in one.round.done] == [1]


async def test_a_run_without_a_worker_fails_after_silent_s(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=3, slots=2, silent_s=0.02, states={1: "pending", 2: "pending"}, there={})
    assert await one.carry_out() == dict.fromkeys((1, 2, 3), "no worker was left for 0 s")


async def test_a_worker_that_joins_within_silent_s_is_used(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=1, silent_s=30, states={1: "pending"}, there={})

    def come(look: int) -> None:
        if look > 1:
            one.fleet.there = {"w1": 1}
        if look > 2:
            one.fleet.finish()

    one.fleet.on_poll = come
    assert await one.carry_out() == {}
    assert one.round.alone_since is None


async def test_a_silent_worker_is_dropped_and_its_shard_runs_on_another(
    coordinator: Callable[..., Coordinator],
) -> None:
    one = coordinator(shards=1, silent_s=0.01, states={1: "pending"})
    one.fleet.on_submit = lambda order: one.round.progress.update(counters(1))
    assert await one.carry_out() == {}
    assert one.fleet.dropped == ["w1"]
    assert list(one.round.progress.events) == ["shard 1of1: its worker w1 was silent for 0 s"]


async def test_a_silent_only_worker_fails_its_shard(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=1, silent_s=0.01, states={1: "pending"}, there={"w1": 1})
    one.fleet.on_submit = lambda order: one.round.progress.update(counters(1))
    assert await one.carry_out() == {1: "its worker w1 was silent for 0 s"}
    assert one.fleet.dropped == [] and one.fleet.tasks[1].cancelled


async def test_a_shard_fails_at_its_second_silent_worker(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=1, silent_s=0.01, states={1: "pending"})
    one.fleet.on_submit = lambda order: one.round.progress.update(counters(1))

    one.fleet.on_drop = lambda worker: one.round.progress.update(counters(1, worker="w2"))
    assert await one.carry_out() == {1: "its worker w2 was silent for 0 s"}
    assert one.fleet.dropped == ["w1"] and one.fleet.tasks[1].cancelled


async def test_a_shard_without_a_worker_yet_does_not_count_as_silent(coordinator: Callable[..., Coordinator]) -> None:
    one = coordinator(shards=1, silent_s=0.0, states={1: "pending"}, there={"w1": 1})
    one.fleet.on_poll = lambda look: one.fleet.finish() if look == 3 else None
    one.round.silent_s = 0.001
    assert await one.carry_out() == {}
    assert one.fleet.dropped == []
