"""Answers in other languages and other spellings: refusals, digits, digit grouping, markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reality.chat_stub import completion
from tests.reality.test_answers import Bench, Job, Serve, job, note, own, serve, workspace

__all__ = ["job", "serve", "workspace"]


@pytest.mark.parametrize(
    ("refusal", "detail"),
    [
        ("Jag vet inte.", "I Lund, men gatan nämns inte."),
        ("I don't have information about that.", "The shop whose price is not mentioned."),
        ("در این مکالمه به آن اشاره نشده است.", "در لوند، اما خیابان ذکر نشده است."),
        ("V rozhovoru o tom není žádná zmínka.", "V Brně, ale ulice není uvedena."),
    ],
)
def test_a_refusal_in_another_language_is_recognized_and_a_missing_detail_is_not_one(
    refusal: str, detail: str, serve: Serve, job: Job
) -> None:
    serve(own([completion(refusal), completion(detail)], completion(refusal)))
    found = job(benchmark="abst")
    assert found["counts"] == {"abstained": 1, "incorrect": 1, "correct": 2}
    assert found["metrics"]["accuracy"]["value"] == 0.5


@pytest.mark.parametrize(
    ("gold", "answer"), [("1200", "It cost 1,200 kr."), ("12", "वह १२ साल का है"), ("R&D", "In R&amp;D.")]
)
def test_a_gold_missed_by_its_spelling_is_noted_and_scored_as_sent(
    gold: str, answer: str, serve: Serve, job: Job, workspace: Path, bench: Bench
) -> None:
    data = workspace / "configs/benchmarks/mini/data.jsonl"
    rows = [json.loads(line) | {"answer": gold} for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    serve(own([completion(answer), completion(f"It is {gold}.")], completion("I do not know")))
    found = job()
    text = "1 answer that contains the gold in another spelling"
    assert found["metrics"]["contains_match"]["value"] == 0.25 and note(found, text) and note(found, "such as m1")
    theirs = workspace / "theirs.jsonl"
    theirs.write_text(json.dumps({"item": "m1", "answer": answer}) + "\n")
    assert text in bench("score", str(theirs), "--benchmark", "mini", check=None).stdout
