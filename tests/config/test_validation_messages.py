"""Messages of validation errors: the field, the problem, the nearest name, and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, Field, field_validator, model_validator

from bench.config.file import (
    ConfigModel,
    Source,
    accepted_keys,
    did_you_mean,
    key_text,
    load,
    model_at,
    nearest,
    quoted,
)
from bench.errors import ConfigError
from tests.rows import each_row


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Leaf(ConfigModel):
    size: int = Field(default=1, ge=1, le=9)
    long_name: str = ""


class Near(ConfigModel):
    kind: Literal["near"]
    steps: int = 1


class Far(ConfigModel):
    kind: Literal["far"]
    miles: float = 1.0


class Root(ConfigModel):
    text: str = "x"
    whole: int = 1
    share: float = 0.5
    flag: bool = True
    many: tuple[str, ...] = ()
    table: dict[str, int] = Field(default_factory=dict)
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = Field(default_factory=dict)
    way: Annotated[Near | Far, Field(discriminator="kind")] | None = None
    either: str | Leaf = ""
    colour: Colour = Colour.RED
    only: Literal["one"] = "one"
    pattern: str = Field(default="a", pattern="^a+$")
    address: AnyUrl | None = None
    from_: str = Field(default="", alias="from")

    @field_validator("text")
    @classmethod
    def _no_shouting(cls, value: str) -> str:
        if value.isupper():
            raise ValueError("shouts")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Root:
        if self.whole == 13:
            raise ValueError("thirteen brings no luck")
        return self


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load(Source.parse(text, Path("x.yaml")), Root)
    return [(str(one), one.hint) for one in caught.value.problems or (caught.value,)]


KNOWN = (
    "known fields: text, whole, share, flag, many, table, leaf, leaves, byName, way, either, colour, only, pattern, "
    "address, from"
)


@each_row(
    ("text", "message", "hint"),
    [
        ("text: 5", "x.yaml:1:1: text must be text, not 5", 'put it in quotes: "5"'),
        ("text: true", "x.yaml:1:1: text must be text, not true", 'put it in quotes: "true"'),
        ("text: null", "x.yaml:1:1: text must be text, not null", "write text"),
        ("text: [a]", "x.yaml:1:1: text must be text, not a list", "write text"),
        ("text: {a: b}", "x.yaml:1:1: text must be text, not a map of keys", "write text"),
        ("text: SHOUT", "x.yaml:1:1: text: shouts", "correct the value"),
        ("whole: many", 'x.yaml:1:1: whole must be a whole number, not "many"', "write a whole number"),
        ("whole: 1.5", "x.yaml:1:1: whole must be a whole number, not 1.5", "write a whole number"),
        ("whole: [1]", "x.yaml:1:1: whole must be a whole number, not a list", "write a whole number"),
        ("whole: true", "x.yaml:1:1: whole must be a whole number, not true", "write a whole number"),
        ("share: false", "x.yaml:1:1: share must be a number, not false", "write a number"),
        ("leaf: {size: true}", "x.yaml:1:8: leaf.size must be a whole number, not true", "write a whole number"),
        ("whole: 13", "x.yaml:1:1: thirteen brings no luck", "correct the value"),
        ("share: half", 'x.yaml:1:1: share must be a number, not "half"', "write a number"),
        ("flag: yes", None, None),
        ("flag: maybe", 'x.yaml:1:1: flag must be true or false, not "maybe"', "write true or false"),
        ("flag: 2", "x.yaml:1:1: flag must be true or false, not 2", "write true or false"),
        ("many: a", 'x.yaml:1:1: many must be a list, not "a"', "write a list"),
        ("many: [a, 5]", "x.yaml:1:11: many[1] must be text, not 5", 'put it in quotes: "5"'),
        ("table: [a]", "x.yaml:1:1: table must be a map of keys, not a list", "write a map of keys"),
        ("table: {a: x}", 'x.yaml:1:9: table.a must be a whole number, not "x"', "write a whole number"),
        ("leaf: 5", "x.yaml:1:1: leaf must be a map of keys, not 5", "write a map of keys"),
        ("leaf: {size: 0}", "x.yaml:1:8: leaf.size must be greater than or equal to 1, not 0", "correct the value"),
        ("leaf: {size: 10}", "x.yaml:1:8: leaf.size must be less than or equal to 9, not 10", "correct the value"),
        (
            "leaf: {longname: x}",
            'x.yaml:1:8: unknown field "longname" in leaf; did you mean "longName"?',
            "known fields: size, longName",
        ),
        (
            "leaf: {colour: x}",
            'x.yaml:1:8: unknown field "colour" in leaf',
            "known fields: size, longName",
        ),
        (
            "leaves: [{size: 1}, {siez: 1}]",
            'x.yaml:1:22: unknown field "siez" in leaves[1]; did you mean "size"?',
            "known fields: size, longName",
        ),
        (
            "by_name: {a: {siez: 1}}",
            'x.yaml:1:15: unknown field "siez" in by_name.a; did you mean "size"?',
            "known fields: size, longName",
        ),
        ("way: {steps: 2}", 'x.yaml:1:1: missing field "kind" in way', "add kind"),
        (
            "way: {kind: fra}",
            'x.yaml:1:7: way.kind must be "near" or "far", not "fra"; did you mean "far"?',
            'write "near" or "far"',
        ),
        (
            "way: {kind: far, steps: 2}",
            'x.yaml:1:18: unknown field "steps" in way',
            "known fields: kind, miles",
        ),
        (
            "way: {kind: near, stepps: 2}",
            'x.yaml:1:19: unknown field "stepps" in way; did you mean "steps"?',
            "known fields: kind, steps",
        ),
        (
            "either: {siez: 1}",
            'x.yaml:1:10: unknown field "siez" in either; did you mean "size"?',
            "known fields: size, longName",
        ),
        (
            "colour: bleu",
            'x.yaml:1:1: colour must be "red" or "blue", not "bleu"; did you mean "blue"?',
            'write "red" or "blue"',
        ),
        ("colour: 5", 'x.yaml:1:1: colour must be "red" or "blue", not 5', 'write "red" or "blue"'),
        ("only: noe", 'x.yaml:1:1: only must be "one", not "noe"', 'write "one"'),
        ("pattern: b", "x.yaml:1:1: pattern must match pattern '^a+$', not \"b\"", "correct the value"),
        ("address: nowhere", 'x.yaml:1:1: address must be a URL, not "nowhere"', "write a URL"),
        ("from_: x", 'x.yaml:1:1: unknown field "from_"; write "from"', "correct the value"),
        ("wholes: 1", 'x.yaml:1:1: unknown field "wholes"; did you mean "whole"?', KNOWN),
        ("zzz: 1", 'x.yaml:1:1: unknown field "zzz"', KNOWN),
    ],
)
def test_each_validation_error_names_field_and_value_and_correction(
    text: str, message: str | None, hint: str | None
) -> None:
    if message is None:
        assert load(Source.parse(text, Path("x.yaml")), Root)
    else:
        assert refused(text) == [(message, hint)]


def test_an_error_in_both_branches_of_a_union_is_reported_for_both() -> None:
    message = [one for one, _ in refused("either: 5")]
    assert message == ["x.yaml:1:1: either must be text, not 5", "x.yaml:1:1: either must be a map of keys, not 5"]


def test_a_ConfigError_contains_all_problems_and_the_first_place() -> None:
    with pytest.raises(ConfigError) as caught:
        load(Source.parse("whole: x\nshare: y\n", Path("x.yaml")), Root)
    error = caught.value
    assert str(error) == (
        'x.yaml:1:1: whole must be a whole number, not "x"\nerror: x.yaml:2:1: share must be a number, not "y"'
    )
    assert (error.where, error.hint, len(error.problems)) == ("x.yaml:1:1", "write a whole number", 2)


@each_row(
    ("path", "name"),
    [
        ((), "the file"),
        (("a",), "a"),
        (("a", "b"), "a.b"),
        (("a", 0, "b", 12), "a[0].b[12]"),
        ((3,), "[3]"),
    ],
)
def test_key_text_formats_a_path_with_dots_and_indexes(path: tuple[str | int, ...], name: str) -> None:
    assert key_text(path) == name


@each_row(
    ("value", "shown"),
    [
        ("a", '"a"'),
        (5, "5"),
        (1.5, "1.5"),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ([1], "a list"),
        ((1,), "a list"),
        ({"a": 1}, "a map of keys"),
        ("x" * 200, '"' + "x" * 96 + "..."),
    ],
)
def test_quoted_shows_a_value_as_its_file_would(value: object, shown: str) -> None:
    assert quoted(value) == shown


def test_nearest_ignores_case_and_sorts_by_similarity() -> None:
    known = ["recall_at_5", "Recall_at_10", "mrr"]
    assert nearest("RECALL_AT_10", known) == ["Recall_at_10"]
    assert nearest("recal_at_1", known, n=2) == ["Recall_at_10", "recall_at_5"]
    assert nearest("zzz", known) == []
    assert did_you_mean("zzz", known) == ""
    assert did_you_mean("mrx", known) == '; did you mean "mrr"?'
    assert nearest("", []) == []


@given(st.sampled_from(accepted_keys(Root)))
def test_nearest_of_a_known_name_is_the_name(name: str) -> None:
    assert nearest(name, accepted_keys(Root)) == [name]


def test_accepted_keys_lists_both_spellings_once() -> None:
    assert sorted(accepted_keys(Leaf)) == ["longName", "long_name", "size"]


@each_row(
    ("path", "model"),
    [
        ((), Root),
        (("leaf",), Leaf),
        (("leaves", 3), Leaf),
        (("byName", "anything"), Leaf),
        (("by_name", "anything"), Leaf),
        (("way", "far"), Far),
        (("way", "near"), Near),
        (("either", "Leaf"), Leaf),
        (("text",), None),
        (("table", "a"), None),
        (("nowhere",), None),
        (("text", "deeper"), None),
    ],
)
def test_model_at_returns_the_model_that_reads_a_path(
    path: tuple[str | int, ...], model: type[ConfigModel] | None
) -> None:
    assert model_at(Root, path) is model
