"""Texts instead of an answer are errors, and unusual answers are scored with a note."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.metrics.answers.choices import chosen_index
from bench.models.faulty_answers import non_answer_reason, repeats_prompt, signs
from bench.visible_text import has_misleading_characters
from tests.reality.chat_stub import completion
from tests.reality.test_answers import Job, Serve, job, note, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]

CITIES = ("Lund", "Paris", "Oslo", "Rome")
NO_ANSWERS = [
    "Error code: 500 - {'error': {'message': 'overloaded'}}",
    "Error: rate limit exceeded, try again in 20s",
    '{"error": {"message": "model not loaded", "type": "invalid_request_error"}}',
    "502 Bad Gateway",
    "Internal Server Error",
    "upstream connect error or disconnect/reset before headers",
    "Traceback (most recent call last):\n  File ...",
    "openai.APIConnectionError: Connection error.",
    "An error occurred while processing your request.",
    "\n<!DOCTYPE html><html>502",
    "null",
    "undefined",
    "NaN",
    "[object Object]",
    "{{question}}",
    "${retrievedContext}",
    "[INST]",
    "<|reserved_special_token_12|>",
]


@each_row("text", NO_ANSWERS)
def test_non_answer_reason_finds_error_messages_null_values_and_template_parts(text: str) -> None:
    assert non_answer_reason(text) is not None


@each_row(
    "text",
    ["Paris", "None", "Not found.", "Error bars", "500 euros", "404", "{}-shaped", "She had a server error on Monday.",
     "The connection was lost.", '{"answer": "Paris", "error": "none"}', "null and void"],
)  # fmt: skip
def test_non_answer_reason_is_none_for_an_ordinary_answer(text: str) -> None:
    assert non_answer_reason(text) is None


def test_a_text_that_equals_the_gold_is_always_an_answer() -> None:
    assert (
        non_answer_reason("null", ["null"]) is None
        and non_answer_reason("Internal Server Error", ["internal server error"]) is None
    )
    assert signs("N/A", accepted=["n/a"]) == ()


@pytest.mark.parametrize("text", [NO_ANSWERS[0], "null", "{{question}}"])
def test_answers_that_are_error_messages_or_null_are_no_answer_errors(text: str, serve: Serve, job: Job) -> None:
    serve(completion(text))
    found = job()
    assert found["exit"] == 4 and found["error_kinds"] == {"no_answer": 4} and found["n_scored"] == 0
    assert note(found, "such as an error message or null")


def test_a_reply_that_begins_with_its_own_prompt_is_a_no_answer_error(serve: Serve, job: Job) -> None:
    serve(lambda body: completion(body["messages"][-1]["content"] + " Pelle"))
    found = job()
    assert found["error_kinds"] == {"no_answer": 4} and found["n_scored"] == 0
    assert not repeats_prompt("Pelle", "Answer from the memories. " * 9)


@pytest.mark.parametrize(
    ("reply", "note_text"),
    [
        ("Error: nothing there", "4 answers that begin like an error message"),
        ("N/A", "4 answers that are a placeholder such as N/A"),
        ("It is {{answer}} or Pelle", "4 answers that contain a part of a prompt template"),
        ("Pelle. Wait, actually it was Umea.", "4 answers that correct themselves"),
        ("P\u0435lle", "4 answers that contain hidden, look-alike or decomposed characters"),
        ("Pel\u00adle", "4 answers that contain hidden, look-alike or decomposed characters"),
    ],
)
def test_unusual_answers_are_noted_with_an_example(reply: str, note_text: str, serve: Serve, job: Job) -> None:
    serve(completion(reply))
    found = job()
    assert note(found, note_text) and note(found, "(such as ")
    assert note_text in " ".join(found["shown"].split())


def test_answers_that_repeat_the_question_are_noted(serve: Serve, job: Job, workspace: Path) -> None:
    rows = (workspace / "configs/benchmarks/mini/data.jsonl").read_text().splitlines()
    questions = [str(json.loads(row)["question"]) for row in rows]

    def echo(body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][-1]["content"]
        return completion(next(one for one in questions if one in prompt))

    serve(echo)
    assert note(job(), "4 answers that repeat the question")


@each_row("text", ["Pelle", "I can't wait to see Pelle.", "The gift I meant to buy", "C3PO (5 μm)", "в Москве"])
def test_an_ordinary_answer_has_no_signs(text: str) -> None:
    assert signs(text, question="Who?") == ()


@each_row("text", ["\u200bParis", "Pa\u00adris", "P\u0430ris", "ＰＡＲＩＳ", "Cafe\u0301", "\u0412"])
def test_hidden_look_alike_and_decomposed_characters_are_misleading(text: str) -> None:
    assert has_misleading_characters(text)


@each_row("text", ["Café", "نمی\u200cخواهم", "我,你:他？", "👨\u200d👩\u200d👧", "a\u00a0b", "Ελλάδα"])
def test_ordinary_characters_of_other_scripts_are_not_misleading(text: str) -> None:
    assert not has_misleading_characters(text)


@each_row(
    ("answer", "place"),
    [
        ("The answer is A. Wait, actually it's B.", 1),
        ("The answer is A. Wait, let me double check the memories. Yes.", 0),
        ("A. Hold on, that's wrong. The answer is C.", 2),
        ("A\n\nNo, actually, it is D", 3),
        ("\u0412", 1),
        ("(\u0421)", 2),
        ("The answer is \u0410.", 0),
        ("\uff22", 1),
        ("\u041e\u0442\u0432\u0435\u0442: \u0411", None),
    ],
)
def test_chosen_index_takes_a_corrected_choice_and_reads_look_alike_letters(answer: str, place: int | None) -> None:
    assert chosen_index(answer, CITIES) == place


CONFIG = """
name: facts
version: "1"
data: {type: local, path: ./data.json, format: json}
schema: {itemId: id, context: {field: sessions}, questions: {field: qa, questionField: q, answerField: a, idField: id}}
evaluation: {method: contains}
"""


@pytest.mark.parametrize(
    ("questions", "note_text"),
    [
        ([("q1", "Who?", "Pelle"), ("q2", "who?", "Umea")],
         "1 question is repeated for the same history with another id, 1 of them with another gold answer: q1 and q2"),
        ([("q1", "Who?", "Pelle"), ("q2", "Who?", "Pelle"), ("q3", "Who?", "Pelle")],
         "2 questions are repeated for the same history with another id: q1 and q2; q1 and q3"),
        ([("q1", "Who?", "P\u0435lle"), ("q2", "Where?", "Um\u00adea")],
         "2 items have a gold answer, an option or an id"),
        ([("q\u200b1", "Who?", "Pelle")], "1 item has a gold answer, an option or an id with"),
        ([("q1", "Who?", "Pelle"), ("q2", "Where?", "Pelle")], None),
    ],
)  # fmt: skip
def test_validate_notes_repeated_questions_and_misleading_characters(
    questions: list[tuple[str, str, str]], note_text: str | None, tmp_path: Path, bench: Callable[..., Any]
) -> None:
    turns = [{"role": "user", "content": "Pelle lives in Umea."}]
    rows = [{"id": "c", "sessions": [turns], "qa": [{"id": i, "q": q, "a": a} for i, q, a in questions]}]
    (tmp_path / "facts.yaml").write_text(CONFIG)
    (tmp_path / "data.json").write_text(json.dumps(rows))
    notes = json.loads(bench("--json", "validate", str(tmp_path / "facts.yaml")).stdout)["notes"]
    found = [one for one in notes if "repeated for the same history" in one or "hidden characters" in one]
    assert [one for one in found if note_text and note_text in one] if note_text else not found
