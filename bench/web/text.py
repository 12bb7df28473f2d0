"""Text for people: numbers and times as a page shows them.

Example::

    number(0.23125), share(0.5)   # "0.2313", "50 %"
"""

from __future__ import annotations

from datetime import UTC, datetime

NONE = "–"


def number(value: object, digits: int = 4) -> str:
    """A number with a fixed number of digits; integers as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NONE
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ")
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", " ")


def share(part: object) -> str:
    """A share as a percent."""
    return f"{part * 100:.0f} %" if isinstance(part, int | float) else NONE


def usd(value: object) -> str:
    """An amount of money, to a hundredth of a cent; what is unknown is no zero."""
    return NONE if value is None else f"{float(str(value)):.4f}".rstrip("0").rstrip(".")


def duration(value: object) -> str:
    """Microseconds as a text with a fitting unit."""
    if not isinstance(value, int | float):
        return NONE
    for limit, unit, size in ((999.5, "µs", 1), (999_500, "ms", 1_000), (120_000_000, "s", 1_000_000)):
        if value < limit:  # three digits: what rounds to 1000 of a unit is one of the next
            return f"{value / size:.3g} {unit}"
    return f"{value / 60_000_000:.1f} min"


def seconds(value: object) -> str:
    """Seconds as a text with a fitting unit."""
    return duration(value * 1_000_000) if isinstance(value, int | float) else NONE


def instant(value: object) -> str:
    """A UTC time to the second."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return str(value) if value else NONE


def age(value: object, now: datetime) -> str:
    """How long ago an ISO time was."""
    if not isinstance(value, str):
        return NONE
    past = now - datetime.fromisoformat(value)
    for span, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if past.total_seconds() >= span:
            return f"{past.total_seconds() / span:.0f} {unit}"
    return "now"
