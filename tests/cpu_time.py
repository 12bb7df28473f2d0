"""Measure CPU time independently of other processes and of the size of the heap."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

ATTEMPTS = 3
T = TypeVar("T")


def at_most(seconds: float, work: Callable[[], T]) -> T:
    """Call ``work`` and return its result; fail if the fastest of three attempts takes more than ``seconds`` of CPU.

    Only the CPU time of this thread counts. The garbage collector is off, because its time depends on what other tests
    keep in memory.
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
