"""Sessions, turns and evidence of rows, quirk by quirk, and the words of each error."""

from __future__ import annotations

import json

import pytest

from bench.config.template import iso_utc
from bench.datasets.dataset_json import item_line
from bench.datasets.dates import DateReader
from bench.datasets.evidence import split_references
from bench.errors import BenchError
from tests.datasets.conftest import CHAT, row, turn
from tests.rows import each_row


def test_sessions_go_by_date_and_evidence_in_their_order(chat) -> None:
    dataset = chat(row(gold=["s1", "s2"]))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s2", "s1"]
    assert item_line(dataset.item("q1"))["evidence"] == {"sessions": ["s2", "s1"], "turns": ["s1#1"]}


def test_equal_dates_keep_the_order_of_the_file(chat) -> None:
    dataset = chat(row(dates=["2023/05/20 (Sat) 18:10"] * 2))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s1", "s2"]


def test_a_repeated_session_id_is_ingested_and_evidence_means_the_first(chat) -> None:
    dataset = chat(row(ids=["s1", "s1"]))
    assert [session.id for session in dataset.corpus("q1").sessions] == ["s1~2", "s1"]
    assert dataset.item("q1").evidence.sessions == ("s1",)
    assert dataset.counts.flags["session_id_repeated"] == 1


def test_flagged_turns_count_in_evidence_sessions_only(chat) -> None:
    sessions = [[turn("a", has_answer=True)], [turn("b", has_answer=True)]]
    dataset = chat(row(sessions=sessions, gold=["s1"]))
    assert dataset.item("q1").evidence.turns == ("s1#1",)


def test_roles_that_are_not_ingested_leave_the_evidence(chat) -> None:
    extra = "ingestion: {preprocessing: {removeRoles: [user]}}\n"
    dataset = chat(row(), extra=extra)
    assert dataset.item("q1").evidence.sessions == ()
    assert dataset.item("q1").flags == ("evidence_removed",)
    assert dataset.corpus("q1").sessions[1].turns[0].id == "s1#2"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(2022, ("2022",)), (True, ("true",)), (["a", 1], ("a", "1")), ("x", ("x",))],
)
def test_answers_become_their_text(chat, answer, expected) -> None:
    assert chat(row(a=answer)).item("q1").answers == expected


def test_a_fraction_keeps_its_text(workspace) -> None:
    text = (
        '[{"id": "q", "q": "?", "a": 1.50, "sessions": [[{"role": "user", "content": "x"}]], '
        '"dates": ["2024-01-01"], "ids": ["s"], "gold": []}]'
    )
    workspace.yaml("chat", CHAT.format(name="chat"))
    workspace.data("chat.json", text)
    assert workspace.open("chat").item("q").answers == ("1.50",)


def test_an_abstention_item_needs_no_answer_and_keeps_its_type(chat) -> None:
    item = chat(row(id="q1_abs", a=None)).item("q1_abs")
    assert (item.abstention, item.answers, item.question_type) == (True, (), "fact")


@each_row(
    ("changes", "parts"),
    [
        ({"a": None}, ["[0].a", "is missing", "not an abstention item"]),
        ({"q": None}, ["[0].q", "q is null", "(row q1)"]),
        ({"q": 5}, ["must be text, not: 5"]),
        ({"dates": ["2023/05/20 (Sat) 18:10"]}, ["dates has 1 entry for 2 sessions"]),
        ({"dates": ["2023/05/20 (Sat) 18:10", None]}, ["[0].dates[1]", "is null"]),
        ({"dates": ["2023/05/20 (Sat) 18:10", "soon"]}, ["[0].dates[1]", '"soon"']),
        ({"sessions": "x"}, ["sessions must be a list"]),
        ({"sessions": [[turn("a")], [{"role": "user"}]]}, ["[0].sessions[1][0].content", "is missing"]),
        ({"sessions": [[turn("a")], [{"content": "x"}]]}, ["sessions[1][0].role is missing"]),
        ({"sessions": [[turn("a")], [{"role": "user", "content": 5}]]}, ["sessions[1][0].content", "5"]),
        ({"asked": "once"}, ["asked is not a date that can be read"]),
    ],
)
def test_what_is_wrong_with_a_row(chat, changes, parts) -> None:
    with pytest.raises(BenchError) as caught:
        chat(row(**changes))
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.exit_code == 2


