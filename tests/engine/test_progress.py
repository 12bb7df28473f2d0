"""Progress counters: durable rows, rate of the last half minute, remaining time."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path

import pytest

from bench.engine.pending_items import PendingItems
from bench.engine.progress import RATE_WINDOW_S, JobProgress, LaneProgress, Progress
from bench.engine.progress_counter import ProgressCounter
from bench.journal import CorpusKind, CorpusRow, Event, Finished, Journal, JournaledPhase, Key, ProbeRow, RunMeta
from bench.model import Phase, State, Verdict
from bench.plan import Plan
from tests.small_world import World


class Clock:
    """A clock that changes only when a test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def job(key: str = "j", planned: int = 10) -> JobProgress:
    return JobProgress(key=key, benchmark="b", provider="p", answering=None, judge=None, planned=planned)


def test_a_new_progress_has_zero_counts() -> None:
    progress = Progress(clock=Clock())
    assert (progress.planned, progress.ended, progress.elapsed_s, progress.rate_per_s) == (0, 0, 0.0, 0.0)
    assert (progress.eta_s, progress.in_flight, progress.oldest_s, progress.rows_waiting) == (None, 0, None, 0)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    clock = Clock()
    progress = Progress(clock=clock)
    progress.lanes["l"] = LaneProgress("l")
    for _ in range(20):
        clock.now += 1
        progress.phase_durable("l", Phase.SEARCH, failed=False)
    assert progress.rate_per_s == pytest.approx(1.0), "20 phases in 20 seconds"
    clock.now += RATE_WINDOW_S - 10
    assert progress.rate_per_s == pytest.approx(11 / RATE_WINDOW_S)
    clock.now += 60
    assert progress.rate_per_s == 0.0


def test_the_rate_is_finite_right_after_the_start() -> None:
    progress = Progress(clock=Clock())
    progress.lanes["l"] = LaneProgress("l")
    progress.phase_durable("l", Phase.SEARCH, failed=True)
    assert progress.rate_per_s == 10.0, "the rate is computed over at least a tenth of a second"


def test_successful_and_failed_phases_are_counted_separately() -> None:
    progress = Progress(clock=Clock())
    progress.lanes["l"] = LaneProgress("l")
    for failed in (False, True, False):
        progress.phase_durable("l", Phase.ANSWER, failed=failed)
    count = progress.lanes["l"].phases[Phase.ANSWER]
    assert (count.done, count.failed) == (2, 1)
    assert [one.done for phase, one in progress.lanes["l"].phases.items() if phase is not Phase.ANSWER] == [0] * 4


def test_the_remaining_time_is_that_of_the_slowest_job_and_unknown_without_ended_items() -> None:
    clock = Clock()
    progress = Progress(clock=clock)
    progress.jobs = {"a": job("a", 10), "b": job("b", 10)}
    assert progress.eta_s is None, "no time has passed"
    clock.now += 30
    assert progress.eta_s is None, "no item has ended"
    for _ in range(5):
        progress.item_ended("a", State.MEASURED, None)
    assert (progress.planned, progress.ended, progress.eta_s) == (20, 5, None), "the other job has no ended item"
    progress.item_ended("b", State.MEASURED, None)
    assert progress.eta_s == 270.0, "9 items are left, and one took 30 seconds"
    progress.jobs["b"].stopped = "refused"
    assert progress.eta_s == 30.0, "a job that stopped takes no more work"
    for _ in range(20):
        progress.item_ended("a", State.MEASURED, None)
    assert progress.eta_s == 0.0, "retried items end more than once"


def test_items_of_an_earlier_process_do_not_affect_the_remaining_time() -> None:
    clock = Clock()
    progress = Progress(clock=clock)
    progress.jobs = {"a": job("a", 10)}
    progress.jobs["a"].states[State.MEASURED] = progress.jobs["a"].earlier = 8
    clock.now += 60
    assert progress.eta_s is None
    progress.item_ended("a", State.MEASURED, None)
    assert progress.eta_s == 60.0


