"""Cutoffs: an item sees only what is before its index or date, and each cutoff is its own corpus."""

from __future__ import annotations

import pytest

from bench.datasets import Dataset
from bench.datasets.dataset_json import describe
from bench.errors import BenchError
from tests.datasets.conftest import CHAT, Workspace, row, turn
from tests.rows import each_row

SEEN = "visibility: {field: until}\n"

TURNS = """
name: talk
version: "1"
data: {type: local, path: ./datasets/talk.json}
schema:
  itemId: id
  question: q
  answer: a
  context:
    field: talk
    type: array
    itemSchema: {role: $.who, content: $.said, date: $.at}
evidence: {turnFlag: gold}
evaluation: {method: exact-match}
metrics: [accuracy]
visibility: {field: until}
"""

DAYS = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]


def days(count: int = 4, **changes: object) -> dict[str, object]:
    """Return a row of one session per day."""
    sessions = [[turn(f"day {n}", has_answer=n == 3)] for n in range(1, count + 1)]
    ids = [f"s{n}" for n in range(1, count + 1)]
    return row(sessions=sessions, dates=DAYS[:count], ids=ids, gold=["s3"]) | changes


def seen(dataset: Dataset, item: str) -> list[str]:
    return [session.id for session in dataset.corpus(dataset.find(item).corpus).sessions]


@each_row(
    ("until", "sessions"),
    [
        (0, []),
        (1, ["s1"]),
        ("3", ["s1", "s2", "s3"]),
        (4, ["s1", "s2", "s3", "s4"]),
        (99, ["s1", "s2", "s3", "s4"]),
        ("2024-01-01", []),
        ("2024-01-02", ["s1"]),
        ("2024-01-02T00:01", ["s1", "s2"]),
        ("20240103", ["s1", "s2"]),
        ("2024/01/04 (Thu) 00:00", ["s1", "s2", "s3"]),
        ("2030-01-01", ["s1", "s2", "s3", "s4"]),
        (None, ["s1", "s2", "s3", "s4"]),
    ],
)
def test_an_item_sees_the_sessions_before_its_cutoff(chat, until, sessions) -> None:
    dataset = chat(days(until=until), extra=SEEN)
    assert seen(dataset, "q1") == sessions
    assert dataset.item("q1").visible_until == (None if until is None else str(until))
    assert len(dataset.memories(dataset.find("q1").corpus)) == len(sessions)


def test_a_cutoff_index_counts_sessions_in_date_order(chat) -> None:
    assert seen(chat(days(dates=DAYS[::-1], until=2), extra=SEEN), "q1") == ["s4", "s3"]


def test_evidence_after_the_cutoff_is_removed(chat) -> None:
    dataset = chat(days(until=2), days(id="q2", until=3), extra=SEEN)
    assert [dataset.item(name).evidence.sessions for name in ("q1", "q2")] == [(), ("s3",)]
    assert [dataset.item(name).evidence.turns for name in ("q1", "q2")] == [(), ("s3#1",)]
    assert dataset.counts.session_evidence == dataset.counts.turn_evidence == 1


def test_items_whose_evidence_is_hidden_have_a_flag_and_a_note_of_the_results(chat) -> None:
    partly = days(id="q2", until=3, gold=["s3", "s4"])
    dataset = chat(days(until=2), partly, days(id="q3", until=4), extra=SEEN)
    assert [dataset.item(name).flags for name in ("q1", "q2", "q3")] == [("evidence_hidden",)] * 2 + [()]
    assert describe(dataset)["flags"] == {"evidence_hidden": 2}
    (note,) = (one for one in dataset.data_notes if "hides" in one)
    assert "2 items have evidence that visibility hides (1 of these items has no other evidence" in note
    assert note.endswith('"q1", "q2"; visibility.through: true also shows the session or date at the cut-off')


def test_items_with_equal_corpus_and_cutoff_share_a_corpus(workspace: Workspace) -> None:
    rows = [days(id=name, room="r", until=until) for name, until in (("a", 1), ("b", 2), ("c", 1))]
    for other in rows[1:]:
        other["sessions"], other["dates"], other["ids"] = [], [], []
    workspace.yaml("chat", CHAT.format(name="chat") + SEEN + "corpus: {field: room}\n")
    workspace.data("chat.json", rows)
    dataset = workspace.open("chat")
    assert list(dataset.corpora()) == ["r@1", "r@2"]
    assert [[ref.id for ref in dataset.items_of(name)] for name in dataset.corpora()] == [["a", "c"], ["b"]]
    assert [ref.corpus for ref in dataset.items()] == ["r@1", "r@2", "r@1"]
    assert [len(dataset.corpus(name).sessions) for name in dataset.corpora()] == [1, 2]
    shown = describe(dataset)
    assert [shown[key] for key in ("items", "corpora", "sessions", "memories")] == [3, 2, 3, 3]