def test_all_rows_are_checked_at_once(chat) -> None:
    with pytest.raises(BenchError) as caught:
        chat(row(id="a", q=None), row(id="b"), row(id="c", q=None))
    assert "[0].q" in str(caught.value) and "[2].q" in str(caught.value)


def test_a_turn_key_that_never_occurs_is_an_error_with_the_nearest(chat, workspace) -> None:
    workspace.yaml(
        "chat", CHAT.format(name="chat").replace("content: $.content}", "content: $.content, caption: $.roel}")
    )
    workspace.data("chat.json", [row()])
    with pytest.raises(BenchError) as caught:
        workspace.open("chat")
    assert "itemSchema.caption" in str(caught.value) and 'did you mean "role"' in str(caught.value)
    assert "chat.yaml:" in str(caught.value)


def test_a_question_type_that_is_not_listed_is_an_error(chat) -> None:
    with pytest.raises(BenchError, match='did you mean "facts"'):
        chat(row(), extra="questionTypes: [{name: facts}]\n")


@each_row(
    ("text", "parts"),
    [
        ("", ["there are no rows"]),
        ("[]", ["there are no rows"]),
        ("[1]", ["is not an object"]),
        ('[{"id": "a"}, {"id": ', ["[0]", "[1]", "torn"]),
        ('[{"id": NaN}]', ["torn"]),
        ("{", ["torn"]),
    ],
)
def test_torn_json(workspace, text, parts) -> None:
    workspace.yaml("chat", CHAT.format(name="chat"))
    workspace.data("chat.json", text)
    with pytest.raises(BenchError) as caught:
        workspace.open("chat")
    for part in parts:
        assert part in str(caught.value)


def test_a_csv_record_of_another_length_names_its_line(workspace) -> None:
    workspace.yaml(
        "table",
        'name: table\nversion: "1"\ndata: {type: local, path: ./datasets/t.csv}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n",
    )
    workspace.data("t.csv", 'id,q,a,c\r\n1,x,y,"two\r\nlines"\r\n2,x\r\n')
    with pytest.raises(BenchError, match=r"t\.csv:4: row has 2 fields"):
        workspace.open("table")


def test_nested_flags_of_a_flattened_row_and_max_items(workspace) -> None:
    children = [{"question": f"Q{n}", "answer": f"A{n}"} for n in range(4)]
    rows = [{"id": "r", "content": "c", "qa": children}, {"id": "s", "content": "c", "qa": []}]
    flatten = {"field": "qa", "max_items": 3, "promote_fields": ["question", "answer"]}
    workspace.manifest("flat", rows, flatten=flatten)
    dataset = workspace.open("flat")
    assert [ref.id for ref in dataset.items()] == ["r_0", "r_1", "r_2"]
    assert list(dataset.corpora()) == ["r"]
    assert "flatten.maxItems drops 1 item" in dataset.notes


def test_a_row_without_the_flattened_list_is_an_error(workspace) -> None:
    workspace.manifest("flat", [{"id": "r", "content": "c"}], flatten={"field": "qa", "promote_fields": []})
    with pytest.raises(BenchError, match="qa is missing"):
        workspace.open("flat")


def test_simple_lists_are_sessions_of_one_text(workspace) -> None:
    rows = [{"id": "r", "content": ["one", "two"], "question": "q", "answer": "a", "src": "s"}]
    ingestion = {"strategy": "simple", "content_field": "content", "is_array": True, "metadata_fields": ["src"]}
    workspace.manifest("list", rows, ingestion=ingestion)
    dataset = workspace.open("list")
    assert [session.id for session in dataset.corpus("r").sessions] == ["r.1", "r.2"]
    assert dataset.memories("r")[1].memory.metadata == {"src": "s"}


