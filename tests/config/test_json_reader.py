"""Strict JSON: invalid documents are refused, and each key has its line and column."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.jsontext import MAX_DEPTH, parse_json, position, shortened
from bench.errors import ConfigError
from tests.rows import each_row

RFC = "the file must be valid JSON (RFC 8259)"


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_json(text, "x.json")
    return str(caught.value), caught.value.hint


@each_row(
    ("text", "message", "hint"),
    [
        ("", "x.json:1:1: the file ends too early", RFC),
        ("\n  ", "x.json:2:3: the file ends too early", RFC),
        ("[", "x.json:1:2: the file ends too early", RFC),
        ("{", "x.json:1:2: a key in double quotes is missing", RFC),
        ("{1: 2}", "x.json:1:2: a key in double quotes is missing", RFC),
        ('{"a"}', 'x.json:1:5: ":" is missing after "a"', RFC),
        ('{"a":}', "x.json:1:6: a value is missing before '}'", RFC),
        ('{"a": 1 "b": 2}', 'x.json:1:9: "," or "}" is missing', RFC),
        ('{"a": 1,,}', "x.json:1:9: a key in double quotes is missing", RFC),
        ("[1, ]", "x.json:1:5: a value is missing before ']'", RFC),
        ("[1 2]", 'x.json:1:4: "," or "]" is missing', RFC),
        ("01", "x.json:1:2: text after the end of the JSON value", RFC),
        ("1.", "x.json:1:2: text after the end of the JSON value", RFC),
        ("+1", "x.json:1:1: a value is missing before '+'", RFC),
        ("-", "x.json:1:1: a value is missing before '-'", RFC),
        ("tru", "x.json:1:1: a value is missing before 't'", RFC),
        ("[NaN]", "x.json:1:2: a value is missing before 'N'", RFC),
        ("-Infinity", "x.json:1:1: a value is missing before '-'", RFC),
        ("// no\n{}", "x.json:1:1: a value is missing before '/'", RFC),
        ("'a'", 'x.json:1:1: a value is missing before "\'"', RFC),
        ('"abc', "x.json:1:1: unterminated string", RFC),
        ('"a\nb"', "x.json:1:3: invalid control character", RFC),
        ('"\\x"', "x.json:1:2: invalid \\escape", RFC),
        ('"a\\u12"', "x.json:1:4: invalid \\uXXXX escape", RFC),
        ("[1e999]", "x.json:1:2: 1e999 is too large for a number", "write a smaller number"),
        ("[-1e999]", "x.json:1:2: -1e999 is too large for a number", "write a smaller number"),
        ("9" * 5000, f"x.json:1:1: {'9' * 97}... is too large for a number", "write a smaller number"),
        (
            '{"k": "\\ud800"}',
            "x.json:1:7: the text contains half of a surrogate pair, which is not Unicode text",
            "write the character itself, or both escapes of its pair",
        ),
        ('{\n"a": 1,\n"a": 2}', 'x.json:3:1: repeated key "a" (first on line 2)', "keep one of the two"),
        ('{"a": {"b": 1, "b": 2}}', 'x.json:1:16: repeated key "b" (first on line 1)', "keep one of the two"),
    ],
)
def test_invalid_JSON_is_refused_with_line_column_and_hint(text: str, message: str, hint: str) -> None:
    assert refused(text) == (message, hint)


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"', "x")[0] == "\U0001f600"


def test_each_JSON_key_and_element_has_its_line_and_column() -> None:
    _, places = parse_json('{"a":\n {"b": [1,\n  {"c": 2}]}}', "x")
    assert places == {
        ("a",): (1, 2),
        ("a", "b"): (2, 3),
        ("a", "b", 0): (2, 9),
        ("a", "b", 1): (3, 3),
        ("a", "b", 1, "c"): (3, 4),
    }


def test_JSON_may_be_nested_to_100_levels() -> None:
    deep = "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    assert parse_json(deep, "x")[0] == json.loads(deep)
    message, _ = refused(f"[{deep}]")
    assert message == f"x.json:1:{MAX_DEPTH + 2}: the values are nested deeper than 100 levels"


@each_row(("text", "kind"), [("0", int), ("-0", int), ("1.0", float), ("1E+2", float), ("-3e-2", float)])
def test_a_JSON_number_is_an_int_unless_it_has_a_fraction_or_exponent(text: str, kind: type) -> None:
    found, _ = parse_json(text, "x")
    assert type(found) is kind and found == json.loads(text)


@given(st.text())
def test_position_matches_the_offset_in_the_text(text: str) -> None:
    for offset in range(len(text) + 1):
        line, column = position(text, offset)
        lines = text.split("\n")
        assert sum(len(one) + 1 for one in lines[: line - 1]) + column - 1 == offset


@given(st.text(max_size=200))
def test_shortened_returns_at_most_100_characters(text: str) -> None:
    shown = shortened(text)
    assert len(shown) <= 100
    assert shown == text if len(text) <= 100 else shown == text[:97] + "..."


@given(st.text())
def test_any_text_is_JSON_or_an_error_with_its_place(text: str) -> None:
    """The reader agrees with the standard library, or refuses the text."""
    try:
        found = parse_json(text, "x.json")[0]
    except ConfigError as error:
        assert error.where is not None and error.where.startswith("x.json:")
        return
    assert found == json.loads(text)
