"""A path of a config that no item has is told with the nearest key; a part that some item has is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.config.catalog import Catalog
from bench.datasets.validating import validate_benchmark
from tests.datasets.conftest import Workspace

FLAT = """name: t
version: "1"
data: {type: local, path: ./datasets/t.json}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: talk, type: string}
%s
evaluation: {method: exact-match}
metrics: [accuracy]
"""
ROW = {"id": "r", "q": "?", "a": "!", "talk": "x", "kind": "fact", "asked": "2024-05-01", "gold": ["r"], "odd": False,
       "more": {"mood": None}}  # fmt: skip


def notes(workspace: Workspace, extra: str, *rows: Mapping[str, object]) -> list[str]:
    """What validate tells of the rows; it never refuses them."""
    path = workspace.yaml("t", FLAT % extra)
    workspace.data("t.json", [{**row, "id": f"r{at}"} for at, row in enumerate(rows or (ROW,))])
    found = validate_benchmark(path, Catalog.load(workspace.root))
    assert found.errors == ()
    assert found.dataset is not None and tuple(found.notes) == found.dataset.notes
    return list(found.notes)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("  metadata: {questionType: knd}", 'schema.metadata.questionType names ("knd"); did you mean "kind"?'),
        ("  metadata: {questionDate: askd}", 'schema.metadata.questionDate names ("askd"); did you mean "asked"?'),
        ("  metadata: {question_type: nowhere}", 'schema.metadata.question_type names ("nowhere")'),
        ("  metadata: {m: $.more.mod}", 'schema.metadata.m names ("$.more.mod"); did you mean "mood"?'),
        ("evidence: {sessionIdsField: golld}", 'evidence.sessionIdsField names ("golld"); did you mean "gold"?'),
        ("evidence: {turn_ids_field: '$.gld[*].id'}",
         'evidence.turn_ids_field names ("$.gld[*].id"); did you mean "gold"?'),
        ("abstention: {field: od}", 'abstention.field names ("od"); did you mean "odd"?'),
    ],
)  # fmt: skip
def test_a_misspelt_path_is_told_under_its_own_key(workspace: Workspace, extra: str, told: str) -> None:
    assert notes(workspace, extra) == [f"no item has what {told}"]


@pytest.mark.parametrize(
    "extra",
    [
        "  metadata: {questionType: kind, questionDate: asked, m: $.more.mood, t: '$.gold[0]'}",
        "evidence: {sessionIdsField: '$.gold[*]'}\nabstention: {field: odd}",
    ],
)
def test_a_part_that_one_item_has_even_if_null_or_false_is_not_told(workspace: Workspace, extra: str) -> None:
    bare = {"q": "?", "a": "!", "talk": "x"}
    assert notes(workspace, extra, bare, ROW, bare) == []


def test_each_type_that_abstains_and_that_no_item_has_is_told(workspace: Workspace) -> None:
    extra = "  metadata: {questionType: kind}\nabstention: {questionTypes: [fakt, none, fact]}"
    assert notes(workspace, extra) == [
        'abstention.questionTypes names "fakt", and no item is of that type; did you mean "fact"?',
        'abstention.questionTypes names "none", and no item is of that type',
    ]
    assert notes(workspace, "abstention: {questionTypes: [fact]}") == [
        'abstention.questionTypes names "fact", and no item is of that type: no item has a question type'
    ]


def test_nested_questions_are_read_themselves_and_dates_and_metadata_beside_them_too(workspace: Workspace) -> None:
    workspace.yaml(
        "n",
        'name: n\nversion: "1"\ndata: {type: local, path: ./datasets/n.json}\n'
        "schema:\n  itemId: id\n  context: {field: talk, type: string}\n"
        "  questions: {field: qa, questionField: q, answerField: a, evidenceField: gld, dateField: wen}\n"
        "  metadata: {place: town}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n",
    )
    qa = {"q": "?", "a": "!", "gold": ["r"], "when": "2024-05-01"}
    workspace.data("n.json", [{"id": "r", "talk": "x", "gld": [], "town": "Rome", "qa": [qa]}])
    assert workspace.open("n").notes == (
        'no item has what schema.questions.evidenceField names ("gld"); did you mean "gold"?',
        'no item has what schema.questions.dateField names ("wen"); did you mean "when"?',
    )
    workspace.data("n.json", [{"id": "r", "talk": "x", "qa": []}])
    assert workspace.open("n").notes == (), "nothing is asked, so nothing is missing"


def test_a_manifest_is_told_in_its_own_words(workspace: Workspace) -> None:
    workspace.manifest(
        "m",
        [{"content": [[{"role": "user", "content": "x"}]], "question": "?", "answer": "!", "kind": "k", "gold": ["s"]}],
        ingestion={"strategy": "session-based", "sessions_field": "content", "answer_session_ids_field": "golld"},
        evaluation={"protocol": "llm-as-judge", "type_field": "knd"},
        abstention={"question_types": ["k"]},
    )
    assert workspace.open("m").notes == (
        'no item has what evaluation.type_field names ("knd"); did you mean "kind"?',
        'no item has what ingestion.answer_session_ids_field names ("golld"); did you mean "gold"?',
        'abstention.question_types names "k", and no item is of that type: no item has a question type',
    )
