"""Answers that text rules score by their form: other spellings of the gold, a repeated context, a denied gold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.models.faulty_answers import contradicts_gold, has_other_marks, parts_spaced_number, quotes_context
from tests.reality.chat_stub import completion
from tests.reality.test_answers import FACTS, Job, Serve, job, note, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]


@each_row(
    ("answer", "gold", "differs"),
    [
        ("Don’t panic.", "don't panic", True),
        ("A T‑shirt.", "T-shirt", True),
        ("2010–2012", "2010-2012", True),
        ("−5 degrees", "-5", True),
        ("Tove's cat", "Tove’s cat", True),
        ("Tove’s cat", "Tove’s cat", False),
        ("She doesn’t say; Pelle", "Pelle", False),
        ("She doesn’t say", "Pelle", False),
        ("Tove's cat", "Tove's cat", False),
        ("The **9:05** to **Lund**.", "9:05 to Lund", True),
        ("The **9:05 to Lund**.", "9:05 to Lund", False),
        ("**", "**", False),
        ("The **8:00** to **Lund**.", "9:05 to Lund", False),
        ("in the *blue* pot", "blue pot", True),
        ("about 1,200 kr", "1200", True),
        ("1 200 kr", "1,200", True),
        ("1\u202f200", "1200", True),
        ("1.200 kr", "1200", True),
        ("12,00,000", "1200000", True),
        ("12.5 km", "12,5 km", True),
        ("$10", "$10.00", True),
        ("in 2021", "2021.0", True),
        ("5 pm", "5pm", True),
        ("वह १२ साल का है", "12", True),
        ("１２ cats", "12", True),
        ("٣٫٥", "3.5", True),
        ("H₂O", "H2O", True),
        ("50\\% of it", "50%", True),
        (r"$\text{The cat}$ is H_2O", "the cat is H2O", True),
        ("R&amp;D", "R&D", True),
        ("R&D", "R&amp;D", True),
        ("Lund and Malmö", "Lund; Malmö", True),
        ("Lund", "Lund|Malmö", True),
        ("It was Lund", "<p>Lund</p>", True),
        ("It was Lund", "Answer: Lund", True),
        ("Lund", "Lund; Malmö", False),
        ("10,000", "10", False),
        ("10²", "102", False),
        ("1½", "11", False),
        ("5 m³", "3", False),
        ("1.2.0", "1.2", False),
        ("192.168.0.1", "192168", False),
        ("rooms 1,5,7", "1.5", False),
        ("11 cats", "1.0", False),
        ("version 1.10", "1.1", False),
        ("$5 and $6", "5 and 6", False),
        ("2*3*4", "234", False),
        ("May 7,2023", "72023", False),
        ("Lund;", "Lund", False),
        ("2 March 2024", "March 2, 2024", True),
        ("On 2024-03-02.", "March 2, 2024", True),
        ("the 2nd of March, 2024", "2024-03-02", True),
        ("2.3.2024", "2024/03/02", True),
        ("March 2nd", "2 March", True),
        ("Mar. 2, 2024", "March 2", True),
        ("2024-03-02", "March 2024", True),
        ("Sept 12, 2024", "12 September 2024", True),
        ("March 3, 2024", "2 March 2024", False),
        ("March 2, 2023", "2 March 2024", False),
        ("May 12", "May 1", False),
        ("12 May", "May 2", False),
        ("March 2, 2024", "March 2, 2024", False),
        ("3 apples", "three apples", True),
        ("Twenty-one apples", "21", True),
        ("thirty people", "30", True),
        ("the one with a hat", "1", False),
        ("someone", "1", False),
        ("4 apples", "three apples", False),
        ("13 apples", "three apples", False),
        ("3 km", "3km", True),
        ("2.5kg", "2.5 kg", True),
        ("at 5 p.m.", "5pm", True),
        ("3 km", "3 km", False),
        ("13 km", "3km", False),
        ("3 kmh", "3km", False),
        ("1st", "1", False),
        ("Yes, it is.", "true", True),
        ("**No**", "false", True),
        ("False.", "no", True),
        ("True", "true", False),
        ("No", "true", False),
        ("Yesterday", "true", False),
        ("Blue, green, and red", "red, green and blue", True),
        ("Red, green and blue", "red, green and blue", False),
        ("Only red.", "red, green", False),
        ("Pepper and salt.", "salt & pepper", True),
    ],
)
def test_has_other_marks_finds_an_answer_that_lacks_the_gold_only_by_its_spelling(
    answer: str, gold: str, differs: bool
) -> None:
    assert has_other_marks(answer, [gold]) == differs


@each_row(
    ("answer", "differs"),
    [("Lund.", True), ("**Lund**", True), (r"$\text{Lund}$", True), ("lund", False), ("Oslo", False)],
)
def test_has_other_marks_with_exact_finds_the_gold_with_added_marks(answer: str, differs: bool) -> None:
    assert has_other_marks(answer, ["Lund"], exact=True) == differs
    assert not has_other_marks(answer, ["Lund"])


@each_row(
    ("answer", "gold", "parts"),
    [
        ("It cost 1 200 kr.", "200", True),
        ("It cost 1\u202f200 kr.", "200 kr", True),
        ("12 345 678", "345", True),
        ("1 200 kr, not 200", "200", False),
        ("1 200 kr", "1 200", False),
        ("in 2021 200 people", "200", False),
        ("5, 200 and 300", "200", False),
        ("about 200 kr", "200", False),
        ("1 200 kr", "kr", False),
        ("1 200 kr", "Lund", False),
    ],
)
def test_parts_spaced_number_finds_a_gold_inside_a_number_with_spaces(answer: str, gold: str, parts: bool) -> None:
    assert parts_spaced_number(answer, [gold]) == parts


@each_row(
    ("answer", "quotes"),
    [
        ("I do not know. Sources: {0} {1} {2}", True),
        ("[1] {0}\n[2] {1}", True),
        ("{0}", False),
        ("Pelle", False),
    ],
)
def test_quotes_context_finds_an_answer_that_repeats_most_of_its_context(answer: str, quotes: bool) -> None:
    texts = [content for _, content, _, _ in FACTS[:3]]
    assert quotes_context(answer.format(*texts), [f"[2024-01-31 12:00] {text}" for text in texts]) == quotes


def test_answers_that_repeat_most_of_their_context_are_noted(serve: Serve, job: Job) -> None:
    serve(lambda body: completion(f"I cannot tell from this:\n{body['messages'][-1]['content']}"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 1.0
    assert "4 answers that repeat most of their context word for word: rules that look for a text" in found["shown"]


def test_a_gold_missed_because_of_bold_marks_is_noted(serve: Serve, job: Job) -> None:
    serve(completion("It is under the **blue** pot"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.0
    assert "1 answer that contains the gold in another spelling" in found["shown"]


def test_golds_missed_because_of_a_number_or_date_format_are_noted(serve: Serve, job: Job, workspace: Path) -> None:
    data = workspace / "configs/benchmarks/mini/data.jsonl"
    golds = {"Pelle": "March 2, 2024", "Umea": "three apples", "alto": "3km"}
    text = data.read_text()
    for old, new in golds.items():
        text = text.replace(f'"answer": "{old}"', f'"answer": "{new}"')
    data.write_text(text)
    serve(completion("On 2 March 2024, 3 apples were carried for 3 km."))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.0
    assert note(found, "3 answers that contain the gold in another spelling")


def test_a_gold_matched_inside_a_number_with_spaces_is_noted(serve: Serve, job: Job, workspace: Path) -> None:
    data = workspace / "configs/benchmarks/mini/data.jsonl"
    data.write_text(data.read_text().replace('"answer": "Pelle"', '"answer": "200"'))
    serve(completion("It was 1 200"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25
    assert note(found, "1 answer that contains the gold only as a part of a number with spaces")


def test_other_marks_next_to_a_gold_that_is_found_or_missing_are_not_noted(serve: Serve, job: Job) -> None:
    serve(completion("Under the blue pot – that’s where. Pelle‑alto"))
    assert "in another spelling" not in job()["shown"]


def test_a_benchmark_named_twice_is_refused_before_any_call(bench: Callable[..., Any], serve: Serve) -> None:
    stub = serve(completion("Pelle"))
    done = bench(
        "run", "--benchmarks", "mini", "mini", "--providers", "bm25", "--answering-model", "local/m", check=2
    )  # fmt: skip
    assert 'benchmark "mini" is named twice' in done.stderr and not stub.asked


@each_row(
    ("answer", "contradicts"),
    [
        ("It is not Pelle.", True),
        ("She didn't call it Pelle.", True),
        ("Candidates: Pelle, Nisse.\n\nFinal answer: Nisse", True),
        ("Pelle? No.\n**Final answer:** I do not know", True),
        ("Not Nisse but Pelle.", False),
        ("It is not only Pelle.", False),
        ("It is not Pelle. Wait, it is Pelle.", False),
        ("Candidates: Pelle, Nisse.\n\nFinal answer: Pelle", False),
        ("I do not know, maybe Pelle", False),
        ("Nisse", False),
        ("Pelle was her first cat.\n\nAnswer: Nisse", True),
        ("Pelle was her first cat.\n\n**Answer:** Nisse", True),
        ("Pelle was her first cat. Therefore, the answer is Nisse.", True),
        ("Pelle was her first cat. So the answer is \\boxed{Nisse}", True),
        ("Pelle was her first cat.\n#### Nisse", True),
        ("Answer: not Pelle", True),
        ("Pelle was her first cat.\n\nAnswer: Pelle", False),
        ("Answer: Pelle\n\nReason: her first cat.", False),
        ("Pelle. The answer is in the first session.", False),
        ("#### Cats\nPelle\n#### Dogs\nNisse is a dog, and she has had him for more than ten years by now.", False),
        ("\\boxed{Pelle}", False),
    ],
)
def test_contradicts_gold_finds_an_answer_that_denies_the_gold_or_ends_with_another(
    answer: str, contradicts: bool
) -> None:
    assert contradicts_gold(answer, ["Pelle"]) == contradicts


def test_a_gold_denied_in_the_final_answer_line_is_not_noted(serve: Serve, job: Job) -> None:
    serve(completion("Final answer: Oslo, and not under the blue pot, Pelle, Umea or alto"))
    assert "only after a word such as not" not in job()["shown"], "the last line is the final answer"


def test_a_gold_only_before_another_final_answer_is_noted(serve: Serve, job: Job) -> None:
    serve(completion("It may be under the blue pot, Pelle, Umea or alto.\nFinal answer: Oslo"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 1.0
    assert (
        "4 answers that contain the gold only after a word such as not, or only before another final" in found["shown"]
    )


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        ("I don't know anything about under the blue pot, Pelle, Umea or alto.", True),
        ("I'm not sure, but I think it is under the blue pot, Pelle, Umea or alto.", False),
    ],
)
def test_a_refusal_that_contains_the_gold_is_noted(answer: str, noted: bool, serve: Serve, job: Job) -> None:
    serve(completion(answer))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 1.0
    assert ("4 answers that contain the gold only" in found["shown"]) is noted
    assert ("or in a refusal: rules" in found["shown"]) is noted


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        ("I'm not sure, but I think it is in the red drawer.", {"incorrect"}),
        ("I'm not sure, but I can look into it.", {"abstained", "correct"}),
    ],
)
def test_a_guess_after_words_of_doubt_is_not_scored_as_a_refusal(
    answer: str, states: set[str], serve: Serve, job: Job
) -> None:
    serve(completion(answer))
    assert {row["state"] for row in job(benchmark="abst")["rows"]} == states


@pytest.mark.parametrize(("share", "noted"), [(4, True), (2, False)])
def test_questions_that_contain_their_gold_are_noted(
    share: int, noted: bool, bench: Callable[..., Any], workspace: Path
) -> None:
    path = workspace / "configs/benchmarks/mini/data.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[:share]:
        row["question"] = f"Q: {row['question']} A: {row['answer']}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bench("run", "--benchmarks", "mini", "--providers", "bm25", "--answering-model", "builtin/extractive")
    assert ("4 of 4 questions contain their own gold" in done.stdout) == noted
