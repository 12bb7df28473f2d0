"""Items of a row: nested, flattened or flat; answers, types, choices, metadata, abstention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.config.template import iso_utc
from bench.datasets import Dataset
from bench.errors import BenchError
from bench.model import Item
from tests.datasets.conftest import Workspace, row
from tests.rows import each_row

NESTED = """
name: n
version: "1"
data: {{type: local, path: ./datasets/n.json}}
schema:
  itemId: id
  context: {{field: c, type: string}}
  questions: {{field: qa, questionField: q, answerField: a, categoryField: kind, {questions}}}
  metadata: {{questionDate: asked, mood: mood}}
{extra}
evaluation: {{method: {method}}}
metrics: [accuracy]
"""
QA = {"q": "Q?", "a": "A", "kind": 1}


def nested(
    workspace: Workspace,
    *children: object,
    extra: str = "",
    questions: str = "",
    method: str = "exact-match",
    **row: object,
) -> Dataset:
    workspace.yaml("n", NESTED.format(extra=extra, questions=questions, method=method))
    workspace.data("n.json", [{"id": "r", "c": "C", "qa": list(children)} | row])
    return workspace.open("n")


def items(dataset: Dataset) -> list[Item]:
    return [dataset.item(ref) for ref in dataset.items()]


def refusal(workspace: Workspace, *children: object, **more: object) -> tuple[str, str]:
    with pytest.raises(BenchError) as caught:
        nested(workspace, *children, **more)  # type: ignore[arg-type]
    return str(caught.value).removeprefix(f"{workspace.root}/datasets/n.json: "), caught.value.hint


# ------------------------------------------------------------------ nested questions


def test_nested_questions_are_numbered_and_share_the_corpus_of_their_row(workspace: Workspace) -> None:
    found = items(nested(workspace, QA, QA))
    assert [(item.id, item.position, item.corpus) for item in found] == [("r_0", 1, "r"), ("r_1", 2, "r")]


def test_nested_questions_may_have_their_own_ids(workspace: Workspace) -> None:
    found = items(nested(workspace, QA | {"key": 7}, QA | {"key": "x"}, questions="idField: key"))
    assert [item.id for item in found] == ["7", "x"]


def test_a_row_without_questions_is_not_a_corpus(workspace: Workspace) -> None:
    workspace.yaml("n", NESTED.format(extra="", questions="", method="exact-match"))
    workspace.data("n.json", [{"id": "a", "c": "C", "qa": []}, {"id": "b", "c": "C", "qa": [QA]}])
    dataset = workspace.open("n")
    assert list(dataset.corpora()) == ["b"]
    assert (dataset.counts.corpora, dataset.counts.memories, len(dataset)) == (1, 1, 1)
    assert dataset.item("b_0").position == 1


def test_the_date_of_a_nested_question_overrides_the_date_of_its_row(workspace: Workspace) -> None:
    dataset = nested(
        workspace, QA | {"at": "2024-02-01"}, QA | {"at": None}, questions="dateField: at", asked="2024-03-01"
    )
    assert [iso_utc(item.question_date) for item in items(dataset) if item.question_date] == ["2024-02-01T00:00:00Z"]
    found = items(nested(workspace, QA | {"asked": "2024-02-01"}, QA, asked="2024-03-01"))
    assert [iso_utc(item.question_date) for item in found if item.question_date] == [
        "2024-02-01T00:00:00Z",
        "2024-03-01T00:00:00Z",
    ]


def test_metadata_of_a_question_overrides_metadata_of_its_row(workspace: Workspace) -> None:
    found = items(nested(workspace, QA | {"mood": "calm"}, QA, QA | {"mood": None}, mood="grim"))
    assert [item.metadata["mood"] for item in found] == ["calm", "grim", "grim"]
    assert [item.metadata["category"] for item in found] == ["1", "1", "1"]


@each_row(
    ("child", "text"),
    [
        (5, "[0].qa[1]: qa[1] must be an object, not: 5 (row r)"),
        ("Q?", '[0].qa[1]: qa[1] must be an object, not: "Q?" (row r)'),
        ({"a": "A", "kind": 1}, "[0].qa[1].q: qa[1].q is missing (row r)"),
        (QA | {"q": None}, "[0].qa[1].q: qa[1].q is null (row r)"),
        (QA | {"q": ["x"]}, "[0].qa[1].q: qa[1].q must be text, not: a list (row r)"),
        ({"q": "Q?", "a": "A"}, "[0].qa[1].kind: qa[1].kind is missing (row r)"),
        (QA | {"kind": True}, "[0].qa[1].kind: qa[1].kind must be an id, not: true (row r)"),
        (QA | {"a": None}, '[0].qa[1].a: qa[1].a is missing, and "r_1" is not an abstention item (row r)'),
        (QA | {"a": {}}, "[0].qa[1].a: qa[1].a must be text or a list of texts, not: a map of keys (row r)"),
        (QA | {"asked": "soon"}, '[0].asked: asked is not a date that can be read: "soon" (row r)'),
    ],
)
def test_an_invalid_nested_question_is_refused_with_its_place(tmp_path: Path, child: object, text: str) -> None:
    workspace = Workspace(tmp_path)
    assert refusal(workspace, QA, child)[0] == text


@pytest.mark.parametrize(
    ("qa", "text"),
    [
        (None, "[0].qa: qa is null (row r)"),
        ("x", '[0].qa: qa must be a list, not: "x" (row r)'),
        ({"q": 1}, "[0].qa: qa must be a list, not: a map of keys (row r)"),
    ],
)
def test_a_questions_field_that_is_not_a_list_is_refused(workspace: Workspace, qa: object, text: str) -> None:
    assert refusal(workspace, qa=qa)[0] == text


def test_categories_name_numeric_and_text_ids(workspace: Workspace) -> None:
    dataset = nested(workspace, QA, QA | {"kind": "1"}, QA | {"kind": 3}, extra="categories: {1: one, 2: two}")
    assert dict(dataset.counts.question_types) == {"one": 2, "3": 1}
    assert dataset.notes[0] == "these categories have no name, so their id is the label: 3"
    assert any(
        note.endswith('categories names "2", but no question has this category; the data has "1", "3"')
        for note in dataset.notes
    )


def test_categoriesStrict_refuses_an_id_without_a_name(workspace: Workspace) -> None:
    extra = "categories: {1: one, 2: two}\ncategoriesStrict: true"
    assert nested(workspace, QA, extra=extra).counts.items == 1
    text, _ = refusal(workspace, QA, QA | {"kind": 3}, extra=extra)
    assert text == '[0].qa[1].kind: qa[1].kind must be one of the categories 1, 2, not: "3" (row r)'


def test_categories_without_names_use_their_ids_as_labels(workspace: Workspace) -> None:
    dataset = nested(workspace, QA, QA | {"kind": "z"})
    assert dict(dataset.counts.question_types) == {"1": 1, "z": 1}
    assert not any("have no name" in note or " categories names" in note for note in dataset.notes)


def test_an_unlisted_question_type_is_refused_with_item_and_suggestion(workspace: Workspace) -> None:
    text, _ = refusal(workspace, QA | {"kind": "fact"}, extra="questionTypes: [{name: facts}, {name: time}]")
    expected = '[0].question type: question type of item "r_0" is not listed in questionTypes; did you mean "facts"?'
    assert text == f'{expected}: "fact" (row r)'


@each_row(("kind", "label"), [("fact", "fact"), ("", None), (None, None), (3, "3"), (False, "false")])
def test_a_question_type_is_a_label_or_None(chat, kind: object, label: str | None) -> None:
    dataset = chat(row(kind=kind))
    assert dataset.item("q1").question_type == label
    assert [ref.question_type for ref in dataset.items()] == [label]
    assert dict(dataset.counts.question_types) == ({label: 1} if label else {})


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (["temporal", "multi-hop"], 'write the path of one element: "$.kind[0]"'),
        (["x"], '"$.kind[0]"'),
        ([], ""),
        ({"a": 1}, ""),
    ],
)
def test_a_list_as_question_type_is_refused_with_its_place(chat, kind: object, hint: str) -> None:
    with pytest.raises(BenchError) as caught:
        chat(row(kind=kind))
    assert "[0].kind: kind must be one text or number, not: " in str(caught.value) and "(row q1)" in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_similar_question_types_are_noted(chat) -> None:
    kinds = ["temporal", "temporal ", "Temporal", "tempo\u200bral", "fact"]
    dataset = chat(*(row(id=f"q{at}", kind=kind) for at, kind in enumerate(kinds)))
    (note,) = [text for text in dataset.data_notes if "question types" in text]
    assert '"temporal", "temporal ", "Temporal"' in note and "fact" not in note
    assert not [text for text in chat(row()).data_notes if "question types" in text]


@each_row("answer", ["", " \n", "\u200b", [], [None], ["", " "]])
def test_s10_an_empty_gold_answer_is_refused(chat, answer: object) -> None:
    """Every answer contains an empty text, so every answer would be correct."""
    with pytest.raises(BenchError) as caught:
        chat(row(a=answer))
    assert str(caught.value).endswith('[0].a: a is empty, and "q1" is not an abstention item (row q1)')
    named = "give an answer; if there is none, write abstention: {where: {a: {present: false}}}"
    plain = "give an answer, or select the items without an answer in abstention"
    assert caught.value.hint == (named if answer in ("", []) else plain)
    assert chat(row(id="q1_abs", a=answer)).item("q1_abs").answers == ()


def test_empty_texts_in_a_list_of_answers_are_dropped(chat) -> None:
    assert chat(row(a=["", "teal", None, " "])).item("q1").answers == ("teal",)
    assert chat(row(a=" teal ")).item("q1").answers == (" teal ",), "an answer is never trimmed"


# ------------------------------------------------------------------ who abstains


@each_row(
    ("rule", "child", "abstains"),
    [
        ("", {}, False),
        ("abstention: {idPattern: _0$}", {}, True),
        ("abstention: {idPattern: ^0}", {}, False),
        ("abstention: {questionTypes: ['1']}", {}, True),
        ("abstention: {questionTypes: ['2']}", {}, False),
        ("abstention: {field: none}", {"none": True}, True),
        ("abstention: {field: none}", {"none": "Yes "}, True),
        ("abstention: {field: none}", {"none": "1"}, True),
        ("abstention: {field: none}", {"none": 1}, True),
        ("abstention: {field: none}", {"none": "false"}, False),
        ("abstention: {field: none}", {"none": 0}, False),
        ("abstention: {field: none}", {"none": None}, False),
        ("abstention: {field: none}", {}, False),
    ],
)
def test_any_matching_abstention_rule_makes_an_abstention_item(
    tmp_path: Path, rule: str, child: Mapping[str, object], abstains: bool
) -> None:
    workspace = Workspace(tmp_path)
    (item,) = items(nested(workspace, QA | child, extra=rule))
    assert item.abstention == abstains
    if abstains:
        (item,) = items(nested(workspace, QA | child | {"a": None}, extra=rule))
        assert item.answers == ()


def test_the_abstention_flag_of_a_row_applies_to_all_its_questions(workspace: Workspace) -> None:
    found = items(nested(workspace, QA, QA | {"none": False}, extra="abstention: {field: none}", none=True))
    assert [item.abstention for item in found] == [True, True]


def test_an_item_with_only_an_adversarial_answer_abstains(workspace: Workspace) -> None:
    trap = {"q": "Q?", "kind": 5, "adversarial_answer": "a lie"}
    found = items(nested(workspace, trap, trap | {"a": "A"}))
    assert [(item.abstention, item.answers) for item in found] == [(True, ()), (False, ("A",))]


@pytest.mark.parametrize("method", ["none", "rubric"])
def test_methods_none_and_rubric_need_no_answers(workspace: Workspace, method: str) -> None:
    extra = "  rubric: points\n" if method == "rubric" else ""
    (item,) = items(nested(workspace, QA | {"a": None, "points": ["x", 2]}, extra=extra, method=method))
    assert (item.answers, item.abstention) == ((), False)
    assert item.rubric == (("x", "2") if method == "rubric" else ())


# ------------------------------------------------------------------ choices


def mcq(chat, choices: object, right: object = "B", **changes: object) -> Item:
    extra = "schema: {choices: options, choiceAnswer: right}\nevaluation: {method: mcq}\n"
    dataset = chat(row(), name="base")
    path = dataset.config.origin.path.with_name("mcq.yaml")
    path.write_text(f"extends: base\nname: mcq\ndata: {{path: ./datasets/mcq.json}}\n{extra}", encoding="utf-8")
    workspace = Workspace(path.parents[2])
    workspace.data("mcq.json", [row(options=choices, right=right) | changes])
    return workspace.open("mcq").item("q1")


@each_row(
    ("choices", "right"),
    [
        (["one", "two"], "B"),
        (["one", "two"], "b"),
        (["one", "two"], "two"),
        ({"A": "one", "B": "two"}, "B"),
        ([1, 2], 2),
    ],
)
def test_choice_answer_may_be_a_letter_or_a_text(chat, choices: object, right: object) -> None:
    item = mcq(chat, choices, right)
    assert len(item.choices) == 2
    assert item.choice_answer == str(right)


@pytest.mark.parametrize(
    ("choices", "right", "text"),
    [
        (None, "A", "[0].options: options is null (row q1)"),
        (["one", {}], "A", "[0].options: options must be text or a list of texts, not: a list (row q1)"),
        (
            ["one", "two"],
            "C",
            '[0].right: right matches none of the 2 choices of q1, as a text or a letter: "C" (row q1)',
        ),
        (["one", "two"], None, "[0].right: right is missing in item q1 (row q1)"),
    ],
)
def test_invalid_choices_are_refused_on_load(chat, choices: object, right: object, text: str) -> None:
    with pytest.raises(BenchError) as caught:
        mcq(chat, choices, right)
    assert str(caught.value).partition("mcq.json: ")[2] == text


# ------------------------------------------------------------------ flattened rows


def flat(workspace: Workspace, *rows: Mapping[str, object], **flatten: object) -> Dataset:
    rule = {"field": "qa", "promote_fields": ["question", "answer"], **flatten}
    workspace.manifest("flat", list(rows), flatten=rule)
    return workspace.open("flat")


def test_promoted_fields_override_the_fields_of_the_row(workspace: Workspace) -> None:
    children = [{"question": "own?", "answer": "own"}, {"question": "no answer of its own?"}]
    dataset = flat(workspace, {"id": "r", "content": "C", "answer": "shared", "qa": children})
    assert [(item.id, item.question, item.answers) for item in items(dataset)] == [
        ("r_0", "own?", ("own",)),
        ("r_1", "no answer of its own?", ("shared",)),
    ]


def test_the_id_of_a_flattened_child_is_not_used(workspace: Workspace) -> None:
    child = {"id": "mine", "question": "Q?", "answer": "A"}
    dataset = flat(workspace, {"id": "r", "content": "C", "qa": [child]})
    assert [(ref.id, ref.corpus) for ref in dataset.items()] == [("r_0", "r")]


@pytest.mark.parametrize(
    ("qa", "text"),
    [
        ("x", 'qa must be a list, not: "x" (row r)'),
        ([5], "qa[0] must be an object, not: 5 (row r)"),
        ([{"answer": "A"}], "question is missing (row r)"),
        (None, "qa is null (row r)"),
    ],
)
def test_an_invalid_flatten_field_is_refused(workspace: Workspace, qa: object, text: str) -> None:
    with pytest.raises(BenchError) as caught:
        flat(workspace, {"id": "r", "content": "C", "qa": qa})
    assert str(caught.value).endswith(f"data.jsonl:1: {text}")


@pytest.mark.parametrize(("keep", "ids", "dropped"), [(None, 5, 0), (1, 2, 3), (2, 3, 2), (9, 5, 0)])
def test_max_items_applies_per_row_and_notes_the_dropped_items(
    workspace: Workspace, keep: int | None, ids: int, dropped: int
) -> None:
    child = {"question": "Q?", "answer": "A"}
    rows = [{"id": name, "content": "C", "qa": [child] * count} for name, count in (("a", 4), ("b", 1), ("c", 0))]
    dataset = flat(workspace, *rows, max_items=keep)
    assert len(dataset) == ids
    notes = [note for note in dataset.notes if "max_items" in note]
    assert notes == ([f"flatten.max_items drops {dropped} items"] if dropped else [])


# ------------------------------------------------------------------ ids


@each_row(
    ("fields", "ids"),
    [
        ({"id": "a", "question_id": "b"}, "a"),
        ({"question_id": "b", "sample_id": "c"}, "b"),
        ({"case_id": "d", "sample_id": "c"}, "c"),
        ({"case_id": 12}, "12"),
        ({"id": None, "case_id": "d"}, "d"),
        ({"uid": "e"}, "row_1"),
    ],
)
def test_a_manifest_uses_the_first_id_candidate_of_row_one(
    workspace: Workspace, fields: Mapping[str, object], ids: str
) -> None:
    workspace.manifest("m", [{"content": "C", "question": "Q?", "answer": "A", **fields}])
    assert [ref.id for ref in workspace.open("m").items()] == [ids]


def test_every_row_must_have_the_id_field_of_row_one(workspace: Workspace) -> None:
    rest = {"content": "C", "question": "Q?", "answer": "A"}
    workspace.manifest("m", [{"case_id": "a", **rest}, {"id": "b", **rest}])
    with pytest.raises(BenchError, match=r"data\.jsonl:2: case_id is missing"):
        workspace.open("m")


def test_questionDate_may_come_from_the_last_session(chat) -> None:
    extra = "questionDate: {from: last_session}\n"
    found = chat(row(asked=None), row(id="q2"), extra=extra)
    dates = [item.question_date and iso_utc(item.question_date) for item in items(found)]
    assert dates == ["2023-05-20T18:10:00Z", "2023-06-01T10:00:00Z"]
    assert chat(row(asked=None)).item("q1").question_date is None


# ------------------------------------------------------- several lists, and lists of texts


def read_questions(
    workspace: Workspace, section: str, **row: object
) -> list[tuple[str, str, tuple[str, ...], str | None]]:
    text = f"""
