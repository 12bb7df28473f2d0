"""The demo contains the irregularities of real histories."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.data.demo_text import Conversation, answers, evidence, instant, read
from tests.rows import each_row


def test_four_conversations_have_an_assistant_and_four_have_two_speakers(conversations: list[Conversation]) -> None:
    voices = [{turn.get("speaker") or turn["role"] for turn in talk.turns.values()} for talk in conversations]
    assert len(conversations) == 8
    assert all(len(pair) == 2 for pair in voices)
    assert sum(pair == {"user", "assistant"} for pair in voices) == 4


def test_conversations_have_10_to_14_sessions_of_5_to_10_turns(conversations: list[Conversation]) -> None:
    for talk in conversations:
        spoken = [session for session in talk.sessions if session]
        assert 10 <= len(spoken) <= 14, talk.id
        assert all(5 <= len(session) <= 10 for session in spoken), talk.id


def test_every_session_has_an_id_and_a_date_with_time(conversations: list[Conversation]) -> None:
    for talk in conversations:
        assert len(talk.sessions) == len(talk.dates) == len(talk.session_ids)
        assert all(re.search(r"\d{1,2}:\d{2}", date) for date in talk.dates)
        assert all(when.year in range(2023, 2026) for when in talk.instants)


def test_weekdays_in_dates_are_right(conversations: list[Conversation]) -> None:
    named = [date for talk in conversations for date in talk.dates if "(" in date]
    assert named
    assert all(f"({instant(date):%a})" in date for date in named)


def test_turn_ids_are_unique_per_conversation(conversations: list[Conversation]) -> None:
    for talk in conversations:
        assert len(talk.turns) == sum(len(session) for session in talk.sessions)


def test_one_demo_session_is_empty(conversations: list[Conversation]) -> None:
    assert sum(not session for talk in conversations for session in talk.sessions) == 1


def test_one_repeated_session_id_has_evidence_in_its_second_session(
    conversations: list[Conversation],
) -> None:
    repeated = [talk for talk in conversations if len(set(talk.session_ids)) < len(talk.session_ids)]
    assert [talk.id for talk in repeated] == ["jonas"]
    (talk,) = repeated
    first, second = (place for place, name in enumerate(talk.session_ids) if talk.session_ids.count(name) == 2)
    assert talk.dates[first] != talk.dates[second]
    assert any(talk.session_of[turn] == second for question in talk.questions for turn in evidence(question))


def test_two_conversations_have_sessions_out_of_order(conversations: list[Conversation]) -> None:
    mixed = [talk.id for talk in conversations if talk.instants != sorted(talk.instants)]
    assert mixed == ["mei", "amara-lucho"]


def test_sorting_session_ids_as_text_is_not_the_order_of_time(conversations: list[Conversation]) -> None:
    for talk in conversations:
        by_time = [name for _, name in sorted(zip(talk.instants, talk.session_ids, strict=True))]
        assert sorted(talk.session_ids) != by_time, talk.id


def test_sessions_share_a_day_fall_on_a_leap_day_and_span_a_new_year(
    conversations: list[Conversation],
) -> None:
    days = [[when.date() for when in talk.instants] for talk in conversations]
    assert any(len(set(row)) < len(row) for row in days)
    assert any((day.month, day.day) == (2, 29) for row in days for day in row)
    assert any(row[0].year < row[-1].year for row in days)


@each_row(
    "holds",
    [
        lambda text: "${question}" in text,
        lambda text: '<tag> & "quotes"' in text,
        lambda text: re.search(r"[\u4e00-\u9fff]", text),
        lambda text: re.search(r"[\u3040-\u309f]", text),
        lambda text: re.search(r"[\U0001f300-\U0001faff]", text),
        lambda text: re.search(r"[áéíóúñÅø]", text),
        lambda text: "'" in text and '"' in text,
        lambda text: "\n" in text,
    ],
)
def test_turns_contain_unusual_text(conversations: list[Conversation], holds: Callable[[str], object]) -> None:
    assert any(holds(turn["text"]) for talk in conversations for turn in talk.turns.values())


def test_one_turn_has_6000_characters_with_answers_deep_inside(
    conversations: list[Conversation],
) -> None:
    long = [(talk, turn) for talk in conversations for turn in talk.turns.values() if len(turn["text"]) >= 6000]
    assert len(long) == 1
    ((talk, turn),) = long
    found = [
        turn["text"].find(answer)
        for question in talk.questions
        if evidence(question) == [turn["id"]]
        for answer in answers(question)
    ]
    assert found
    assert min(found) > 2500


def test_at_least_three_answers_are_only_in_a_caption(conversations: list[Conversation]) -> None:
    only = [
        question["id"]
        for talk in conversations
        for question in talk.questions
        if question["type"] == "single-session" and not in_text(talk, question) and in_caption(talk, question)
    ]
    assert len(only) >= 3


def in_text(talk: Conversation, question: dict[str, object]) -> bool:
    spoken = "\n".join(turn["text"] for turn in talk.turns.values()).lower()
    return any(answer.lower() in spoken for answer in answers(question))


def in_caption(talk: Conversation, question: dict[str, object]) -> bool:
    shown = "\n".join(talk.turns[turn].get("caption", "") for turn in evidence(question)).lower()
    return any(answer.lower() in shown for answer in answers(question))


def test_no_turn_has_a_key_that_reveals_the_answer(conversations: list[Conversation]) -> None:
    keys = {key for talk in conversations for turn in talk.turns.values() for key in turn}
    assert keys == {"id", "role", "speaker", "text", "caption"}


def test_demo_json_is_UTF_8_without_escapes(datasets: Path) -> None:
    raw = (datasets / "demo" / "demo.json").read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\\u" not in raw
    assert read(datasets / "demo" / "demo.json")


def test_deletion_rows_name_their_own_note_and_no_other_note_has_the_text(datasets: Path) -> None:
    rows = [json.loads(row) for row in (datasets / "demo" / "deletion.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 10
    for row in rows:
        assert row["delete_id"] == row["id"]
        assert row["evidence"] == [row["id"]]
        assert row["deleted_content"] in row["content"]
        assert row["answer"] in row["content"]
        others = [other["content"] for other in rows if other["owner"] == row["owner"] and other is not row]
        assert others
        assert not any(row["deleted_content"].lower() in text.lower() for text in others)
