"""The filters of templates, one value in, one value out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.template import FILTERS, DateText, iso_utc, make_filter, render_turn, text_of, turn_object, turn_text
from bench.model import Turn
from tests.rows import each_row

USER = Turn(id="1", text="hi\nthere", role="user")
ANN = Turn(id="2", text="yo", speaker="Ann", role="assistant", caption="a dog")
BARE = Turn(id="3", text="")
TURNS = (USER, ANN, BARE)
WHEN = datetime(2023, 5, 8, 23, 56, 7, tzinfo=timezone(timedelta(hours=-2)))


@each_row(
    ("turn", "line", "shown"),
    [
        (USER, "user: hi\nthere", {"role": "user", "content": "hi\nthere"}),
        (ANN, "Ann: yo [shares a dog]", {"speaker": "Ann", "content": "yo [shares a dog]"}),
        (BARE, "", {"content": ""}),
        (Turn(id="4", text="x", caption=""), "x", {"content": "x"}),
        (Turn(id="5", text="  <b> & ", role="user"), "user:   <b> & ", {"role": "user", "content": "  <b> & "}),
    ],
)
def test_a_turn_is_rendered_as_a_line_and_as_a_JSON_object(turn: Turn, line: str, shown: dict[str, str]) -> None:
    assert render_turn(turn) == line
    assert turn_object(turn) == shown
    assert line.endswith(turn_text(turn))


@each_row(
    ("value", "text"),
    [
        ("a", "a"),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (False, "false"),
        (WHEN, "2023-05-09T01:56:07Z"),
        (TURNS, "user: hi\nthere\nAnn: yo [shares a dog]\n"),
        ([USER], "user: hi\nthere"),
        (["a", 5, True], "a\n5\ntrue"),
        ([], ""),
        ((), ""),
        ([["a", "b"], "c"], "a\nb\nc"),
    ],
)
def test_text_of_converts_each_type_of_value(value: object, text: str) -> None:
    assert text_of(value) == text


@each_row(
    ("name", "argument", "value", "expected"),
    [
        (
            "json",
            None,
            TURNS,
            json.dumps([turn_object(one) for one in TURNS], ensure_ascii=False, separators=(",", ":")),
        ),
        ("json", None, "é\n", '"é\\n"'),
        ("json", None, WHEN, '"2023-05-09T01:56:07Z"'),
        ("json", None, [1, None, True], "[1,null,true]"),
        ("lines", None, TURNS, "user: hi\nthere\nAnn: yo [shares a dog]\n"),
        ("lines", "${speaker}|${role}|${text}|${content}", (ANN,), "Ann|assistant|yo [shares a dog]|yo [shares a dog]"),
        ("lines", "${speaker}|${role}", (USER, BARE), "user|user\n|"),
        ("lines", "- ${text}", "no turn", "no turn"),
        ("iso", None, WHEN, "2023-05-09T01:56:07Z"),
        ("iso", None, DateText("8 May", WHEN), "2023-05-09T01:56:07Z"),
        ("iso", None, DateText("some day", None), "some day"),
        ("date", None, WHEN, "2023-05-09"),
        ("date", None, DateText("8 May", WHEN), "2023-05-09"),
        ("date", None, "no date", "no date"),
        ("time", None, WHEN, "01:56"),
        ("upper", None, "straße", "STRASSE"),
        ("lower", None, "ÉA", "éa"),
        ("upper", None, True, "TRUE"),
        ("truncate", "3", "abcdef", "abc"),
        ("truncate", "0", "abc", ""),
        ("truncate", "99", "abc", "abc"),
        ("truncate", "2", 12345, "12"),
        ("default", "x", None, "x"),
        ("default", "x", "", "x"),
        ("default", "x", "y", "y"),
        ("default", "x", 0, 0),
        ("default", None, None, ""),
        ("join", None, ["a", "b"], "a\nb"),
        ("join", ", ", ["a", 5], "a, 5"),
        ("join", " / ", TURNS, "user: hi\nthere / Ann: yo [shares a dog] / "),
        ("join", ", ", "alone", "alone"),
        ("join", "", [], ""),
        ("texts", None, ["a ", {"type": "bold", "text": "b"}, {"type": "image", "url": "x"}, None], ["a ", "b"]),
        ("texts", None, "alone", "alone"),
    ],
)
def test_each_filter_converts_its_value(name: str, argument: str | None, value: object, expected: object) -> None:
    assert make_filter(name, argument)(value) == expected


@each_row("name", sorted(set(FILTERS) - {"default"}))
def test_every_filter_except_default_returns_None_for_a_missing_value(name: str) -> None:
    assert make_filter(name, "3" if name in ("truncate", "match") else None)(None) is None


@each_row("name", ["json", "iso", "date", "time", "upper", "lower"])
def test_a_filter_without_arguments_refuses_an_argument(name: str) -> None:
    with pytest.raises(ValueError, match="this filter has no argument, but 'x' was given"):
        make_filter(name, "x")


@each_row("argument", [None, "", "x", "-1", "1.5", " "])
def test_truncate_needs_a_number_of_characters(argument: str | None) -> None:
    with pytest.raises(ValueError, match='the filter "truncate" needs a number of characters '):
        make_filter("truncate", argument)


def test_years_before_1000_have_four_digits() -> None:
    early = datetime(476, 9, 4, tzinfo=UTC)
    assert iso_utc(early) == "0476-09-04T00:00:00Z"
    assert make_filter("date", None)(early) == "0476-09-04"


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_the_iso_date_and_time_filters_show_the_same_instant(when: datetime) -> None:
    assert datetime.fromisoformat(iso_utc(when)) == when.replace(microsecond=0)
    assert f"{make_filter('date', None)(when)}T{make_filter('time', None)(when)}" == iso_utc(when)[:16]


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_truncate_returns_the_beginning_of_a_text(text: str, limit: int) -> None:
    shortened = make_filter("truncate", str(limit))(text)
    assert isinstance(shortened, str) and len(shortened) == min(limit, len(text)) and text.startswith(shortened)


@given(st.lists(st.text(max_size=5), max_size=5))
def test_the_output_of_the_json_filter_can_be_parsed(texts: list[str]) -> None:
    assert json.loads(str(make_filter("json", None)(texts))) == texts


def test_a_DateText_is_its_original_text() -> None:
    shown = DateText("8 May, 2023", WHEN)
    assert shown == "8 May, 2023" and shown.when == WHEN and text_of(shown) == "8 May, 2023"
