"""How long a server asks us to wait: ``Retry-After`` and its many relatives, as seconds.

Example::

    wait_of("3", now=0.0) == 3.0
    wait_of("Thu, 01 Jan 1970 00:00:05 GMT", now=2.0) == 3.0
    wait_of("1m30s", now=0.0) == 90.0
"""

from __future__ import annotations

import math
import re

from bench.scalars import instant, number

LATEST_SPAN_S = 10_000_000.0
"""a larger number of seconds is a unix time (1970-04-26 and later), in milliseconds above 1e12"""
LONGEST_WAIT_S = 366 * 86400.0
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def wait_of(text: str, *, now: float) -> float | None:
    """Read a span or an instant as seconds from ``now`` (unix time), never negative; None when it is neither.

    None also for more than `LONGEST_WAIT_S`: a year 9999 is a fault of the server, and nobody can obey it.
    """
    wait_s = _wait_s(text.strip(), now)
    return wait_s if wait_s is not None and wait_s <= LONGEST_WAIT_S else None


def _wait_s(text: str, now: float) -> float | None:
    if NUMBER.fullmatch(text):
        found = number(text)
        if found is None or found < LATEST_SPAN_S:
            return found
        return max(0.0, (found / 1000 if found > 1e12 else found) - now)
    if SPAN.fullmatch(text):
        return math.fsum((number(value) or 0.0) * UNIT_S[unit] for value, unit in PIECE.findall(text))
    at = instant(text) if number(text) is None else None
    return None if at is None else max(0.0, at.timestamp() - now)
