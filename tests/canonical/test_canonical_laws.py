"""Laws of canonical JSON, over generated values."""

from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from bench.canonical import MAX_INTEGER, dumps, dumps_with_part, parse, read_line
from bench.errors import CanonicalError

texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(-MAX_INTEGER, MAX_INTEGER) | st.floats(-1e-3, 1e-3)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


@given(values)
@example({"é": 1, "a": [0.00001, 1e-7, 100.0]})
def test_dumps_writes_the_same_bytes_as_the_rfc8785_package(value: object) -> None:
    assert dumps(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.dictionaries(texts, values, max_size=5), st.sets(texts, max_size=3))
def test_dumps_with_part_writes_the_part_as_dumps_would(value: dict[str, object], names: set[str]) -> None:
    part = {name: value[name] for name in value if name in names}
    assert dumps_with_part(value, names) == (dumps(value), dumps(part))


@given(values)
def test_dumps_after_parse_writes_the_same_bytes(value: object) -> None:
    assert dumps(parse(dumps(value))) == dumps(value)


@given(values)
def test_white_space_key_order_and_escapes_do_not_change_the_canonical_bytes(value: object) -> None:
    assert dumps(parse(json.dumps(value, indent=3).encode())) == dumps(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_raise_a_canonical_error_with_a_code(data: bytes) -> None:
    try:
        value = parse(data)
    except CanonicalError as error:
        assert error.code
    else:
        assert parse(dumps(value)) == value


@given(st.text(alphabet='[]{}",:\\u0d8e1-.aN ', max_size=40))
def test_json_like_noise_raises_only_canonical_errors(text: str) -> None:
    try:
        parse(text.encode("utf-8"))
    except CanonicalError as error:
        assert error.code in {"syntax", "duplicate_key", "lone_surrogate", "number_not_finite", "number_out_of_range",
                              "integer_out_of_range"}  # fmt: skip


# ---------------------------------------------------------------- lines, read by the fast path

spellings = st.sampled_from(
    [
        "1.0", "-0", "-0.0", "0.00001", "1e-05", "1e-7", "1E5", "1e+16", "1e400", "NaN", "Infinity", "0.0001", "1.50",
        "9007199254740991", "9007199254740992", "123456789012345678901234567890", "12345678901234567.5", "0.1",
        "123456789012345.5", '"\\u00e9"', '"é"', '"\\ud800"', '"\\u001F"', '"\\u001f"', '"\U0001f600"', '"\\/"', " 1",
        "01", "[]", '{"b":1,"a":2}', '{"a":1,"a":1}', '{"\ue000":1,"\U00010000":2}', '{"\U00010000":2,"\ue000":1}',
    ]
)  # fmt: skip
members = st.tuples(st.sampled_from(["a", "b", "é", "\U0001f600", "\ue000"]), spellings)
lines = st.lists(members, max_size=4).map(lambda pairs: "{" + ",".join(f'"{k}":{v}' for k, v in pairs) + "}")


def strictly(line: bytes) -> tuple[object, bytes, bool]:
    value = parse(line)
    part = {name: value[name] for name in ("a", "é") if name in value} if isinstance(value, dict) else value
    return value, rfc8785.dumps(part), rfc8785.dumps(value) == line  # type: ignore[arg-type]


@given(lines | values.map(lambda value: json.dumps(value)) | values.map(lambda value: dumps(value).decode()))
@example('{"a":0.6309297535714575,"b":[["x"],["y"]],"c":1}')
@example('{"a":' + "[" * 64 + "]" * 64 + "}")
@example('{"a":' + "[" * 63 + "]" * 63 + "}")
def test_read_line_agrees_with_parse_and_the_rfc8785_package(text: str) -> None:
    line = text.encode("utf-8")
    try:
        expected = strictly(line)
    except CanonicalError as error:
        with pytest.raises(CanonicalError) as caught:
            read_line(line, ("a", "é"))
        assert caught.value.code == error.code
    else:
        found = read_line(line, ("a", "é"))
        assert found == expected
        assert repr(found[0]) == repr(expected[0]), "the same types, 1 is never 1.0"
