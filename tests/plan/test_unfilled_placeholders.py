"""Prompt placeholders that no item fills are errors before a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.datasets import Dataset, open_benchmark
from bench.errors import ConfigError
from bench.plan import make_plan
from bench.plan.benchmark import data_problems
from bench.settings import Environment

ROWS: list[dict[str, object]] = [
    {"id": "1", "q": "?", "a": "1", "c": "x", "t": "red", "kind": "one"},
    {"id": "2", "q": "?", "a": "2", "c": "y", "n": "Ann", "kind": "two"},
]
CONFIG = """\
name: b
version: "1"
data: {type: local, path: ./b.jsonl}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: c, type: string}
  metadata: {team: t, questionType: kind, questionDate: d, speaker_a: n}
"""
HOW = 'set the path of "%s" in "schema", or write ${%s|default:\'\'}'

Write = Callable[..., Dataset]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "configs" / "benchmarks"
    folder.mkdir(parents=True)

    def make(evaluation: str, rows: list[dict[str, object]] = ROWS, more: str = "") -> Dataset:
        (folder / "b.yaml").write_text(f"{CONFIG}evaluation: {evaluation}\n{more}", encoding="utf-8")
        (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return open_benchmark(Catalog.load(tmp_path).benchmark("b"), tmp_path)

    return make


def found(dataset: Dataset, folder: Path) -> list[tuple[str, str]]:
    problems = data_problems(dataset, folder)
    return [(str(one).removeprefix("configs/benchmarks/"), one.hint) for one in problems]


def asking(prompt: str, fields: str = "[team, nobody, speaker_a]") -> str:
    return f"{{method: exact-match, answerPrompt: {{promptFields: {fields}, default: '{prompt}'}}}}"


@pytest.mark.parametrize(
    "prompt",
    [
        "${question} ${retrievedContext}",
        "${team}",
        "${speakerA}",
        "${speaker_a} ${team}",
        '${nobody|default:"-"} ${questionDate|default:"-"}',
    ],
)
def test_a_placeholder_that_some_item_fills_is_accepted(write: Write, tmp_path: Path, prompt: str) -> None:
    assert found(write(asking(prompt)), tmp_path) == []


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("${nobody}", "nobody"),
        ("${questionDate}", "questionDate"),
        ("${choices}", "choices"),
        ("${speakerB|upper}", "speakerB"),
    ],
)
def test_a_placeholder_that_no_item_fills_is_reported_at_the_prompt(
    write: Write, tmp_path: Path, prompt: str, name: str
) -> None:
    text = f'b.yaml:10:91: the answer prompt "default" needs ${{{name}}}, which no item of b has'
    assert found(write(asking(prompt)), tmp_path) == [(text, HOW % (name, name))]


def test_each_unfilled_placeholder_of_each_prompt_is_reported(write: Write, tmp_path: Path) -> None:
    prompts = "{promptFields: [x, y], default: '${y} ${x}', byQuestionType: {two: '${choices}'}}"
    assert [
        text.partition(": ")[2] for text, _ in found(write(f"{{method: none, answerPrompt: {prompts}}}"), tmp_path)
    ] == [
        'the answer prompt "default" needs ${x}, which no item of b has',
        'the answer prompt "default" needs ${y}, which no item of b has',
        'the answer prompt "two" needs ${choices}, which no item of b has',
    ]


def test_a_prompt_is_checked_only_against_items_of_its_question_type(write: Write, tmp_path: Path) -> None:
    """``team`` is in the item of type one, ``speaker_a`` in that of type two."""
    prompts = "{promptFields: [team], default: 'x', byQuestionType: {one: '${team}', two: '${team}', three: '${team}'}}"
    (problem,) = found(write(f"{{method: none, answerPrompt: {prompts}}}"), tmp_path)
    assert 'prompt "two" needs ${team}' in problem[0]


def test_a_null_does_not_fill_a_placeholder(write: Write, tmp_path: Path) -> None:
    rows = [{**row, "t": None} for row in ROWS]
    assert len(found(write(asking("${team}"), rows), tmp_path)) == 1


def test_the_date_of_an_item_fills_questionDate(write: Write, tmp_path: Path) -> None:
    dataset = write(asking("${questionDate}"), [{**row, "d": "2023-05-08"} for row in ROWS])
    assert found(dataset, tmp_path) == []


@pytest.mark.parametrize(
    ("method", "prompt", "names"),
    [
        ("llm-judge", "${rubric}", ["rubric"]),
        ("llm-judge", "${questionDate} ${questionType}", ["questionDate"]),
        ("llm-judge", "${question} ${answer} ${response} ${evidence}", []),
        ("exact-match", "${rubric}", []),
    ],
)
def test_a_judge_prompt_is_checked_only_if_a_judge_is_used(
    write: Write, tmp_path: Path, method: str, prompt: str, names: list[str]
) -> None:
    dataset = write(f"{{method: {method}, judgePrompts: {{default: '{prompt}'}}}}")
    output = [text for text, _ in found(dataset, tmp_path)]
    assert [text.partition("needs ${")[2].partition("}")[0] for text in output] == names
    assert all('the judge prompt "default"' in text for text in output)


def test_abstention_items_are_checked_against_the_abstention_prompt(write: Write, tmp_path: Path) -> None:
    dataset = write(
        "{method: llm-judge, judgePrompts: {default: '${questionDate}', abstention: 'x'}}",
        more="abstention: {idPattern: .}\n",
    )
    assert found(dataset, tmp_path) == []


def test_a_plan_reports_the_error_of_validate(write: Write, tmp_path: Path) -> None:
    (expected,) = found(write(asking("${nobody}")), tmp_path)
    with pytest.raises(ConfigError) as caught:
        make_plan(Catalog.load(tmp_path), RunRequest(benchmarks=("b",), providers=("bm25",)), Environment())
    assert (str(caught.value), caught.value.hint) == (f"configs/benchmarks/{expected[0]}", expected[1])


def test_an_unfilled_placeholder_of_a_prompt_flag_names_the_prompt(write: Write, tmp_path: Path) -> None:
    write("{method: exact-match}")
    request = RunRequest(benchmarks=("b",), providers=("bm25",), answer_prompt="${question} ${speakerB}")
    with pytest.raises(ConfigError) as caught:
        make_plan(Catalog.load(tmp_path), request, Environment())
    assert str(caught.value) == (
        "b: answer prompt 'default': the answer prompt \"default\" needs ${speakerB}, which no item of b has"
    )


def test_items_are_read_only_until_each_placeholder_is_filled(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROWS[0], "id": str(number), "t": "red" if number == 2 else None} for number in range(50)]
    dataset = write(asking("${team}"), rows)
    read: list[object] = []
    item = Dataset.item
    monkeypatch.setattr(Dataset, "item", lambda self, ref: (read.append(ref), item(self, ref))[1])
    assert found(dataset, tmp_path) == []
    assert len(read) == 3