name: n
version: "1"
data: {{type: local, path: ./datasets/n.json, with: {{qa: {{zip: {{question: questions, answer: answers}}}}}}}}
schema: {{itemId: id, context: {{field: c, type: string}}, questions: {section}}}
evaluation: {{method: none}}
metrics: [hit_at_5]
"""
    workspace.yaml("n", text)
    workspace.data("n.json", [{"id": "r", "c": "C"} | row])
    return [(item.id, item.question, item.answers, item.question_type) for item in items(workspace.open("n"))]


def test_several_lists_of_questions_are_read_in_order(workspace: Workspace) -> None:
    questions = """[{field: qa, questionField: question, answerField: answer},
     {field: "$.weeks[*].quiz[*]", questionField: ask, answerField: key, categoryField: "${'quiz'}"}]"""
    weeks = [{"quiz": [{"ask": "Z?", "key": 3}]}, {"quiz": []}]
    assert read_questions(workspace, questions, questions=["X?", "Y?"], answers=["x", "y"], weeks=weeks) == [
        ("r_0", "X?", ("x",), None), ("r_1", "Y?", ("y",), None), ("r_2", "Z?", ("3",), "quiz"),
    ]  # fmt: skip


def test_questions_may_be_plain_texts(workspace: Workspace) -> None:
    found = read_questions(
        workspace, '{field: questions, questionField: "$"}', questions=["X?", "Y?"], answers=["x", "y"]
    )
    assert [(one[0], one[1]) for one in found] == [("r_0", "X?"), ("r_1", "Y?")]


def test_texts_without_a_questionField_of_dollar_are_refused_with_a_hint(workspace: Workspace) -> None:
    with pytest.raises(BenchError, match=r'questions\[0\] must be an object, not: "X\?"') as caught:
        read_questions(workspace, "{field: questions, questionField: q}", questions=["X?"], answers=["x"])
    assert "zip: {question: questions, answer: ANSWERS}" in caught.value.hint


def test_a_misspelled_field_of_a_second_question_list_is_noted(workspace: Workspace) -> None:
    questions = "[{field: qa, questionField: question}, {field: more, questionField: q, answerField: reply}]"
    read_questions(workspace, questions, questions=["X?"], answers=["x"], more=[{"q": "Y?", "answer": "y"}])
    assert any('schema.questions[1].answerField names "reply"' in note or "reply" in note
               for note in workspace.open("n").notes)  # fmt: skip


def test_missing_answers_give_a_hint_with_a_valid_abstention_condition(workspace: Workspace) -> None:
    text = NESTED.format(extra="", questions="", method="exact-match").replace(
        "answerField: a", 'answerField: "$.a[*].t"'
    )
    workspace.yaml("n", text)
    workspace.data("n.json", [{"id": "r", "c": "C", "qa": [{"q": "Q?", "a": [], "kind": 1}]}])
    with pytest.raises(BenchError) as caught:
        workspace.open("n")
    condition = caught.value.hint.partition("write ")[2]
    assert condition == 'abstention: {where: {"$.a[*].t": {present: false}}}'


def test_missing_answers_name_a_misspelled_abstention_field(workspace: Workspace) -> None:
    message, _ = refusal(workspace, {"q": "Q?", "a": "", "imposible": True, "kind": 1},
                         extra="abstention: {field: impossible}")  # fmt: skip
    assert "abstention.field" in message and 'did you mean "imposible"' in message


def test_item_lines_contain_the_text_of_the_right_choice(workspace: Workspace) -> None:
    from bench.datasets.dataset_json import describe, item_lines

    extra = "abstention: {questionTypes: ['2']}"
    children = ({"q": "Q?", "a": "x", "kind": 1, "o": ["teal", "umber"], "r": "B"},
                {"q": "N?", "kind": 2, "o": ["teal", "umber"]})  # fmt: skip
    text = NESTED.format(extra=extra, questions="choicesField: o", method="mcq")
    workspace.yaml("n", text.replace("metadata:", "choiceAnswer: r\n  metadata:"))
    workspace.data("n.json", [{"id": "r", "c": "C", "qa": list(children)}])
    dataset = workspace.open("n")
    assert [line["choice_answer"] for line in item_lines(dataset)] == ["umber", None]
    shown = describe(dataset)
    assert (shown["abstention"], shown["with_evidence"]) == (1, 0)
