"""The outcome of a run: its status, its exit code, and the result of each job.

Example::

    outcome.status, outcome.exit_code       # "complete", 0
    outcome.jobs[0].valid                   # False: too many errors, or a contaminated namespace

The exit code is 130 or 143 after a signal. Otherwise, it is 3 if the run stopped and can be resumed. If the run did not
stop, it is 4 if a job is INVALID, and 0 if all jobs are valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.engine.stopping import Stop
from bench.errors import BenchError, CallError, EvaluatorFailed, PluginFault, raise_site
from bench.events import redact
from bench.fast_dataclass import dataclass as value_dataclass
from bench.journal import Reader, RunState
from bench.model import FAILED_STATES, State
from bench.plan import Job, Plan
from bench.plan.job_record import read_jobs
from bench.plan.ranges import gaps_of
from bench.plan.validity import calibrations, invalid_reasons, useless_judge

SIGNALLED = 128
"""an exit code above this number means that a signal stopped the run"""
STOPPED_EXIT = 3
INVALID_EXIT = 4
LONGEST_HINT = 500


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure as data: its kind, its message, and advice.

    ``stops_lane`` is True if every item would fail for the same reason.
    """

    kind: str
    message: str
    hint: str = ""
    stops_lane: bool = False

    @classmethod
    def of(cls, error: Exception, plugin_fault: type[CallError] = PluginFault) -> Failure:
        """Convert an exception to a failure; secrets in its texts are redacted.

        An exception that is neither a `BenchError` nor a timeout gets the kind and the hint of ``plugin_fault``.
        """
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, BenchError):
            stops = isinstance(error, CallError) and error.stops_lane
            return cls(
                kind=error.kind, message=redact(str(error)), hint=redact(error.hint)[:LONGEST_HINT], stops_lane=stops
            )
        if isinstance(error, TimeoutError):
            return cls(kind="timeout", message=redact(str(error)) or "the time limit of the item has passed")
        return cls(
            kind=plugin_fault.kind,
            message=redact(f"{type(error).__name__}: {error}{raise_site(error)}"),
            hint=plugin_fault.default_hint,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The result of one job so far."""

    job: Job
    benchmark: str
    provider: str
    planned: int
    """number of items of the job"""
    states: Mapping[State, int]
    failed: bool = False
    """True if an item failed in any epoch, so that a resume tries it again"""
    error_kinds: frozenset[str] = frozenset()
    """error kinds of the failed items"""
    invalid: str | None = None
    """the reason why the scores of the job must not be used; None for a valid job"""
    skipped: str | None = None
    stopped: str | None = None

    @property
    def pending(self) -> int:
        return max(0, self.planned - sum(self.states.values()))

    @property
    def valid(self) -> bool:
        return self.invalid is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The state of a run at the end of its process."""

    run_id: str
    folder: Path
    status: RunState
    exit_code: int
    message: str
    jobs: tuple[JobOutcome, ...]
    stop: Stop | None = None
    rescore: str = ""
    """command that continues a rescore that was stopped; the results of the run are those of the earlier scoring"""
    cost_usd: str = "0"
    unknown_costs: int = 0

    @property
    def partial(self) -> bool:
        return self.status is not RunState.COMPLETE

    @property
    def resume(self) -> str | None:
        """Return the command that continues the run; None when nothing is left to do.

        If all failures are those of evaluators or metrics, the command is a rescore. The user must fix their code, and
        a resume with changed code is refused.
        """
        if self.rescore:
            return self.rescore
        if any(job.pending for job in self.jobs):
            return f"bench run --resume {self.run_id}"
        if not any(job.failed for job in self.jobs):
            return None
        kinds = {kind for job in self.jobs for kind in job.error_kinds}
        return f"bench {'rescore' if kinds == {EvaluatorFailed.kind} else 'run --resume'} {self.run_id}"


async def job_outcomes(plan: Plan, folder: Path, stopped: Mapping[str, Failure]) -> tuple[JobOutcome, ...]:
    """Return the result of every job, read from the journal in ``folder``.

    ``stopped`` has the failure of each job that was stopped.
    """
    found = []
    async with Reader.open(folder) as reader:
        records = {record.key: record for record in read_jobs(reader.meta.extra)}
        events = await reader.events()
        sizes = {key: record.n_selected for key, record in records.items()}  # a merged run's are those of all ranges
        for lane in plan.lanes:
            probes = await reader.probes(lane.build)
            for job in lane.jobs:
                states = await reader.item_states(job.key, lane.benchmark.epochs)
                planned = lane.benchmark.n_selected
                repeats = await reader.states(job.key) if lane.benchmark.epochs > 1 else states
                reasons = invalid_reasons(
                    repeats,
                    {},
                    sizes.get(job.key, planned) * lane.benchmark.epochs,
                    plan.request.max_error_rate,
                    probes,
                    epochs=lane.benchmark.epochs,
                    unscored=await reader.missing_verdicts(job.key),
                    useless_judge=useless_judge(calibrations(events, records[job.key]), records[job.key])
                    if job.key in records
                    else "",
                )
                refused = stopped.get(job.key)
                failed = any(repeats.get(state) for state in FAILED_STATES)
                errors = await reader.error_counts(job.key) if failed else ()
                found.append(
                    JobOutcome(
                        job=job,
                        benchmark=lane.benchmark.name,
                        provider=lane.provider.label,
                        planned=planned,
                        states=states,
                        failed=failed,
                        error_kinds=frozenset(error.kind for error in errors),
                        invalid="; ".join(reasons) or None,
                        skipped=lane.skipped,
                        stopped=None if refused is None else refused.message,
                    )
                )
    return tuple(found)


def status_of(
    plan: Plan, jobs: Sequence[JobOutcome], stop: Stop | None, stopped: Mapping[str, Failure], *, pending: bool = False
) -> RunState:
    """Return the state of the run at its end; a request to stop that came after the last item does not count.

    ``pending`` is True if a rescore has not finished. ``jobs`` does not show the pending items of a rescore.
    """
    if stop is not None and (pending or any(job.pending for job in jobs)):
        return RunState.STOPPED if stop in (Stop.MAX_COST, Stop.MAX_TIME) else RunState.PAUSED
    if stopped:
        return RunState.STOPPED
    whole = not gaps_of(plan.ranges, plan.total) and not any(job.pending for job in jobs)
    return RunState.COMPLETE if whole else RunState.PARTIAL


def exit_code_of(
    jobs: Sequence[JobOutcome], stop: Stop | None, stopped: Mapping[str, Failure], *, pending: bool = False
) -> int:
    """Return the exit code of the run, see the top of this module; ``pending`` is that of `status_of`."""
    if stop is not None and (stop.exit_code > SIGNALLED or pending or any(job.pending for job in jobs)):
        return stop.exit_code
    if stopped:
        return STOPPED_EXIT
    return INVALID_EXIT if any(not job.valid for job in jobs) else 0
