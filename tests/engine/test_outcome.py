"""Status and exit code of a run, and outcomes of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.engine.outcome import JobOutcome, Outcome, exit_code_of, job_outcomes, status_of
from bench.engine.run_context import Failure
from bench.engine.stopping import Stop
from bench.journal import Journal, JournaledPhase, Key, ProbeRow, RunMeta, RunState
from bench.model import FAILED_STATES, Phase, State
from bench.plan import Plan
from bench.plan.validity import FOREIGN
from tests.small_world import World

REFUSED = {"job": Failure(kind="auth", message="who are you", stops_lane=True)}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """One job of ten items."""
    return World.make(tmp_path, corpora=1, items=10).plan(providers="bm25")


def job(plan: Plan, states: Mapping[State, int], **more: object) -> JobOutcome:
    (one,) = plan.jobs
    failed = any(states.get(state) for state in FAILED_STATES)
    more = {"failed": failed, **more}
    return JobOutcome(
        job=one, benchmark="facts", provider="bm25", planned=10, states=states, **more  # type: ignore[arg-type]
    )  # fmt: skip


WHOLE, HALF, NONE = {State.MEASURED: 10}, {State.MEASURED: 4, State.ERROR: 1}, dict[State, int]()


@pytest.mark.parametrize(
    ("states", "stop", "refused", "status", "code"),
    [
        (WHOLE, None, False, RunState.COMPLETE, 0),
        (HALF, None, False, RunState.PARTIAL, 0),
        (NONE, None, False, RunState.PARTIAL, 0),
        (HALF, Stop.SIGINT, False, RunState.PAUSED, 130),
        (HALF, Stop.SIGTERM, False, RunState.PAUSED, 143),
        (HALF, Stop.PAUSED, False, RunState.PAUSED, 3),
        (HALF, Stop.MAX_COST, False, RunState.STOPPED, 3),
        (HALF, Stop.MAX_TIME, False, RunState.STOPPED, 3),
        # a signal sets the exit code also if no work is left; a budget reached after the last item has no effect
        (WHOLE, Stop.SIGINT, False, RunState.COMPLETE, 130),
        (WHOLE, Stop.SIGTERM, False, RunState.COMPLETE, 143),
        (WHOLE, Stop.MAX_COST, False, RunState.COMPLETE, 0),
        (WHOLE, Stop.MAX_TIME, False, RunState.COMPLETE, 0),
        (WHOLE, Stop.PAUSED, False, RunState.COMPLETE, 0),
        (HALF, None, True, RunState.STOPPED, 3),
        (WHOLE, None, True, RunState.STOPPED, 3),
        (HALF, Stop.SIGINT, True, RunState.PAUSED, 130),
        (HALF, Stop.MAX_COST, True, RunState.STOPPED, 3),
    ],
)
def test_status_and_exit_code_follow_items_stop_and_rejected_keys(
    plan: Plan, states: Mapping[State, int], stop: Stop | None, refused: bool, status: RunState, code: int
) -> None:
    jobs, stopped = [job(plan, states)], REFUSED if refused else {}
    assert (status_of(plan, jobs, stop, stopped), exit_code_of(jobs, stop, stopped)) == (status, code)


@pytest.mark.parametrize(
    ("stop", "refused", "code"),
    [
        (None, False, 4),
        (Stop.SIGINT, False, 130),
        (Stop.MAX_COST, False, 3),
        (None, True, 3),
        (Stop.SIGTERM, True, 143),
    ],
)
def test_the_exit_code_prefers_signal_then_stop_then_invalid_job(
    plan: Plan, stop: Stop | None, refused: bool, code: int
) -> None:
    jobs = [job(plan, WHOLE), job(plan, HALF, invalid="too many errors")]
    assert exit_code_of(jobs, stop, REFUSED if refused else {}) == code


@pytest.mark.parametrize(
    ("ranges", "status"),
    [
        ((), RunState.COMPLETE),
        (((1, 9),), RunState.PARTIAL),
        (((1, 4), (6, 10)), RunState.PARTIAL),
        (((1, 5), (6, 10)), RunState.COMPLETE),
        (((4, 10), (1, 6)), RunState.COMPLETE),
    ],
)
def test_a_run_with_gaps_is_partial(plan: Plan, ranges: tuple[tuple[int, int], ...], status: RunState) -> None:
    assert status_of(replace(plan, ranges=ranges), [job(plan, WHOLE)], None, {}) is status


def test_the_number_of_pending_items_is_never_negative(plan: Plan) -> None:
    assert job(plan, HALF).pending == 5
    assert job(plan, {State.MEASURED: 12}).pending == 0


@pytest.mark.parametrize(
    ("states", "command"),
    [
        (WHOLE, None),
        (HALF, "bench run --resume r"),
        ({State.MEASURED: 9, State.NOT_READY: 1}, "bench run --resume r"),
        ({State.INCORRECT: 10}, None),
        ({State.UNSCORED: 5, State.ABSTAINED: 5}, None),
    ],
)
def test_the_resume_command_is_set_only_if_items_are_left(
    plan: Plan, states: Mapping[State, int], command: str | None
) -> None:
    outcome = Outcome(
        run_id="r", folder=Path("r"), status=RunState.COMPLETE, exit_code=0, message="", jobs=(job(plan, states),)
    )
    assert outcome.resume == command
    assert not outcome.partial
    assert all(replace(outcome, status=one).partial for one in RunState if one is not RunState.COMPLETE)


async def judged(plan: Plan, folder: Path, states: Mapping[State, int], *probes: tuple[str, bool]) -> JobOutcome:
    """Return the outcome of the only job, read from the journal of a run."""
    (one,) = plan.jobs
    async with Journal.create(folder, RunMeta(run_id="r", plan_digest="d", identity={})) as journal:
        names = (f"q{number}" for number in range(99))
        for state, count in states.items():
            for _ in range(count):
                key = Key(owner=one.key, phase=Phase.EVALUATE, corpus="c0", unit=next(names))
                journal.append(
                    JournaledPhase(key=key, state=state, outcome="timeout" if state is State.ERROR else "ok")
                )
        for kind, passed in probes:
            journal.append(ProbeRow(lane=one.lane, corpus="c0", attempt=1, kind=kind, passed=passed))  # type: ignore[arg-type]
    (found,) = await job_outcomes(plan, folder, {one.key: REFUSED["job"]} if State.UNSCORED in states else {})
    return found


@pytest.mark.parametrize(
    ("errors", "rate", "invalid"),
    [
        (0, 0.02, None),
        (1, 0.02, "1 of 10 items failed (error or not_ready): above the allowed 2%"),
        (1, 0.1, None),
        (2, 0.1, "2 of 10 items failed (error or not_ready): above the allowed 10%"),
        (10, 1.0, None),
        (1, 0.0, "1 of 10 items failed (error or not_ready): above the allowed 0%"),
    ],
)
async def test_a_job_is_invalid_above_max_error_rate(
    plan: Plan, tmp_path: Path, errors: int, rate: float, invalid: str | None
) -> None:
    plan = replace(plan, request=plan.request.model_copy(update={"max_error_rate": rate}))
    found = await judged(plan, tmp_path / "r", {State.ERROR: errors, State.MEASURED: 10 - errors})
    assert found.invalid == invalid
    assert found.valid is (invalid is None)


@pytest.mark.parametrize(
    ("probes", "foreign"),
    [
        ([("emptiness", True), ("sentinel", True), ("canary", True)], 0),
        ([("sentinel", False)], 0),
        ([("emptiness", False)], 1),
        ([("canary", False), ("emptiness", False), ("emptiness", True)], 2),
    ],
)
async def test_a_failed_emptiness_or_canary_probe_makes_a_job_invalid(
    plan: Plan, tmp_path: Path, probes: list[tuple[str, bool]], foreign: int
) -> None:
    found = await judged(plan, tmp_path / "r", WHOLE, *probes)
    assert found.valid is (foreign == 0)
    assert (found.invalid is not None and found.invalid.startswith(FOREIGN)) is bool(foreign)


async def test_a_job_outcome_is_read_from_its_journal_rows(plan: Plan, tmp_path: Path) -> None:
    found = await judged(plan, tmp_path / "r", {State.UNSCORED: 3, State.CORRECT: 2})
    assert (found.benchmark, found.provider, found.planned) == ("facts", "bm25", 10)
    assert (found.states, found.pending) == ({State.UNSCORED: 3, State.CORRECT: 2}, 5)
    assert (found.stopped, found.skipped) == ("who are you", None)
