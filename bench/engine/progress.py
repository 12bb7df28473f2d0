"""Count the finished phases and items of a running process, for displays of the progress.

A phase or item counts as soon as its journal row is durable.

Example::

    class Plain:                                    # an Observer
        def launched(self, progress): self.progress = progress
        def stopping(self, reason, in_flight): print(f"stopping ({reason}), {in_flight} requests in flight")
        def finished(self, outcome): print(outcome.status)

    progress.lanes["demo/bm25"].phases[Phase.SEARCH]    # Count(total=60, done=40, failed=1)
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from bench.journal.records import IndexWaiting
from bench.model import Phase, State
from bench.plan import NONE

if TYPE_CHECKING:
    from bench.engine.outcome import Outcome
    from bench.engine.stopping import Stop
    from bench.http import Http
    from bench.plan import Job, Lane

RATE_WINDOW_S = 30.0
Scores = tuple[int, float, float]
"""the number of values, their sum, and the sum of their squares"""


@dataclass(slots=True)
class Count:
    """The counts of one progress bar."""

    total: int = 0
    done: int = 0
    failed: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.total + other.total, self.done + other.done, self.failed + other.failed)


@dataclass(slots=True)
class JobProgress:
    """The progress of one job: the states of its items, and its score so far."""

    key: str
    benchmark: str
    provider: str
    answering: str | None
    judge: str | None
    planned: int = 0
    earlier: int = 0
    """number of items that ended in an earlier process"""
    states: Counter[State] = field(default_factory=Counter)
    scores: dict[str, Scores] = field(default_factory=dict)
    """corpus -> its scores so far"""
    clustered: bool = False
    """True if the confidence interval is computed over corpora instead of items"""
    stopped: str | None = None
    """the reason why this job was stopped; None while it runs"""

    @classmethod
    def of(cls, lane: Lane, job: Job) -> JobProgress:
        """Return the progress of a job before any item has ended."""
        return cls(
            key=job.key,
            benchmark=lane.benchmark.name,
            provider=lane.provider.label,
            answering=None if job.answering == NONE else job.answering,
            judge=None if job.judge == NONE else job.judge,
            planned=lane.benchmark.n_selected,
            clustered=lane.benchmark.config.cluster_by is not None,
        )

    @property
    def ended(self) -> int:
        return sum(self.states.values())

    @property
    def scored(self) -> int:
        """Return the number of scores so far."""
        return sum(n for n, _, _ in self.scores.values())

    @property
    def score(self) -> float | None:
        """Return the mean score so far; None if there is no score yet."""
        return sum(total for _, total, _ in self.scores.values()) / self.scored if self.scored else None


@dataclass(slots=True)
class LaneProgress:
    """The progress of one lane: the counts of each phase, over all its jobs."""

    key: str
    phases: dict[Phase, Count] = field(default_factory=lambda: {phase: Count() for phase in Phase})
    memories: int = 0
    """number of memories that the provider acknowledged in this process"""


class Progress:
    """The progress of one run, with all its lanes and jobs."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run_id = ""
        self.lanes: dict[str, LaneProgress] = {}
        self.jobs: dict[str, JobProgress] = {}
        self.cost_usd = Decimal(0)
        """cost of the run, including earlier processes"""
        self.earlier_usd = Decimal(0)
        """cost of earlier processes"""
        self.unknown_costs = 0
        self.rate_limited = 0
        self.calls = 0
        self.events: deque[str] = deque(maxlen=100)
        """short messages for the user, such as that a lane was stopped"""
        self._index_waits: dict[tuple[str, str], tuple[float, float]] = {}
        """(lane, corpus) -> (start of the wait, its timeout in seconds), the oldest wait first"""
        self._clock = clock
        self._started = clock()
        self._ended_at: deque[float] = deque(maxlen=2048)
        self._http: Http | None = None
        self._waiting: Callable[[], int] = lambda: 0

    # ---- what the engine reports

    def watch(self, http: Http) -> None:
        """Set the HTTP client from which the number of requests in flight is read."""
        self._http = http

    def watch_rows(self, waiting: Callable[[], int]) -> None:
        """Set the function that counts rows that are not durable yet."""
        self._waiting = waiting

    @contextmanager
    def waiting_for_index(self, lane: str, corpus: str, timeout_s: float) -> Iterator[None]:
        """While the ``with`` block runs, record that a corpus waits to become searchable."""
        self._index_waits[lane, corpus] = (self._clock(), timeout_s)
        try:
            yield
        finally:
            del self._index_waits[lane, corpus]

    def phase_durable(self, lane: str, phase: Phase, *, failed: bool) -> None:
        """Count a durable phase row."""
        count = self.lanes[lane].phases[phase]
        if failed:
            count.failed += 1
        else:
            count.done += 1
        self._ended_at.append(self._clock())

    def memories_durable(self, lane: str, count: int) -> None:
        """Count memories that the provider acknowledged."""
        self.lanes[lane].memories += count

    def item_ended(self, job: str, state: State | None, value: float | None, corpus: str = "") -> None:
        """Count the score ``value`` of an epoch that has ended, and the final state of its item.

        If other epochs of the item are still open, ``state`` is None and no state is counted.
        """
        row = self.jobs[job]
        if state is not None:
            row.states[state] += 1
        if value is not None:
            n, total, squares = row.scores.get(corpus, (0, 0.0, 0.0))
            row.scores[corpus] = (n + 1, total + value, squares + value * value)

    # ---- what a display reads

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight: sent, but without a response."""
        return self._http.in_flight if self._http is not None else 0

    @property
    def rows_waiting(self) -> int:
        """Return the number of rows that are not durable yet."""
        return self._waiting()

    @property
    def oldest_s(self) -> float | None:
        """Return the age in seconds of the oldest request in flight; None if no request is in flight."""
        return self._http.oldest_s() if self._http is not None else None

    def index_wait(self) -> IndexWaiting | None:
        """Return the longest current wait of a corpus to become searchable; None if no corpus waits."""
        for (_, corpus), (began, timeout_s) in self._index_waits.items():
            waited_s = self._clock() - began
            return IndexWaiting(corpora=len(self._index_waits), corpus=corpus, waited_s=waited_s, timeout_s=timeout_s)
        return None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    @property
    def rate_per_s(self) -> float:
        """Return the durable phases per second over the last 30 seconds."""
        now = self._clock()
        recent = sum(1 for at in self._ended_at if now - at <= RATE_WINDOW_S)
        return recent / max(0.1, min(self.elapsed_s, RATE_WINDOW_S))

    @property
    def planned(self) -> int:
        return sum(job.planned for job in self.jobs.values())

    @property
    def ended(self) -> int:
        return sum(job.ended for job in self.jobs.values())

    @property
    def memories(self) -> int:
        """Return the number of memories that providers acknowledged in this process."""
        return sum(lane.memories for lane in self.lanes.values())

    @property
    def eta_s(self) -> float | None:
        """Return the estimated seconds until every job is done, from the speed of each job in this process.

        Return None while the speed of a job is unknown, because it has not ended any item in this process.
        """
        left = [job for job in self.jobs.values() if job.stopped is None and job.ended < job.planned]
        if self.elapsed_s <= 0 or not self.ended or any(job.ended <= job.earlier for job in left):
            return None
        return max(
            (self.elapsed_s * (job.planned - job.ended) / (job.ended - job.earlier) for job in left), default=0.0
        )


class Observer(Protocol):
    """The interface of a display or service that follows a run."""

    def launched(self, progress: Progress) -> None:
        """Called before the first call of the run; ``progress`` can be polled from now on."""
        ...

    def stopping(self, reason: Stop, in_flight: int) -> None:
        """Called when the run is asked to stop, while it finishes its requests in flight."""
        ...

    def finished(self, outcome: Outcome) -> None:
        """Called at the end of the run, after everything is durable."""
        ...


class SilentObserver:
    """An observer that ignores all events."""

    def launched(self, progress: Progress) -> None: ...

    def stopping(self, reason: Stop, in_flight: int) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...
