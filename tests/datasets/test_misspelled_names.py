"""Names in a config that do not occur in the data are noted with the nearest name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets.validation import validate_benchmark
from bench.errors import ConfigError
from tests.datasets.conftest import Workspace
from tests.rows import each_row

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


def notes(workspace: Workspace, extra: str, *rows: Mapping[str, object], text: str = FLAT) -> list[str]:
    """Return the notes of validate without the file name; there must be no errors."""
    path = workspace.yaml("t", text % extra)
    workspace.data("t.json", [{**row, "id": f"r{at}", "q": f"{at}?"} for at, row in enumerate(rows or (ROW,))])
    found = validate_benchmark(path, Catalog.load(workspace.root))
    assert found.errors == ()
    assert found.dataset is not None and tuple(found.notes) == found.dataset.notes
    return [note.removeprefix(f"{path}:") for note in found.notes]


@each_row(
    ("extra", "expected"),
    [
        ("  metadata: {questionType: knd}",
         '9:14: schema.metadata.questionType names "knd", but no item has this field; did you mean "kind"?'),
        ("  metadata: {questionDate: askd}",
         '9:14: schema.metadata.questionDate names "askd", but no item has this field; did you mean "asked"?'),
        ("  metadata: {question_type: nowhere}",
         '9:14: schema.metadata.question_type names "nowhere", but no item has this field; '
         'the data has "a", "asked", "gold", "id", "kind", "more" and 3 more'),
        ("  metadata: {m: $.more.mod}",
         '9:14: schema.metadata.m names "$.more.mod", but no item has this field; did you mean "mood"?'),
        ("evidence: {sessionIdsField: golld}",
         '9:12: evidence.sessionIdsField names "golld", but no item has this field; did you mean "gold"?'),
        ("evidence: {turn_ids_field: '$.gld[*].id'}",
         '9:12: evidence.turn_ids_field names "$.gld[*].id", but no item has this field; did you mean "gold"?'),
        ("abstention: {field: od}",
         '9:14: abstention.field names "od", but no item has this field; did you mean "odd"?'),
        ("abstention: {idPattern: _abs$}",
         '9:14: abstention.idPattern names "_abs$", but no item id matches this pattern; the data has "r0"'),
        ("evidence: {turnFlag: gold}", '9:12: evidence.turnFlag names "gold", but no turn has this field'),
    ],
)  # fmt: skip
def test_a_misspelled_field_name_is_noted_with_a_suggestion(tmp_path: Path, extra: str, expected: str) -> None:
    workspace = Workspace(tmp_path)
    assert notes(workspace, extra) == [expected]


@pytest.mark.parametrize(
    "extra",
    [
        "  metadata: {questionType: kind, questionDate: asked, m: $.more.mood, t: '$.gold[0]'}",
        "evidence: {sessionIdsField: '$.gold[*]'}\nabstention: {field: odd, idPattern: 1$}",
        "  metadata: {questionType: kind}\ngroups: {all: [fact]}\nquestionTypes: [{name: fact}]\n"
        "abstention: {questionTypes: [fact]}",
    ],
)
def test_a_field_that_one_item_has_is_not_noted_even_if_null_or_false(workspace: Workspace, extra: str) -> None:
    bare = {"q": "?", "a": "!", "talk": "x"}
    found = notes(workspace, extra, bare, ROW, bare)
    assert [note for note in found if "evidence that is neither a session" not in note] == []


TYPED = "  metadata: {questionType: kind}\n"


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("abstention: {questionTypes: [fakt, none, fact]}",
         ['10:30: abstention.questionTypes names "fakt", but no item has this question type; did you mean "fact"?',
          '10:36: abstention.questionTypes names "none", but no item has this question type; '
          'the data has "fact", "time"']),
        ("groups: {all: [fact, tyme]}",
         ['10:22: groups.all names "tyme", but no item has this question type; did you mean "time"?']),
        ("questionTypes: [{name: fact}, {name: time}, {name: tyme}]\ngroups: {all: [tyme, fact]}",
         ['10:45: questionTypes names "tyme", but no item has this question type; did you mean "time"?']),
        ("x", []),
    ],
)  # fmt: skip
def test_each_question_type_without_items_is_noted_once(workspace: Workspace, extra: str, expected: list[str]) -> None:
    found = notes(workspace, TYPED + extra.removeprefix("x"), ROW, ROW | {"kind": "time"})
    assert found == expected


def test_a_type_is_noted_without_suggestion_if_no_item_has_a_type(workspace: Workspace) -> None:
    assert notes(workspace, "abstention: {questionTypes: [fact]}") == [
        '9:30: abstention.questionTypes names "fact", but no item has this question type: no item has a question type'
    ]


PROMPTED = """name: t
version: "1"
data: {type: local, path: ./datasets/t.json}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: talk, type: string}
  metadata: {questionType: kind, the_town: more}
