"""Measure the time that a provider needs inside this process, without the other work of the process.

Example::

    with cpu_timer() as work:
        await provider.search(space, query)
    work.us                  # microseconds; None if nothing inside the block is measured

Processor time is measured because, unlike wall-clock time, it does not depend on the other work of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import partial, wraps
from types import coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Step(threading.local):
    """The step of a ``cpu_timed`` function that this thread runs."""

    began: int | None = None
    """processor time of the thread at the beginning of the step; None if no step runs"""


_step = _Step()
_work: ContextVar[cpu_timer | None] = ContextVar("work", default=None)


class cpu_timer:  # noqa: N801 - used as the statement `with cpu_timer()`
    """A context manager that sums the processor time of all measured functions that are called inside its block."""

    __slots__ = ("_token", "ns")
    _token: Token[cpu_timer | None]

    def __enter__(self) -> cpu_timer:
        self.ns: int | None = None
        self._token = _work.set(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        _work.reset(self._token)

    @property
    def us(self) -> int | None:
        """Return the measured processor time in microseconds; None if nothing was measured."""
        return None if self.ns is None else self.ns // 1000


def add_cpu_ns(ns: int) -> None:
    """Add processor time to the innermost open ``cpu_timer``; do nothing if none is open."""
    work = _work.get()
    if work is not None:
        work.ns = (work.ns or 0) + ns


def cpu_timed(function: Callable[P, Coroutine[object, object, T]]) -> Callable[P, Coroutine[object, object, T]]:
    """Decorate a coroutine function so that an open ``cpu_timer`` counts its processor time.

    The time in which other tasks run is not counted.
    """

    @wraps(function)
    async def stepped(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _steps(function(*args, **kwargs))

    return stepped


@coroutine
def _steps(work: Coroutine[object, object, T]) -> Generator[object, object, T]:
    step: Callable[[], object] = partial(work.send, None)
    while True:
        outer, _step.began = _step.began, time.thread_time_ns()
        try:
            waited = step()
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            add_cpu_ns(time.thread_time_ns() - _step.began)
            _step.began = outer
        try:
            got = yield waited
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, got)


@contextmanager
def thread_cpu_timed(clock: Callable[[], int]) -> Iterator[None]:
    """Measure the processor time of another thread during the `with` block, and add it to the open ``cpu_timer``.

    ``clock`` returns the processor time of that thread in nanoseconds.
    """
    began = clock()
    try:
        yield
    finally:
        add_cpu_ns(clock() - began)


@contextmanager
def wall_timed() -> Iterator[None]:
    """Add the wall-clock time of the `with` block to the open ``cpu_timer``, instead of its processor time.

    Use this for work that another process does, such as a query to a database.
    """
    began = time.perf_counter_ns()
    if stepped := _step.began is not None:
        add_cpu_ns(_restart_step())
    try:
        with cpu_timer():
            yield
    finally:
        add_cpu_ns(time.perf_counter_ns() - began)
        if stepped:
            _restart_step()


def _restart_step() -> int:
    """Let the current step of a ``cpu_timed`` function begin now; return its processor time so far."""
    now = time.thread_time_ns()
    before, _step.began = _step.began, now
    return now - (before or now)


def thread_clock(ident: int) -> Callable[[], int]:
    """Return a function that reads the processor time of a thread in nanoseconds.

    If the system cannot measure this, the function reads the wall clock instead.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(ident))
