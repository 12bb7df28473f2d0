"""Empty CSV cells: an optional value is absent, a required one is an error."""

from __future__ import annotations

import json

import pytest

from bench.config.template import iso_utc
from bench.datasets import Dataset
from bench.errors import BenchError
from tests.datasets.conftest import Workspace

FIELDS = "id,room,q,a,c,kind,asked,where,gold,until,skip,choices,right\n"
FULL = "1,r,Q?,A,C,fact,2024-05-01,here,1,,no,x,x\n"

YAML = """
name: cells
version: "1"
data: {type: local, path: ./datasets/cells.csv}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: c, type: string}
  metadata: {questionType: kind, questionDate: asked, place: where}
evaluation: {method: exact-match}
metrics: [accuracy]
"""


def opened(workspace: Workspace, *records: str, extra: str = "", yaml: str = YAML) -> Dataset:
    workspace.yaml("cells", yaml + extra)
    workspace.data("cells.csv", FIELDS + "".join(records))
    return workspace.open("cells")


def cells(**changes: str) -> str:
    """Return the full record with some cells changed."""
    names = FIELDS.strip().split(",")
    values = dict(zip(names, FULL.strip().split(","), strict=True)) | changes
    return ",".join(values[name] for name in names) + "\n"


def test_a_complete_CSV_record_fills_all_fields_of_the_item(workspace: Workspace) -> None:
    item = opened(workspace, cells()).item("1")
    assert item.question_date is not None and iso_utc(item.question_date) == "2024-05-01T00:00:00Z"
    assert (item.question_type, item.answers, item.metadata) == ("fact", ("A",), {"place": "here"})


def test_an_empty_date_cell_means_no_question_date(workspace: Workspace) -> None:
    dataset = opened(workspace, cells(asked=""), cells(id="2"))
    assert dataset.item("1").question_date is None
    assert dataset.item("2").question_date is not None


def test_a_nonempty_invalid_date_cell_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(BenchError, match=r'cells\.csv:2: asked is not a date that can be read: "soon" \(row 1\)'):
        opened(workspace, cells(asked="soon"))
    with pytest.raises(BenchError, match=r'asked is not a date that can be read: " "'):
        opened(workspace, cells(asked=" "))


def test_an_empty_type_cell_means_no_question_type(workspace: Workspace) -> None:
    dataset = opened(workspace, cells(kind=""), cells(id="2"))
    assert dataset.item("1").question_type is None
    assert dict(dataset.counts.question_types) == {"fact": 1}
    assert [ref.question_type for ref in dataset.items()] == [None, "fact"]
    assert list(dataset.known_types()) == ["fact"]


def test_an_empty_type_cell_is_allowed_with_a_list_of_questionTypes(workspace: Workspace) -> None:
    assert len(opened(workspace, cells(kind=""), extra="questionTypes: [{name: fact}]\n")) == 1
    with pytest.raises(BenchError, match='did you mean "fact"'):
        opened(workspace, cells(kind="facts"), extra="questionTypes: [{name: fact}]\n")


def test_an_empty_metadata_cell_is_omitted(workspace: Workspace) -> None:
    assert opened(workspace, cells(where="")).item("1").metadata == {}


def test_an_empty_answer_cell_is_an_error_unless_the_item_abstains(workspace: Workspace) -> None:
    with pytest.raises(BenchError) as caught:
        opened(workspace, cells(a=""))
    assert str(caught.value).endswith('cells.csv:2: a is missing, and "1" is not an abstention item (row 1)')
    dataset = opened(workspace, cells(a="", skip="yes"), cells(id="2"), extra="abstention: {field: skip}\n")
    assert [(item.abstention, item.answers) for item in map(dataset.item, ("1", "2"))] == [(True, ()), (False, ("A",))]


def test_an_empty_abstention_cell_means_the_item_does_not_abstain(workspace: Workspace) -> None:
    dataset = opened(workspace, cells(skip=""), extra="abstention: {field: skip}\n")
    assert not dataset.item("1").abstention


def test_an_empty_evidence_cell_gives_the_flag_evidence_missing(workspace: Workspace) -> None:
    dataset = opened(workspace, cells(gold=""), cells(id="2", gold="2"), extra="evidence: {sessionIdsField: gold}\n")
    assert dataset.item("1").flags == ("evidence_missing",)
    assert dataset.item("2").evidence.sessions == ("2",)
    assert dict(dataset.counts.flags) == {"evidence_missing": 1}


def test_an_empty_question_cell_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(BenchError, match=r"cells\.csv:2: q is missing \(row 1\)"):
        opened(workspace, cells(q=""))


def test_a_row_without_question_adds_a_document_to_a_shared_corpus(workspace: Workspace) -> None:
    records = (cells(c="one"), cells(id="2", q="", a="", c="two"), cells(id="3", room="s", c="three"))
    dataset = opened(workspace, *records, extra="corpus: {field: room}\n")
    assert [ref.id for ref in dataset.items()] == ["1", "3"]
    assert [memory.memory.content for memory in dataset.memories("r")] == ["one", "two"]
    assert (dataset.counts.items, dataset.counts.corpora, dataset.counts.memories) == (2, 2, 3)


@pytest.mark.parametrize("name", ["id", "room"])
def test_an_empty_id_cell_is_an_error(workspace: Workspace, name: str) -> None:
    with pytest.raises(BenchError, match=rf'cells\.csv:2: {name} must be an id, not: ""'):
        opened(workspace, cells(**{name: ""}), extra="corpus: {field: room}\n")


def test_an_empty_visibility_cell_shows_the_whole_corpus(workspace: Workspace) -> None:
    dataset = opened(workspace, cells(until=""), cells(id="2", until="0"), extra="visibility: {field: until}\n")
    assert list(dataset.corpora()) == ["1", "2@0"]
    assert dataset.item("1").visible_until is None
    assert [len(dataset.memories(corpus)) for corpus in dataset.corpora()] == [1, 0]


def test_an_empty_choices_cell_is_an_error(workspace: Workspace) -> None:
    yaml = YAML.replace("answer: a", "choices: choices\n  choiceAnswer: right").replace("exact-match", "mcq")
    assert opened(workspace, cells(), yaml=yaml).item("1").choices == ("x",)
    with pytest.raises(BenchError, match=r"cells\.csv:2: choices is missing"):
        opened(workspace, cells(choices=""), yaml=yaml)


def test_content_sha256_treats_an_empty_cell_as_an_empty_text(workspace: Workspace) -> None:
    """The same table as JSONL with empty texts has the same digest."""
    names = FIELDS.strip().split(",")
    rows = [dict(zip(names, cells(asked="", kind="").strip().split(","), strict=True))]
    table = opened(workspace, cells(asked="", kind=""))
    workspace.yaml("lines", YAML.replace("cells", "lines").replace("csv", "jsonl").replace(", questionDate: asked", ""))
    workspace.data("lines.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert workspace.open("lines").content_sha256 == table.content_sha256


def test_an_empty_date_text_in_JSONL_is_an_error(workspace: Workspace) -> None:
    workspace.yaml("lines", YAML.replace("cells", "lines").replace("csv", "jsonl"))
    workspace.data("lines.jsonl", '{"id": "1", "q": "Q?", "a": "A", "c": "C", "asked": ""}')
    with pytest.raises(BenchError, match=r'lines\.jsonl:1: asked is not a date that can be read: ""'):
        workspace.open("lines")
