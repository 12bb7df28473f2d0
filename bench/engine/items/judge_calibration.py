"""Test the judges of a run before the first item, with answers whose correct verdict is known.

Example::

    await calibrate_judges(run, models)       # one event per judge and judge prompt, kind ``judge_calibration``

A resumed run does not repeat a test. If a judge cannot be called, this is recorded and does not stop the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from bench.engine.items.evaluate import MemoizedJudge
from bench.engine.items.phase_results import total_usd
from bench.engine.models import OpenModels
from bench.engine.outcome import Failure
from bench.engine.run_context import CallOwner, RunContext
from bench.evaluators import Judge
from bench.evaluators.calibration import WARN_ABOVE, Calibration, calibrate
from bench.evaluators.judged import JudgeEvaluator
from bench.evaluators.routed import distinct_evaluators
from bench.journal import Event, Reader
from bench.model import Call, Completion, Prompt
from bench.plan import NONE, Job, Lane
from bench.plan.model_settings import judge_tokens
from bench.plan.validity import CALIBRATION

FAILED = "judge_calibration_failed"
WARNING = "judge_warning"


async def calibrate_judges(run: RunContext, models: OpenModels) -> None:
    """Test each judge with the judge prompts of each benchmark, and write the error rates to the journal as events.

    Also write a warning for each judge that accepts too many wrong answers.
    """
    known = await _known(run)
    for lane, job, evaluator in _judged(run, models):
        if run.stopping.requested:
            break
        prompts = lane.benchmark.prompts.judges
        if {(job.judge, prompt.sha256) for prompt in prompts.all} <= known.keys():
            continue
        plain = models.unbatched_judge(job.judge)
        assert plain is not None
        paid = _PaidJudge(run, CallOwner(job.key), plain)
        judge = MemoizedJudge(judge=paid, memo=[], max_tokens=judge_tokens(lane.benchmark, run.plan.request))
        try:
            results = await calibrate(judge, prompts, evaluator=evaluator)
        except _Ended as ended:
            if ended.failure is not None:
                text = f"judge calibration: {ended.failure.message}"
                run.journal.append(Event(kind=FAILED, scope=job.key, message=text))
            continue
        for found in results:
            known[job.judge, found.prompt_sha256] = found.fpr.value
            run.journal.append(Event(kind=CALIBRATION, data=_data(job.judge, found, paid.calls)))
    for lane, job, _ in _judged(run, models):
        _warn(run, lane, job, known)
    await run.journal.flush()


class _Ended(Exception):
    """Raised if a calibration ends early: because a call failed, or (``failure`` is None) because the run stops."""

    def __init__(self, failure: Failure | None) -> None:
        super().__init__()
        self.failure = failure


class _PaidJudge:
    """A judge whose calls are paid and journaled one by one, so that the budget of the run can stop a calibration."""

    def __init__(self, run: RunContext, owner: CallOwner, judge: Judge) -> None:
        self._run = run
        self._owner = owner
        self._judge = judge
        self.calls: list[Call] = []

    @property
    def name(self) -> str:
        return self._judge.name

    async def ask(self, prompt: Prompt) -> Completion:
        """Return the reply of the judge. Raises _Ended if the run stops or the call fails."""
        if self._run.stopping.requested:
            raise _Ended(None)
        done = await self._run.attempt_and_journal(lambda: self._judge.ask(prompt), self._owner)
        self.calls += done.calls
        if done.value is None:
            raise _Ended(done.failure)
        return done.value


def _judged(run: RunContext, models: OpenModels) -> Iterator[tuple[Lane, Job, JudgeEvaluator]]:
    """Yield each job whose judge decides whether answers are right, with its lane and evaluator."""
    for lane in run.plan.running:
        opened = distinct_evaluators(models.evaluators(lane))
        evaluator = next((one for one in opened if isinstance(one, JudgeEvaluator)), None)
        for job in lane.jobs if evaluator is not None else ():
            if job.judge != NONE and evaluator is not None:
                yield lane, job, evaluator


async def _known(run: RunContext) -> dict[tuple[str, str], float | None]:
    """Return the false positive rates that this run has already measured, by (judge, prompt digest).

    A rate is None if the test gave no result.
    """
    found: dict[tuple[str, str], float | None] = {}
    async with Reader.open(run.folder) as reader:
        for event in await reader.events(CALIBRATION):
            rate = event.data["fpr"]
            value = rate.get("value") if isinstance(rate, Mapping) else None
            found[str(event.data["judge"]), str(event.data["prompt_sha256"])] = value
    return found


def _data(judge: str, found: Calibration, calls: Sequence[Call]) -> dict[str, object]:
    return {
        "judge": judge,
        "prompt": found.prompt_name,
        "prompt_sha256": found.prompt_sha256,
        "fpr": asdict(found.fpr),
        "fnr": asdict(found.fnr),
        "by_kind": {kind: asdict(rate) for kind, rate in found.by_kind.items()},
        "unparsed": found.unparsed,
        "judge_noise": found.noise,
        "calls_of_all_prompts": len(calls),
        "cost_usd_of_all_prompts": total_usd(calls),
    }


def _warn(run: RunContext, lane: Lane, job: Job, known: Mapping[tuple[str, str], float | None]) -> None:
    rates = [known.get((job.judge, prompt.sha256)) for prompt in lane.benchmark.prompts.judges.all]
    worst = max((rate for rate in rates if rate is not None), default=0.0)
    if worst > WARN_ABOVE:
        text = f"{job.judge} judges {worst:.0%} of the wrong answers as right, so its scores are too high"
        run.journal.append(Event(kind=WARNING, scope=job.key, message=text))
        run.progress.events.append(f"{job.key}: {text}")
