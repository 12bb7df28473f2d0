"""The demo separates good from bad memories: only the files, SQLite's BM25 and the extractive reader."""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import pytest

from bench.models.extractive import best_sentence
from tests.data.demo_text import Conversation, answers, evidence, line

K = 10
Search = Callable[[Conversation, Mapping[str, object]], list[str]]


def by_bm25(talk: Conversation, question: Mapping[str, object]) -> list[str]:
    """Return the first K turns of an FTS5 table for the words of the question."""
    turns = sorted(talk.turns, key=lambda turn: talk.instants[talk.session_of[turn]])
    with sqlite3.connect(":memory:") as store:
        store.execute("create virtual table memory using fts5(content, tokenize = 'porter unicode61')")
        store.executemany("insert into memory values (?)", [(line(talk.turns[turn]),) for turn in turns])
        asked = " OR ".join(
            f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", str(question["question"]).lower()))
        )
        query = "select rowid from memory where memory match ? order by bm25(memory), rowid limit ?"
        found = [turns[number - 1] for (number,) in store.execute(query, (asked, K))]
    store.close()
    return found


def by_chance(talk: Conversation, question: Mapping[str, object]) -> list[str]:
    return random.Random(str(question["id"])).sample(list(talk.turns), K)


def by_evidence(talk: Conversation, question: Mapping[str, object]) -> list[str]:
    return evidence(question)


def everything(talk: Conversation, question: Mapping[str, object]) -> list[str]:
    return sorted(talk.turns, key=lambda turn: talk.instants[talk.session_of[turn]])


def nothing(talk: Conversation, question: Mapping[str, object]) -> list[str]:
    return []


def ndcg(retrieved: Sequence[str], relevant: Sequence[str]) -> float:
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(K, len(relevant)) + 1))
    return sum(1 / math.log2(rank + 1) for rank, turn in enumerate(retrieved[:K], 1) if turn in relevant) / ideal


def mean_ndcg(conversations: list[Conversation], search: Search) -> float:
    values = [
        ndcg(search(talk, question), evidence(question))
        for talk in conversations
        for question in talk.questions
        if question["type"] != "abstention"
    ]
    return math.fsum(values) / len(values)


def right_answers(conversations: list[Conversation], search: Search, kinds: Sequence[str] = ()) -> int:
    return sum(
        is_right(talk, question, search(talk, question))
        for talk in conversations
        for question in talk.questions
        if not kinds or question["type"] in kinds
    )


def is_right(talk: Conversation, question: Mapping[str, object], retrieved: Sequence[str]) -> bool:
    answer = best_sentence(str(question["question"]), [line(talk.turns[turn]) for turn in retrieved]).lower()
    if question["type"] == "abstention":
        return answer == "i don't know."
    return any(accepted.lower() in answer for accepted in answers(question))


def test_ndcg_separates_oracle_bm25_random_and_no_memory(conversations: list[Conversation]) -> None:
    oracle, bm25, chance, none = (
        mean_ndcg(conversations, search) for search in (by_evidence, by_bm25, by_chance, nothing)
    )
    assert oracle == 1.0
    assert 0.5 < bm25 < 0.7
    assert 0.02 < chance < 0.15
    assert none == 0.0


def test_k_is_far_below_the_memories_and_above_the_evidence_of_any_item(
    conversations: list[Conversation],
) -> None:
    for talk in conversations:
        assert len(talk.turns) > 6 * K
        assert max(len(evidence(question)) for question in talk.questions) <= K / 2


def test_full_context_answers_at_least_as_well_as_bm25(
    conversations: list[Conversation],
) -> None:
    assert right_answers(conversations, everything) >= right_answers(conversations, by_bm25)
    assert right_answers(conversations, by_evidence) > right_answers(conversations, everything)


@pytest.mark.parametrize("kind", ["single-session", "knowledge-update", "preference"])
def test_the_extractive_reader_answers_a_part_of_the_items_from_the_evidence(
    conversations: list[Conversation], kind: str
) -> None:
    asked = sum(question["type"] == kind for talk in conversations for question in talk.questions)
    assert asked / 4 < right_answers(conversations, by_evidence, [kind]) < asked


def test_without_memory_only_abstention_items_are_right(conversations: list[Conversation]) -> None:
    asked = sum(question["type"] == "abstention" for talk in conversations for question in talk.questions)
    assert right_answers(conversations, nothing) == right_answers(conversations, nothing, ["abstention"]) == asked
