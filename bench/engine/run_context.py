"""Shared state of the workers of a run, and the one place where an exception becomes data.

Here too:

* Money as it is spent: adds up the ledger, and stops the run at ``--max-cost``.
* What of a plan one process does: everything that is missing, or less, or the scoring again.
* Which jobs of a lane take no more work, and why.

Example::

    done = await live.attempt(lambda: provider.search(space, query))
    if done.failure is None:
        use(done.value, done.times_us, done.calls)
    budget = Budget(max_usd=Decimal("5"), stopping=stopping, progress=progress)
    budget.resume(*await journal.spending())     # what earlier processes of this run spent
    budget.spend(calls)                          # a call of unknown price counts as 0 and is counted apart
    Errand()                                          # run, resume
    Errand(only=await failed_items(folder))           # retry: failures and nothing else
    Errand(generation=2)                              # rescore: stored answers, new verdicts, no provider called
    Errand(first=copying(source, plan, Phase.ANSWER)) # fork: begin with another run's rows
    halts.stop(plan.jobs, failure)          # the provider refused: every job of the lane
    halts.stop(plan.jobs_of(model), failure)
    halts.every                             # True once no job of the lane is left

A failure of an item, a corpus or a judge is a `Failure` and travels on as a value. A failure of the journal is none:
it stops the run. A cancelled phase is none either: it simply has not happened.

The budget is that of the run: resume, retry and rescore continue with what is left of it.

A provider that refuses stops its lane; a model that refuses stops the jobs that need it, and no other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Generic, TypeVar

import anyio

from bench.engine.isolation import Ownership
from bench.engine.outcome import PLUGIN, Failure
from bench.engine.progress import Progress
from bench.engine.stopping import Stop, Stopping, monotonic_us
from bench.errors import JournalError, MappingError, Unavailable, raised_at
from bench.events import log
from bench.http import Http, recording
from bench.journal import CorpusKind, CorpusRow, Event, Journal
from bench.model import Call
from bench.plan import Job, Lane, Plan
from bench.providers.builtin.store import working
from bench.settings import Environment
from bench.values import dataclass as value_dataclass

TOO_MANY = 429


class Budget:
    """The run's spending."""

    def __init__(self, *, max_usd: Decimal | None, stopping: Stopping, progress: Progress) -> None:
        self._max_usd = max_usd
        self._stopping = stopping
        self._progress = progress

    def resume(self, spent_usd: Decimal, unknown: int) -> None:
        """Begin with what the journal holds, and ask to stop when nothing is left."""
        self._progress.cost_usd += spent_usd
        self._progress.earlier_usd += spent_usd
        self._progress.unknown_costs += unknown
        self._stop_when_spent()

    def spend(self, calls: Sequence[Call]) -> None:
        """Add what these calls cost, and ask to stop once nothing is left."""
        progress = self._progress
        for call in calls:
            progress.calls += 1
            progress.rate_limited += call.status == TOO_MANY
            if call.cost_usd is not None:
                progress.cost_usd += Decimal(call.cost_usd)
            elif call.outcome == "ok":
                progress.unknown_costs += 1
        self._stop_when_spent()

    def _stop_when_spent(self) -> None:
        if self._max_usd is not None and self._progress.cost_usd >= self._max_usd:
            self._stopping.ask(Stop.MAX_COST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """The part of a plan that is done."""

    only: frozenset[str] | None = None
    """item ids; None = all"""
    generation: int = 0
    """above 0: every stored answer is scored again, as this generation"""
    first: Callable[[Journal], Awaitable[None]] | None = None
    """puts rows into the journal before anything is looked up in it"""

    @property
    def rescores(self) -> bool:
        return self.generation > 0


T = TypeVar("T")

OCCUPIED = "occupied"
"""kind of the refusal to write into the one namespace of a service that holds someone else's memories"""
UNANSWERED = frozenset({Unavailable.kind, "timeout"})


REREAD_PAUSES_S = (0.2, 1.0)
"""before a look whose answer could not be read is made again"""


async def reread(look: Callable[[], Awaitable[T]]) -> T:
    """Make a look that changes nothing, and make it again where the answer cannot be read.

    An error page with status 200 states nothing about a whole corpus.
    """
    for pause_s in REREAD_PAUSES_S:
        try:
            return await look()
        except MappingError:
            await anyio.sleep(pause_s)
    return await look()


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[T]):
    """One try of one phase: its value or its failure, how long it took, which calls it made."""

    value: T | None
    failure: Failure | None
    times_us: Mapping[str, int]
    """the whole and its four parts; a phase that called no one spent its time in the provider"""
    calls: tuple[Call, ...]

    @property
    def outcome(self) -> str:
        return "ok" if self.failure is None else self.failure.kind

    @property
    def unreached(self) -> bool:
        """The last request got no answer: refused, cut off, or not in time."""
        return self.outcome in UNANSWERED and bool(self.calls) and self.calls[-1].status is None

    @property
    def message(self) -> str:
        return "" if self.failure is None else self.failure.message


