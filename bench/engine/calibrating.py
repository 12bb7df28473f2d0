"""Before the first item: how often the run's judges are wrong, by probes whose right verdict is known.

Example::

    await calibrate_judges(live, readers)       # one event a judge and judge prompt, kind ``judge_calibration``

The events stay with the run: `describe` shows them, `compare` takes its judge noise from them. A judge and prompt
that the journal already has are not asked again. A judge that cannot be asked is an event too, and no reason to stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING

from bench.engine.evaluating import OnceJudge
from bench.engine.live import Ledger
from bench.evaluators.calibration import WARN_ABOVE, Calibration, calibrate
from bench.evaluators.judged import JudgeEvaluator
from bench.journal import Event, Reader
from bench.model import Call
from bench.plan import NONE, Job, Lane
from bench.plan.asking import judge_tokens

if TYPE_CHECKING:
    from bench.engine.live import Live
    from bench.engine.readers import Readers

KIND = "judge_calibration"
FAILED = "judge_calibration_failed"
WARNING = "judge_warning"


async def calibrate_judges(live: Live, readers: Readers) -> None:
    """Calibrate each judge of the run with each benchmark's prompts, and warn of judges that accept wrong answers."""
    known = await _known(live)
    for lane, job, evaluator in _judged(live, readers):
        if live.stopping.asked:
            break
        prompts = lane.benchmark.prompts.judges
        if {(job.judge, prompt.sha256) for prompt in prompts.all} <= known.keys():
            continue
        plain = readers.judge(job.judge)
        assert plain is not None
        judge = OnceJudge(judge=plain, memo=[], max_tokens=judge_tokens(lane.benchmark, live.plan.request))
        done = await live.aside(
            lambda: calibrate(judge, prompts, evaluator=evaluator),  # noqa: B023  awaited here
            Ledger(job.key),
        )
        if done.failure is not None:
            live.journal.append(Event(kind=FAILED, scope=job.key, message=f"judge calibration: {done.failure.message}"))
        for found in done.value or ():
            known[job.judge, found.prompt_sha256] = found.fpr.value
            live.journal.append(Event(kind=KIND, data=_data(job.judge, found, done.calls)))
    for lane, job, _ in _judged(live, readers):
        _warn(live, lane, job, known)
    await live.journal.flush()


def _judged(live: Live, readers: Readers) -> Iterator[tuple[Lane, Job, JudgeEvaluator]]:
    """The jobs whose answers a judge takes for right or wrong."""
    for lane in live.plan.running:
        evaluator = next((one for one in readers.evaluators(lane) if isinstance(one, JudgeEvaluator)), None)
        for job in lane.jobs if evaluator is not None else ():
            if job.judge != NONE and evaluator is not None:
                yield lane, job, evaluator


async def _known(live: Live) -> dict[tuple[str, str], float | None]:
    """(judge, prompt) -> false positive rate, of an earlier process of this run."""
    found: dict[tuple[str, str], float | None] = {}
    async with Reader.open(live.folder) as reader:
        for _, event in await reader.events():
            if event.kind == KIND:
                rate = event.data["fpr"]
                value = rate.get("value") if isinstance(rate, Mapping) else None
                found[str(event.data["judge"]), str(event.data["prompt_sha256"])] = value
    return found


def _data(judge: str, found: Calibration, calls: tuple[Call, ...]) -> dict[str, object]:
    costs = [call.cost_usd for call in calls if call.outcome == "ok"]
    total = None if None in costs else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))
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
        "cost_usd_of_all_prompts": None if total is None else str(total),
    }


def _warn(live: Live, lane: Lane, job: Job, known: Mapping[tuple[str, str], float | None]) -> None:
    rates = [known.get((job.judge, prompt.sha256)) for prompt in lane.benchmark.prompts.judges.all]
    worst = max((rate for rate in rates if rate is not None), default=0.0)
    if worst > WARN_ABOVE:
        text = f"{job.judge} takes {worst:.0%} of wrong answers for right: scores are too high"
        live.journal.append(Event(kind=WARNING, scope=job.key, message=text))
        live.progress.events.append(f"{job.key}: {text}")
