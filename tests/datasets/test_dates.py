"""Dates: every supported spelling is parsed, and other texts give None."""

from __future__ import annotations

import locale
from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from bench.datasets.dates import DateReader
from tests.rows import each_row

MONTHS = [f"{datetime(2000, month, 1):%B}" for month in range(1, 13)]  # the test process runs in the C locale
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
INSTANTS = st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 31)).map(lambda when: when.replace(microsecond=0))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))

utc = DateReader("UTC").read


def half_day(when: datetime) -> str:
    return f"{when.hour % 12 or 12}:{when.minute:02} {'am' if when.hour < 12 else 'pm'}"


def to_minute(when: datetime) -> datetime:
    return when.replace(second=0, tzinfo=UTC)


@given(INSTANTS)
def test_LoCoMo_dates_are_parsed_in_full_and_short_forms(when: datetime) -> None:
    month = MONTHS[when.month - 1]
    assert utc(f"{half_day(when)} on {when.day} {month}, {when.year}") == to_minute(when)
    assert utc(f"{half_day(when).upper()} on {when.day} {month[:3]} {when.year}") == to_minute(when)


@given(INSTANTS)
def test_LongMemEval_dates_are_parsed_whatever_the_weekday(when: datetime) -> None:
    for day in (DAYS[when.weekday()], DAYS[when.weekday() - 1]):
        assert utc(f"{when:%Y/%m/%d} ({day}) {when:%H:%M}") == to_minute(when)


@given(INSTANTS)
def test_dates_with_month_names_are_parsed(when: datetime) -> None:
    month, clock = MONTHS[when.month - 1], f"{when:%H:%M:%S}"
    assert utc(f"{month[:3]} {when.day}, {when.year}, {clock}") == when.replace(tzinfo=UTC)
    assert utc(f"{when.day} {month} {when.year} {clock}") == when.replace(tzinfo=UTC)
    midnight = datetime(when.year, when.month, when.day, tzinfo=UTC)
    assert utc(f"{month}-{when.day:02}-{when.year}") == midnight
    assert utc(f"{month} {when.day}, {when.year}") == midnight


@given(INSTANTS, st.one_of(st.none(), ZONES))
def test_ISO_dates_are_parsed_with_and_without_offset(when: datetime, zone: timezone | None) -> None:
    given = when.replace(tzinfo=zone)
    expected = given.replace(tzinfo=zone or UTC).astimezone(UTC)
    assert utc(given.isoformat()) == expected
    assert utc(given.isoformat(sep=" ")) == expected
    if zone is None:
        assert utc(f"{given.isoformat()}Z") == expected
        assert utc(f"{given:%Y%m%dT%H%M%S}") == expected


@given(st.dates(date(1, 1, 2), date(9999, 12, 30)))
def test_a_date_without_time_is_midnight_UTC(day: date) -> None:
    assert utc(day.isoformat()) == datetime(day.year, day.month, day.day, tzinfo=UTC)


@given(st.text(max_size=30))
def test_parsing_any_text_returns_the_same_UTC_instant_or_None(text: str) -> None:
    when = utc(text)
    assert when is None or when.tzinfo is UTC
    assert when == utc(text), "the same text is the same instant, whenever it is asked"


