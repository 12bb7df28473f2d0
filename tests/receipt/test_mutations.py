"""A valid receipt with one random change: never VALID, never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.canonical import dumps
from bench.receipt.verification.findings import ReceiptVerdict
from tests.laws import examples

relaxed = settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
values = (
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats(-2, 2) | st.text(max_size=5) | st.just([]) | st.just({})
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node below the top."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in children for place in ((*path, key), *places(inner, (*path, key)))]


def parent_of(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


@pytest.fixture
def good(desk: Any) -> tuple[Any, bytes, Any]:
    path = desk.good()
    return path, path.read_bytes(), json.loads(path.read_bytes())


@given(data=st.data())
@relaxed
def test_a_receipt_with_any_changed_field_is_not_valid(
    desk: Any, good: tuple[Any, bytes, Any], data: st.DataObject
) -> None:
    path, whole, document = good[0], good[1], json.loads(good[1])
    place = data.draw(st.sampled_from(places(document)))
    parent = parent_of(document, place)
    kind = data.draw(st.sampled_from(["change", "remove", "add"]))
    if kind == "change":
        parent[place[-1]] = data.draw(values)
    elif kind == "remove":
        del parent[place[-1]]
    elif isinstance(parent, dict):
        parent[data.draw(st.text(min_size=1, max_size=5))] = data.draw(values)
    else:
        parent.append(data.draw(values))
    if dumps(document) == dumps(good[2]):
        return
    path.write_bytes(dumps(document))
    verdict = desk.verify(path).verdict
    assert verdict is ReceiptVerdict.INVALID or place[0] in ("signature", "signer")
    assert verdict is not ReceiptVerdict.VALID
    path.write_bytes(whole)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
@relaxed
def test_a_receipt_with_a_flipped_bit_is_not_valid_unless_only_white_space_changed(
    desk: Any, good: tuple[Any, bytes, Any], position: int, bit: int
) -> None:
    path, whole, _ = good
    damaged = bytearray(whole)
    damaged[position % len(whole)] ^= 1 << bit
    path.write_bytes(bytes(damaged))
    outcome = desk.verify(path)
    if outcome.verdict is ReceiptVerdict.VALID:  # white space between tokens is not signed
        assert dumps(json.loads(bytes(damaged))) == dumps(json.loads(whole))
    path.write_bytes(whole)


@given(cut=st.integers(0, 10**6))
@relaxed
def test_a_truncated_receipt_is_invalid(desk: Any, good: tuple[Any, bytes, Any], cut: int) -> None:
    path, whole, _ = good
    path.write_bytes(whole[: cut % (len(whole) - 2)])
    assert desk.verify(path).verdict is ReceiptVerdict.INVALID
    path.write_bytes(whole)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
@relaxed
def test_a_receipt_whose_items_file_has_a_flipped_bit_is_invalid(
    desk: Any, make: Any, good: tuple[Any, bytes, Any], position: int, bit: int
) -> None:
    items = good[0].with_name(f"{make.RECEIPT_ID}.items.jsonl")
    whole = items.read_bytes()
    damaged = bytearray(whole)
    damaged[position % len(whole)] ^= 1 << bit
    items.write_bytes(bytes(damaged))
    assert desk.verify(good[0]).verdict is ReceiptVerdict.INVALID
    items.write_bytes(whole)


@given(data=st.data())
@relaxed
def test_a_signed_receipt_with_a_random_value_gets_a_verdict_without_a_crash(
    desk: Any, make: Any, data: st.DataObject
) -> None:
    rows = make.default_rows()
    document = make.with_digests(make.body(rows))
    place = data.draw(st.sampled_from(places(document)))
    parent_of(document, place)[place[-1]] = data.draw(values)
    outcome = desk.verify(desk.write(document, rows))
    assert outcome.verdict in (ReceiptVerdict.VALID, ReceiptVerdict.INVALID)
