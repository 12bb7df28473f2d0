"""Which jobs of a lane take no more work, and why.

Example::

    halts.stop(plan.jobs, failure)          # the provider refused: every job of the lane
    halts.stop(plan.jobs_of(model), failure)
    halts.every                             # True once no job of the lane is left

A provider that refuses stops its lane; a model that refuses stops the jobs that need it, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.engine.live import Failure, Live
from bench.journal import Event
from bench.plan import Job, Lane

FIRST_ITEMS = 20
"""as many empty results from the start stop a lane"""


@dataclass(slots=True, kw_only=True)
class Halts:
    """The refusals of one lane, and its circuit breaker."""

    live: Live
    lane: Lane
    jobs: dict[str, Failure] = field(default_factory=dict)
    """by job key"""
    every: bool = False
    """no job of the lane takes any more work"""
    _searched: int = 0
    _found_any: bool = False

    def stop(self, jobs: Iterable[Job], failure: Failure) -> None:
        """Take no more work for these jobs; what is in flight ends."""
        for job in jobs:
            if job.key not in self.jobs:
                self.jobs[job.key] = failure
                self.live.progress.jobs[job.key].stopped = failure.message
                event = Event(kind=f"job_stopped_{failure.kind}", scope=job.key, message=failure.message)
                self.live.journal.append(event)
                self.live.progress.events.append(f"{job.key}: {failure.message}")
        self.every = len(self.jobs) == len(self.lane.jobs)

    def count_search(self, *, empty: bool, provider: str) -> None:
        """The circuit breaker: a lane whose first items all find nothing is not worth its money; disarmed, it warns."""
        self._searched += 1
        self._found_any |= not empty
        if self._found_any or self._searched < FIRST_ITEMS:
            return
        text = f"the first {FIRST_ITEMS} searches of {provider} found nothing: look at scoping and index"
        if self.live.plan.request.circuit_breaker:
            self.stop(self.lane.jobs, Failure(kind="circuit_breaker", message=text))
        elif self._searched == FIRST_ITEMS:
            self.live.journal.append(Event(kind="nothing_found", scope=self.lane.key, message=text))
            self.live.progress.events.append(f"{self.lane.key}: {text}")
