"""Stop the jobs of a lane early.

The reason can be that a provider or model refuses all calls, or that the first items all fail with the same error.

Example::

    breaker.stop(plan.jobs, failure)            # the provider refused: every job of the lane
    breaker.stop(plan.jobs_of(model), failure)  # a model refused: only the jobs that use it
    breaker.all_stopped                         # True once no job of the lane is left
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.engine.outcome import Failure
from bench.engine.run_context import RunContext
from bench.errors import MappingError, Rejected
from bench.journal import Event
from bench.journal.rows import CIRCUIT_BREAKER, STOPPED
from bench.patterns import pattern
from bench.plan import Job, Lane

FIRST_ITEMS = 20
"""a lane is stopped if its first searches, at least this many, are all empty"""
FIRST_FAILURES = 10
"""jobs are stopped if their first outcomes, at least this many, are all the same failure"""
WRONG_REQUEST = frozenset({Rejected.kind, MappingError.kind})
"""kinds of errors that occur again if the request is repeated"""
_OF_ONE_CALL = pattern(r'"input"\s*:.*|; body:.*|(?=[\w.-]*\d)(?=[\w.-]*[A-Za-z])[\w.-]{12,}')
"""parts of an error text that differ from call to call, such as ids and the repeated request"""


@dataclass(slots=True, kw_only=True)
class CircuitBreaker:
    """The stopped jobs of one lane, and the counts that decide when a job is stopped."""

    run: RunContext
    lane: Lane
    stopped_jobs: dict[str, Failure] = field(default_factory=dict)
    """job key -> failure because of which the job was stopped"""
    all_stopped: bool = False
    """True if all jobs of the lane are stopped"""
    _searched: int = 0
    _found_any: bool = False
    _only_error: dict[str, str] = field(default_factory=dict)
    """action -> error text that all its failures had so far; empty after a success or a different error"""
    _failures: Counter[str] = field(default_factory=Counter)
    """action -> number of its failures so far"""
    _lost_items: Counter[str] = field(default_factory=Counter)
    """action -> number of items that failed because this action failed"""

    def stop(self, jobs: Iterable[Job], failure: Failure) -> None:
        """Stop these jobs because of a failure: their next phases do not start, but requests in flight finish."""
        for job in jobs:
            if job.key not in self.stopped_jobs:
                self.stopped_jobs[job.key] = failure
                self.run.progress.jobs[job.key].stopped = failure.message
                event = Event(kind=f"{STOPPED}{failure.kind}", scope=job.key, message=failure.message)
                self.run.journal.append(event)
                self.run.progress.events.append(f"{job.key}: {failure.message}")
        self.all_stopped = len(self.stopped_jobs) == len(self.lane.jobs)

    def count_search(self, *, empty: bool, provider: str) -> None:
        """Count a search, and stop all jobs of the lane if its first 20 searches were all empty.

        If the circuit breaker is switched off, only write a warning.
        """
        self._searched += 1
        self._found_any |= not empty
        if self._found_any or self._searched < FIRST_ITEMS:
            return
        text = f"the first {FIRST_ITEMS} searches of {provider} found nothing: check scoping and index in its config"
        if self.run.plan.request.circuit_breaker:
            self.stop(self.lane.jobs, Failure(kind=CIRCUIT_BREAKER, message=text))
        elif self._searched == FIRST_ITEMS:
            self.run.journal.append(Event(kind="nothing_found", scope=self.lane.key, message=text))
            self.run.progress.events.append(f"{self.lane.key}: {text}")

    def count_outcome(self, action: str, jobs: Sequence[Job], failure: Failure | None, *, items: int = 1) -> None:
        """Count the outcome of an action such as a search; ``failure`` is None after a success.

        The jobs are stopped if two conditions are met. First, at least 10 outcomes were counted, and all of them are
        the same error, of a kind that occurs again when the request is repeated. Second, more items have failed than a
        valid job may lose. ``items`` is the number of items that fail if the action fails. If the circuit breaker is
        switched off, no job is stopped.
        """
        if self._only_error.get(action) == "" or not self.run.plan.request.circuit_breaker:
            return
        text = _OF_ONE_CALL.sub("", failure.message) if failure and failure.kind in WRONG_REQUEST else ""
        if failure is None or self._only_error.setdefault(action, text) != text:
            self._only_error[action] = ""
            return
        self._failures[action] += 1
        self._lost_items[action] += items
        planned = self.lane.benchmark.n_selected * self.lane.benchmark.epochs
        if (
            text
            and self._failures[action] >= FIRST_FAILURES
            and self._lost_items[action] > self.run.plan.request.max_error_rate * planned
        ):
            reason = f"{action}: the first {self._failures[action]} all failed with the same error, so the job stops"
            self.stop(jobs, Failure(kind=CIRCUIT_BREAKER, message=f"{reason}: {failure.message}"))
