"""Multiple choice: the meaning of choice_answer and of an answer, and invalid choices on load."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.catalog import Catalog
from bench.datasets import Dataset, open_benchmark
from bench.errors import DataError
from bench.metrics.answers.choices import choice_index, chosen_index
from tests.rows import each_row

CITIES = ("Rome", "Paris", "New York")
WORDS = st.text("abcdefghijklm", min_size=2, max_size=8)


@each_row(
    ("gold", "place"),
    [
        ("Paris", 1),
        ("  new   YORK ", 2),
        ("B", 1),
        ("b", 1),
        ("(c)", 2),
        ("A.", 0),
        ("D", None),
        ("1", None),
        ("Par", None),
        ("", None),
        ("ß", None),
        (None, None),
    ],
)
def test_choice_index_reads_a_text_or_a_letter(gold: str | None, place: int | None) -> None:
    assert choice_index(gold, CITIES) == place


@each_row(
    ("answer", "place"),
    [
        ("Paris", 1),
        ("B", 1),
        ("**b**", 1),
        ("It is Paris, though Rome was planned", 1),
        ("Answer: C) New York", 2),
        ("(A) because she said so", 0),
        ("new\nyork", 2),
        ("New Yorker", None),
        ("A new day in Athens", None),
        ("D", None),
        ("", None),
        ("  \n", None),
    ],
)
def test_chosen_index_returns_the_first_option_named_alone(answer: str, place: int | None) -> None:
    assert chosen_index(answer, CITIES) == place


def test_chosen_index_prefers_the_longer_of_two_overlapping_options() -> None:
    assert chosen_index("She went to New York City", ("New York", "New York City")) == 1
    assert chosen_index("Only A and B hold", ("only A", "only A and B")) == 1


def test_an_option_that_looks_like_a_letter_is_matched_by_its_text() -> None:
    shuffled = ("B", "A", "C")
    assert [choice_index(text, shuffled) for text in shuffled] == [0, 1, 2]
    assert [chosen_index(text, shuffled) for text in shuffled] == [0, 1, 2]


@each_row("count", [0, 1, 26, 27, 28, 29, 30, 60])
def test_letters_name_at_most_26_options(count: int) -> None:
    options = tuple(f"option number {place}" for place in range(count))
    named = [chosen_index(f"It is {letter}.", options) for letter in ascii_uppercase]
    assert named == [place if place < count else None for place in range(26)]
    assert [chosen_index(mark, options) for mark in "[\\]^_`"] == [None] * 6
    assert chosen_index(f"it is option number {count - 1}", options) == (count - 1 if count else None)


@given(options=st.lists(WORDS, min_size=1, max_size=26, unique=True), data=st.data())
def test_chosen_index_finds_the_text_and_letter_of_any_option(options: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(options) - 1))
    letter = ascii_uppercase[place]
    for text in (options[place], options[place].upper(), letter, letter.lower(), f"({letter})", f"{letter}) "):
        assert choice_index(text, options) == chosen_index(text, options) == place


@given(answer=st.text(max_size=40), options=st.lists(st.text(max_size=6), max_size=40))
def test_chosen_index_returns_a_valid_index_or_None(answer: str, options: list[str]) -> None:
    named = chosen_index(answer, options)
    assert named is None or 0 <= named < len(options)


# ---------------------------------------------------------------- when a dataset is opened

QUIZ = """
name: quiz
version: "1"
data: {type: local, path: ./datasets/quiz.jsonl, format: jsonl}
schema: {itemId: id, question: q, choices: options, choiceAnswer: right, context: {field: story, type: string}}
evaluation: {method: mcq}
metrics: [accuracy]
"""
ROW = {"id": "i1", "q": "Where?", "options": ["Rome", "Paris"], "right": "B", "story": "It is Paris."}


def quiz(folder: Path, *rows: dict[str, object], config: str = QUIZ) -> Dataset:
    """Open a benchmark of these rows."""
    for name, text in (
        ("configs/benchmarks/quiz.yaml", config),
        ("datasets/quiz.jsonl", "".join(json.dumps(ROW | row) + "\n" for row in rows)),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return open_benchmark(Catalog.load(folder).benchmark("quiz"), folder)


@each_row("right", ["A", "b", "rome", " Paris "])
def test_a_valid_choice_answer_is_unchanged_in_the_item(tmp_path: Path, right: str) -> None:
    dataset = quiz(tmp_path, {"right": right})
    assert dataset.item(dataset.ref(1)).choice_answer == right


@each_row(("right", "shown"), [("C", '"C"'), ("Pari", '"Pari"'), (1, "1"), (True, "true"), (["B"], "a list")])
def test_a_choice_answer_outside_the_choices_is_refused_at_its_row(tmp_path: Path, right: object, shown: str) -> None:
    with pytest.raises(DataError) as caught:
        quiz(tmp_path, {}, {"id": "i2", "right": right})
    assert (caught.value.where or "").endswith("quiz.jsonl:2")
    text = "right matches none of the 2 choices of i2, as a text or a letter"
    assert caught.value.message == f"{text}: {shown} (row i2)"
    assert caught.value.hint == "write the text or the letter of one of the choices"


def test_only_an_abstention_item_may_have_no_choice_answer(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"quiz.jsonl:1: right is missing in item i1 \(row i1\)"):
        quiz(tmp_path, {"right": None})
    unanswerable = QUIZ + "abstention: {idPattern: '^u'}\n"
    assert len(quiz(tmp_path, {"id": "u1", "right": None}, config=unanswerable)) == 1
    assert len(quiz(tmp_path, {"right": None}, config=QUIZ.replace("mcq", "none"))) == 1