@value_dataclass(frozen=True, slots=True)
class Ledger:
    """The calls that belong to no row of a phase."""

    owner: str
    """a lane, or a job"""
    corpus: str = ""
    attempt: int = 1


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One run while it runs."""

    run_id: str
    folder: Path
    plan: Plan
    journal: Journal
    http: Http
    environment: Environment
    progress: Progress
    stopping: Stopping
    budget: Budget
    errand: Errand
    resumed: bool
    """an earlier process worked on this run: what providers kept in its memory is gone"""
    ownerships: dict[str, Ownership] = field(default_factory=dict)
    """what the namespaces of each provider were sent, by its label"""
    turns: dict[str, anyio.Lock] = field(default_factory=dict)
    """by provider: held by the lane whose corpora are in a service that has one namespace, so that no other's are"""
    traced: set[str] = field(default_factory=set)
    """where foreign code raised an error whose traceback is in the log"""

    async def aside(self, act: Callable[[], Awaitable[T]], ledger: Ledger) -> Attempt[T]:
        """Act once, and journal the calls at once: no row of a phase will hold them."""
        done = await self.attempt(act, ledger)
        self.keep(done.calls, ledger)
        return done

    async def attempt(
        self, act: Callable[[], Awaitable[T]], ledger: Ledger, *, measures_work: bool = True
    ) -> Attempt[T]:
        """Act once and return the outcome; the caller's row holds the calls, or ``ledger`` when it is cut off.

        ``measures_work``: False where no provider is called, whose own processor time would count. The only broad
        ``except`` of the program.
        """
        value, failure, began, ended = None, None, monotonic_us(), False
        work = working() if measures_work else None
        with recording() as calls:
            try:
                if work is None:
                    value = await act()
                else:
                    with work:
                        value = await act()
                ended = True
            except JournalError:
                ended = True
                raise
            except Exception as error:
                ended = True
                failure = Failure.of(error)
                if failure.kind == PLUGIN:
                    self._tell_plugin_error(failure, error)
                else:
                    log().info("failed", kind=failure.kind, error=failure.message)
            finally:
                self.budget.spend(calls)
                if not ended:
                    self.keep(calls, ledger)
        times_us = _times(calls, monotonic_us() - began, None if work is None else work.us)
        return Attempt(value=value, failure=failure, times_us=times_us, calls=tuple(calls))

    def keep(self, calls: Sequence[Call], ledger: Ledger) -> None:
        """Journal calls that no row of a phase holds."""
        if calls:
            row = CorpusRow(
                lane=ledger.owner,
                corpus=ledger.corpus,
                attempt=ledger.attempt,
                kind=CorpusKind.CALLS,
                calls=tuple(calls),
            )
            self.journal.append(row)

    def _tell_plugin_error(self, failure: Failure, error: Exception) -> None:
        """The traceback once for each place: formatting it takes longer than the rest of an item does."""
        place = f"{type(error).__name__}{raised_at(error)}"
        log().warning("plugin_error", error=failure.message, exc_info=None if place in self.traced else error)
        self.traced.add(place)


def _times(calls: Sequence[Call], took_us: int, work_us: int | None = None) -> dict[str, int]:
    """Split a phase; ``work_us`` is what a built-in worked itself, without waiting for others in this process."""
    if not calls and work_us is None:
        return {"total": took_us, "queue": 0, "limiter": 0, "network": 0, "provider": took_us}
    queue_us = limiter_us = network_us = 0
    provider_us = work_us or 0
    for call in calls:
        if call.outcome == "ok":
            queue_us += call.queue_us
            limiter_us += call.limiter_us
            network_us += call.network_us
            provider_us += call.provider_us
    if not calls:
        queue_us = max(0, took_us - provider_us)
    return {
        "total": took_us,
        "queue": queue_us,
        "limiter": limiter_us,
        "network": network_us,
        "provider": provider_us,
    }


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
        """Count a search.

        If the first items of a lane all find nothing, the circuit breaker stops its jobs. With the breaker off, it only
        warns.
        """
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