evaluation:
  method: llm-judge
%s
questionTypes: [{name: fact, evaluationPrompt: strict}]
metrics: [accuracy]
"""


def test_prompts_of_unknown_types_and_unmapped_promptFields_are_noted(workspace: Workspace) -> None:
    extra = (
        "  answerPrompt: {promptFields: [theTown, thetwon],"
        " byQuestionType: {fakt: '${question}', default: '${question}'}}\n"
        "  judgePrompts: {byQuestionType: {strict: '${question}', fact: '${question}', lax: '${question}'}}"
    )
    assert [note.split(" ", 1)[1] for note in notes(workspace, extra, text=PROMPTED)] == [
        'evaluation.answerPrompt.byQuestionType names "fakt", but no item has this question type; did you mean "fact"?',
        'evaluation.judgePrompts.byQuestionType names "lax", but no item has this question type; the data has "fact"',
        'evaluation.answerPrompt.promptFields names "thetwon", but schema.metadata does not map it; '
        'did you mean "the_town"?',
    ]


CHATS = """name: t
version: "1"
data: {type: local, path: ./datasets/t.json}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: talk, type: array, itemSchema: {role: role, content: text}}
evaluation: {method: exact-match}
metrics: [accuracy]
%s
"""
TALK = [[{"role": "user", "text": "x", "gold": None}, {"role": "assistant", "text": "y", "mood": 1}]]


@each_row(
    ("extra", "expected"),
    [
        ("evidence: {turnFlag: golld}",
         ['11:12: evidence.turnFlag names "golld", but no turn has this field; did you mean "gold"?']),
        ("evidence: {turnFlag: gold}", []),
        ("ingestion: {preprocessing: {removeFields: [mod, mood], removeRoles: [asistant, user]}}",
         ['ingestion.preprocessing.removeFields names "mod", but no turn has this field; did you mean "mood"?',
          'ingestion.preprocessing.removeRoles names "asistant", but no turn has this role; '
          'did you mean "assistant"?']),
        ("ingestion: {preprocessing: {removeRoles: [tool]}}",
         ['ingestion.preprocessing.removeRoles names "tool", but no turn has this role; '
          'the data has "assistant", "user"']),
        ("ingestion: {preprocessing: {formatTemplate: \"${metadata.town|default:''}${session|lines}\"}}",
         ['ingestion.preprocessing.formatTemplate names "town", but schema.metadata does not map it']),
    ],
)  # fmt: skip
def test_fields_and_roles_that_no_turn_has_are_noted(workspace: Workspace, extra: str, expected: list[str]) -> None:
    found = notes(workspace, extra, {"q": "?", "a": "!", "talk": TALK}, text=CHATS)
    assert len(found) == len(expected)
    assert all(note.endswith(ending) and note.startswith("11:") for note, ending in zip(found, expected, strict=True))


def test_removeRoles_is_noted_if_no_turn_has_a_role(workspace: Workspace) -> None:
    extra = "ingestion: {preprocessing: {removeRoles: [tool]}}"
    text = CHATS.replace("role: role, ", "")
    (note,) = notes(workspace, extra, {"q": "?", "a": "!", "talk": TALK}, text=text)
    assert note.endswith('names "tool", but no turn has this role: no turn has a role')


def test_an_explicit_datePattern_that_matches_no_key_is_noted(workspace: Workspace) -> None:
    text = CHATS.replace("type: array", "type: object%s").replace("\n%s\n", "\n")
    talk = {"session_1": TALK[0], "session_1_date": "2024-05-01"}
    row = {"q": "?", "a": "!", "talk": talk}
    assert notes(workspace, "", row, text=text) == [], "a default is not a misspelling"
    (note,) = notes(workspace, ", datePattern: session_*_dat", row, text=text)
    assert note.endswith(
        'schema.context.datePattern names "session_*_dat", but no key matches this pattern; did you mean '
        '"session_1_date"?'
    )
    assert notes(workspace, ", datePattern: session_*_date", row, text=text) == []


def test_misspelled_fields_of_nested_questions_are_noted(workspace: Workspace) -> None:
    path = workspace.yaml(
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
        f'{path}:7:60: schema.questions.evidenceField names "gld", but no item has this field; did you mean "gold"?',
        f'{path}:7:80: schema.questions.dateField names "wen", but no item has this field; did you mean "when"?',
    )
    workspace.data("n.json", [{"id": "r", "talk": "x", "qa": []}])
    with pytest.raises(ConfigError, match=r"no row of .* has a question"):
        workspace.open("n")


def test_a_category_without_questions_is_noted_once(workspace: Workspace) -> None:
    path = workspace.yaml(
        "n",
        'name: n\nversion: "1"\ndata: {type: local, path: ./datasets/n.json}\n'
        "schema:\n  itemId: id\n  context: {field: talk, type: string}\n"
        "  questions: {field: qa, questionField: q, answerField: a, categoryField: kind}\n"
        "categories: {1: fact, 2: time}\ngroups: {all: [fact, time]}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n",
    )
    workspace.data("n.json", [{"id": "r", "talk": "x", "qa": [{"q": "?", "a": "!", "kind": 1}]}])
    assert workspace.open("n").notes == (
        f'{path}:8:23: categories names "2", but no question has this category; the data has "1"',
    )


def test_a_misspelled_name_in_a_parent_config_is_noted_at_the_parent(workspace: Workspace) -> None:
    parent = workspace.yaml("t", FLAT % "evidence: {sessionIdsField: golld}")
    workspace.yaml("child", 'name: child\nversion: "2"\nextends: t\nsearch: {defaultLimit: 3}\n')
    workspace.data("t.json", [ROW])
    (note,) = workspace.open("child").notes
    assert note.startswith(f"{parent}:9:12: evidence.sessionIdsField names ")


def manifest_notes(workspace: Workspace, row: Mapping[str, object], **changes: object) -> list[str]:
    """Return the notes on a dataset of one row, without places."""
    path = workspace.manifest("m", [row], **changes)
    places = [note.removeprefix(f"{path}:").split(": ", 1) for note in workspace.open("m").notes]
    assert all(place.replace(":", "").isdecimal() and place != "1:1" for place, _ in places)
    return [text for _, text in places]


def test_notes_on_a_manifest_use_the_keys_of_the_manifest(workspace: Workspace) -> None:
    row = {"content": [[{"role": "user", "content": "x"}]], "question": "?", "answer": "!", "kind": "k", "gold": ["s"]}
    assert manifest_notes(
        workspace,
        row,
        ingestion={"strategy": "session-based", "sessions_field": "content", "answer_session_ids_field": "golld"},
        evaluation={"protocol": "llm-as-judge", "type_field": "knd"},
        abstention={"question_types": ["k"]},
    ) == [
        'ingestion.answer_session_ids_field names "golld", but no item has this field; did you mean "gold"?',
        'evaluation.type_field names "knd", but no item has this field; did you mean "kind"?',
        'abstention.question_types names "k", but no item has this question type: no item has a question type',
    ]


def test_metadata_fields_and_promote_fields_without_data_are_noted(workspace: Workspace) -> None:
    row = {"content": "x", "answer": "!", "town": None, "qa": [{"question": "?", "day": "d"}]}
    assert manifest_notes(
        workspace,
        row,
        ingestion={"strategy": "simple", "content_field": "content", "metadata_fields": ["town", "twon"]},
        flatten={"field": "qa", "promote_fields": ["question", "days"]},
    ) == [
        'ingestion.metadata_fields names "twon", but no row has this field; did you mean "town"?',
        'flatten.promote_fields names "days", but no child has this field; did you mean "day"?',
    ]


def test_type_instructions_of_unknown_question_types_are_noted(workspace: Workspace) -> None:
    row = {"talk": {"sess_1": [{"role": "user", "content": "x"}]}, "question": "?", "answer": "!", "kind": "fact"}
    folder = workspace.root / "configs" / "benchmarks" / "m"
    folder.mkdir(parents=True)
    (folder / "types.json").write_text('{"fakt": "Be kind.", "_default": "Be fair."}', encoding="utf-8")
    ingestion = {"strategy": "session-based", "sessions_field": "talk", "sessions_format": "dynamic_keys"}
    assert manifest_notes(
        workspace,
        row,
        ingestion=ingestion | {"session_key_prefix": "sess_"},
        evaluation={"protocol": "llm-as-judge", "type_field": "kind", "type_instructions_file": "types.json"},
    ) == [
        'evaluation.type_instructions_file names "fakt", but no item has this question type; did you mean "fact"?',
    ]


JOINED = """name: j
version: "1"
data:
  type: local
  path: ./datasets/j.json
  with: {chats: {file: chats.jsonl, key: person, by: person}}
