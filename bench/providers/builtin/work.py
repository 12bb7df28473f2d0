"""What a built-in's search takes by itself: processor time of its own steps and of its queries.

A built-in shares its process with everything else that runs, so a clock on the wall would show that: ``random`` took
2 ms alone and 33 ms next to nine other searches. Processor time is the same at any concurrency::

    with working() as work:
        await provider.search(space, query)
    work.us                  # None: nothing measured itself
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import partial, wraps
from types import coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_work: ContextVar[working | None] = ContextVar("work", default=None)


class working:  # noqa: N801 - used as the statement `with working()`
    """Collect the processor time that is spent inside the block by what measures itself."""

    __slots__ = ("_token", "ns")
    _token: Token[working | None]

    def __enter__(self) -> working:
        self.ns: int | None = None
        self._token = _work.set(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        _work.reset(self._token)

    @property
    def us(self) -> int | None:
        """Microseconds; None where nothing measured itself."""
        return None if self.ns is None else self.ns // 1000


def spend(ns: int) -> None:
    """Add processor time to the block that runs."""
    work = _work.get()
    if work is not None:
        work.ns = (work.ns or 0) + ns


def measured(function: Callable[P, Coroutine[object, object, T]]) -> Callable[P, Coroutine[object, object, T]]:
    """Let a coroutine function measure its own steps: what runs between them is not counted."""

    @wraps(function)
    async def stepped(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _steps(function(*args, **kwargs))

    return stepped


@coroutine
def _steps(work: Coroutine[object, object, T]) -> Generator[object, object, T]:
    step: Callable[[], object] = partial(work.send, None)
    while True:
        began = time.thread_time_ns()
        try:
            waited = step()
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            spend(time.thread_time_ns() - began)
        try:
            got = yield waited
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, got)


@contextmanager
def measured_by(clock: Callable[[], int]) -> Iterator[None]:
    """Add what another thread works inside the block, by that thread's clock."""
    began = clock()
    try:
        yield
    finally:
        spend(clock() - began)


def thread_clock(ident: int) -> Callable[[], int]:
    """A thread's processor clock; where the system has none, the clock on the wall."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(ident))