def test_ingested_memories_are_summed() -> None:
    progress = Progress(clock=Clock())
    progress.lanes["l"] = LaneProgress("l")
    progress.memories_durable("l", 50)
    progress.memories_durable("l", 22)
    assert progress.memories == 72


def test_the_score_is_the_mean_of_scored_items() -> None:
    progress = Progress(clock=Clock())
    progress.jobs = {"j": job()}
    assert progress.jobs["j"].score is None
    for state, value in ((State.CORRECT, 1.0), (State.INCORRECT, 0.0), (State.PARTIAL, 0.5), (State.ERROR, None)):
        progress.item_ended("j", state, value)
    row = progress.jobs["j"]
    assert (row.score, row.scored, row.ended) == (0.5, 3, 4)
    assert row.states == Counter({State.CORRECT: 1, State.INCORRECT: 1, State.PARTIAL: 1, State.ERROR: 1})


def test_only_the_last_100_events_are_kept() -> None:
    progress = Progress()
    progress.events.extend(str(number) for number in range(150))
    assert (len(progress.events), progress.events[0]) == (100, "50")


# ------------------------------------------------------------------ counters from rows


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    world = World.make(tmp_path, corpora=2, items=3)
    return world.plan(providers="bm25", answering_model=["builtin/extractive", "none"], epochs=2)


async def counting_of(plan: Plan, folder: Path) -> ProgressCounter:
    return await ProgressCounter.over(plan, Progress(), folder, resumed=False)


async def test_each_job_has_its_number_of_items(plan: Plan, tmp_path: Path) -> None:
    counter = await counting_of(plan, tmp_path)
    rows = list(counter.progress.jobs.values())
    assert [(row.benchmark, row.provider, row.answering, row.judge) for row in rows] == [
        ("facts", "bm25", "builtin/extractive", None), ("facts", "bm25", None, None),
    ]  # fmt: skip
    assert [row.planned for row in rows] == [6, 6], "items, independent of epochs"
    assert list(counter.progress.lanes) == ["facts/bm25"]


async def test_phase_totals_are_the_pending_phases(plan: Plan, tmp_path: Path) -> None:
    counter = await counting_of(plan, tmp_path)
    (lane,) = plan.lanes
    none = Finished({})
    pending = PendingItems(lane=lane, searched=none, answered={}, evaluated={job.key: none for job in lane.jobs})
    for ref in lane.benchmark.dataset.items():
        if ref.corpus == "c1":
            pending.open_positions.setdefault(ref.corpus, array("I")).append(ref.position)
    counter.expect({lane.key: pending})
    totals = {phase: one.total for phase, one in counter.progress.lanes[lane.key].phases.items()}
    assert totals == {Phase.INGEST: 1, Phase.INDEX: 1, Phase.SEARCH: 6, Phase.ANSWER: 6, Phase.EVALUATE: 12}


