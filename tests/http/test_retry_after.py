"""How long a server wants a client to wait, in every format."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime, formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.http.rate_limiter import parse_wait_s
from tests.rows import each_row

NOW = 1_795_820_412.0


@given(st.integers(0, 86_400))
def test_a_wait_in_seconds_is_parsed(seconds: int) -> None:
    assert parse_wait_s(str(seconds), now=NOW) == seconds


@given(st.integers(-10_000_000, 10_000_000))
def test_a_wait_as_http_date_is_the_time_until_it_and_never_negative(seconds: int) -> None:
    found = parse_wait_s(formatdate(NOW + seconds, usegmt=True), now=NOW)
    assert found == max(0, seconds)


@given(st.integers(1, 59), st.integers(1, 59))
def test_a_wait_in_minutes_and_seconds_is_added_up(minutes: int, seconds: int) -> None:
    assert parse_wait_s(f"{minutes}m{seconds}s", now=NOW) == minutes * 60 + seconds


@each_row(
    ("text", "wait_s"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("20ms", 0.02),
        ("6m0s", 360.0),
        ("1h", 3600.0),
        (str(int(NOW) + 5), 5.0),
        (str((int(NOW) + 5) * 1000), 5.0),
        (datetime.fromtimestamp(NOW + 7, UTC).isoformat(), 7.0),
        (format_datetime(datetime.fromtimestamp(NOW + 7, UTC)), 7.0),
    ],
)
def test_other_formats_of_a_wait_are_parsed(text: str, wait_s: float) -> None:
    assert parse_wait_s(text, now=NOW) == pytest.approx(wait_s)


@given(st.text(max_size=30))
def test_any_text_is_a_wait_or_none_and_never_raises(text: str) -> None:
    found = parse_wait_s(text, now=NOW)
    assert found is None or found >= 0


@each_row("text", ["", "soon", "-3", "nan", "inf", "3 apples", "1e3"])
def test_text_that_is_not_a_wait_is_ignored(text: str) -> None:
    assert parse_wait_s(text, now=NOW) is None