def test_rows_without_any_id_are_numbered(workspace) -> None:
    workspace.manifest("plain", [{"content": "c", "question": "q", "answer": "a"}] * 2)
    assert [ref.id for ref in workspace.open("plain").items()] == ["row_1", "row_2"]


def test_visibility_gives_each_cut_its_own_corpus(chat) -> None:
    rows = [row(id="q1", until=1), row(id="q2", until="2023-05-20"), row(id="q3", until=None)]
    dataset = chat(*rows, extra="visibility: {field: until}\n")
    assert list(dataset.corpora()) == ["q1@1", "q2@2023-05-20", "q3"]
    assert [s.id for s in dataset.corpus("q1@1").sessions] == ["s2"]
    assert [s.id for s in dataset.corpus("q2@2023-05-20").sessions] == ["s2"]
    assert dataset.item("q1").evidence.sessions == ()
    assert dataset.counts.memories == 4


def test_lazy_keeps_evidence_sessions_and_shared_adds_the_first_others(workspace) -> None:
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


@each_row(
    ("reference", "parts"),
    [
        ("D:11:26", ["D11:26"]),
        ("D30:05", ["D30:5"]),
        ("D9:1; D11:1", ["D9:1", "D11:1"]),
        ("D3:01 D:12:1", ["D3:1", "D12:1"]),
        ("D", ["D"]),
    ],
)
def test_evidence_repair(reference, parts) -> None:
    assert split_references(reference) == parts


@each_row(
    ("text", "expected"),
    [
        ("2023/05/30 (Tue) 23:40", "2023-05-30T23:40:00Z"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00Z"),
        ("12:06 am on 11 November, 2022", "2022-11-11T00:06:00Z"),
        ("12:05 pm on 11 May, 2023", "2023-05-11T12:05:00Z"),
        ("Dec 15, 2025, 06:11:23", "2025-12-15T06:11:23Z"),
        ("March-15-2024", "2024-03-15T00:00:00Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
        ("2024-01-03T10:15:00.000Z", "2024-01-03T10:15:00Z"),
        ("2024-01-03T10:15+02:00", "2024-01-03T08:15:00Z"),
        ("sometime in May", None),
        ("2023-02-30", None),
        ("13:00 pm on 1 May, 2023", None),
        ("", None),
    ],
)
def test_dates(text, expected) -> None:
    when = DateReader("UTC").read(text)
    assert (None if when is None else iso_utc(when)) == expected


def test_a_time_zone_and_own_formats() -> None:
    when = DateReader("America/New_York", ["%d.%m.%Y %H:%M"]).read("01.07.2023 08:00")
    assert when is not None and iso_utc(when) == "2023-07-01T12:00:00Z"


def test_item_lines_are_json(chat) -> None:
    line = item_line(chat(row()).item("q1"))
    assert json.loads(json.dumps(line)) == line
    assert line["id"] == "q1"


def test_half_of_a_surrogate_pair_is_refused(workspace) -> None:
    workspace.manifest("torn", [])
    path = workspace.root / "configs" / "benchmarks" / "torn" / "data.jsonl"
    path.write_text('{"id": "1", "content": "x\\ud800", "question": "q", "answer": 1.5}\n', encoding="utf-8")
    with pytest.raises(BenchError, match=r"data\.jsonl:1: row contains half of a surrogate pair"):
        workspace.open("torn")


def test_half_of_a_surrogate_pair_is_refused_in_an_array_too(chat, workspace) -> None:
    workspace.yaml("chat", CHAT.format(name="chat"))
    whole = json.dumps([row(), row(id="q2", q="a bicycle \U0001f6b2")])
    workspace.data("chat.json", whole)
    assert workspace.open("chat").item("q2").question == "a bicycle \U0001f6b2"
    workspace.data("chat.json", whole.replace("\\udeb2", ""))
    with pytest.raises(BenchError, match=r"chat\.json: \[1\]: row contains half of a surrogate pair"):
        workspace.open("chat")