async def test_journal_rows_increase_the_counters_of_lane_and_job(plan: Plan, tmp_path: Path) -> None:
    counter = await counting_of(plan, tmp_path)
    first, second = plan.jobs

    def entry(owner: str, phase: Phase, epoch: int = 1, **more: object) -> JournaledPhase:
        key = Key(owner=owner, phase=phase, corpus="c0", unit="q", epoch=epoch)
        return JournaledPhase(key=key, **more)  # type: ignore[arg-type]

    right = (
        Verdict(evaluator="contains", value=1.0, correct=True),
        Verdict(evaluator="other", value=0.0, correct=False),
    )
    counter([
        CorpusRow(lane=first.lane, corpus="c0", attempt=1, kind=CorpusKind.INTENT),
        CorpusRow(lane=first.lane, corpus="c0", attempt=1, kind=CorpusKind.BATCH),
        CorpusRow(lane=first.lane, corpus="c0", attempt=1, kind=CorpusKind.INGESTED),
        CorpusRow(lane=first.lane, corpus="c0", attempt=1, kind=CorpusKind.READY),
        CorpusRow(lane=first.lane, corpus="c1", attempt=1, kind=CorpusKind.FAILED),
        ProbeRow(lane=first.lane, corpus="c0", attempt=1, kind="sentinel", passed=True),
        Event(kind="anything"),
        entry(first.lane, Phase.SEARCH),
        entry(first.lane, Phase.SEARCH, outcome="timeout"),
        entry(first.answer_owner, Phase.ANSWER),
        entry(first.key, Phase.EVALUATE, state=State.CORRECT, verdicts=right),
        entry(second.key, Phase.EVALUATE, state=State.MEASURED),
    ])  # fmt: skip
    counts = {phase: (one.done, one.failed) for phase, one in counter.progress.lanes[first.lane].phases.items()}
    assert counts == {
        Phase.INGEST: (1, 1), Phase.INDEX: (1, 0), Phase.SEARCH: (1, 1), Phase.ANSWER: (1, 0), Phase.EVALUATE: (2, 0),
    }  # fmt: skip
    rows = counter.progress.jobs
    assert (rows[first.key].score, rows[second.key].score) == (1.0, None), "the first evaluator decides"
    assert (rows[first.key].states, rows[second.key].states) == ({}, {}), "another epoch is pending"
    counter([
        entry(first.key, Phase.EVALUATE, 2, state=State.ERROR, outcome="timeout"),
        entry(second.key, Phase.EVALUATE, 2, state=State.MEASURED),
    ])  # fmt: skip
    assert (rows[first.key].states, rows[second.key].states) == ({State.CORRECT: 1}, {State.MEASURED: 1})


async def test_a_resumed_run_counts_an_item_when_its_last_epoch_ends(tmp_path: Path) -> None:
    """One item has all epochs, one lacks the last, one failed in one epoch, one in all epochs."""
    world = World.make(tmp_path, corpora=1, items=4)
    plan = world.plan(providers="bm25", epochs=3)
    (one,) = plan.jobs
    good, bad = (State.MEASURED, "ok"), (State.ERROR, "timeout")

    def ended(unit: str, epoch: int, state: State, outcome: str) -> JournaledPhase:
        key = Key(owner=one.key, phase=Phase.EVALUATE, corpus="c0", unit=unit, epoch=epoch)
        return JournaledPhase(key=key, state=state, outcome=outcome)

    stored = {"a": [good, good, good], "b": [good, bad], "c": [good, bad, good], "d": [bad, bad, bad]}
    folder = tmp_path / "checkpoints/r"
    async with Journal.create(folder, RunMeta(run_id="r", plan_digest="d", identity={})) as journal:
        for unit, repeats in stored.items():
            for epoch, how in enumerate(repeats, start=1):
                journal.append(ended(unit, epoch, *how))
    counter = await ProgressCounter.over(plan, Progress(), folder, resumed=True)
    row = counter.progress.jobs[one.key]
    assert row.states == {State.MEASURED: 2}
    counter([ended("c", 2, *good)])
    assert row.states == {State.MEASURED: 2}, "a repeated epoch does not end an item twice"
    counter([ended("b", 2, *good), ended("b", 3, *good), *(ended("d", epoch, *good) for epoch in (1, 2, 3))])
    assert row.states == {State.MEASURED: 4} and row.ended == row.planned


async def test_a_resumed_run_starts_with_stored_items_except_errors(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=4)
    plan = world.plan(providers="bm25", answering_model="builtin/extractive")
    (one,) = plan.jobs
    folder = tmp_path / "checkpoints/r"
    async with Journal.create(folder, RunMeta(run_id="r", plan_digest="d", identity={})) as journal:
        states = (State.CORRECT, State.INCORRECT, State.ERROR, State.NOT_READY)
        for unit, state in enumerate(states):
            key = Key(owner=one.key, phase=Phase.EVALUATE, corpus="c0", unit=str(unit))
            outcome = "timeout" if state is State.ERROR else "not_ready" if state is State.NOT_READY else "ok"
            journal.append(JournaledPhase(key=key, state=state, outcome=outcome))
    counter = await ProgressCounter.over(plan, Progress(), folder, resumed=True)
    assert counter.progress.jobs[one.key].states == {State.CORRECT: 1, State.INCORRECT: 1}
