"""The state that all workers of a run share, such as its plan, journal, HTTP client and budget.

``attempt`` returns a `Failure` if an action of an item, a corpus or a judge fails. An error of the journal is raised
and stops the run. The budget includes the money that earlier processes of the run spent.

Example::

    done = await run.attempt(lambda: provider.search(space, query), call_owner)
    if done.failure is None:
        use(done.value, done.times_us, done.calls)
    RunScope()                                                  # run, resume
    RunScope(item_ids=await failed_items(folder))               # retry: only failures
    RunScope(generation=2)                                      # rescore: stored answers, new verdicts
    RunScope(copy_rows=copy_rows_of(source, plan, Phase.ANSWER))  # fork: begin with another run's rows
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import anyio

from bench.engine.budget import Budget
from bench.engine.corpora.isolation import Ownership
from bench.engine.outcome import Failure
from bench.engine.progress import Progress
from bench.engine.stopping import StopControl, monotonic_us
from bench.errors import CallError, JournalError, MappingError, PluginFault, Unavailable, raise_site
from bench.events import log
from bench.fast_dataclass import dataclass as value_dataclass
from bench.http import Http, recording
from bench.journal import CorpusKind, CorpusRow, Journal
from bench.model import Call
from bench.plan import Plan
from bench.processor_time import cpu_timer
from bench.settings import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """The part of a plan that a process runs; by default, all work that is missing in the journal."""

    item_ids: frozenset[str] | None = None
    """ids of the items to run; None = all"""
    generation: int = 0
    """0 = normal run; above 0 = score every stored answer again, as the rescore with this number"""
    copy_rows: Callable[[Journal], Awaitable[None]] | None = None
    """function that copies rows of another run into the journal before the run begins"""
    end_rescore: Callable[[Journal, bool], Awaitable[None]] | None = None
    """function to call at the end of a rescore, with True if it is finished, so that its rows are shown"""
    command: str = ""
    """command that continues a rescore that was stopped"""

    @property
    def is_rescore(self) -> bool:
        return self.generation > 0


T = TypeVar("T")

OCCUPIED = "occupied"
"""error kind: the only namespace of a service contains memories that this run did not write"""
UNANSWERED = frozenset({Unavailable.kind, "timeout"})


REREAD_PAUSES_S = (0.2, 1.0)
"""pauses in seconds before an unreadable response is requested again"""


async def retry_unreadable(look: Callable[[], Awaitable[T]]) -> T:
    """Run a request that changes nothing; if its response cannot be read, repeat it up to twice.

    So an error page with status 200 does not fail a whole corpus.
    """
    for pause_s in REREAD_PAUSES_S:
        try:
            return await look()
        except MappingError:
            await anyio.sleep(pause_s)
    return await look()


@value_dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[T]):
    """The result of one attempt of an action: its value or its failure, its times and its calls."""

    value: T | None
    failure: Failure | None
    times_us: Mapping[str, int]
    """total time, and its parts queue, limiter, network and provider"""
    calls: tuple[Call, ...]

    @property
    def outcome(self) -> str:
        return "ok" if self.failure is None else self.failure.kind

    @property
    def unreached(self) -> bool:
        """Return True if the attempt failed because its last request got no response."""
        return self.outcome in UNANSWERED and bool(self.calls) and self.calls[-1].status is None

    @property
    def message(self) -> str:
        return "" if self.failure is None else self.failure.message


@value_dataclass(frozen=True, slots=True)
class CallOwner:
    """The owner of calls that belong to no phase row: a lane, a job or a corpus."""

    owner: str
    """a lane, a lane with its answering model, or a job"""
    corpus: str = ""
    attempt: int = 1


@value_dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """A run in progress, with everything that its workers share."""

    run_id: str
    folder: Path
    plan: Plan
    journal: Journal
    http: Http
    environment: Environment
    progress: Progress
    stopping: StopControl
    budget: Budget
    scope: RunScope
    resumed: bool
    """True if an earlier process worked on this run, so that data in the memory of that process is lost"""
    ownerships: dict[str, Ownership] = field(default_factory=dict)
    """provider label -> record of which corpus each id and text belongs to"""
    namespace_locks: dict[str, anyio.Lock] = field(default_factory=dict)
    """provider with only one namespace -> lock, held by the lane that uses the namespace"""
    logged_places: set[str] = field(default_factory=set)
    """places in plug-in code for which a traceback was already logged"""

    async def attempt_and_journal(self, act: Callable[[], Awaitable[T]], call_owner: CallOwner) -> Attempt[T]:
        """Run an action by `attempt`, and write each call of the action to the journal when the call ends.

        Use this for calls that belong to no phase row. A kill during the action loses only the calls in flight.
        """

        def count(call: Call) -> None:
            self.budget.spend(call)
            self.journal_calls((call,), call_owner)

        return await self.attempt(act, call_owner, on_call=count)

    async def attempt(
        self,
        act: Callable[[], Awaitable[T]],
        call_owner: CallOwner,
        *,
        measures_work: bool = True,
        plugin_fault: type[CallError] = PluginFault,
        on_call: Callable[[Call], None] | None = None,
    ) -> Attempt[T]:
        """Run an action; return its value or failure, its times and its calls.

        If the action is canceled, its calls are written to the journal for ``call_owner``. ``measures_work`` is True if
        the action runs a provider, so that CPU time of a built-in provider counts as provider time. ``plugin_fault`` is
        the kind of error for exceptions of plug-in code. ``on_call`` is called with each call when it ends, in place of
        both the budget and the journal. Only this method of the engine catches every exception.
        """
        value, failure, began, ended = None, None, monotonic_us(), False
        work = cpu_timer() if measures_work else None
        with recording(on_call or self.budget.spend) as calls:
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
                failure = Failure.of(error, plugin_fault)
                if failure.kind == plugin_fault.kind:
                    self._log_plugin_error(failure, error)
                else:
                    log().info("failed", kind=failure.kind, error=failure.message)
            finally:
                if not ended and on_call is None:
                    self.journal_calls(calls, call_owner)
        times_us = _times(calls, monotonic_us() - began, None if work is None else work.us)
        return Attempt(value=value, failure=failure, times_us=times_us, calls=tuple(calls))

    def journal_calls(self, calls: Sequence[Call], call_owner: CallOwner) -> None:
        """Write calls that belong to no phase row to the journal."""
        if calls:
            row = CorpusRow(
                lane=call_owner.owner,
                corpus=call_owner.corpus,
                attempt=call_owner.attempt,
                kind=CorpusKind.CALLS,
                calls=tuple(calls),
            )
            self.journal.append(row)

    def _log_plugin_error(self, failure: Failure, error: Exception) -> None:
        """Log an error of plug-in code; only the first error at each place is logged with its traceback."""
        place = f"{type(error).__name__}{raise_site(error)}"
        log().warning("plugin_error", error=failure.message, exc_info=None if place in self.logged_places else error)
        self.logged_places.add(place)


def _times(calls: Sequence[Call], took_us: int, work_us: int | None = None) -> dict[str, int]:
    """Return the total time and its parts; ``work_us`` is the CPU time of a built-in provider."""
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
