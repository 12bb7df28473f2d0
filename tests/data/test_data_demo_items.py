"""The questions of the demo have the promised properties per type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.data.demo_text import Conversation, answers, content_words, evidence, instant, spoken_text

LEAST = {
    "single-session": 30,
    "multi-session": 20,
    "temporal": 20,
    "knowledge-update": 15,
    "preference": 10,
    "abstention": 15,
}
Pair = tuple[Conversation, dict[str, object]]


def of_type(conversations: list[Conversation], kind: str) -> Iterator[Pair]:
    return ((talk, question) for talk in conversations for question in talk.questions if question["type"] == kind)


def test_the_demo_has_the_promised_number_of_items_per_type(conversations: list[Conversation]) -> None:
    counts = Counter(str(question["type"]) for talk in conversations for question in talk.questions)
    assert set(counts) == set(LEAST)
    assert {kind: n for kind, n in counts.items() if n < LEAST[kind]} == {}
    assert sum(counts.values()) >= 110


def test_demo_item_ids_and_questions_are_unique(conversations: list[Conversation]) -> None:
    ids = [question["id"] for talk in conversations for question in talk.questions]
    texts = [(talk.id, question["question"]) for talk in conversations for question in talk.questions]
    assert len(ids) == len(set(ids))
    assert len(texts) == len(set(texts))


def test_demo_evidence_names_existing_turns_once(conversations: list[Conversation]) -> None:
    for talk in conversations:
        for question in talk.questions:
            named = evidence(question)
            assert named, question["id"]
            assert len(named) == len(set(named)), question["id"]
            assert set(named) <= set(talk.turns), question["id"]


def test_every_demo_item_except_abstention_has_an_answer(conversations: list[Conversation]) -> None:
    for talk in conversations:
        for question in talk.questions:
            assert bool(answers(question)) == (question["type"] != "abstention"), question["id"]
            assert all(text.strip() for text in answers(question)), question["id"]


def test_single_session_items_ask_for_at_least_20_user_and_10_assistant_turns(
    conversations: list[Conversation],
) -> None:
    roles = Counter(
        talk.turns[evidence(question)[0]].get("role") for talk, question in of_type(conversations, "single-session")
    )
    assert roles["user"] >= 20
    assert roles["assistant"] >= 10


def test_single_session_evidence_is_in_one_session(conversations: list[Conversation]) -> None:
    for talk, question in of_type(conversations, "single-session"):
        assert len({talk.session_of[turn] for turn in evidence(question)}) == 1, question["id"]


def test_a_third_of_the_single_session_items_shares_no_word_with_the_evidence(
    conversations: list[Conversation],
) -> None:
    pairs = list(of_type(conversations, "single-session"))
    apart = [
        question["id"]
        for talk, question in pairs
        if not content_words(str(question["question"]))
        & {word for turn in evidence(question) for word in content_words(spoken_text(talk.turns[turn]))}
    ]
    assert len(apart) >= len(pairs) / 3


@pytest.mark.parametrize("kind", ["single-session", "knowledge-update", "preference"])
def test_the_evidence_contains_the_answer(conversations: list[Conversation], kind: str) -> None:
    for talk, question in of_type(conversations, kind):
        text = talk.evidence_text(question).lower()
        assert any(answer.lower() in text for answer in answers(question)), question["id"]


def test_multi_session_evidence_spans_two_to_four_sessions(conversations: list[Conversation]) -> None:
    for talk, question in of_type(conversations, "multi-session"):
        assert 2 <= len({talk.session_of[turn] for turn in evidence(question)}) <= 4, question["id"]


def test_a_knowledge_update_has_the_old_and_new_value_and_answers_with_the_new(
    conversations: list[Conversation],
) -> None:
    for talk, question in of_type(conversations, "knowledge-update"):
        places = [talk.session_of[turn] for turn in evidence(question)]
        assert len(set(places)) >= 2, question["id"]
        assert [talk.instants[place] for place in places] == sorted(talk.instants[place] for place in places)
        old, *later = (spoken_text(talk.turns[turn]).lower() for turn in evidence(question))
        assert any(answer.lower() in text for answer in answers(question) for text in later), question["id"]
        assert not any(answer.lower() in old for answer in answers(question)), question["id"]


def test_only_preference_items_have_a_rubric(conversations: list[Conversation]) -> None:
    for talk in conversations:
        for question in talk.questions:
            rubric = question["rubric"]
            assert isinstance(rubric, list)
            assert (len(rubric) >= 2) == (question["type"] == "preference"), question["id"]


def test_each_conversation_has_abstention_items_with_similar_turns(conversations: list[Conversation]) -> None:
    for talk in conversations:
        asked = [question for question in talk.questions if question["type"] == "abstention"]
        assert asked, talk.id
        for question in asked:
            near = {word for turn in evidence(question) for word in content_words(spoken_text(talk.turns[turn]))}
            assert near & content_words(str(question["question"])), question["id"]


def test_temporal_items_ask_for_days_order_and_dates(conversations: list[Conversation]) -> None:
    texts = [str(question["question"]) for _, question in of_type(conversations, "temporal")]
    assert sum(bool(re.match(r"How many (days|weeks|nights)", text)) for text in texts) >= 8
    assert sum(bool(re.search(r"\b(before or after|first,)", text)) for text in texts) >= 4
    assert sum(bool(re.search(r"On what date|On which date|What was the date|which day", text)) for text in texts) >= 6


def test_at_least_ten_answers_are_whole_numbers(conversations: list[Conversation]) -> None:
    whole = [question for talk in conversations for question in talk.questions if type(question["answer"]) is int]
    assert len(whole) >= 10


def test_questions_are_dated_after_the_last_session(conversations: list[Conversation]) -> None:
    for talk in conversations:
        assert min(instant(str(question["asked"])) for question in talk.questions) > max(talk.instants), talk.id
