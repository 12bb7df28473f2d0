"""Format numbers and times for pages.

``Scale`` maps values to percent of a width, with round numbers as ticks.

Example::

    number(0.23125), share(0.5)   # "0.2313", "50%"
    scale = scale_from_zero(0.38)
    scale.at(0.2), scale.ticks[-1].text        # 50.0, "0.4"
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

from bench.report import tables
from bench.visible_text import money_text

NONE = "–"
SMALLEST = 1e-9
"""a value below this bound is shown as zero: it is a rounding error"""
WORD = re.compile(r"\w+")
WORD_OR_REST = re.compile(r"\w+|\W+")


def number(value: object, digits: int = 4) -> str:
    """Format a number; return a dash for anything else.

    A float below 1,000 has ``digits`` decimals, a larger float has no decimals. Thousands are separated by commas. A
    float that would look like zero has two significant digits instead.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NONE
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if SMALLEST <= abs(value) < 0.5 * 10**-digits:
        return f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"
    return f"{value:.{digits}f}"


def measured(value: object, unit: str | None) -> str:
    """Format the value of a metric with a precision that fits its unit; return a dash if there is no value."""
    if unit in ("USD", tables.MILLISECONDS) and isinstance(value, int | float):
        return tables.number(value, unit)
    return number(value)


def difference(value: object, unit: str | None, relative: bool) -> str:
    """Format a difference of two values of a metric; a relative difference (ratio minus 1) is a percentage."""
    return share(value, 1) if relative else measured(value, unit)


def share(part: object, digits: int = 0) -> str:
    """Format a share of 1 as a percentage."""
    return f"{part * 100:.{digits}f}%" if isinstance(part, int | float) else NONE


def usd(value: object) -> str:
    """Format an amount of money as `money_text`; an unknown amount (None) becomes a dash."""
    return NONE if value is None else money_text(Decimal(str(value)))


def usd_rounded(value: object) -> str:
    """Format an amount of money for many questions: with two decimals, or as `usd` if it is below 0.1."""
    return usd(value) if isinstance(value, float) and abs(value) < 0.1 else number(value, 2)


def duration(value: object) -> str:
    """Format a number of microseconds in µs, ms, s or min."""
    if not isinstance(value, int | float):
        return NONE
    for limit, unit, size in ((999.5, "µs", 1), (999_500, "ms", 1_000), (120_000_000, "s", 1_000_000)):
        if value < limit:  # three digits: what rounds to 1000 of a unit is one of the next
            return f"{value / size:.3g} {unit}"
    return f"{value / 60_000_000:.1f} min"


def seconds(value: object) -> str:
    """Format a number of seconds in µs, ms, s or min."""
    return duration(value * 1_000_000) if isinstance(value, int | float) else NONE


def plain_value(value: object) -> str:
    """Format any JSON value as words.

    An object becomes its names and values, a list is separated by commas, and a boolean becomes yes or no.
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain_value(one)}" for name, one in value.items() if one not in (None, {}, [], ""))
    if isinstance(value, list | tuple):
        return ", ".join(plain_value(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value is None else str(value)


def chance(value: object) -> str:
    """Format a p value. A small value is shown as ``< 0.0001``, because no sample proves zero."""
    return "< 0.0001" if isinstance(value, int | float) and value < 0.0001 else number(value)


SHORT = 3
"""minimum number of letters of a word to highlight: shorter words are too frequent"""
COMMON = frozenset({"the", "and", "for", "was", "her", "his", "she", "him", "you", "are", "that", "with"})
"""longer words that are not highlighted, because they are too frequent"""


def pieces(text: object, words: object, *, same: bool = True) -> list[tuple[str, bool]]:
    """Split a text into pieces, each with True if the page highlights it.

    A word is highlighted if the text ``words`` contains it; with ``same=False``, a word is highlighted if ``words``
    does not contain it. Short and common words are never highlighted.
    """
    other = {word.casefold() for word in WORD.findall(str(words or ""))}
    found: list[tuple[str, bool]] = []
    for part in WORD_OR_REST.findall(str(text or "")):
        is_word = WORD.fullmatch(part) is not None and len(part) >= SHORT and part.casefold() not in COMMON
        mark = is_word and (part.casefold() in other) is same
        if found and found[-1][1] == mark:
            found[-1] = (found[-1][0] + part, mark)
        else:
            found.append((part, mark))
    return found


def setting(text: object) -> str:
    """Describe the models and parameters of a leaderboard table in words; defaults are left out."""
    found = []
    for part in str(text).split(" | "):
        role, _, name = part.partition(" ")
        if role == "answering":
            found.append("retrieval only" if name == "none" else f"answered by {name}")
        elif role in ("judge", "embedding"):
            found += [] if name == "none" else [f"{'judged by' if role == 'judge' else role} {name}"]
        elif part != "track uniform":
            found.append(part.replace("=", " = "))
    return ", ".join(found)


def judge_reason(raw: object) -> str:
    """Return the reason in a judge's JSON reply; an empty text if the reply has no reason."""
    text = str(raw or "")
    start, end = text.find("{"), text.rfind("}")
    try:
        value = raw if isinstance(raw, Mapping) else json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return ""
    names = ("reasoning", "reason", "explanation", "rationale")
    return next((str(value[name]) for name in names if isinstance(value, Mapping) and value.get(name)), "")


