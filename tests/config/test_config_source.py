"""Config files: all findings at once, each with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.file import ConfigModel, Source, load
from bench.config.jsontext import parse_json
from bench.errors import ConfigError
from tests.cpu_time import at_most


class Query(ConfigModel):
    question_field: str
    retrieval_limit: int = 10
    kind: Literal["near", "far"] = "near"


class Metric(ConfigModel):
    name: str


class File(ConfigModel):
    query: Query
    names: tuple[str, ...] = ()
    metrics: tuple[str | Metric, ...] = ()


def problems(text: str, name: str = "x.yaml") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(Source.parse(text, Path(name)), File)
    found = caught.value.problems or (caught.value,)
    return [str(problem) for problem in found]


def test_an_unknown_key_error_names_the_nearest_key_and_the_place() -> None:
    text = '{\n "query": {\n  "question_field": "q",\n  "retreival_limit": 3\n }\n}'
    assert problems(text, "manifest.json") == [
        'manifest.json:4:3: unknown field "retreival_limit" in query; did you mean "retrieval_limit"?'
    ]


def test_all_errors_of_a_file_are_reported_in_file_order() -> None:
    text = "query:\n  questionField: 5\n  retreivalLimit: 5\n  kind: nera\nfoo: 1\nnames: x\n"
    assert problems(text) == [
        "x.yaml:2:3: query.questionField must be text, not 5",
        'x.yaml:3:3: unknown field "retreivalLimit" in query; did you mean "retrievalLimit"?',
        'x.yaml:4:3: query.kind must be "near" or "far", not "nera"; did you mean "near"?',
        'x.yaml:5:1: unknown field "foo"',
        'x.yaml:6:1: names must be a list, not "x"',
    ]


def test_a_missing_key_is_reported_at_its_parent() -> None:
    assert problems("query:\n  kind: near\n") == ['x.yaml:1:1: missing field "questionField" in query']


def test_both_spellings_of_one_key_are_an_error_at_the_second() -> None:
    text = "query: {questionField: a, question_field: b}\n"
    assert problems(text) == ['x.yaml:1:27: query: "questionField" and "question_field" are the same field']


@pytest.mark.parametrize("key", ["questionField", "question_field"])
def test_either_spelling_of_a_key_is_read(key: str) -> None:
    assert load(Source.parse(f"query: {{{key}: q}}", Path("x.yaml")), File).query.question_field == "q"


def test_a_union_reports_the_errors_of_its_closest_branch() -> None:
    assert problems("query: {questionField: q}\nmetrics: [{name: a, nam: b}]\n") == [
        'x.yaml:2:21: unknown field "nam" in metrics[0]; did you mean "name"?'
    ]


def test_w5_an_alias_bomb_is_refused_within_a_second() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]

    def refused() -> None:
        with pytest.raises(ConfigError, match="10000 nodes"):
            Source.parse("\n".join(lines), Path("x.yaml"))

    at_most(1, refused)


@pytest.mark.parametrize(("text", "name"), [("[" * 600, "x.yaml"), ('{"a":' * 5000, "x.json")])
def test_deep_nesting_is_a_ConfigError(text: str, name: str) -> None:
    with pytest.raises(ConfigError):
        Source.parse(text, Path(name))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_parse_json_agrees_with_the_standard_library(value: object) -> None:
    import json

    assert parse_json(json.dumps(value), "x")[0] == value
    assert parse_json(json.dumps(value, indent=2, ensure_ascii=False), "x")[0] == value
