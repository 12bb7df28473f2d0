"""Columns of the journal: every value is restored unchanged, in the shortest form."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import JournalError
from bench.journal.codec import (
    INLINE_BYTES,
    PHASE_OF,
    PHASES,
    PLAIN_CHARS,
    clean,
    compress,
    decode,
    decompress,
    encode,
    from_json,
    instant,
    micros,
    pack,
    reference,
    storable,
    to_json,
    unpack,
    usage_column,
    usage_of,
)
from bench.model import Phase, Usage

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | ANY_TEXT
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3))
COUNTS = st.integers(0, 2**40)


@given(st.dictionaries(ANY_TEXT, TREES, max_size=4))
def test_decode_returns_the_encoded_mapping(value: dict[str, object]) -> None:
    assert decode(encode(value)) == value


@given(TREES)
def test_to_json_writes_ascii_and_from_json_returns_the_same_value(value: object) -> None:
    text = to_json(value)
    assert text.isascii()
    assert from_json(text) == value
    assert json.loads(text) == value


def test_an_empty_mapping_is_stored_as_null_and_a_long_one_compressed() -> None:
    assert encode({}) is None
    assert decode(None) == {}
    short = {"a": "x" * (PLAIN_CHARS - len('{"a":""}'))}
    assert isinstance(encode(short), str)
    longer = {"a": short["a"] + "x"}
    packed = encode(longer)
    assert isinstance(packed, bytes) and len(packed) < 100
    assert decode(packed) == longer


@given(st.binary(max_size=5000))
def test_decompress_returns_the_compressed_bytes(raw: bytes) -> None:
    assert decompress(compress(raw)) == raw


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)), st.integers(-720, 720))
def test_an_instant_is_restored_to_the_microsecond_in_utc(naive: datetime, minutes: int) -> None:
    aware = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    found = instant(micros(aware))
    assert found == aware
    assert found.tzinfo is UTC


def test_a_datetime_without_a_time_zone_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        micros(datetime(2026, 1, 1))


@given(ANY_TEXT)
def test_clean_makes_a_text_valid_utf8_and_leaves_valid_utf8_unchanged(text: str) -> None:
    found = clean(text)
    found.encode("utf-8")
    assert clean(found) == found
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        assert found != text
    else:
        assert found == text


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=9))
def test_values_are_packed_as_doubles_and_none_as_nan(values: list[float | None]) -> None:
    packed = pack(values)
    assert len(packed) == 8 * len(values)
    assert [None if math.isnan(value) else value for value in unpack(packed)] == values


@given(st.lists(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2), max_size=5))
def test_joined_packed_rows_unpack_as_columns(rows: list[list[float]]) -> None:
    doubles = unpack(b"".join(map(pack, rows)))
    assert [list(doubles[place::2]) for place in range(2)] == [[row[place] for row in rows] for place in range(2)]


def test_packed_doubles_are_byte_swapped_on_big_endian_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pack([1.0]) == b"\0\0\0\0\0\0\xf0\x3f"
    monkeypatch.setattr("bench.journal.codec.sys.byteorder", "big")
    assert pack([1.0]) == b"\x3f\xf0\0\0\0\0\0\0"
    assert list(unpack(pack([0.5, -3.0]))) == [0.5, -3.0]


@given(st.builds(
    Usage, input_tokens=COUNTS, cache_read_tokens=COUNTS, cache_write_tokens=COUNTS, output_tokens=COUNTS,
    reasoning_tokens=COUNTS, total_tokens=COUNTS, estimated=st.booleans(),
))  # fmt: skip
def test_usage_is_restored_from_its_column(usage: Usage) -> None:
    assert usage_of(usage_column(usage)) == usage


def test_missing_usage_is_stored_as_null() -> None:
    assert usage_column(None) is None
    assert usage_of(None) is None


def test_a_small_payload_is_stored_inline_and_a_large_one_by_its_hash() -> None:
    small = b'"' + b"x" * (INLINE_BYTES - 2) + b'"'
    assert reference(small) == "=" + small.decode()
    large = small + b" "
    assert reference(large).startswith("#")
    assert len(reference(large)) == 33
    assert reference(large) == reference(bytes(large))
    assert reference(large) != reference(large + b" ")


def test_every_phase_has_its_own_stable_number() -> None:
    assert PHASES == {Phase.INGEST: 1, Phase.INDEX: 2, Phase.SEARCH: 3, Phase.ANSWER: 4, Phase.EVALUATE: 5}
    assert {PHASE_OF[number]: number for number in PHASE_OF} == PHASES


@pytest.mark.parametrize("error", [TypeError("bytes are not JSON"), ValueError("circular")])
def test_a_value_that_is_not_json_is_a_journal_error_with_the_file(error: Exception) -> None:
    with pytest.raises(JournalError) as refused, storable(Path("r/journal.sqlite")):
        raise error
    assert (refused.value.message, refused.value.where) == (f"a row cannot be stored: {error}", "r/journal.sqlite")
    assert refused.value.__cause__ is error
