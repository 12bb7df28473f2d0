"""``bench new benchmark --from DATA``: fields with common names, reported guesses, and refused data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.catalog import Catalog
from bench.config.jsonpath import compile_path
from bench.datasets.draft.config_draft import BenchmarkDraft, draft_benchmark
from bench.datasets.draft.data_layout import find_layout
from bench.datasets.validation import validate_benchmark
from bench.errors import BenchError, DataError, UsageError
from tests.datasets.conftest import Workspace
from tests.rows import each_row


def started(workspace: Workspace, row: Mapping[str, object], *, file: str = "mine.json") -> BenchmarkDraft:
    path = workspace.data(file, [row])
    return draft_benchmark("mine", path, workspace.root)


def written(workspace: Workspace, row: Mapping[str, object]) -> BenchmarkConfig:
    made = started(workspace, row)
    made.path.parent.mkdir(parents=True, exist_ok=True)
    made.path.write_text(made.text, encoding="utf-8")
    return Catalog.load(workspace.root).benchmark("mine")


ODD = {"id": "ü1", "days": ["2024-02-29"], "question": "Wo?", "answer": "Köln", "talk": [
    [{"who": "user", "at": "x", "said": "Ich wohne in Köln."}]]}  # fmt: skip


def test_turns_with_unusual_field_names_are_mapped_and_the_guess_is_reported(workspace: Workspace) -> None:
    schema = written(workspace, ODD).fields.context.item_schema
    assert schema is not None and (schema.content, schema.role, schema.speaker) == ("said", "who", None)
    file = workspace.root / "configs/benchmarks/mine.yaml"
    assert validate_benchmark(file, Catalog.load(workspace.root)).ok
    file.unlink()
    message = 'no field looks like the words of a turn: the longest text "said" is used'
    assert message in started(workspace, ODD).guesses
    named = written(workspace, {**ODD, "talk": {"session_1": [{"said": "I am here.", "name": "Ann"}]}})
    assert named.fields.context.item_schema == schema.model_copy(update={"role": None, "speaker": "name"})
    file.unlink()
    assert written(workspace, {**ODD, "talk": CHAT}).fields.context.item_schema is None


def test_an_unmapped_turn_field_error_names_the_key_to_map(workspace: Workspace) -> None:
    text = started(workspace, ODD).text.replace("itemSchema:", "").replace("      content: said\n", "").replace(
        "      role: who\n", "")  # fmt: skip
    path = workspace.yaml("mine", text)
    (error,) = validate_benchmark(path, Catalog.load(workspace.root)).errors
    assert error.message == "talk[0][0].content is missing (row ü1)"
    assert error.hint.startswith("map the content of a turn, and its role or speaker,")


CHAT = [[{"role": "user", "content": "x"}]]


@each_row(
    ("row", "field", "kind"),
    [
        ({"id": 1, "content": "C", "question": "Q", "answer": "A"}, "content", "string"),
        ({"id": 1, "text": "C", "sessions": CHAT, "question": "Q"}, "sessions", "array"),
        ({"id": 1, "conversation": {"session_1": []}, "question": "Q"}, "conversation", "object"),
        ({"id": 1, "story": "a story", "question": "Q", "answer": "A"}, "story", "string"),
        ({"id": 1, "question": "Q", "answer": "a rather long answer", "tale": "short"}, "tale", "string"),
        ({"id": 1, "note": "short", "chapter": "rather longer", "question": "Q"}, "chapter", "string"),
        ({"id": 1, "title": "rather a long title", "logs": CHAT, "question": "Q"}, "logs", "array"),
        ({"id": 1, "title": "rather a long title", "log": {"a": 1}, "question": "Q"}, "log", "object"),
        ({"id": 1, "type": "a type of some length", "tale": "x", "question": "Q"}, "tale", "string"),
        ({"id": 1, "dates": ["2024-01-01"], "talk": CHAT, "question": "Q"}, "talk", "array"),
        ({"number": 5, "tale": "x", "question": "Q"}, "tale", "string"),
        ({"tale": "the only text there is", "question": "Q", "answer": "A"}, "tale", "string"),
        ({"key": "a key that is longer than it", "tale": "x", "question": "Q"}, "tale", "string"),
        ({"id": 1, "question": "Q", "answer": "A"}, "history", "string"),
        ({"id": 1, "question": "Q", "answer": "A", "score": 5}, "history", "string"),
    ],
)
def test_the_history_is_the_field_that_no_other_role_uses(
    tmp_path: Path, row: Mapping[str, object], field: str, kind: str
) -> None:
    workspace = Workspace(tmp_path)
    context = written(workspace, row).fields.context
    assert (context.field, context.type) == (field, kind)


@each_row(
    ("row", "expected"),
    [
        ({"id": 1, "content": "C", "question": "Q"}, ()),
        (
            {"id": 1, "tale": "x", "question": "Q"},
            ('no field looks like context.field (the history): the name "tale" is used',),
        ),
        (
            {"id": 1, "question": "Q", "answer": "A"},
            ('no field looks like context.field (the history): the name "history" is used',),
        ),
        (
            {"key": 1, "text": "x", "riddle": "Q"},
            (
                'no field looks like itemId: the first field "key" is used',
                'no field looks like question: the name "question" is used',
            ),
        ),
        ({"id": 1, "text": "x", "qa": [{"question": "Q"}]}, ()),
        (
            {"id": 1, "text": "x", "qa": [{"riddle": "Q"}]},
            ('no field looks like question: the name "question" is used',),
        ),
        (
            {"id": 1, "text": "x", "qa": []},
            ('no field looks like question: the name "question" is used',),
        ),
    ],
)
def test_guessed_fields_are_reported(
    workspace: Workspace, row: Mapping[str, object], expected: tuple[str, ...]
) -> None:
    assert started(workspace, row).guesses == expected


def test_validate_finds_a_guess_that_matches_no_field(workspace: Workspace) -> None:
    config = written(workspace, {"id": 1, "question": "Q", "answer": "A"})
    assert config.origin is not None
    (error,) = validate_benchmark(config.origin.path, Catalog.load(workspace.root)).errors
    assert str(error).endswith("mine.json: [0].history: history is missing (row 1)")


@pytest.mark.parametrize(
    ("answer", "method", "model", "metrics"),
    [
        ({"answer": "A"}, "contains", "builtin/extractive", ["accuracy"]),
        ({"target": 5}, "contains", "builtin/extractive", ["accuracy"]),
        ({}, "none", None, ["hit_at_10"]),
        ({"answer": None}, "none", None, ["hit_at_10"]),
    ],
)
def test_without_answers_the_draft_scores_only_retrieval(
    workspace: Workspace, answer: Mapping[str, object], method: str, model: str | None, metrics: list[str]
) -> None:
    config = written(workspace, {"id": "1", "content": "C", "question": "Q", **answer})
    assert config.evaluation.method == method
    assert config.evaluation.answering_model.model == model
    assert list(config.metrics) == metrics


def test_nested_questions_are_mapped_by_their_own_fields(workspace: Workspace) -> None:
    child = {"query": "Q", "expected": "A", "evidence": ["D1:1"], "category": 1}
    talk = {"session_1": [{"speaker": "A", "text": "x", "dia_id": "D1:1"}]}
    config = written(workspace, {"sample_id": "s", "conversation": talk, "qa_pairs": [child]})
    questions = config.fields.questions
    assert questions is not None
    assert (questions.field, questions.question_field, questions.answer_field) == ("qa_pairs", "query", "expected")
    assert (questions.evidence_field, questions.category_field) == ("evidence", "category")


def test_parallel_lists_are_mapped_to_dates_and_session_ids(workspace: Workspace) -> None:
    row = {"id": "1", "sessions": CHAT, "dates": ["2024-01-01"], "session_ids": ["s"], "question": "Q", "answer": "A"}
    context = written(workspace, row).fields.context
    assert (context.date_field, context.session_id_field) == ("dates", "session_ids")


@each_row("name", ["the story: all of it", "#1", "'quoted'", 'a "b"', "日本", "yes", "- x", "{a}", "$x", "@x"])
def test_any_field_name_is_written_as_valid_YAML(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path)
    row = {name: "x", "question": "Q", "answer": "A"}
    config = written(workspace, row)
    for path in (config.fields.item_id, config.fields.context.field):
        assert compile_path(path, bare=True).get(row) == "x"


def test_a_data_file_outside_the_workspace_is_named_by_its_absolute_path(
    workspace: Workspace, tmp_path_factory
) -> None:
    row = {"id": 1, "content": "C", "question": "Q", "answer": "A"}
    inside = started(workspace, row)
    assert '\n  path: "./datasets/mine.json"' in inside.text
    outside = tmp_path_factory.mktemp("elsewhere") / "mine.json"
    outside.write_text(json.dumps([row]), encoding="utf-8")
    assert f'\n  path: "{outside}"' in draft_benchmark("mine", outside, workspace.root).text


@each_row(
    ("file", "data", "kind", "text"),
    [
        ("x.txt", "", UsageError, 'cannot tell the format of "{path}"'),
        ("x", "", UsageError, 'cannot tell the format of "{path}"'),
        ("x.json", "[]", DataError, "{path}: there are no rows"),
        ("x.csv", "id,q\n", DataError, "{path}: there are no rows"),
        ("x.jsonl", "{}", DataError, "{path}:1: row is empty, but needs at least one field"),
        ("x.json", "[{]", DataError, "{path}: [0]: row is malformed: invalid object key (must be a string)"),
        ("x.jsonl", "5", DataError, "{path}:1: row is not an object: 5"),
        ("x.csv", "id;q\n1;2", DataError, '{path}:1: the header has one field only, "id;q"'),
    ],
)
def test_a_file_without_usable_rows_is_refused_with_a_hint(
    tmp_path: Path, file: str, data: str, kind: type[BenchError], text: str
) -> None:
    path = tmp_path / file
    path.write_text(data, encoding="utf-8")
    with pytest.raises(kind) as caught:
        find_layout(path)
    assert str(caught.value).replace(str(path), "{path}") == text
    assert caught.value.hint


def test_a_missing_file_is_reported_by_find_layout(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.jsonl: cannot read the file: No such file"):
        find_layout(tmp_path / "gone.jsonl")


@each_row("file", ["x.json", "x.jsonl", "x.ndjson", "X.CSV"])
def test_find_layout_reads_the_first_row_of_every_format(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    data = {"x.json": '[{"a": "1"}, {"a": "2"}]', "X.CSV": "a\n1\n2\n"}.get(file, '{"a": "1"}\n{"a": "2"}')
    path.write_text(data, encoding="utf-8")
    assert find_layout(path).rows[0] == {"a": "1"}
