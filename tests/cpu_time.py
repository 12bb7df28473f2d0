"""How much CPU a piece of work takes, measured so that a busy machine and a large heap do not count."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

ATTEMPTS = 3
T = TypeVar("T")


def at_most(seconds: float, work: Callable[[], T]) -> T:
    """Do the work and return its result; the fastest of three attempts may take that many CPU seconds.

    Only this thread's CPU counts, and the garbage collector, whose time depends on what other tests keep, is off.
    """
    took_s = []
    for _ in range(ATTEMPTS):
        gc.disable()
        began = time.thread_time()
        try:
            result = work()
        finally:
            took_s.append(time.thread_time() - began)
            gc.enable()
        if took_s[-1] < seconds:
            return result
    raise AssertionError(f"took {min(took_s):.2f} s of CPU, at most {seconds:g} s expected")
