"""The counters of all shards add up to the progress of one run."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from bench.cluster.messages import ClusterProgress, ShardCounters
from bench.engine.progress import Count, LaneProgress
from bench.journal.records import IndexWaiting
from bench.model import Phase, State
from tests.small_world import World

LANE, JOB = "facts/oracle", "facts/oracle|builtin/extractive|none"


def gathered(tmp_path: Path) -> ClusterProgress:
    plan = World.make(tmp_path, "http://127.0.0.1:9").plan(providers="oracle", answering_model="builtin/extractive")
    assert [job.key for job in plan.jobs] == [JOB]
    return ClusterProgress(plan, "r")


def counters(shard: int, attempt: str = "a", done: int = 1, cost: str = "0.5") -> ShardCounters:
    lane = LaneProgress(LANE)
    lane.phases[Phase.SEARCH] = Count(total=4, done=done, failed=1)
    return ShardCounters(
        shard=shard,
        attempt=attempt,
        worker=f"tcp://w{shard}",
        lanes={LANE: lane},
        states={JOB: {State.CORRECT: done, State.ERROR: 1}},
        scores={JOB: {"c": (done, float(done), float(done))}},
        cost_usd=Decimal(cost),
        in_flight=2,
        oldest_s=float(shard),
        index_wait=IndexWaiting(corpora=2, corpus=f"c{shard}", waited_s=10.0 * shard, timeout_s=600.0),
        rate_per_s=1.5,
    )


def test_ShardCounters_are_unchanged_by_serialization(tmp_path: Path) -> None:
    assert ShardCounters.read(counters(1).text) == counters(1)


def test_counters_of_shards_are_summed(tmp_path: Path) -> None:
    found = gathered(tmp_path)
    for one in (counters(1), counters(2), counters(2, done=3)):
        found.update(one)
    bar = found.lanes[LANE].phases[Phase.SEARCH]
    assert (bar.total, bar.done, bar.failed) == (8, 4, 2)
    assert (found.planned, found.ended, found.jobs[JOB].score) == (8, 6, 1.0)
    assert (found.in_flight, found.oldest_s, found.rate_per_s) == (4, 2.0, 3.0)
    wait = found.index_wait()
    assert wait is not None
    assert wait.text == "until memories of c2 and 3 other corpora can be found (20 of 600 s)"


def test_the_cost_of_a_lost_attempt_stays_counted_but_its_items_do_not(tmp_path: Path) -> None:
    found = gathered(tmp_path)
    found.update(counters(1, "lost", done=4, cost="0.7"))
    found.update(counters(1, "again", done=1, cost="0.2"))
    assert found.cost_usd == Decimal("0.9")
    assert found.ended == 2, "but only what the living attempt has is done"


def test_a_returned_shard_has_no_request_in_flight(tmp_path: Path) -> None:
    found = gathered(tmp_path)
    found.update(counters(1))
    found.shard_returned(1)
    assert (found.in_flight, found.oldest_s, found.silent_s(1)) == (0, None, 0.0)
    assert found.index_wait() is None
    assert found.ended == 2
