"""How long a server asks us to wait: ``Retry-After`` and its many relatives, as seconds.

Example::

    wait_of("3", now=0.0) == 3.0
    wait_of("Thu, 01 Jan 1970 00:00:05 GMT", now=2.0) == 3.0
    wait_of("1m30s", now=0.0) == 90.0
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LATEST_SPAN_S = 10_000_000.0
"""a larger number of seconds is a unix time (1970-04-26 and later), in milliseconds above 1e12"""
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def wait_of(text: str, *, now: float) -> float | None:
    """Read a span or an instant as seconds from ``now`` (unix time), never negative; None when it is neither."""
    text = text.strip()
    if NUMBER.fullmatch(text):
        number = float(text)
        if number < LATEST_SPAN_S:
            return number
        return max(0.0, (number / 1000 if number > 1e12 else number) - now)
    if SPAN.fullmatch(text):
        return sum(float(value) * UNIT_S[unit] for value, unit in PIECE.findall(text))
    instant = _instant(text)
    return None if instant is None else max(0.0, instant.timestamp() - now)


def _instant(text: str) -> datetime | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = parse(text)
        except (ValueError, TypeError):
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None
