"""YAML 1.2 of configs: the type of each value, and each error with its line and column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

from bench.config.jsontext import MAX_DEPTH
from bench.config.yamltext import MAX_NODES, parse_yaml
from bench.errors import ConfigError
from tests.rows import each_row


def value(text: str) -> object:
    tree, _ = parse_yaml(f"k: {text}\n", "x.yaml")
    assert isinstance(tree, dict)
    return tree["k"]


def refused(text: str) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "x.yaml")
    return str(caught.value), caught.value.hint


@each_row(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("0", 0),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("+1", 1),
        ("1_000", 1000),
        ("0o8", "0o8"),
        ("_1", "_1"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1.0", 1.0),
        ("1:30", "1:30"),
        ("2024-02-29", "2024-02-29"),
        ("2024-02-29T10:00:00Z", "2024-02-29T10:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("'it''s'", "it's"),
        ('"\\u00e9\\t"', "é\t"),
        ("|\n  a\n  b", "a\nb\n"),
        ("|-\n  a\n", "a"),
        (">-\n  a\n  b", "a b"),
        ("&a x", "x"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("\U0001f600 ünïcödé", "\U0001f600 ünïcödé"),
        ("99999999999999999999999999", 99999999999999999999999999),
        ("[]", []),
        ("{}", {}),
        ("[a, [b], {c: d}]", ["a", ["b"], {"c": "d"}]),
    ],
)
def test_a_YAML_1_2_scalar_has_its_type(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@each_row(
    ("text", "message", "hint"),
    [
        ("k: 0b101\n", "x.yaml:1:4: 0b101 is not a number", "put the value in quotes if it is a text"),
        ("k: 1__0\n", "x.yaml:1:4: 1__0 is not a number", "put the value in quotes if it is a text"),
        ("k: .nan\n", "x.yaml:1:4: .nan is not a finite number", "put the value in quotes if it is a text"),
        ("k: -.inf\n", "x.yaml:1:4: -.inf is not a finite number", "put the value in quotes if it is a text"),
        ("k: 1e999\n", "x.yaml:1:4: 1e999 is not a finite number", "put the value in quotes if it is a text"),
        ("k: !!float x\n", "x.yaml:1:4: x is not a finite number", "put the value in quotes if it is a text"),
        ("k: !!bool maybe\n", 'x.yaml:1:4: "maybe" is not a YAML 1.2 bool', "write true, false or null, or use quotes"),
        ("k: !!null x\n", 'x.yaml:1:4: "x" is not a YAML 1.2 null', "write true, false or null, or use quotes"),
        (
            "%YAML 1.1\n---\nk: yes\n",
            'x.yaml:3:4: "yes" is not a YAML 1.2 bool',
            "write true, false or null, or use quotes",
        ),
        (
            "k: !!python/object:os.system x\n",
            "x.yaml:1:4: the YAML tag python/object:os.system is not supported",
            "use plain YAML values",
        ),
        ("k: !!binary aGk=\n", "x.yaml:1:4: the YAML tag binary is not supported", "use plain YAML values"),
        ("k: !local x\n", "x.yaml:1:4: the YAML tag !local is not supported", "use plain YAML values"),
        ("k: !local {a: 1}\n", "x.yaml:1:4: the YAML tag !local is not supported", "use plain YAML values"),
        ("k: !local [1]\n", "x.yaml:1:4: the YAML tag !local is not supported", "use plain YAML values"),
        ("k: !!set {a}\n", "x.yaml:1:4: the YAML tag set is not supported", "use plain YAML values"),
        ("k: !!omap [a: 1]\n", "x.yaml:1:4: the YAML tag omap is not supported", "use plain YAML values"),
        ("k: =\n", "x.yaml:1:4: the YAML tag value is not supported", "use plain YAML values"),
        ("k: {a: 1, a: 2}\n", 'x.yaml:1:11: repeated key "a" (first on line 1)', "keep one of the two"),
        ("true: 1\nb: 2\n'true': 3\n", 'x.yaml:3:1: repeated key "true" (first on line 1)', "keep one of the two"),
        ('1: x\n"1": y\n', 'x.yaml:2:1: repeated key "1" (first on line 1)', "keep one of the two"),
        ("? [a]\n: b\n", "x.yaml:1:3: a key must be text", "put the key in quotes"),
        (
            "a: &a {b: 1}\n<<: *a\n",
            'x.yaml:2:1: merge keys ("<<") are not supported',
            'write the values out, or use "extends"',
        ),
        ("k: *a\n", "x.yaml:1:4: found undefined alias 'a'", "correct the YAML"),
        ("k: [1,2\n", "x.yaml:2:1: expected ',' or ']', but got '<stream end>'", "correct the YAML"),
        ("k: a: b\n", "x.yaml:1:5: mapping values are not allowed here", "correct the YAML"),
        ("a:\n  b: 1\n   c: 2\n", "x.yaml:3:5: mapping values are not allowed here", "correct the YAML"),
        ("k: @x\n", "x.yaml:1:4: found character '@' that cannot start any token", "correct the YAML"),
        ('k: "\\q"\n', "x.yaml:1:6: found unknown escape character 'q'", "correct the YAML"),
        (
            "a: 1\n---\nb: 2\n",
            "x.yaml:2:1: expected a single document in the stream but found another document",
            "correct the YAML",
        ),
        ("a: b\nk: \x07\n", "x.yaml:2:4: the character U+0007 is not allowed", "remove it, or escape it in quotes"),
        (
            "a:\n\tb: 1\n",
            "x.yaml:2:1: a tab character is not allowed here",
            'use spaces; inside text write "\\t" in double quotes',
        ),
        (
            "a:\n - b\tc\n",
            "x.yaml:2:5: a tab character is not allowed here",
            'use spaces; inside text write "\\t" in double quotes',
        ),
        (
            'k: "\\ud800"\n',
            "x.yaml:1:4: the text contains half of a surrogate pair, which is not Unicode text",
            "write the character itself, or both escapes of its pair",
        ),
        (
            '"\\udfff": 1\n',
            "x.yaml:1:1: the text contains half of a surrogate pair, which is not Unicode text",
            "write the character itself, or both escapes of its pair",
        ),
        (
            "a: &a [*a]\n",
            "x.yaml:1:4: the values are nested deeper than 100 levels",
            "write the values out, without aliases",
        ),
    ],
)
def test_invalid_YAML_is_refused_with_line_column_and_hint(text: str, message: str, hint: str) -> None:
    assert refused(text) == (message, hint)


def test_a_long_number_is_shortened_in_the_error() -> None:
    message, _ = refused(f"k: {'9' * 5000}\n")
    assert message == f"x.yaml:1:4: {'9' * 97}... is not a number"


@each_row("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_an_empty_document_is_null(text: str) -> None:
    assert parse_yaml(text, "x.yaml") == (None, {})


def test_YAML_keys_are_read_as_text() -> None:
    tree, _ = parse_yaml("1: a\n1.50: b\ntrue: c\nnull: d\n2024-01-01: e\n? long\n: f\n", "x.yaml")
    assert tree == {"1": "a", "1.50": "b", "true": "c", "null": "d", "2024-01-01": "e", "long": "f"}


def test_each_YAML_key_and_element_has_its_line_and_column() -> None:
    _, places = parse_yaml("a: [1, 2]\nb:\n  - x\n  - y: {z: 1}\n", "x.yaml")
    assert places == {
        ("a",): (1, 1),
        ("a", 0): (1, 5),
        ("a", 1): (1, 8),
        ("b",): (2, 1),
        ("b", 0): (3, 5),
        ("b", 1): (4, 5),
        ("b", 1, "y"): (4, 5),
        ("b", 1, "y", "z"): (4, 9),
    }


def test_an_alias_has_the_values_and_places_of_its_anchor() -> None:
    tree, places = parse_yaml("a: &x {b: 1}\nc: *x\n", "x.yaml")
    assert tree == {"a": {"b": 1}, "c": {"b": 1}}
    assert places["c", "b"] == places["a", "b"] == (1, 8)


def test_a_file_without_aliases_may_exceed_MAX_NODES() -> None:
    tree, _ = parse_yaml("- \n" * (MAX_NODES + 1), "x.yaml")
    assert tree == [None] * (MAX_NODES + 1)


def test_aliases_may_expand_to_MAX_NODES_nodes() -> None:
    ten = "a: &a [" + ", ".join(["x"] * 98) + "]\n"
    fits = ten + "b: [" + ", ".join(["*a"] * 99) + "]\n"
    tree, _ = parse_yaml(fits, "x.yaml")
    assert isinstance(tree, dict) and len(tree["b"]) == 99
    message, hint = refused(fits + "c: [" + ", ".join(["*a"] * 3) + "]\n")
    assert message.endswith(f"the YAML aliases expand to more than {MAX_NODES} nodes")
    assert hint == "write the values out, without aliases"


def test_YAML_may_be_nested_to_100_levels() -> None:
    assert value("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    message, _ = refused("k: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "\n")
    assert "nested deeper than 100 levels" in message


PLAIN = st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029\x85")
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(PLAIN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(PLAIN, min_size=1), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(PLAIN, min_size=1), TREES, max_size=3))
def test_the_output_of_a_YAML_writer_is_read_back(tree: dict[str, object]) -> None:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False  # the writer escapes some keys of a flow map in a way that no reader accepts
    out = StringIO()
    writer.dump(tree, out)
    found, places = parse_yaml(out.getvalue(), "x.yaml")
    assert (found or {}) == tree
    assert {path for path in places if len(path) == 1} == {(key,) for key in tree}
