"""Paths: names, indexes and [*] of RFC 9535, and nothing that could surprise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.jsonpath import PathMissing, compile_path
from bench.errors import ConfigError
from tests.rows import each_row

TREE = {"a": [{"b c": 1}, {"b c": None}], "n": None, "x.y": "dotted", "é": 2}


@each_row(
    ("text", "expected"),
    [
        ("$", [TREE]),
        ("$.a[*]['b c']", [1, None]),
        ("$.a[-1]", [{"b c": None}]),
        ("$.a[5]", []),
        ("$.n", [None]),
        ("$['x.y']", ["dotted"]),
        ("$.é", [2]),
        ("@.a[0]", [{"b c": 1}]),
        ("$.a.b", []),
    ],
)
def test_values(text: str, expected: list[object]) -> None:
    assert compile_path(text).all(TREE) == expected


def test_one_value_counts_null_and_refuses_none_or_many() -> None:
    assert compile_path("$.n").one(TREE) is None
    for text in ("$.zz", "$.a[*]"):
        with pytest.raises(PathMissing):
            compile_path(text).one(TREE)


def test_a_bare_name_is_one_field_dots_and_all() -> None:
    assert compile_path("x.y", bare=True).get(TREE) == "dotted"
    with pytest.raises(ConfigError):
        compile_path("x.y")


@each_row("text", ["$..a", "$.a[?@.b]", "$.a[0:2]", "$.a[0,1]", "$.", "$[", ""])
def test_the_rest_of_jsonpath_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        compile_path(text, where="f:1:1", bare=True)


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1), st.data())
def test_get_and_all_agree_for_any_bare_name(tree: dict[str, int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tree)).filter(lambda key: not key.startswith(("$", "@"))))
    path = compile_path(name, bare=True)
    assert path.all(tree) == [tree[name]] == [path.get(tree)]
