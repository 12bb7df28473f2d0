"""Sessions, turns and evidence of rows, and the errors of invalid rows."""

from __future__ import annotations

import json

import pytest

from bench.config.template import iso_utc
from bench.datasets.dataset_json import item_line
from bench.datasets.dates import DateReader
from bench.errors import BenchError
from tests.datasets.conftest import CHAT, row, turn
from tests.rows import each_row


def test_sessions_and_evidence_are_sorted_by_date(chat) -> None:
    dataset = chat(row(gold=["s1", "s2"]))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s2", "s1"]
    assert item_line(dataset.item("q1"))["evidence"] == {"sessions": ["s2", "s1"], "turns": ["s1#1"]}


def test_sessions_with_equal_dates_stay_in_file_order(chat) -> None:
    dataset = chat(row(dates=["2023/05/20 (Sat) 18:10"] * 2))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s1", "s2"]


def test_evidence_of_a_repeated_session_id_means_the_first_session(chat) -> None:
    dataset = chat(row(ids=["s1", "s1"]))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s1~2", "s1"]
    assert dataset.item("q1").evidence.sessions == ("s1",)
    assert dataset.counts.flags["session_id_repeated"] == 1


def test_only_flagged_turns_in_evidence_sessions_are_evidence(chat) -> None:
    sessions = [[turn("a", has_answer=True)], [turn("b", has_answer=True)]]
    dataset = chat(row(sessions=sessions, gold=["s1"]))
    assert dataset.item("q1").evidence.turns == ("s1#1",)


def test_turns_of_removed_roles_are_removed_from_the_evidence(chat) -> None:
    extra = "ingestion: {preprocessing: {removeRoles: [user]}}\n"
    dataset = chat(row(), extra=extra)
    assert dataset.item("q1").evidence.sessions == ()
    assert dataset.item("q1").flags == ("evidence_removed",)
    assert dataset.corpus("q1").sessions[1].turns[0].id == "s1#2"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(2022, ("2022",)), (True, ("true",)), (["a", 1], ("a", "1")), ("x", ("x",))],
)
def test_answers_are_converted_to_text(chat, answer, expected) -> None:
    assert chat(row(a=answer)).item("q1").answers == expected


def test_a_decimal_answer_is_not_reformatted(workspace) -> None:
    text = (
        '[{"id": "q", "q": "?", "a": 1.50, "sessions": [[{"role": "user", "content": "x"}]], '
        '"dates": ["2024-01-01"], "ids": ["s"], "gold": []}]'
    )
    workspace.yaml("chat", CHAT.format(name="chat"))
    workspace.data("chat.json", text)
    assert workspace.open("chat").item("q").answers == ("1.50",)


def test_an_abstention_item_needs_no_answer_and_has_its_question_type(chat) -> None:
    item = chat(row(id="q1_abs", a=None)).item("q1_abs")
    assert (item.abstention, item.answers, item.question_type) == (True, (), "fact")


@each_row(
    ("changes", "parts"),
    [
        ({"a": None}, ["[0].a", "is missing", "not an abstention item"]),
        ({"q": None}, ["[0].q", "q is null", "(row q1)"]),
        ({"q": 5}, ["must be text, not: 5"]),
        ({"asked": "once"}, ["asked is not a date that can be read"]),
    ],
)
def test_an_invalid_field_of_a_row_is_reported_with_its_place(chat, changes, parts) -> None:
    with pytest.raises(BenchError) as caught:
        chat(row(**changes))
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_itemSchema_key_that_no_turn_has_is_an_error_with_a_suggestion(chat, workspace) -> None:
    workspace.yaml(
        "chat", CHAT.format(name="chat").replace("content: $.content}", "content: $.content, caption: $.roel}")
    )
    workspace.data("chat.json", [row()])
    with pytest.raises(BenchError) as caught:
        workspace.open("chat")
    assert "itemSchema.caption" in str(caught.value) and 'did you mean "role"' in str(caught.value)
    assert "chat.yaml:" in str(caught.value)


def test_max_items_limits_the_items_of_each_flattened_row(workspace) -> None:
    children = [{"question": f"Q{n}", "answer": f"A{n}"} for n in range(4)]
    rows = [{"id": "r", "content": "c", "qa": children}, {"id": "s", "content": "c", "qa": []}]
    flatten = {"field": "qa", "max_items": 3, "promote_fields": ["question", "answer"]}
    workspace.manifest("flat", rows, flatten=flatten)
    dataset = workspace.open("flat")
    assert [ref.id for ref in dataset.items()] == ["r_0", "r_1", "r_2"]
    assert list(dataset.corpora()) == ["r"]
    assert "flatten.max_items drops 1 item" in dataset.notes


