"""JSONPath in configs: the supported part of RFC 9535 matches what the jsonpath library matches."""

from __future__ import annotations

import jsonpath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.jsonpath import EVERY, compile_path
from bench.errors import ConfigError
from tests.rows import each_row

NAME = st.sampled_from(["a", "b", "c_1", "d-e", "é"])
STEP = st.one_of(
    NAME.map(lambda name: f".{name}"),
    st.integers(-3, 3).map(lambda index: f"[{index}]"),
    st.just("[*]"),
    st.sampled_from(["['a']", '["b"]', "['x y']", "['x.y']", "['é']"]),
)
PATHS = st.lists(STEP, max_size=4).map(lambda steps: "$" + "".join(steps))
TREES = st.recursive(
    st.none() | st.integers(0, 9) | st.just("text"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAME | st.sampled_from(["x y", "x.y"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(PATHS, TREES)
def test_a_path_matches_what_the_jsonpath_library_matches(text: str, tree: object) -> None:
    assert compile_path(text).all(tree) == [node.obj for node in jsonpath.compile(text).finditer(tree)]


@given(PATHS, TREES)
def test_get_first_and_all_of_a_path_agree(text: str, tree: object) -> None:
    path = compile_path(text)
    found = path.all(tree)
    assert path.get(tree) == (found[0] if len(found) == 1 else None)
    assert path.first(tree) == (found[0] if found else None)
    assert path.single is (EVERY not in path.steps)
    assert not path.single or len(found) <= 1


@each_row(
    ("text", "steps", "root"),
    [
        ("$", (), None),
        ("$.a", ("a",), "a"),
        ("$.a_1[0][-1].b-c", ("a_1", 0, -1, "b-c"), "a_1"),
        ("$[*].a", (EVERY, "a"), None),
        ("$.*", (EVERY,), None),
        ("$['a b']['c.d']", ("a b", "c.d"), "a b"),
        ('$["it\'s"]', ("it's",), "it's"),
        ("@.a", ("a",), "a"),
        ("@", (), None),
        ("$.日本", ("日本",), "日本"),
    ],
)
def test_compile_path_returns_text_steps_and_root(text: str, steps: tuple[object, ...], root: str | None) -> None:
    path = compile_path(text)
    assert (path.text, path.steps, path.root) == (text, steps, root)


@each_row(
    ("text", "message", "hint"),
    [
        ("a.b", '"a.b" is not a valid JSONPath', 'paths begin with "$", for example $.content'),
        ("", '"" is not a valid JSONPath', 'paths begin with "$", for example $.content'),
        (
            "$..a",
            '"$..a" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            "remove filters, slices and ..",
        ),
        (
            "$.a[0:2]",
            '"$.a[0:2]" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            "remove filters, slices and ..",
        ),
        (
            "$.a[0,1]",
            '"$.a[0,1]" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            "remove filters, slices and ..",
        ),
        (
            "$.a[?@.b]",
            '"$.a[?@.b]" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            "remove filters, slices and ..",
        ),
    ],
)
def test_an_unsupported_path_is_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_path(text, where="x.yaml:1:1")
    assert (caught.value.message, caught.value.hint, caught.value.where) == (message, hint, "x.yaml:1:1")


@each_row("text", ["$.", "$[", "$.a[", "$.a[01]", "$a", "$ .a.", "$.a b", "$['a", "$.a[]", "$.1a"])
def test_an_invalid_path_is_refused_with_the_message_of_the_jsonpath_library(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_path(text)
    assert caught.value.message.startswith(f'"{text}" is not a valid JSONPath: ')
    assert caught.value.hint == "write a path such as $.items[0].content (RFC 9535)"


def test_a_bare_name_with_any_characters_is_one_field() -> None:
    for name in ("a.b", "a[0]", "*", "a b", "é"):
        path = compile_path(name, bare=True)
        assert (path.steps, path.all({name: 1}), path.get({})) == ((name,), [1], None)


def test_text_numbers_and_null_have_no_children() -> None:
    for tree in ("text", 5, None, True):
        for text in ("$.a", "$[0]", "$[*]"):
            assert compile_path(text).all(tree) == []


@each_row("text", ["$..a", "$.a[?@.b]", "$.a[0:2]", "$.a[0,1]", "$.", "$[", ""])
def test_an_unsupported_path_is_also_refused_where_bare_names_are_allowed(text: str) -> None:
    with pytest.raises(ConfigError):
        compile_path(text, bare=True)


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1), st.data())
def test_a_bare_name_finds_the_field_of_that_name(tree: dict[str, int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tree)).filter(lambda key: not key.startswith(("$", "@"))))
    path = compile_path(name, bare=True)
    assert path.all(tree) == [tree[name]] == [path.get(tree)]
