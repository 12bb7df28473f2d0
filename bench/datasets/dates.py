"""Convert the dates of datasets to instants in UTC.

These forms are read: ISO 8601, ``2023/05/30 (Tue) 23:40``, ``1:56 pm on 8 May, 2023``, ``Dec 15, 2025, 06:11:23``,
``March-15-2024``, a number of seconds, milliseconds, microseconds or nanoseconds since 1970, and the config's own
strptime formats. Month names are English in every locale. The name of a weekday is not checked::

    DateReader("UTC").read("12:06 am on 11 November, 2022")     # 2022-11-11 00:06 UTC
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from bench.patterns import pattern

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?\s*(?P<half>[ap]\.?m\.?)?"
_DAY_NAME = r"(?:\((?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\)|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?)"
_FORMS = tuple(
    pattern(form, re.IGNORECASE)
    for form in (
        rf"(?P<year>\d{{4}})[/.-](?P<month>\d{{1,2}})[/.-](?P<day>\d{{1,2}})(?:\s+{_DAY_NAME})?(?:[\sT]+{_CLOCK})?",
        rf"{_CLOCK}\s+on\s+(?:{_DAY_NAME}\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<name>[a-z]+)\.?,?\s+(?P<year>\d{{4}})",
        rf"(?:{_DAY_NAME}\s+)?(?P<name>[a-z]+)\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})(?:,?\s+(?:at\s+)?{_CLOCK})?",
        rf"(?:{_DAY_NAME}\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<name>[a-z]+)\.?,?\s+(?P<year>\d{{4}})(?:,?\s+(?:at\s+)?{_CLOCK})?",
        rf"(?P<name>[a-z]+)-(?P<day>\d{{1,2}})-(?P<year>\d{{4}})(?:\s+{_CLOCK})?",
    )
)


EPOCHS = {"unix": 1, "unix_ms": 1000}
"""name of a Unix time in ``dateFormats`` -> number of units per second"""
_NUMBER = pattern(r"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?")


DATE_HINT = "add the format of this date to dateFormats in the config"


class DateReader:
    """A parser of the dates of one benchmark. It tries the benchmark's own formats first, and applies its time zone."""

    def __init__(self, timezone: str, formats: Sequence[str] = ()) -> None:
        self.zone: tzinfo = UTC if timezone == "UTC" else ZoneInfo(timezone)
        self.formats = tuple(formats)

    def read(self, text: str) -> datetime | None:
        """Return the date as an instant in UTC, or None if the text is not a date."""
        local = _known_forms(text.strip(), self.formats)
        if local is None:
            return None
        try:
            return (local.replace(tzinfo=self.zone) if local.tzinfo is None else local).astimezone(UTC)
        except (OverflowError, ValueError):
            return None

    def until(self, when: datetime) -> datetime:
        """Return the end of the day if ``when`` is midnight in the benchmark's time zone. Otherwise return ``when``."""
        local = when.astimezone(self.zone)
        whole_day = local.time() == time(0)
        return (local + timedelta(days=1, microseconds=-1)).astimezone(UTC) if whole_day else when

    def read_cut(self, text: str) -> datetime | None:
        """Return the instant in UTC if ``text`` is a date. Return None if ``text`` is a number of sessions.

        A number with fewer than eight digits is never a date.
        """
        return None if text.isdecimal() and len(text) < 8 else self.read(text)


@lru_cache(maxsize=4096)
def _known_forms(text: str, formats: tuple[str, ...]) -> datetime | None:
    for form in formats:
        if form in EPOCHS:
            if (found := _seconds(text, EPOCHS[form])) is not None:
                return found
            continue
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return _iso(text) or _written(text) or _epoch(text)


def _iso(text: str) -> datetime | None:
    if not re.match(r"\d{4}-?\d{2}-?\d{2}(?:[T ]|$)", text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return None


def _epoch(text: str) -> datetime | None:
    """Return the instant of a Unix time. The size of the number decides between s, ms, µs and ns.

    Return None if the text is not such a number, or if the time is before 1973. A number such as 202403020920, with 12
    or 14 digits that form a date, is read as this date. A number of 10 digits that form a date is ambiguous, so the
    result is None.
    """
    if not _NUMBER.fullmatch(text):
        return None
    if re.fullmatch(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{2}){1,3}", text):
        return _compact(text) if len(text) in (12, 14) else None
    size = float(text)
    unit = next((unit for least, unit in ((1e17, 10**9), (1e14, 10**6), (1e11, 1000), (1e8, 1)) if size >= least), None)
    return None if unit is None else _seconds(text, unit)


def _seconds(text: str, unit: int) -> datetime | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return datetime.fromtimestamp(float(Decimal(text) / unit), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _compact(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%S" if len(text) == 14 else "%Y%m%d%H%M")
    except ValueError:
        return None


def _written(text: str) -> datetime | None:
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        month = _month(parts["name"]) if parts.get("name") else int(parts["month"])
        hour = _hour(parts.get("hour"), parts.get("half"))
        try:
            return datetime(
                int(parts["year"]),
                month,
                int(parts["day"]),
                hour,
                int(parts.get("minute") or 0),
                int(parts.get("second") or 0),
            )
        except ValueError:
            return None
    return None


def _month(name: str) -> int:
    """Return the month from 1 to 12 for an English name of at least three letters. Return 0 for any other name."""
    full = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
            "november", "december")  # fmt: skip
    lowered = name.lower()
    known = [index for index, month in enumerate(full, 1) if len(lowered) >= 3 and month.startswith(lowered)]
    return known[0] if known else 9 if lowered == "sept" else 0


def _hour(hour: str | None, half: str | None) -> int:
    """Return the hour of the day; 0 if ``hour`` is None. ``half`` is am, pm or None.

    For an impossible hour such as 13 pm, return 99. Without am or pm, the number is returned unchecked.
    """
    if hour is None:
        return 0
    number = int(hour)
    if not half:
        return number
    if not 1 <= number <= 12:
        return 99
    return number % 12 + (12 if half.lower().startswith("p") else 0)
