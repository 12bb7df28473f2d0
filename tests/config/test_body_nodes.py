"""Nodes of a request body: their values, their variables, and the errors of invalid templates."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.jsonpath import compile_path
from bench.config.provider.body import (
    ABSENT,
    Compiler,
    ConstantNode,
    EachNode,
    JsonTextNode,
    ListNode,
    Node,
    ObjectNode,
    OmitIfNullNode,
    PathNode,
    Scope,
    TextNode,
    TreeError,
    ValueMissing,
    as_text,
)
from tests.rows import each_row

VALUES: dict[str, object] = {
    "k": 5,
    "none": None,
    "name": "ns",
    "items": [{"id": "a", "n": None}, {"id": "b"}],
    "on": True,
}


def reference(text: str, *, of_element: bool = False) -> PathNode:
    path = compile_path(text)
    return PathNode(text, path, of_element, None if of_element else path.root, ())


@each_row(
    ("node", "filled"),
    [
        (ConstantNode({"a": "$.k"}), {"a": "$.k"}),
        (reference("$.k"), 5),
        (reference("$.none"), None),
        (reference("$.items[1].id"), "b"),
        (reference("$.items[*].id"), ["a", "b"]),
        (TextNode(("", "k", "-", "name", "!")), "5-ns!"),
        (ObjectNode((("a", reference("$.k")), ("b", OmitIfNullNode(reference("$.none"))))), {"a": 5}),
        (ListNode((ConstantNode(1), OmitIfNullNode(reference("$.none")), ConstantNode(None))), [1, None]),
        (EachNode(reference("$.items"), reference("$.id", of_element=True)), ["a", "b"]),
        (EachNode(reference("$.items"), OmitIfNullNode(reference("$.n", of_element=True))), []),
        (EachNode(reference("$.items"), reference("$.k")), [5, 5]),
        (OmitIfNullNode(reference("$.gone.deep")), ABSENT),
        (OmitIfNullNode(reference("$.k")), 5),
        (OmitIfNullNode(ConstantNode(0)), 0),
        (OmitIfNullNode(ConstantNode("")), ""),
        (JsonTextNode(ObjectNode((("é", reference("$.k")),))), '{"é":5}'),
        (JsonTextNode(OmitIfNullNode(reference("$.none"))), ABSENT),
    ],
)
def test_fill_returns_the_value_of_each_kind_of_node(node: Node, filled: object) -> None:
    assert node.fill(Scope(VALUES)) == filled


@each_row(
    ("node", "message", "path"),
    [
        (reference("$.gone"), '"$.gone": nothing there', "$.gone"),
        (reference("$.items[7].id"), '"$.items[7].id": nothing there', "$.items[7].id"),
        (EachNode(reference("$.k"), ConstantNode(1)), '"$.k": is not a list', "$.k"),
        (EachNode(reference("$.items"), reference("$.n", of_element=True)), '"$.n": nothing there', "$.n"),
        (TextNode(("", "gone", "")), '"gone": nothing there', "gone"),
        (TextNode(("x", "none", "")), '"none": is null, expected text', "none"),
    ],
)
def test_a_missing_value_raises_ValueMissing_with_its_path(node: Node, message: str, path: str) -> None:
    with pytest.raises(ValueMissing) as caught:
        node.fill(Scope(VALUES))
    assert (str(caught.value), caught.value.path) == (message, path)


@each_row(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        ([1, "é"], '[1, "é"]'),
        ({"a": None}, '{"a": null}'),
    ],
)
def test_as_text_converts_a_variable_inside_a_text(value: object, text: str) -> None:
    assert as_text("x", {"x": value}) == text


def test_only_the_variables_of_a_URL_path_are_percent_encoded() -> None:
    text = TextNode(("/a b/", "name", "/c"))
    assert text.join({"name": "x/y?z"}, lambda part: quote(part, safe="")) == "/a b/x%2Fy%3Fz/c"


@each_row(
    ("tree", "uses"),
    [
        ({"a": "$.k", "b": ["$.name", "x ${on} ${k}"]}, {"k", "name", "on"}),
        ({"$each": "$.items", "$do": {"i": "@.id", "n": "$.name"}}, {"items", "name"}),
        ({"$column": "id"}, {"items"}),
        ({"$omit_if_null": "$.none"}, {"none"}),
        ({"$json": {"a": "$.k"}}, {"k"}),
        ({"$literal": {"a": "$.k"}}, set()),
        ({"a": "$$.k", "b": "$${k}", "c": 5, "d": None}, set()),
        ("${UPPER} ${lower}", {"lower"}),
    ],
)
def test_uses_lists_the_variables_that_a_tree_needs(tree: object, uses: set[str]) -> None:
    assert {name for name, _ in Compiler().tree(tree).uses()} == uses


def test_uses_gives_the_place_of_each_variable() -> None:
    tree = {"a": [1, "$.k"], "b": {"$each": "$.items", "$do": {"c": "${name}"}}}
    assert list(Compiler().tree(tree).uses()) == [
        ("k", ("a", 1)),
        ("items", ("b", "$each")),
        ("name", ("b", "$do", "c")),
    ]


@each_row(
    ("tree", "message", "place", "hint"),
    [
        (
            {"$eech": 1},
            'unknown operator "$eech"; known: $each, $do, $column, $omit_if_null, $literal, $json, $lines',
            ("$eech",),
            "write {$literal: ...} around keys of the API that start with $",
        ),
        (
            {"$json": 1, "a": 2},
            "$json, a cannot be used together",
            ("$json",),
            "use $each with $do, and every other operator alone",
        ),
        (
            {"$do": 1},
            "$do cannot be used together",
            ("$do",),
            "use $each with $do, and every other operator alone",
        ),
        (
            {"a": "@.id"},
            '"@.id" can be used only inside $each',
            ("a",),
            "move this path into $do, where @ is the current element of $each",
        ),
        ({"$each": "items", "$do": 1}, "$each needs a JSONPath to a list, such as $.items", ("$each",), None),
        (
            {"a": ["$..x"]},
            '"$..x" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            ("a", 0),
            "remove filters, slices and ..",
        ),
        (
            {"$each": "$.items", "$do": "@.contnt"},
            'unknown field "contnt" of the element; did you mean "content"?',
            ("$do",),
            "known: content, embedding, id, index, messages, metadata, role, sessionId, speaker, uuid, when",
        ),
        (
            {"$each": "$.items", "$do": "@..x"},
            '"@..x" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
            ("$do",),
            "remove filters, slices and ..",
        ),
    ],
)
def test_an_invalid_body_template_raises_TreeError_with_place_and_hint(
    tree: object, message: str, place: tuple[str | int, ...], hint: str | None
) -> None:
    with pytest.raises(TreeError) as caught:
        Compiler().tree(tree)
    assert (str(caught.value), caught.value.place, caught.value.hint) == (message, place, hint)


def test_elements_of_an_undeclared_list_may_have_any_field() -> None:
    tree = Compiler().tree({"$each": "$.rows", "$do": ["@.anything", "@"]})
    assert tree.fill(Scope({"rows": [{"anything": 1}]})) == [[1, {"anything": 1}]]


def test_environment_variables_are_resolved_when_a_tree_is_compiled() -> None:
    resolved: list[str] = []
    tree = Compiler(lambda text: (resolved.append(text), "${k}")[1]).tree({"a": "${HOST:-x}/${k}"})
    assert resolved == ["${HOST:-x}"]
    assert tree.fill(Scope(VALUES)) == {"a": "${k}/5"}


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_characters="$@", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_characters="$@", exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_a_tree_without_dollar_signs_is_sent_unchanged(tree: object) -> None:
    node = Compiler().tree(tree)
    assert node.fill(Scope({})) == tree
    assert list(node.uses()) == []
    assert json.loads(str(JsonTextNode(node).fill(Scope({})))) == tree


@given(PLAIN)
def test_the_content_of_literal_is_sent_unchanged(tree: object) -> None:
    assert Compiler().tree({"$literal": {"$each": tree, "${x}": "$.y"}}).fill(Scope({})) == {
        "$each": tree,
        "${x}": "$.y",
    }
