"""Places of keys: in a file with either spelling, and in a chain of files with extends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.benchmark.terms import ConfigOrigin, merge
from bench.config.file import (
    MAX_BYTES,
    ConfigModel,
    Source,
    display_path,
    fold_key,
    in_file_order,
    load,
    validation_problems,
)
from bench.config.value_rules import find_variables, walk_texts
from bench.errors import ConfigError
from tests.rows import each_row

TEXT = "camelKey:\n  snake_key: [1, {deep: 2}]\nother: 3\n"


def source(text: str = TEXT, name: str = "x.yaml") -> Source:
    return Source.parse(text, Path(name))


# -------------------------------------------------------------------- source


@each_row(
    ("path", "place"),
    [
        ((), "x.yaml:1:1"),
        (("camelKey",), "x.yaml:1:1"),
        (("camel_key",), "x.yaml:1:1"),
        (("camelKey", "snakeKey"), "x.yaml:2:3"),
        (("camel_key", "snake_key", 0), "x.yaml:2:15"),
        (("camelKey", "snake_key", 1, "deep"), "x.yaml:2:19"),
        (("other",), "x.yaml:3:1"),
        (("other", "deeper"), "x.yaml:3:1"),
        (("camelKey", "snake_key", 7), "x.yaml:2:3"),
        (("camelKey", "snake_key", "Branch", 0), "x.yaml:2:15"),
        (("absent",), "x.yaml:1:1"),
        (("absent", "other"), "x.yaml:3:1"),
    ],
)
def test_place_returns_the_key_or_its_nearest_parent_in_the_file(path: tuple[str | int, ...], place: str) -> None:
    assert source().place(path) == place


def test_locate_returns_a_path_in_the_spelling_of_the_file() -> None:
    assert source().locate(("camel_key", "snakeKey", 1, "deep")) == ("camelKey", "snake_key", 1, "deep")
    assert source().locate(("camelKey", 0)) == ("camelKey",)
    assert source().locate(("camelKey", "snake_key", -1)) == ("camelKey", "snake_key")


def test_a_path_below_the_working_directory_is_shown_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert display_path(tmp_path / "configs" / "x.yaml") == "configs/x.yaml"
    assert display_path(Path("/elsewhere/x.yaml")) == "/elsewhere/x.yaml"
    assert source(name=str(tmp_path / "x.yaml")).label == "x.yaml"


SCHEMAS = "show the keys with: bench schema KIND; KIND is benchmark, manifest, provider or run"


@each_row(
    ("content", "message", "hint"),
    [
        (b"a: \xff\n", "the file is not UTF-8 at byte 3", "save the file as UTF-8"),
        (
            b"#" * (MAX_BYTES + 1),
            "the config has 2,000,001 bytes, expected at most 2,000,000",
            "split the config, or remove long texts",
        ),
        (None, "cannot read the file: No such file or directory", "check the path"),
        (b"[1]", "a config must be a map of keys", SCHEMAS),
        (b"", "a config must be a map of keys", SCHEMAS),
        (b"just text", "a config must be a map of keys", SCHEMAS),
    ],
)
def test_an_unreadable_or_malformed_config_file_is_refused(
    tmp_path: Path, content: bytes | None, message: str, hint: str
) -> None:
    path = tmp_path / "x.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Source.read(path)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert str(caught.value.where).startswith(display_path(path))


def test_a_folder_is_refused_as_a_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the file: Is a directory"):
        Source.read(tmp_path)


def test_a_byte_order_mark_is_skipped_and_MAX_BYTES_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert Source.read(path).tree == {"a": 1}
    full = tmp_path / "x.json"
    full.write_bytes(b'{"a": 1}' + b" " * (MAX_BYTES - 8))
    assert Source.read(full).tree == {"a": 1}


def test_the_file_suffix_selects_the_JSON_or_YAML_reader(tmp_path: Path) -> None:
    for name, text in (("x.json", '{"a": 1}'), ("x.yaml", "a: 1"), ("x.yml", "a: 1"), ("y.yaml", '{"a": 1}')):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert Source.read(tmp_path / name).tree == {"a": 1}
    (tmp_path / "z.json").write_text("a: 1", encoding="utf-8")
    with pytest.raises(ConfigError, match="a value is missing before 'a'"):
        Source.read(tmp_path / "z.json")


@given(st.from_regex(r"[a-z]+(_[a-z]+)*", fullmatch=True))
def test_fold_key_maps_both_spellings_to_one(name: str) -> None:
    first, *rest = name.split("_")
    assert fold_key(first + "".join(part.capitalize() for part in rest)) == fold_key(name)


class Pair(ConfigModel):
    one: int = 0
    two: int = 0


class LeaseHolder(ConfigModel):
    pairs: tuple[Pair, ...] = ()
    pair: Pair = Pair()


def test_findings_are_in_file_order_without_repetition() -> None:
    text = "pair: {two: x, one: y}\npairs: [{one: z}]\n"
    with pytest.raises(ConfigError) as caught:
        load(source(text), LeaseHolder)
    assert [str(one) for one in caught.value.problems] == [
        'x.yaml:1:8: pair.two must be a whole number, not "x"',
        'x.yaml:1:16: pair.one must be a whole number, not "y"',
        'x.yaml:2:10: pairs[0].one must be a whole number, not "z"',
    ]


def test_a_config_model_refuses_unknown_fields_and_changes() -> None:
    from pydantic import ValidationError

    pair = load(source("one: 1\n"), Pair)
    with pytest.raises(ValidationError):
        pair.one = 2  # type: ignore[misc]
    with pytest.raises(ValidationError) as caught:
        Pair.model_validate({"three": 3})
    (problem,) = validation_problems(source("three: 3\n"), Pair, caught.value)
    assert problem.hint == "known fields: one, two"


# -------------------------------------------------------------------- origin


@pytest.fixture
def chain() -> ConfigOrigin:
    child = source("name: child\ndata: {path: c}\nlimit: null\n", "child.yaml")
    parent = source("name: parent\ndata:\n  path: p\n  file: f\n", "up/parent.yaml")
    grand = source("data: {type: local, file: g}\nlimit: 5\n", "top/grand.yaml")
    return ConfigOrigin(
        sources=(child, parent, grand), aliases={("search", "k"): ("limit",), ("data", "x"): ("data", "type")}
    )


def test_a_child_overrides_its_parents_key_by_key(chain: ConfigOrigin) -> None:
    assert chain.tree() == {"name": "child", "data": {"path": "c", "file": "f", "type": "local"}}
    assert (chain.path, chain.folder) == (Path("child.yaml"), Path())


@pytest.mark.parametrize(
    ("path", "place", "folder"),
    [
        (("name",), "child.yaml:1:1", "."),
        (("data", "path"), "child.yaml:2:8", "."),
        (("data", "file"), "up/parent.yaml:4:3", "up"),
        (("data", "type"), "top/grand.yaml:1:8", "top"),
        (("data", "x"), "top/grand.yaml:1:8", "top"),
        (("search", "k"), "child.yaml:3:1", "."),
        (("search",), "child.yaml:1:1", "."),
        (("absent",), "child.yaml:1:1", "."),
    ],
)
def test_place_and_folder_of_point_to_the_file_that_defines_the_key(
    chain: ConfigOrigin, path: tuple[str | int, ...], place: str, folder: str
) -> None:
    assert chain.place(path) == place
    assert chain.folder_of(path) == Path(folder)


def test_spelt_replaces_an_alias_and_keeps_the_rest_of_the_path(chain: ConfigOrigin) -> None:
    assert chain.spelt(("search", "k", 3, "z")) == ("limit", 3, "z")
    assert chain.spelt(("other", "k")) == ("other", "k")


@each_row(
    ("base", "over", "merged"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({}, {"a": None}, {"a": None}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
        ({"aKey": 1}, {"a_key": 2}, {"a_key": 2}),
        ({"aKey": {"bKey": 1, "c": 2}}, {"a_key": {"b_key": 3}}, {"a_key": {"c": 2, "b_key": 3}}),
        ({"a_key": 1}, {"aKey": None}, {}),
    ],
)
def test_merge_merges_maps_and_replaces_other_values_and_removes_null(
    base: Mapping[str, object], over: Mapping[str, object], merged: Mapping[str, object]
) -> None:
    assert merge(base, over) == merged


KEYS = st.sampled_from("abcde")
FULL = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2), lambda inner: st.dictionaries(KEYS, inner), max_leaves=8
)
MAPS = st.dictionaries(KEYS, FULL, max_size=4)


@given(MAPS)
def test_merging_an_empty_file_or_the_file_itself_changes_nothing(tree: dict[str, object]) -> None:
    assert merge(tree, {}) == tree == merge(tree, tree) == merge({}, tree)


SECTIONS = st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(), max_size=3), max_size=3)


@given(SECTIONS, SECTIONS, SECTIONS)
def test_merging_sections_is_associative(
    one: dict[str, object], two: dict[str, object], three: dict[str, object]
) -> None:
    assert merge(one, merge(two, three)) == merge(merge(one, two), three)


@given(MAPS, MAPS)
def test_merge_does_not_change_its_arguments(base: dict[str, object], over: dict[str, object]) -> None:
    before = repr((base, over))
    merge(base, over)
    assert repr((base, over)) == before


# ----------------------------------------------------------------- variables


def test_walk_texts_yields_each_text_with_its_path() -> None:
    tree = {"a": "x", "b": ["y", {"c": "z"}, ("w",)], 1: "n", "d": 5, "e": None}
    assert list(walk_texts(tree)) == [
        (("a",), "x"),
        (("b", 0), "y"),
        (("b", 1, "c"), "z"),
        (("b", 2, 0), "w"),
        (("1",), "n"),
    ]


@each_row(
    ("text", "found"),
    [
        ("${A}", [("A", None)]),
        ("${A:-}", [("A", "")]),
        ("${A:-x y}${B}", [("A", "x y"), ("B", None)]),
        ("${A}${A}", [("A", None), ("A", None)]),
        ("$${A}", []),
        ("${a} ${Ab} $A {A} ${1A} ${}", []),
        ("${A_1}", [("A_1", None)]),
    ],
)
def test_find_variables_finds_upper_case_names_in_braces(text: str, found: list[tuple[str, str | None]]) -> None:
    assert [(one.name, one.default) for one in find_variables(text)] == found
    assert all(one.path == () for one in find_variables(text))


def test_findings_are_sorted_by_file_line_and_column() -> None:
    places = ["b.yaml:2:1", "a.yaml:10:1", "a.yaml:9:12", "a.yaml:9:2", None, "a.yaml"]
    found = in_file_order([ConfigError("x", where=place) for place in places])
    assert [one.where for one in found] == ["a.yaml:9:2", "a.yaml:9:12", "a.yaml:10:1", "b.yaml:2:1", None, "a.yaml"]