@each_row(
    ("text", "expected"),
    [
        ("12:06 am on 11 November, 2022", "2022-11-11T00:06:00"),
        ("12:00 pm on 1 May, 2023", "2023-05-01T12:00:00"),
        ("11:59 P.M. on 31st Dec, 2023", "2023-12-31T23:59:00"),
        ("9:05 am on Tuesday, 2nd May 2023", "2023-05-02T09:05:00"),
        ("23:40 on 3rd June 2023", "2023-06-03T23:40:00"),
        ("Sept 4th, 2021", "2021-09-04T00:00:00"),
        ("Sep. 4, 2021 at 7:05 pm", "2021-09-04T19:05:00"),
        ("Friday, May 5 2023", "2023-05-05T00:00:00"),
        ("5 May 2023, 07:05", "2023-05-05T07:05:00"),
        ("may-5-2023 7:05 PM", "2023-05-05T19:05:00"),
        ("2023/5/3", "2023-05-03T00:00:00"),
        ("2023.05.30 23:40:59", "2023-05-30T23:40:59"),
        ("2023/05/30 (Tuesday) 23:40", "2023-05-30T23:40:00"),
        ("2023-05-30 Tue 23:40", "2023-05-30T23:40:00"),
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("  2024-01-03T10:15  ", "2024-01-03T10:15:00"),
        ("2024-01-03T10:15:30.123456789Z", "2024-01-03T10:15:30.123456"),
        ("2024-01-03t10:15", "2024-01-03T10:15:00"),
        ("2024-01-03T10:15:00-05:30", "2024-01-03T15:45:00"),
        ("20240103", "2024-01-03T00:00:00"),
        ("20240103T1015", "2024-01-03T10:15:00"),
    ],
)
def test_common_spellings_of_dates_are_parsed(text: str, expected: str) -> None:
    assert utc(text) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@each_row(
    "text",
    [
        "",
        "   ",
        "today",
        "last Tuesday",
        "May 2023",
        "2023",
        "2023-05",
        "2023-13-01",
        "2023-00-10",
        "2023-02-29",
        "2023-02-30",
        "31 April 2023",
        "0:10 am on 1 May, 2023",
        "13:00 pm on 1 May, 2023",
        "24:00 on 1 May, 2023",
        "10:60 on 1 May, 2023",
        "2023/05/30 (Foo) 23:40",
        "2023/05/30 (Tue) 25:40",
        "8 Mai, 2023",
        "Ma 8, 2023",
        "1:56 pm on 8 Octember, 2023",
        "05/30/2023",
        "30.05.2023",
        "2024-01-03T25:00",
        "2024-01-03T10:15+99:00",
        "2024-01-03T10:15 and a bit",
        "0001-01-01T00:00+14:00",
        "9999-12-31T23:59-14:00",
        "2023-05-30\x00",
    ],
)
def test_a_text_that_is_not_a_date_gives_None(text: str) -> None:
    assert utc(text) is None


@each_row(
    ("zone", "text", "expected"),
    [
        ("America/New_York", "2023-07-01 08:00", "2023-07-01T12:00:00"),
        ("America/New_York", "2023-01-01 08:00", "2023-01-01T13:00:00"),
        ("Asia/Kolkata", "1:56 pm on 8 May, 2023", "2023-05-08T08:26:00"),
        ("Europe/Berlin", "March-15-2024", "2024-03-14T23:00:00"),
        ("Europe/Berlin", "2024-03-15T00:00Z", "2024-03-15T00:00:00"),
        ("Europe/Berlin", "2024-03-15T00:00+05:00", "2024-03-14T19:00:00"),
    ],
)
def test_the_time_zone_applies_to_dates_without_an_offset(zone: str, text: str, expected: str) -> None:
    assert DateReader(zone).read(text) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@each_row(
    ("formats", "text", "expected"),
    [
        (["%d.%m.%Y"], "30.05.2023", "2023-05-30T00:00:00"),
        (["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"], "05/06/2023 07:08", "2023-06-05T07:08:00"),
        (["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"], "05/30/2023 07:08", "2023-05-30T07:08:00"),
        (["%Y-%d-%m"], "2023-05-06", "2023-06-05T00:00:00"),
        (["%Y-%d-%m"], "2023-05-30", "2023-05-30T00:00:00"),
        (["%d.%m.%Y %z"], "30.05.2023 +0200", "2023-05-29T22:00:00"),
        (["%d.%m.%Y"], "1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
    ],
)
def test_custom_date_formats_are_tried_before_the_built_in_formats(
    formats: list[str], text: str, expected: str
) -> None:
    assert DateReader("UTC", formats).read(text) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_readers_with_different_formats_or_zones_do_not_share_results() -> None:
    text = "05/06/2023"
    first, second = DateReader("UTC", ["%d/%m/%Y"]).read(text), DateReader("UTC", ["%m/%d/%Y"]).read(text)
    assert (first, second) == (datetime(2023, 6, 5, tzinfo=UTC), datetime(2023, 5, 6, tzinfo=UTC))
    assert DateReader("Asia/Tokyo").read("2023-05-06") == datetime(2023, 5, 5, 15, tzinfo=UTC)
    assert utc("2023-05-06") == datetime(2023, 5, 6, tzinfo=UTC)


def test_month_names_are_English_in_every_locale() -> None:
    before = locale.setlocale(locale.LC_TIME)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_TIME, name)
            except locale.Error:
                continue
            assert DateReader("UTC").read(f"8 May, 2023 (in {name})") is None
            assert DateReader("UTC").read("7:08 am on 8 March, 2023") == datetime(2023, 3, 8, 7, 8, tzinfo=UTC)
    finally:
        locale.setlocale(locale.LC_TIME, before)