def test_a_row_without_the_flatten_field_is_an_error(workspace) -> None:
    workspace.manifest("flat", [{"id": "r", "content": "c"}], flatten={"field": "qa", "promote_fields": []})
    with pytest.raises(BenchError, match="qa is missing"):
        workspace.open("flat")


def test_an_is_array_content_field_gives_one_session_per_text(workspace) -> None:
    rows = [{"id": "r", "content": ["one", "two"], "question": "q", "answer": "a", "src": "s"}]
    ingestion = {"strategy": "simple", "content_field": "content", "is_array": True, "metadata_fields": ["src"]}
    workspace.manifest("list", rows, ingestion=ingestion)
    dataset = workspace.open("list")
    assert [session.id for session in dataset.corpus("r").sessions] == ["r.1", "r.2"]
    assert dataset.memories("r")[1].memory.metadata == {"src": "s"}


def test_rows_without_id_are_numbered(workspace) -> None:
    workspace.manifest("plain", [{"content": "c", "question": "q", "answer": "a"}] * 2)
    assert [ref.id for ref in workspace.open("plain").items()] == ["row_1", "row_2"]


def test_each_visibility_cut_is_its_own_corpus(chat) -> None:
    rows = [row(id="q1", until=1), row(id="q2", until="2023-05-20"), row(id="q3", until=None)]
    dataset = chat(*rows, extra="visibility: {field: until}\n")
    assert list(dataset.corpora()) == ["q1@1", "q2@2023-05-20", "q3"]
    assert [s.id for s in dataset.corpus("q1@1").sessions] == ["s2"]
    assert [s.id for s in dataset.corpus("q2@2023-05-20").sessions] == ["s2"]
    assert dataset.item("q1").evidence.sessions == ()
    assert dataset.counts.memories == 4


def test_mode_lazy_has_only_evidence_sessions_and_shared_adds_others(workspace) -> None:
    sessions = {f"session_{n}": [{"speaker": "A", "dia_id": f"D{n}:1", "text": f"t{n}"}] for n in (1, 2, 3, 10)}
    rows = [{"id": "r", "talk": sessions, "question": "q", "answer": "a", "ev": ["D10:1"]}]
    for mode, kept in (("lazy", ["session_10"]), ("shared", ["session_1", "session_10"])):
        ingestion = {
            "strategy": "session-based",
            "sessions_field": "talk",
            "sessions_format": "dynamic_keys",
            "mode": mode,
            "shared_sample_size": 1,
            "evidence_field": "ev",
            "evidence_parser": "dialog_refs",
        }
        workspace.manifest("talk", rows, ingestion=ingestion)
        assert [s.id for s in workspace.open("talk").corpus("r").sessions] == kept


def test_custom_date_formats_use_the_time_zone() -> None:
    when = DateReader("America/New_York", ["%d.%m.%Y %H:%M"]).read("01.07.2023 08:00")
    assert when is not None and iso_utc(when) == "2023-07-01T12:00:00Z"


def test_half_of_a_surrogate_pair_in_JSONL_is_refused(workspace) -> None:
    workspace.manifest("torn", [])
    path = workspace.root / "configs" / "benchmarks" / "torn" / "data.jsonl"
    path.write_text('{"id": "1", "content": "x\\ud800", "question": "q", "answer": 1.5}\n', encoding="utf-8")
    with pytest.raises(BenchError, match=r"data\.jsonl:1: row contains half of a surrogate pair"):
        workspace.open("torn")


def test_half_of_a_surrogate_pair_in_a_JSON_array_is_refused(chat, workspace) -> None:
    workspace.yaml("chat", CHAT.format(name="chat"))
    whole = json.dumps([row(), row(id="q2", q="a bicycle \U0001f6b2")])
    workspace.data("chat.json", whole)
    assert workspace.open("chat").item("q2").question == "a bicycle \U0001f6b2"
    workspace.data("chat.json", whole.replace("\\udeb2", ""))
    with pytest.raises(BenchError, match=r"chat\.json: \[1\]: row contains half of a surrogate pair"):
        workspace.open("chat")