def test_a_history_of_one_session_is_cut_by_turns(chat) -> None:
    turns = [turn("one"), turn("two", has_answer=True), turn("three")]
    rows = [row(id=f"q{n}", sessions=[turns], dates=DAYS[:1], ids=["s"], gold=["s"], until=n) for n in (1, 2)]
    dataset = chat(*rows, extra=SEEN)
    assert [memory.memory.content for memory in dataset.memories("q1@1", unit="turn")] == ["user: one"]
    assert dataset.item("q1").evidence.turns == ()
    assert dataset.item("q2").evidence.turns == ("s#2",)


def talk(workspace: Workspace, *until: object) -> Dataset:
    turns = [{"who": "user", "said": f"turn {n}", "at": day, "gold": n == 2} for n, day in enumerate(DAYS)]
    rows = [{"id": f"q{n}", "q": "?", "a": "!", "talk": [turns], "until": cut} for n, cut in enumerate(until)]
    workspace.yaml("talk", TURNS)
    workspace.data("talk.json", rows)
    return workspace.open("talk")


def test_a_session_of_dated_turns_is_cut_by_their_dates(workspace: Workspace) -> None:
    dataset = talk(workspace, "2024-01-03", "2024-01-03T12:00", 1)
    texts = [[memory.memory.content for memory in dataset.memories(name, unit="turn")] for name in dataset.corpora()]
    assert texts == [
        ["user: turn 0", "user: turn 1"],
        ["user: turn 0", "user: turn 1", "user: turn 2"],
        ["user: turn 0"],
    ]
    assert [dataset.item(f"q{n}").evidence.turns for n in range(3)] == [(), ("session_1#3",), ()]


@each_row("until", [["x"], {"a": 1}, True, "soon", "-1", "1.5", 1.5, "", " ", "2024-13-01"])
def test_an_invalid_cutoff_is_refused(chat, until) -> None:
    with pytest.raises(BenchError) as caught:
        chat(days(until=until), extra=SEEN)
    assert "chat.json: [0].until: until must be an index or a date, not: " in str(caught.value)
    assert caught.value.hint == "write the position of a session (the first is 0), or a date of a format in dateFormats"


def test_a_date_cutoff_needs_sessions_with_dates(chat) -> None:
    extra = "schema: {context: {dateField: null}}\n"
    rows = [days(until="2024-01-02")]
    with pytest.raises(BenchError) as caught:
        undated(chat, rows, extra)
    text = 'chat.json: [0]: row has the cut-off "2024-01-02", but no session or turn has a date (row q1)'
    assert str(caught.value).endswith(text)
    assert caught.value.hint == "give the sessions dates, or use an index as the cut-off"
    assert seen(undated(chat, [days(until=2)], extra), "q1") == ["s1", "s2"]


def undated(chat, rows: list[dict[str, object]], extra: str) -> Dataset:
    """Open the same rows with a config that maps no dates."""
    dataset = chat(days(until=1), extra=SEEN, name="dated")
    path = dataset.config.origin.path.with_name("chat.yaml")
    path.write_text(f"extends: dated\nname: chat\ndata: {{path: ./datasets/chat.json}}\n{extra}", encoding="utf-8")
    workspace = Workspace(path.parents[2])
    workspace.data("chat.json", rows)
    return workspace.open("chat")


def test_a_nested_question_uses_its_own_cutoff_or_that_of_its_row(workspace: Workspace) -> None:
    workspace.yaml(
        "nested",
        'name: nested\nversion: "1"\ndata: {type: local, path: ./datasets/n.json}\n'
        "schema:\n  itemId: id\n  context: {field: s, type: array, itemSchema: {role: role, content: content}}\n"
        "  questions: {field: qa, questionField: q, answerField: a}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n" + SEEN,
    )
    qa = [{"q": "?", "a": "!", "until": 1}, {"q": "?", "a": "!"}]
    workspace.data("n.json", [{"id": "r", "until": 2, "s": [[turn("a")], [turn("b")], [turn("c")]], "qa": qa}])
    dataset = workspace.open("nested")
    assert [(ref.id, ref.corpus) for ref in dataset.items()] == [("r_0", "r@1"), ("r_1", "r@2")]
    assert dataset.counts.memories == 3
