"""Strict JSON, one document per line: what two parsers could read differently is rejected with code, path and text."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    digest,
    dumps,
    dumps_with_part,
    parse,
    parse_file,
    read_line,
    without_members,
)
from bench.errors import CanonicalError
from tests.cpu_time import at_most
from tests.rows import each_row

TWICE = "the key occurs twice in one object"
INTEGER = "an integer is not in -(2^53-1)..2^53-1, so programs may read it differently"
NUMBER = "a number is not in -(2^53-1)..2^53-1, so programs may read it differently"
FINITE = "NaN and infinities are not JSON"
SURROGATE = "half of a surrogate pair is not Unicode text"
DEEP = "more than 64 levels of nesting"


def canonical_error(act: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(CanonicalError) as caught:
        act()
    error = caught.value
    assert isinstance(error, ValueError) and error.exit_code == 5
    assert str(error) == (f"{error.path}: {error.message}" if error.path else error.message)
    return error.code, error.path, error.message


# ------------------------------------------------------------------------- keys

KEYS: list[tuple[str, str]] = [
    ('{"a":1,"a":1}', "a"),
    ('{"a":1,"b":2,"a":3}', "a"),
    ('{"a":null,"\\u0061":null}', "a"),
    ('{"\\u00e9":1,"é":2}', "é"),
    ('{"\\ud83d\\ude00":1,"😀":2}', "😀"),
    ('{"":1,"":2}', ""),
    ('{"\\/":1,"/":2}', "/"),
    ('{"\\n":1,"\\u000a":2}', "\n"),
    ('{"__proto__":1,"__proto__":2}', "__proto__"),
    ('{"a":{"b":[{"c":1,"c":2}]}}', "a.b[0].c"),
    ('[[{"x":1}],[{"x":1,"x":1}]]', "[1][0].x"),
    ('{"a":{"b":1,"b":2},"a":3}', "a"),
    ('{"a":[],"b":{"k":0,"k":0}}', "b.k"),
]


@each_row(("text", "path"), KEYS)
def test_parse_rejects_a_duplicate_key_with_its_path(text: str, path: str) -> None:
    assert canonical_error(lambda: parse(text.encode())) == ("duplicate_key", path, TWICE)


def test_a_duplicate_key_among_200_000_keys_is_found_within_seconds() -> None:
    """The search took the square of the number of keys: a small file kept a verifier busy for hours."""
    many = 200_000
    text = "{" + "".join(f'"{number}":0,' for number in range(many)) + f'"{many - 1}":1}}'
    found = at_most(20, lambda: canonical_error(lambda: parse(text.encode())))
    assert found == ("duplicate_key", str(many - 1), TWICE)


@each_row(
    "text",
    ['{"e\\u0301":1,"\\u00e9":2}', '{"a":1,"A":2}', '{"a":1,"a ":2}', '{"\\u212a":1,"K":2}', '{"а":1,"a":2}',
    '{"a":1,"a\\u200b":2}',
     '{"ﬁ":1,"fi":2}', '{"1":1,"1.0":2}', '{"null":1,"":2}'],
)  # fmt: skip
def test_keys_that_look_alike_but_differ_in_code_points_are_two_keys(text: str) -> None:
    value = parse(text.encode())
    assert isinstance(value, dict) and len(value) == 2
    assert parse(dumps(value)) == value


def test_a_long_key_above_100_000_values_is_parsed_within_seconds() -> None:
    """Spelling out the path of each value copied the key as often as there are values under it."""
    text = '{"' + "k" * 100_000 + '":[' + "0," * 100_000 + '"\\ud83d\\ude00"]}'
    assert isinstance(at_most(5, lambda: parse(text.encode())), dict)
    assert canonical_error(lambda: parse(text.replace("\\ude00", "").encode()))[1] == "k" * 100_000 + "[100000]"


# ------------------------------------------------------------------------- numbers

NUMBERS_READ: list[tuple[str, int | float, str]] = [
    ("0", 0, "0"), ("-0", 0, "0"), ("-0.0", 0, "0"), ("0e0", 0, "0"), ("-0e-99", 0, "0"), ("0.0e400", 0, "0"),
    ("1.0", 1, "1"), ("1e0", 1, "1"), ("10e-1", 1, "1"), ("1E2", 100, "100"), ("1e+2", 100, "100"), ("0.1e1", 1, "1"),
    ("1e15", 10**15, "1000000000000000"), ("9007199254740991", MAX_INTEGER, "9007199254740991"),
    ("-9007199254740991", -MAX_INTEGER, "-9007199254740991"), ("9007199254740991.0", MAX_INTEGER, "9007199254740991"),
    ("9007199254740991e0", MAX_INTEGER, "9007199254740991"), ("0.1", 0.1, "0.1"), ("1e-6", 1e-6, "0.000001"),
    ("1e-7", 1e-7, "1e-7"), ("5e-324", 5e-324, "5e-324"), ("1e-400", 0, "0"), ("0.30000000000000004", 0.1 + 0.2,
    "0.30000000000000004"), ("4.35", 4.35, "4.35"), ("123456789.125", 123456789.125, "123456789.125"),
    ("0.1000000000000000055511151231257827", 0.1, "0.1"), ("1.7976931348623157e-300", 1.7976931348623157e-300,
    "1.7976931348623157e-300"), ("999999999999999.9", 999999999999999.9, "999999999999999.9"),
]  # fmt: skip


@each_row(("text", "value", "written"), NUMBERS_READ)
def test_equal_numbers_parse_to_one_value_and_type_and_are_written_in_one_spelling(
    text: str, value: float, written: str
) -> None:
    read = parse(text.encode())
    assert (read, type(read)) == (value, type(value))
    assert dumps(read).decode() == written
    assert parse(f'{{"a":[{text}]}}'.encode()) == {"a": [value]}
    assert read_line(f'{{"a":{text}}}'.encode(), ("a",)) == (
        {"a": value},
        f'{{"a":{written}}}'.encode(),
        text == written,
    )


NUMBERS_REFUSED: list[tuple[str, str, str]] = [
    ("9007199254740992", "integer_out_of_range", INTEGER),
    ("-9007199254740992", "integer_out_of_range", INTEGER),
    ("9007199254740993", "integer_out_of_range", INTEGER),
    ("12345678901234567", "integer_out_of_range", INTEGER),
    ("123456789012345678", "integer_out_of_range", INTEGER),
    ("1" + "0" * 5000, "integer_out_of_range", INTEGER),
    ("-1" + "0" * 5000, "integer_out_of_range", INTEGER),
    ("9007199254740992.0", "number_out_of_range", NUMBER),
    ("9007199254740991.9", "number_out_of_range", NUMBER),
    ("9.007199254740992e15", "number_out_of_range", NUMBER),
    ("1e16", "number_out_of_range", NUMBER),
    ("-1e308", "number_out_of_range", NUMBER),
    ("1.7976931348623157e308", "number_out_of_range", NUMBER),
    ("1e309", "number_not_finite", FINITE),
    ("-1e400", "number_not_finite", FINITE),
    ("1e999999999", "number_not_finite", FINITE),
    ("NaN", "number_not_finite", FINITE),
    ("Infinity", "number_not_finite", FINITE),
    ("-Infinity", "number_not_finite", FINITE),
]


@each_row(("text", "code", "message"), NUMBERS_REFUSED)
def test_parse_rejects_a_number_out_of_range_or_not_finite_with_its_path(text: str, code: str, message: str) -> None:
    assert canonical_error(lambda: parse(text.encode())) == (code, "", message)
    assert canonical_error(lambda: parse(f'{{"a":[0,{{"b":{text}}}]}}'.encode())) == (code, "a[1].b", message)
    assert canonical_error(lambda: read_line(f'{{"a":{text}}}'.encode(), ())) == (code, "a", message)


NO_NUMBERS = ["01", "-01", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x10", "1_000", "--1", "-", "1,0", "١", "１", "nan",
              "inf",
              "-NaN", "+Infinity", "Infinityx", "1f", "0b1", "1e1.5", "1e5e5"]  # fmt: skip


@each_row("text", NO_NUMBERS)
def test_a_number_outside_the_json_grammar_is_a_syntax_error(text: str) -> None:
    assert canonical_error(lambda: parse(text.encode()))[0] == "syntax"
    assert text == "1,0" or canonical_error(lambda: parse(f"[{text}]".encode()))[0] == "syntax"


# ------------------------------------------------------------------------- texts

TEXTS: list[tuple[str, str]] = [
    ('"\\u0041"', "A"), ('"\\/"', "/"), ('"\\b\\f\\n\\r\\t\\"\\\\"', '\b\f\n\r\t"\\'), ('"\\u0000"', "\0"),
    ('"\\ud83d\\ude00"', "😀"), ('"\\uD83D\\uDE00"', "😀"), ('"\\uffff"', "\uffff"), ('"\\ufeff"', "\ufeff"),
    ('"\\u202e"', "\u202e"), ('"\u2028\u2029"', "\u2028\u2029"), ('"\x7f\x80"', "\x7f\x80"), ('"e\\u0301"', "e\u0301"),
]  # fmt: skip


@each_row(("text", "value"), TEXTS)
def test_parse_keeps_the_code_points_of_a_string_without_unicode_normalization(text: str, value: str) -> None:
    assert parse(text.encode()) == value
    assert parse(dumps(value)) == value


@each_row(
    ("value", "written"),
    [
        ("\0\x01\x1f\x7f", '"\\u0000\\u0001\\u001f\x7f"'), ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
        ("\x0b\x0e", '"\\u000b\\u000e"'),
        ('"\\/', '"\\"\\\\/"'), ("é€😀", '"é€😀"'), ("\u2028", '"\u2028"'), ("</script>", '"</script>"'),
    ],
)  # fmt: skip
def test_dumps_escapes_only_the_characters_that_json_requires(value: str, written: str) -> None:
    assert dumps(value).decode() == written
    assert dumps({value: value}).decode() == f"{{{written}:{written}}}"


LONE = [
    "\\ud800",
    "\\udfff",
    "\\uDBFF",
    "\\ud800x",
    "x\\udc00",
    "\\udc00\\ud800",
    "\\ud800\\ud800\\udc00",
    "\\ud83d\\u0041",
]


@each_row("half", LONE)
def test_parse_rejects_a_lone_surrogate_in_values_and_keys(half: str) -> None:
    assert canonical_error(lambda: parse(f'"{half}"'.encode())) == ("lone_surrogate", "", SURROGATE)
    assert canonical_error(lambda: parse(f'{{"a":["{half}"]}}'.encode())) == ("lone_surrogate", "a[0]", SURROGATE)
    assert canonical_error(lambda: parse(f'{{"a":{{"{half}":1}}}}'.encode())) == ("lone_surrogate", "a", SURROGATE)
    assert canonical_error(lambda: read_line(f'{{"a":"{half}"}}'.encode(), ())) == ("lone_surrogate", "a", SURROGATE)


SYNTAX = ["", " ", "{", "}", "[", "]", '"', "{]", "[1,]", '{"a":1,}', "{,}", "[,]", "[1 2]", '{"a" 1}', '{"a":}',
          "{a:1}",
          "{'a':1}", "{1:2}", "{null:1}", "True", "nul", "nullx", "[1]]", '{"a":1}}', "1 2", '"a" "b"', "// x\n1",
          "/* */1", "#1",
          '"\t"', '"\n"', '"\x00"', '"\\x41"', '"\\u12"', '"\\u12G4"', '"\\U0041"', '"\\a"', '"\\', "[1]\x00",
          "\u00a01",
          "\u20281", "\ufeff1", "1\u3000", "undefined", "[1;2]"]  # fmt: skip


@each_row("text", SYNTAX)
def test_text_outside_the_json_grammar_is_a_syntax_error_with_its_line(text: str) -> None:
    data = text.encode()
    code, path, message = canonical_error(lambda: parse(data))
    if data.startswith(b"\xef\xbb\xbf"):
        assert (code, message) == ("bom", "the document begins with a byte order mark")
    else:
        assert (code, path) == ("syntax", "") and " at line " in message


BYTES: list[tuple[bytes, int]] = [
    (b"\xff", 0), (b'"\x80"', 1), (b'"\xc0\xaf"', 1), (b'"\xe0\x80\xaf"', 1), (b'"\xf0\x80\x80\xaf"', 1),
    (b'"\xed\xa0\x80"', 1), (b'"\xed\xa0\xbd\xed\xb8\x80"', 1), (b'"\xf4\x90\x80\x80"', 1),
    (b'"\xf8\x88\x80\x80\x80"', 1),
    (b'"\xe2\x82"', 1), (b'"a\xc3', 2), (b"\xfe\xff\x00{", 0), (b"\xff\xfe{\x00", 0), (b'{"\xe9":1}', 2),
]  # fmt: skip


@each_row(("data", "place"), BYTES)
def test_parse_rejects_bytes_that_are_not_utf8_with_their_position(data: bytes, place: int) -> None:
    assert canonical_error(lambda: parse(data)) == ("not_utf8", "", f"the text is not UTF-8 at byte {place}")


# ------------------------------------------------------------------------- depth and size


@pytest.mark.parametrize("levels", [1, 63, 64])
def test_64_levels_of_nesting_are_parsed_and_written(levels: int) -> None:
    for text in ("[" * levels + "]" * levels, '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)):
        assert dumps(parse(text.encode())).decode() == text


@each_row("text", ["[" * 65 + "]" * 65, '{"a":' * 64 + "{}" + "}" * 64, "[" * 100_000, '[{"a":' * 33 + "1"])
def test_65_levels_of_nesting_are_rejected(text: str) -> None:
    assert canonical_error(lambda: parse(text.encode())) == ("too_deep", "", DEEP)
    assert canonical_error(lambda: read_line(b'{"x":' + text.encode(), ()))[0] == "too_deep"


@pytest.mark.parametrize("text", ['"' + "[" * 500 + '"', '["\\"' + "{" * 500 + '"]', '{"' + "[{" * 99 + '":"\\\\"}'])
def test_brackets_inside_strings_do_not_count_as_nesting(text: str) -> None:
    assert json.loads(text) == parse(text.encode())


def test_many_shallow_brackets_do_not_add_up_to_deep_nesting() -> None:
    value = [[[]]] * 1000
    assert parse(dumps(value)) == value


def test_dumps_rejects_a_python_value_of_65_levels() -> None:
    value: object = 1
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    assert canonical_error(lambda: dumps(value)) == ("too_deep", "[0]" * MAX_DEPTH, DEEP)
    inner: Any = {}
    for _ in range(MAX_DEPTH):
        inner = {"a": inner}
    assert canonical_error(lambda: dumps(inner))[:2] == ("too_deep", ".".join("a" * MAX_DEPTH))


def test_parse_file_rejects_a_file_larger_than_max_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[1]")
    assert parse_file(path) == [1]
    monkeypatch.setattr("bench.canonical.MAX_BYTES", 3)
    assert parse_file(path) == [1]
    path.write_bytes(b"[1] ")
    assert canonical_error(lambda: parse_file(path)) == ("too_large", "", "the document has more than 3 bytes")
    with pytest.raises(FileNotFoundError):
        parse_file(tmp_path / "none")
    assert MAX_BYTES == 64 * 1024 * 1024


# ------------------------------------------------------------------------- python values


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    a: int
    b: str


VALUES: list[tuple[object, str]] = [
    (None, "null"), (True, "true"), (False, "false"), ("", '""'), ([], "[]"), ((), "[]"), ({}, "{}"), (1.0, "1"),
    (-0.0, "0"), (100.0, "100"), (1e15, "1000000000000000"), (0.00001, "0.00001"), (1e-5, "0.00001"),
    (-1e-5, "-0.00001"),
    (9.999e-7, "9.999e-7"), (0.0001, "0.0001"), ((1, (2, [3])), "[1,[2,[3]]]"), (Pair(1, "x"), '[1,"x"]'),
    ({"b": 1, "a": 2}, '{"a":2,"b":1}'), ({"é": 1, "z": 2}, '{"z":2,"é":1}'),
    ({"\ufb33": 1, "😀": 2}, '{"😀":2,"\ufb33":1}'), ({"": 0}, '{"":0}'), ([True, 1, 1.0], "[true,1,1]"),
    ({"a": {"ü": [0.5, None]}}, '{"a":{"ü":[0.5,null]}}'), (Level.HIGH, "3"), (Colour.RED, '"red"'),
]  # fmt: skip


@each_row(("value", "written"), VALUES)
def test_dumps_writes_each_python_value_in_its_canonical_form(value: object, written: str) -> None:
    assert dumps(value).decode() == written
    assert dumps({"x": [value]}).decode() == f'{{"x":[{written}]}}'


KINDS: list[tuple[object, str, str]] = [
    ({"a": {1: 2}}, "a.1", "key_not_string"), ({None: 1}, "None", "key_not_string"),
    ({("a",): 1}, "('a',)", "key_not_string"),
    ({"a": [b"x"]}, "a[0]", "unsupported_type"), ({"s": {1, 2}}, "s", "unsupported_type"),
    (Decimal("1.5"), "", "unsupported_type"), ({"c": 1j}, "c", "unsupported_type"),
    ([object()], "[0]", "unsupported_type"),
    ({"é": {"d": bytearray()}}, "é.d", "unsupported_type"), (range(3), "", "unsupported_type"),
    ([float("nan")], "[0]", "number_not_finite"), ({"a": -float("inf")}, "a", "number_not_finite"),
    ([2**53], "[0]", "integer_out_of_range"), ({"a": -(2**53)}, "a", "integer_out_of_range"),
    ([1e300], "[0]", "number_out_of_range"), ({"a": "\udc00"}, "a", "lone_surrogate"),
    ({"\ud800": 1}, "", "lone_surrogate"),
]  # fmt: skip


@each_row(("value", "path", "code"), KINDS)
def test_dumps_rejects_a_python_value_without_a_json_form_with_its_path(value: object, path: str, code: str) -> None:
    assert canonical_error(lambda: dumps(value))[:2] == (code, path)
    assert canonical_error(lambda: dumps_with_part({"whole": value}, ("whole",)))[0] == code
    assert canonical_error(lambda: digest([value]))[0] == code


def test_the_error_for_a_python_value_without_a_json_form_names_its_type() -> None:
    assert canonical_error(lambda: dumps({"a": Decimal(1)}))[2] == "a value of type Decimal cannot be written as JSON"
    assert canonical_error(lambda: dumps({1: 1}))[2] == "an object key is not a string"


# ------------------------------------------------------------------------- parts and lines

names = st.text(st.characters(codec="utf-8"), max_size=4)


@given(st.dictionaries(names, st.integers(-5, 5), max_size=6), st.lists(names, max_size=3))
def test_without_members_keeps_the_other_members_in_order(document: dict[str, Any], gone: list[str]) -> None:
    kept = without_members(document, *gone)
    assert kept == {name: value for name, value in document.items() if name not in gone}
    assert list(kept) == [name for name in document if name in kept]


@given(st.dictionaries(names, st.integers() | st.floats(allow_nan=False), max_size=4))
def test_digest_is_the_sha256_of_the_canonical_bytes_or_the_same_error(value: dict[str, Any]) -> None:
    from hashlib import sha256

    try:
        expected = sha256(dumps(value)).hexdigest()
    except CanonicalError as error:
        assert canonical_error(lambda: digest(value))[0] == error.code
    else:
        assert digest(value) == expected


LINES: list[tuple[str, object, str, bool]] = [
    ('{"a":1,"b":2}', {"a": 1, "b": 2}, '{"a":1}', True),
    ('{"b":2,"a":1}', {"a": 1, "b": 2}, '{"a":1}', False),
    ('{"b":2}', {"b": 2}, "{}", True),
    ("{}", {}, "{}", True),
    ('{"a":1 }', {"a": 1}, '{"a":1}', False),
    ('{"a":0.00001}', {"a": 0.00001}, '{"a":0.00001}', True),
    ('{"a":1e-05}', {"a": 0.00001}, '{"a":0.00001}', False),
    ('{"a":123456789012345}', {"a": 123456789012345}, '{"a":123456789012345}', True),
    ('{"a":1234567890123456}', {"a": 1234567890123456}, '{"a":1234567890123456}', True),
    ('{"a":"😀"}', {"a": "😀"}, '{"a":"😀"}', True),
    ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}, '{"a":"😀"}', False),
    ('{"\ue000":1,"😀":2}', {"\ue000": 1, "😀": 2}, "{}", False),
    ('{"😀":2,"\ue000":1}', {"\ue000": 1, "😀": 2}, "{}", True),
    ("[1]", [1], "[1]", True),
    ("null", None, "null", True),
    (' "x"', "x", '"x"', False),
]


@each_row(("text", "value", "part", "canonical"), LINES)
def test_read_line_returns_value_selected_part_and_whether_the_line_is_canonical(
    text: str, value: object, part: str, canonical: bool
) -> None:
    assert read_line(text.encode(), ("a",)) == (value, part.encode(), canonical)
