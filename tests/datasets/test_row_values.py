"""Typed values of a row, and the errors of missing and wrong values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.jsonpath import compile_path
from bench.datasets.rows.row import RowPlace, loads_lenient
from bench.datasets.rows.row_values import (
    choices_of,
    id_at,
    list_at,
    missing_error,
    path_name,
    scalar_text,
    text_at,
    texts_of,
    value_at,
)
from bench.errors import DataError
from tests.rows import each_row

PLACE = RowPlace(file="d.jsonl", index=4, line=7)
ROW = loads_lenient(
    b'{"text": "T", "empty": "", "int": 12, "float": 1.50, "yes": true, "null": null, "list": ["a", 1, null],'
    b' "map": {"B": "two", "A": "one"}, "deep": {"list": [{"x": 1}, {"x": 2}]}, "a.b": "dot"}'
)
Take = Callable[..., object]


def take(how: Take, path: str) -> object:
    return how(ROW, compile_path(path, bare=True), PLACE)


@each_row(
    ("how", "path", "value"),
    [
        (value_at, "text", "T"),
        (value_at, "$.deep.list[1].x", 2),
        (value_at, "a.b", "dot"),
        (value_at, "$['a.b']", "dot"),
        (value_at, "$.deep.list[-1]", {"x": 2}),
        (text_at, "text", "T"),
        (text_at, "empty", ""),
        (id_at, "text", "T"),
        (id_at, "int", "12"),
        (id_at, "float", "1.50"),
        (list_at, "list", ["a", 1, None]),
        (list_at, "$.deep.list[*].x", [1, 2]),
        (list_at, "$.nowhere[*].x", []),
    ],
)
def test_value_at_text_at_id_at_and_list_at_return_the_value_at_a_path(how: Take, path: str, value: object) -> None:
    assert take(how, path) == value


@each_row(
    ("how", "path", "text"),
    [
        (value_at, "null", "null is null"),
        (value_at, "txt", 'txt is missing; did you mean "text"?'),
        (value_at, "$.map.C", "map.C is missing"),
        (value_at, "$.deep.list[2]", "deep.list[2] is missing"),
        (value_at, "$.text[0]", "text[0] is missing"),
        (text_at, "int", "int must be text, not: 12"),
        (text_at, "list", "list must be text, not: a list"),
        (text_at, "map", "map must be text, not: a map of keys"),
        (text_at, "yes", "yes must be text, not: true"),
        (id_at, "empty", 'empty must be an id, not: ""'),
        (id_at, "yes", "yes must be an id, not: true"),
        (id_at, "list", "list must be an id, not: a list"),
        (id_at, "null", "null is null"),
        (list_at, "text", 'text must be a list, not: "T"'),
        (list_at, "map", "map must be a list, not: a map of keys"),
        (list_at, "lost", 'lost is missing; did you mean "list"?'),
    ],
)
def test_a_missing_or_wrong_value_is_refused_with_its_place(how: Take, path: str, text: str) -> None:
    with pytest.raises(DataError) as caught:
        take(how, path)
    assert str(caught.value) == f"d.jsonl:7: {text}"
    assert caught.value.hint == "correct the row, or the config that maps the data"


@each_row(
    ("value", "text"),
    [("x", "x"), ("", ""), (True, "true"), (False, "false"), (0, "0"), (-5, "-5"), (10**20, f"{10**20}"),
     (2.5, "2.5"), (None, None), ([], None), ({}, None)],
)  # fmt: skip
def test_scalar_text_converts_a_scalar_to_text(value: object, text: str | None) -> None:
    assert scalar_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_has_the_text_of_the_file(number: float) -> None:
    for text in (repr(number), f"{number:.3e}", f"{number:.4f}"):
        value = loads_lenient(text.encode())
        assert scalar_text(value) == text


@each_row(
    ("value", "texts"),
    [(None, ()), ("a", ("a",)), ("", ("",)), (5, ("5",)), (["a", 2, True], ("a", "2", "true")), ([None, "b"], ("b",)),
     ([], ())],
)  # fmt: skip
def test_texts_of_accepts_one_value_or_a_list(value: object, texts: tuple[str, ...]) -> None:
    assert texts_of(value, "a", PLACE) == texts


@pytest.mark.parametrize(("value", "shown"), [({"x": 1}, "a map of keys"), ([["a"]], "a list"), (["a", {}], "a list")])
def test_texts_of_refuses_maps_and_nested_lists(value: object, shown: str) -> None:
    with pytest.raises(DataError) as caught:
        texts_of(value, "qa[0].answer", PLACE)
    assert str(caught.value) == f"d.jsonl:7: qa[0].answer must be text or a list of texts, not: {shown}"


def test_choices_may_be_a_list_or_a_map_in_file_order() -> None:
    assert choices_of(["x", "y"], "c", PLACE) == ("x", "y")
    assert choices_of(ROW["map"], "c", PLACE) == ("two", "one")  # type: ignore[index]
    assert choices_of(None, "c", PLACE) == ()


@each_row(
    ("path", "name"),
    [("a", "a"), ("$.a", "a"), ("$.a[0].b", "a[0].b"), ("$", "$"), ("$[0]", "[0]"), ("a.b", "a.b")],
)
def test_path_name_has_no_dollar_sign(path: str, name: str) -> None:
    assert path_name(compile_path(path, bare=True)) == name


def test_missing_error_searches_the_nested_object_for_a_suggestion() -> None:
    path = compile_path("answr", bare=True)
    error = missing_error(path, {"answer": 1, "b": 2}, PLACE, prefix="qa[3].")
    assert str(error) == 'd.jsonl:7: qa[3].answr is missing; did you mean "answer"?'
    assert str(missing_error(path, "no map", PLACE)) == "d.jsonl:7: answr is missing"


@each_row(
    ("place", "field", "text"),
    [
        (RowPlace(file="d.json", index=0), "a[1]", "d.json: [0].a[1]: a[1] is odd: 5"),
        (RowPlace(file="d.json", index=0), "[1].b", "d.json: [0][1].b: [1].b is odd: 5"),
        (RowPlace(file="d.json", index=0), "", "d.json: [0]: row is odd: 5"),
        (RowPlace(file="d.json", index=3).with_row_id("q9"), "a", "d.json: [3].a: a is odd: 5 (row q9)"),
        (RowPlace(file="d.csv", index=0, line=2), "a", "d.csv:2: a is odd: 5"),
        (RowPlace(file="d.csv", index=0, line=2).with_row_id("q9"), "", "d.csv:2: row is odd: 5 (row q9)"),
    ],
)
def test_an_error_names_file_row_field_and_value(place: RowPlace, field: str, text: str) -> None:
    error = place.error(field, "is odd", 5, hint="make it even")
    assert (str(error), error.hint) == (text, "make it even")