schema:
  itemId: id
  question: q
  answer: a
  context: {field: "$.chats.turns[*]", itemSchema: {content: says}}
corpus: {field: person}
abstention: {where: {a: null}}
evaluation: {method: exact-match}
metrics: [accuracy]
"""


def joined_error(workspace: Workspace, old: str, new: str, rows: int = 3, by: str = "person") -> tuple[list[str], str]:
    """Return the lines of the error of validate, without the folder, and its hint."""
    assert JOINED.count(old) == 1
    path = workspace.yaml("j", JOINED.replace(old, new).replace("by: person}", f"by: {by}}}"))
    workspace.data("j.json", [{"id": f"r{at}", "q": f"{at}?", "a": "!", "person": "ann"} for at in range(rows)])
    chats = {"person": "ann", "turns": [{"says": "x"}]}
    (workspace.root / "datasets/chats.jsonl").write_text(json.dumps(chats) + "\n", encoding="utf-8")
    (error,) = validate_benchmark(path, Catalog.load(workspace.root)).errors
    return str(error).replace(f"{workspace.root}/", "").splitlines(), error.hint


@each_row(
    ("old", "new", "lines", "hint"),
    [
        ("content: says", "content: say",
         ['datasets/chats.jsonl:1: turns[0].say is missing; did you mean "says"?, joined by data.with.chats'],
         "if this field can be empty"),
        ("by: person", "by: persson",
         ['datasets/j.json: [0]: row has a question about the corpus "ann", but no row contains a memory of this '
          "corpus (row r0)",
          'note: configs/benchmarks/j.yaml:6:50: data.with.chats.by names "persson", but no row has this field; '
          'did you mean "person"?'],
         "correct the name that no row has"),
        ("key: person", "key: persson",
         ['datasets/chats.jsonl:1: persson is missing; did you mean "person"?'], "correct data.with.chats.key"),
    ],
)  # fmt: skip
def test_a_misspelled_name_of_a_joined_history_is_the_only_cause_named(
    tmp_path: Path, old: str, new: str, lines: list[str], hint: str
) -> None:
    found, shown = joined_error(Workspace(tmp_path), old, new)
    assert found == lines and hint in shown


def test_a_missing_field_of_a_join_without_rows_is_at_the_row_that_joins(workspace: Workspace) -> None:
    lines, _ = joined_error(workspace, '"$.chats.turns[*]"', '"$.chats.turns"', 1, by="persson")
    assert lines[0] == "datasets/j.json: [0].chats.turns: chats.turns is missing (row r0)"
    assert lines[1:] == [
        'note: configs/benchmarks/j.yaml:6:50: data.with.chats.by names "persson", but no row has this field; '
        'did you mean "person"?'
    ]


@pytest.mark.parametrize(("rows", "unchecked"), [(20, []), (30, ["[20]"])])
def test_rows_after_the_first_twenty_errors_are_reported_as_unchecked(
    workspace: Workspace, rows: int, unchecked: list[str]
) -> None:
    lines, _ = joined_error(workspace, "question: q", "question: que", rows)
    assert lines[0].startswith("datasets/j.json: [0].que: que is missing")
    assert len(lines) == 20 + len(unchecked)
    assert lines[20:] == [
        f"note: datasets/j.json: {at} and later rows were not checked, after 20 errors in rows" for at in unchecked
    ]