def day(value: object) -> str:
    """Format an ISO time as ``5 Mar 2026, 14:30``, and an ISO date as ``5 Mar 2026``."""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return str(value) if value else NONE
    return f"{when.day} {when:%b %Y, %H:%M}" if "T" in str(value) else f"{when.day} {when:%b %Y}"


def instant(value: object) -> str:
    """Format a datetime in UTC, to the second; any other value is returned as text."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return str(value) if value else NONE


def age(value: object, now: datetime) -> str:
    """Return the time since an ISO time as text, for example ``3 h``; less than a minute is ``now``."""
    if not isinstance(value, str):
        return NONE
    past = now - datetime.fromisoformat(value)
    for span, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if past.total_seconds() >= span:
            return f"{past.total_seconds() / span:.0f} {unit}"
    return "now"


STEPS = (1, 2, 2.5, 3, 4, 5, 6, 8, 10)
PARTS = 4
WIDE = 50.0
"""a scale is logarithmic if its largest value is at least this many times its smallest value"""


def plain(value: float) -> str:
    """Format a number as the text of a tick."""
    return f"{value:.4g}" if value < 9_999.5 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A grid line of a chart with its text; ``anchor`` aligns the text so that it stays inside the chart."""

    at: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A mapping of values to positions in percent: ``low`` is at 0 and ``high`` is at 100."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value in percent; a value outside the scale gets 0 or 100."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return round(100 * share, 2)


def scale_from_zero(largest: float) -> Scale:
    """Return a linear scale from zero to a round number that is not below ``largest``."""
    top = nice_top(largest)
    ticks = [(100 * part / PARTS, plain(part * top / PARTS)) for part in range(PARTS + 1)]
    return Scale(low=0.0, high=top, ticks=anchored(ticks))


def scale_over(values: Sequence[float]) -> Scale:
    """Return a scale that fits these values.

    If all values are above zero and differ by a large factor (``WIDE``), the scale is logarithmic. Otherwise, the scale
    is linear from zero.
    """
    least, largest = min(values), max(values)
    if least <= 0 or largest / least < WIDE:
        return scale_from_zero(largest)
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(largest))
    ticks = [(100 * (power - first) / (last - first), plain(10.0**power)) for power in range(first, last + 1)]
    return Scale(low=10.0**first, high=10.0**last, ticks=anchored(ticks), logarithmic=True)


def anchored(ticks: Sequence[tuple[float, str]]) -> tuple[Tick, ...]:
    """Return a tick for each (position in percent, text).

    Texts near the two ends of the scale are aligned so that they stay inside the chart.
    """
    return tuple(
        Tick(at=round(at, 2), text=text, anchor="start" if at < 4 else "end" if at > 96 else "middle")
        for at, text in ticks
    )


def nice_top(value: float) -> float:
    """Return a round number at or above ``value``; 1 if ``value`` is zero, negative or not finite."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{step * power:.6g}") for step in STEPS if step * power >= value * 0.999999)
