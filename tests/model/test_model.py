"""Value classes: frozen, without gold fields for providers, and token counts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench import model
from bench.model import (
    FAILED_STATES,
    SCORED_STATES,
    Corpus,
    Evidence,
    Found,
    Hit,
    Ingested,
    Item,
    Memory,
    Message,
    Phase,
    Query,
    Readiness,
    ScoredItem,
    Session,
    Space,
    State,
    Turn,
    Usage,
    Verdict,
)
from bench.tokens import count_tokens, cut_to_quarters, fewest_tokens, token_quarters
from tests.rows import each_row

PROVIDER_SIDE = (Message, Memory, Space, Query, Ingested, Readiness, Hit, Found)
GOLD = {
    "answer", "answers", "expected", "evidence", "has_answer", "question_type", "abstention", "references", "relevant",
    "rubric", "choices", "choice_answer", "deletion", "flags",
}  # fmt: skip


def values() -> Iterator[type[Any]]:
    for _, one in inspect.getmembers(model, inspect.isclass):
        if is_dataclass(one) and one.__module__ == model.__name__:
            yield one


@each_row("one", list(values()))
def test_every_value_has_only_declared_fields_and_takes_keywords(one: type[Any]) -> None:
    names = {field.name for field in fields(one)}
    assert set(one.__slots__) == names, "only declared fields"
    assert all(field.kw_only for field in fields(one)), one
    with pytest.raises(TypeError):
        one(*names)


@each_row("one", PROVIDER_SIDE)
def test_values_for_providers_have_no_gold_fields(one: type[Any]) -> None:
    answered = {"flags"} if one is Found else set()
    assert GOLD & {field.name for field in fields(one)} == answered, "flags of hits describe the response, not the item"


def test_items_have_gold_fields_and_ScoredItem_has_no_corpus() -> None:
    assert {"answers", "evidence", "question_type", "abstention", "rubric"} <= {field.name for field in fields(Item)}
    assert {"answers", "abstention", "rubric", "evidence_texts"} <= {field.name for field in fields(ScoredItem)}
    assert "corpus" not in {field.name for field in fields(ScoredItem)}, "an evaluator never sees the memory"


def test_values_are_compared_by_content() -> None:
    def corpus(text: str) -> Corpus:
        return Corpus(id="c", sessions=(Session(id="s", turns=(Turn(id="t", text=text),)),))

    assert corpus("x") == corpus("x") != corpus("y")
    assert len({Turn(id="t", text="x"), Turn(id="t", text="x"), Turn(id="t", text="y")}) == 2


def test_optional_fields_are_empty_and_not_shared() -> None:
    one, other = Item(id="1", position=1, corpus="c", question="q"), Item(id="2", position=2, corpus="c", question="q")
    assert one.evidence == Evidence(sessions=(), turns=())
    assert one.metadata == {} and one.metadata is not other.metadata
    assert Verdict(evaluator="e", value=None, correct=None).judged is False
    assert Usage().total_tokens == 0
    assert Found().ids_available is True


def test_states_are_scored_failed_or_neither() -> None:
    assert {str(one) for one in SCORED_STATES} == {"correct", "incorrect", "partial", "abstained"}
    assert {str(one) for one in FAILED_STATES} == {"error", "not_ready"}
    assert not SCORED_STATES & FAILED_STATES
    assert {str(one) for one in set(State) - SCORED_STATES - FAILED_STATES} == {"unsupported", "unscored", "measured"}


def test_phases_are_in_order() -> None:
    assert [str(one) for one in Phase] == ["ingest", "index", "search", "answer", "evaluate"]


@each_row(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("日本語文", 4),
        ("สวัสดี", 6),
        ("안녕 ab", 3),
        ("😀" * 5, 2),
        (" " * 8, 2),
    ],
)
def test_a_token_is_four_characters_or_one_character_of_a_script_without_spaces(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@given(one=some.text(), other=some.text())
def test_splitting_a_text_adds_at_most_one_token(one: str, other: str) -> None:
    together, apart = count_tokens(one + other), count_tokens(one) + count_tokens(other)
    assert together <= apart <= together + 1
    assert count_tokens(one) * 4 >= token_quarters(one) > (count_tokens(one) - 1) * 4
    assert len(one) <= token_quarters(one) <= 4 * len(one)
    assert -(-len(one) // 4) <= fewest_tokens(one) <= count_tokens(one)


@given(text=some.text(some.sampled_from("ab 水ส한😀")), room=some.integers(-1, 40))
def test_cut_to_quarters_returns_the_longest_prefix_that_fits(text: str, room: int) -> None:
    head = cut_to_quarters(text, room)
    assert text.startswith(head) and token_quarters(head) <= max(room, 0)
    assert head == text or token_quarters(text[: len(head) + 1]) > room
