"""Turns and sessions of a row: mapped fields, required fields, and the forms of a history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.datasets import Dataset
from bench.errors import BenchError
from bench.model import Session
from tests.datasets.conftest import Workspace
from tests.rows import each_row

HEAD = """
name: t
version: "1"
data: {type: local, path: ./datasets/t.json}
schema:
  itemId: id
  question: q
  answer: a
"""
TAIL = "evaluation: {method: exact-match}\nmetrics: [accuracy]\n"
KEYED = "  context: {field: talk, type: object}\n"
LISTED = "  context: {field: talk, type: array%s}\n"
SCHEMA = ", itemSchema: {%s}"


def opened(workspace: Workspace, context: str, talk: object, *, extra: str = "", **more: object) -> Dataset:
    workspace.yaml("t", HEAD + context + TAIL + extra)
    workspace.data("t.json", [{"id": "r", "q": "?", "a": "!", "talk": talk, **more}])
    return workspace.open("t")


def sessions(workspace: Workspace, context: str, talk: object, **more: object) -> Sequence[Session]:
    return opened(workspace, context, talk, **more).corpus("r").sessions  # type: ignore[arg-type]


def refusal(workspace: Workspace, context: str, talk: object, **more: object) -> str:
    with pytest.raises(BenchError) as caught:
        opened(workspace, context, talk, **more)  # type: ignore[arg-type]
    assert caught.value.hint
    return str(caught.value).removeprefix(f"{workspace.root}/datasets/")


def lines_of(*texts: str) -> list[dict[str, str]]:
    return [{"speaker": "A", "text": text} for text in texts]


# ------------------------------------------------------------------ turns


@each_row(
    ("turn", "expected"),
    [
        ({"role": "user", "content": "C"}, ("user", None, "C", None)),
        ({"speaker": "Ann", "text": "T"}, (None, "Ann", "T", None)),
        ({"role": "user", "speaker": "Ann", "content": "C", "text": "T"}, ("user", "Ann", "C", None)),
        ({"text": "T"}, (None, None, "T", None)),
        ({"text": "T", "caption": "a cat"}, (None, None, "T", "a cat")),
        ({"text": "T", "blip_caption": "a dog", "caption": "a cat"}, (None, None, "T", "a dog")),
        ({"text": "T", "blip_caption": None, "caption": "a cat"}, (None, None, "T", "a cat")),
        ({"text": "T", "caption": ""}, (None, None, "T", None)),
        ({"content": "", "text": "T"}, (None, None, "T", None)),
        ({"content": None, "text": "T"}, (None, None, "T", None)),
        ("bare", (None, None, "bare", None)),
    ],
)
def test_common_turn_fields_are_read_without_itemSchema(tmp_path: Path, turn: object, expected: object) -> None:
    workspace = Workspace(tmp_path)
    (session,) = sessions(workspace, LISTED % "", [[turn]])
    (found,) = session.turns
    assert (found.role, found.speaker, found.text, found.caption) == expected


def test_with_itemSchema_only_mapped_fields_are_read(workspace: Workspace) -> None:
    schema = SCHEMA % "content: $.body.words, speaker: from, caption: '$.media[0].alt', dialogId: key"
    turn = {
        "body": {"words": "W"},
        "from": "Ann",
        "media": [{"alt": "a cat"}],
        "key": 7,
        "role": "user",
        "content": "C",
    }
    (session,) = sessions(workspace, LISTED % schema, [[turn]])
    (found,) = session.turns
    assert (found.id, found.role, found.speaker, found.text, found.caption) == ("7", None, "Ann", "W", "a cat")


NO_DATE = "at: talk[0][1].at is not a date that can be read"


@each_row(
    ("changes", "text"),
    [
        ({"words": ...}, "words: talk[0][1].words is missing"),
        ({"words": ..., "word": "x"}, 'words: talk[0][1].words is missing; did you mean "word"?'),
        ({"words": None}, "words: talk[0][1].words is null"),
        ({"words": ["x"]}, "words: talk[0][1].words must be text, not: a list"),
        ({"role": 1}, "role: talk[0][1].role must be text, not: 1"),
        ({"role": ...}, "role: talk[0][1].role is missing"),
        ({"role": None}, "role: talk[0][1].role is null"),
        ({"role": ..., "rule": "user"}, 'role: talk[0][1].role is missing; did you mean "rule"?'),
        ({"alt": 5}, "alt: talk[0][1].alt must be text, not: 5"),
        ({"key": True}, "key: talk[0][1].key must be an id, not: true"),
        ({"key": ""}, 'key: talk[0][1].key must be an id, not: ""'),
        ({"key": {}}, "key: talk[0][1].key must be an id, not: a map of keys"),
        ({"key": None}, "key: talk[0][1].key is null"),
        ({"key": ...}, "key: talk[0][1].key is missing"),
        ({"at": "soon"}, f'{NO_DATE}: "soon"'),
        ({"at": ""}, f'{NO_DATE}: ""'),
        ({"at": [1]}, f"{NO_DATE}: a list"),
    ],
)
def test_a_turn_with_an_invalid_or_missing_mapped_field_is_refused(
    tmp_path: Path, changes: dict[str, object], text: str
) -> None:
    workspace = Workspace(tmp_path)
    schema = SCHEMA % "content: words, role: role, dialogId: key, date: at, caption: alt"
    whole = {"role": "user", "words": "x", "key": 1, "at": "2024-01-01", "alt": "a cat"}
    turn = {name: value for name, value in (whole | changes).items() if value is not ...}
    assert refusal(workspace, LISTED % schema, [[whole, turn]]) == f"t.json: [0].talk[0][1].{text} (row r)"


@pytest.mark.parametrize(("turn", "shown"), [(5, "5"), (None, "null"), ([], "a list"), (True, "true")])
def test_a_value_that_is_not_a_turn_is_refused(workspace: Workspace, turn: object, shown: str) -> None:
    text = f"t.json: [0].talk[0][1]: talk[0][1] must be a turn, not: {shown} (row r)"
    assert refusal(workspace, LISTED % "", [[lines_of("x")[0], turn]]) == text


def test_a_turn_needs_only_one_of_role_and_speaker(workspace: Workspace) -> None:
    schema = SCHEMA % "content: content, role: role, speaker: name"
    turns = [{"role": "user", "content": "x"}, {"name": "Ann", "content": "y"}]
    (session,) = sessions(workspace, LISTED % schema, [turns])
    assert [(turn.role, turn.speaker) for turn in session.turns] == [("user", None), (None, "Ann")]
    text = refusal(workspace, LISTED % schema, [[*turns, {"content": "z"}]])
    assert text == "t.json: [0].talk[0][2].role: talk[0][2].role is missing (row r)"


def test_an_itemSchema_key_that_no_turn_has_is_reported_in_the_config(workspace: Workspace) -> None:
    schema = SCHEMA % "content: content, caption: $.captain, role: role"
    with pytest.raises(BenchError) as caught:
        opened(workspace, LISTED % schema, [[{"role": "user", "content": "x", "caption": "c"}]])
    text = 'schema.context.itemSchema.caption names "$.captain", but no turn has this field; did you mean "caption"?'
    assert caught.value.message == text
    assert str(caught.value.where).startswith(f"{workspace.root}/configs/benchmarks/t.yaml:9:")
    assert caught.value.hint == "correct the path, or remove the key"


def test_an_itemSchema_key_of_an_extended_config_is_removed_in_the_own_file(workspace: Workspace) -> None:
    turns = [{"role": "user", "content": "x"}]
    with pytest.raises(BenchError):
        opened(workspace, LISTED % (SCHEMA % "content: content, caption: pic, role: role"), [turns])
    own = workspace.root / "configs/benchmarks/own.yaml"
    own.write_text("name: own\nextends: t\n", encoding="utf-8")
    with pytest.raises(BenchError) as caught:
        workspace.open("own")
    removed = "schema: {context: {itemSchema: {caption: null}}}"
    assert caught.value.hint == f"if your data has no such field, write in own.yaml: {removed}"
    own.write_text(f"name: own\nextends: t\n{removed}\n", encoding="utf-8")
    assert workspace.open("own").counts.turns == 1


def test_itemSchema_keys_are_not_checked_if_there_are_no_turn_objects(workspace: Workspace) -> None:
    schema = SCHEMA % "content: content, caption: $.captain"
    assert opened(workspace, LISTED % schema, [["bare text"]]).counts.turns == 1


def test_a_removed_field_counts_as_missing_and_content_cannot_be_removed(workspace: Workspace) -> None:
    extra = "ingestion: {preprocessing: {removeFields: [role, mood]}}\n"
    schema = SCHEMA % "content: content, role: role"
    turn = {"role": "user", "content": "x", "mood": "fine"}
    (session,) = sessions(workspace, LISTED % schema, [[turn]], extra=extra)
    assert (session.turns[0].role, session.turns[0].text) == (None, "x")
    extra = "ingestion: {preprocessing: {removeFields: [content]}}\n"
    text = refusal(workspace, LISTED % schema, [[turn]], extra=extra)
    assert text == "t.json: [0].talk[0][0].content: talk[0][0].content is missing (row r)"


# ------------------------------------------------------------------ sessions


def test_keyed_sessions_are_sorted_by_number_and_other_keys_ignored(workspace: Workspace) -> None:
    talk = {
        "session_10": lines_of("ten"),
        "session_2": lines_of("two"),
        "session_1": lines_of("one"),
        "session_x": "no session",
        "a session_3": 5,
        "session_2_summary": "nor this",
        "session_4_date_time": "a date without a session",
    }
    found = sessions(workspace, KEYED, talk)
    assert [session.id for session in found] == ["session_1", "session_2", "session_10"]
    assert [session.turns[0].id for session in found] == ["session_1#1", "session_2#1", "session_10#1"]
    assert [session.when for session in found] == [None] * 3


def test_keyed_sessions_with_dates_are_sorted_by_date(workspace: Workspace) -> None:
    talk = {
        "session_1": lines_of("later"),
        "session_1_date_time": "8 May, 2023",
        "session_2": lines_of("earlier"),
        "session_2_date_time": "7 May, 2023",
        "session_3": lines_of("the same day, later in the file"),
        "session_3_date_time": "7 May, 2023",
    }
    found = sessions(workspace, KEYED, talk)
    assert [(session.id, session.date_text) for session in found] == [
        ("session_2", "7 May, 2023"),
        ("session_3", "7 May, 2023"),
        ("session_1", "8 May, 2023"),
    ]


def test_sessionPattern_and_datePattern_may_be_customized(workspace: Workspace) -> None:
    context = '  context: {field: talk, type: object, sessionPattern: "day (*)", datePattern: "on_*."}\n'
    talk = {
        "day (2)": lines_of("b"),
        "day (1)": lines_of("a"),
        "on_1.": "2024-01-02",
        "on_2.": "2024-01-01",
        "day 3": lines_of("c"),
    }
    assert [session.id for session in sessions(workspace, context, talk)] == ["day (2)", "day (1)"]


@each_row(
    ("talk", "text"),
    [
        ([], "talk: talk must be an object, not: a list (row r)"),
        (None, "talk: talk is null (row r)"),
        ({"session_1": None}, "talk.session_1: talk.session_1 must be a list of turns, not: null (row r)"),
        ({"session_1": {}}, "talk.session_1: talk.session_1 must be a list of turns, not: a map of keys (row r)"),
        ({"session_1": [5]}, "talk.session_1[0]: talk.session_1[0] must be a turn, not: 5 (row r)"),
        (
            {"session_1": [], "session_1_date_time": "soon"},
            'talk.session_1_date_time: talk.session_1_date_time is not a date that can be read: "soon" (row r)',
        ),
        (
            {"session_1": [{"speaker": "A", "text": "x"}], "session_1_date_time": "2024-01-01", "session_2": []},
            "talk.session_2: talk.session_2 has no date, but other sessions of the corpus have one"
            ' (session "session_2") (row r)',
        ),
        (
            {
                "session_1": [{"speaker": "A", "text": "x"}],
                "session_1_date_time": None,
                "session_2": [],
                "session_2_date_time": "2024-01-01",
            },
            "talk.session_1: talk.session_1 has no date, but other sessions of the corpus have one"
            ' (session "session_1") (row r)',
        ),
    ],
)
def test_an_invalid_keyed_history_is_refused_with_its_place(workspace: Workspace, talk: object, text: str) -> None:
    assert refusal(workspace, KEYED, talk) == f"t.json: [0].{text}"


PARALLEL = ", dateField: dates, sessionIdField: ids"


@each_row(
    ("dates", "ids", "text"),
    [
        (["2024-01-01"], ["a", "b"], "dates: dates has 1 entry for 2 sessions (row r)"),
        (["2024-01-01"] * 3, ["a", "b"], "dates: dates has 3 entries for 2 sessions (row r)"),
        (["2024-01-01"] * 2, ["a"], "ids: ids has 1 entry for 2 sessions (row r)"),
        (["2024-01-01"] * 2, [], "ids: ids has 0 entries for 2 sessions (row r)"),
        ("2024-01-01", ["a", "b"], 'dates: dates must be a list, not: "2024-01-01" (row r)'),
        (None, ["a", "b"], "dates: dates is null (row r)"),
        (["2024-01-01", None], ["a", "b"], "dates[1]: dates[1] is null; expected a date (row r)"),
        (["2024-01-01", 7], ["a", "b"], "dates[1]: dates[1] is not a date that can be read: 7 (row r)"),
        (["2024-01-01", {}], ["a", "b"], "dates[1]: dates[1] is not a date that can be read: a map of keys (row r)"),
        (["2024-01-01"] * 2, ["a", None], "ids[1]: ids[1] must be a session id, not: null (row r)"),
        (["2024-01-01"] * 2, ["a", ""], 'ids[1]: ids[1] must be a session id, not: "" (row r)'),
        (["2024-01-01"] * 2, ["a", True], "ids[1]: ids[1] must be a session id, not: true (row r)"),
        (["2024-01-01"] * 2, [["a"], "b"], "ids[0]: ids[0] must be a session id, not: a list (row r)"),
    ],
)
def test_parallel_dates_and_ids_must_match_the_sessions(tmp_path: Path, dates: object, ids: object, text: str) -> None:
    workspace = Workspace(tmp_path)
    found = refusal(workspace, LISTED % PARALLEL, [lines_of("x"), lines_of("y")], dates=dates, ids=ids)
    assert found == f"t.json: [0].{text}"


def test_numeric_session_ids_are_converted_to_text(workspace: Workspace) -> None:
    dates = ["2024-01-02", "2024-01-01"]
    found = sessions(workspace, LISTED % PARALLEL, [lines_of("x"), lines_of("y")], dates=dates, ids=[7, 1.50])
    assert [session.id for session in found] == ["1.5", "7"]


def test_objects_without_sessions_are_sessions_of_one_turn(workspace: Workspace) -> None:
    schema = SCHEMA % "content: content, role: role, id: key, date: at"
    turns = [
        {"key": "m2", "at": "2024-01-02", "role": "user", "content": "second"},
        {"key": "m1", "at": "2024-01-01 10:00", "role": "user", "content": "first"},
    ]
    found = sessions(workspace, LISTED % schema, turns)
    assert [(session.id, session.date_text, len(session.turns)) for session in found] == [
        ("m1", "2024-01-01 10:00", 1),
        ("m2", "2024-01-02", 1),
    ]
    assert [session.turns[0].id for session in found] == ["m1#1", "m2#1"]
    assert [session.turns[0].when for session in found] == [None, None], "the date is the session's"


def test_a_single_turn_with_its_own_id_has_that_id(workspace: Workspace) -> None:
    schema = SCHEMA % "content: content, dialogId: key"
    (session,) = sessions(workspace, LISTED % schema, [{"key": "D1:1", "content": "x"}])
    assert (session.id, session.turns[0].id) == ("session_1", "D1:1")


def test_plain_texts_are_sessions_of_one_turn(workspace: Workspace) -> None:
    found = sessions(workspace, LISTED % "", ["one", "", "three"])
    texts = [(session.id, [turn.text for turn in session.turns]) for session in found]
    assert texts == [("r.1", ["one"]), ("r.2", []), ("r.3", ["three"])]


def test_a_row_without_a_history_is_refused(workspace: Workspace) -> None:
    assert refusal(workspace, LISTED % "", []) == "t.json: [0].talk: talk contains no memory: it is empty (row r)"
    assert refusal(workspace, LISTED % "", [[], []]).endswith("it has 2 sessions, but no turn (row r)")
    text = refusal(workspace, KEYED, {"title": [], "sentences": []})
    assert 'talk has title, sentences; none matches sessionPattern "session_*" (row r)' in text


def test_an_empty_session_is_flagged_and_gives_no_memory(workspace: Workspace) -> None:
    dataset = opened(workspace, LISTED % "", [lines_of("x"), [], []])
    assert dict(dataset.counts.flags) == {"session_empty": 2}
    assert [len(dataset.memories("r", unit=unit)) for unit in ("session", "turn", "corpus")] == [1, 1, 1]


def test_a_context_of_the_wrong_type_is_refused(workspace: Workspace) -> None:
    assert (
        refusal(workspace, LISTED % "", {"a": 1}) == "t.json: [0].talk: talk must be a list, not: a map of keys (row r)"
    )
    assert (
        refusal(workspace, LISTED % "", [5]) == "t.json: [0].talk[0]: talk[0] must be a list of turns, not: 5 (row r)"
    )
    text = "t.json: [0].talk: talk must be text, not: a list (row r)"
    assert refusal(workspace, "  context: {field: talk, type: string}\n", ["x"]) == text
