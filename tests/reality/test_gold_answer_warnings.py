"""Misleading gold answers and options are noted before a run, and answers with an unreadable option are counted."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.metrics.answers.choices import chosen_index
from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, serving
from tests.rows import each_row

OPEN = """
name: sheds
version: "1"
data: {type: local, path: ./FILE}
schema: {itemId: id, question: q, answer: a, context: {field: text, type: string}}
evaluation: {method: contains}
metrics: [accuracy]
"""
CHOICES = """
name: sheds
version: "1"
data: {type: local, path: ./sheds.jsonl}
schema: {itemId: id, question: q, choices: c, choiceAnswer: a, context: {field: text, type: string}}
evaluation: {method: mcq}
metrics: [accuracy]
"""


def rows(*golds: object, **more: object) -> list[dict[str, object]]:
    return [
        {"id": f"q{at}", "q": f"What is in shed {at}?", "a": gold, "text": f"Shed {at} holds a rake.", **more}
        for at, gold in enumerate(golds)
    ]


def write(folder: Path, config: str, data: list[dict[str, object]]) -> None:
    (folder / "sheds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
    place = folder / "configs/benchmarks/sheds.yaml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(config.replace("FILE", "sheds.jsonl"), encoding="utf-8")


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        ("nan", "a gold answer that means no value"),
        ("N/A", "a gold answer that means no value"),
        ("Unanswerable", "a gold answer that means no answer"),
        ("The answer is not mentioned.", "a gold answer that means no answer"),
        ("I don't know", "a gold answer that means no answer"),
        ('["a rake", "rakes"]', "a gold answer that is a list or object written as text"),
        ("{'text': 'a rake'}", "a gold answer that is a list or object written as text"),
    ],
)
def test_validate_notes_a_gold_answer_that_means_no_value_or_no_answer(
    gold: str, expected: str, bench: Bench, tmp_path: Path
) -> None:
    write(tmp_path, OPEN, rows("a rake", gold))
    done = bench("validate", "configs/benchmarks/sheds.yaml")
    assert f"1 item has {expected}" in done.stdout + done.stderr and "q1" in done.stdout + done.stderr


ORNAMENTS = ["A rake.", '"a rake"', "**a rake**", "a rake; a hoe", "a rake / a hoe"]
SPELLINGS = [
    "rake &amp; hoe", "a rake\\n", "a rake|a hoe", "<p>a rake</p>", "Answer: a rake", "2021.0", "H₂O", "50\\%",
    r"$\text{a rake}$", "१२", "A: a rake",
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "noted"),
    [
        ("contains", [*ORNAMENTS, *SPELLINGS]),
        ("exact-match", [*ORNAMENTS, *SPELLINGS]),
        ("token-f1", SPELLINGS),
        ("phrases", [*SPELLINGS, "1,200 rakes"]),
        ("llm-judge", []),
    ],
)
def test_validate_notes_gold_answers_with_marks_that_the_evaluator_compares(
    method: str, noted: list[str], bench: Bench, tmp_path: Path
) -> None:
    golds = [*ORNAMENTS, *SPELLINGS, "1,200 rakes", "a rake"]
    write(tmp_path, OPEN.replace("contains", method), rows(*golds))
    done = bench("validate", "configs/benchmarks/sheds.yaml")
    first = next((f"q{golds.index(gold)} {gold!a}" for gold in noted), "")
    note = f"{len(noted)} items have a gold answer with marks that this evaluator compares"
    assert (note in done.stdout + done.stderr) is bool(noted) and first in done.stdout + done.stderr


def test_gold_answers_with_an_alternative_without_marks_are_not_noted(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, OPEN, rows(["a rake; a hoe", "a rake"]))
    assert "with marks" not in bench("validate", "configs/benchmarks/sheds.yaml").stderr


@pytest.mark.parametrize("gold", ["a rake", "a rake; a hoe"])
def test_gold_marks_are_also_checked_for_the_evaluators_of_question_types(
    gold: str, bench: Bench, tmp_path: Path
) -> None:
    routed = OPEN.replace("method: contains", "method: llm-judge, methods: {absent: exact-match}, methodsBy: choices")
    write(tmp_path, routed, rows(gold))
    done = bench("validate", "configs/benchmarks/sheds.yaml")
    assert ("1 item has a gold answer with marks" in done.stdout + done.stderr) is (";" in gold)


@pytest.mark.parametrize(
    "gold",
    [
        "a rake",
        "5 p.m.",
        "U.S.",
        "rock 'n' roll",
        "none of the two",
        "[sic] a rake",
        "no",
        "Nan Goldin",
        "the unknown soldier",
        "$5 to $10",
        "1,200",
        "3 > 2",
        "x <3 y",
        "C:/data",
        "24/7",
        "He likes tea; she has always liked coffee much more",
        "a || b",
        "R&D",
        "5.0 stars",
        "A Tale: of two cities",
    ],
)
def test_an_ordinary_gold_answer_is_not_noted(gold: str, bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, OPEN, rows(gold))
    done = bench("validate", "configs/benchmarks/sheds.yaml")
    assert "1 item has" not in done.stdout + done.stderr


def test_parquet_columns_of_types_that_json_lacks_are_read(bench: Bench, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns: dict[str, Any] = {
        "id": ["q0"], "q": ["What does the rake cost?"], "text": ["The rake costs 4.50."],
        "a": pyarrow.array([Decimal("4.50")]), "at": [datetime.time(9, 5)], "seen": [float("nan")],
        "lasts": pyarrow.array([90], pyarrow.duration("s")), "big": pyarrow.array([Decimal("1E+3")]),
    }  # fmt: skip
    write(tmp_path, OPEN.replace("FILE", "sheds.parquet"), [])
    parquet.write_table(pyarrow.table(columns), tmp_path / "sheds.parquet")
    bench("validate", "configs/benchmarks/sheds.yaml")
    assert json.loads(bench("describe", "sheds", "--items").stdout.splitlines()[0])["answers"] == ["4.50"]


@each_row(
    ("answer", "place"),
    [
        ("<answer>B</answer>", 1),
        ("A is tempting.\n<answer>(B) Paris</answer>\nA was wrong.", 1),
        ("<final_answer> b </final_answer>", 1),
        ("B!", 1),
        ("B。", 1),
        ("選B", 1),
        ("คำตอบ: B", 1),
        ("Antwoord: B", 1),
        ("Ответ: В", None),
        ("<answer>A or B</answer>", None),
    ],
)
def test_chosen_index_reads_answer_tags_punctuation_and_labels_of_other_languages(
    answer: str, place: int | None
) -> None:
    assert chosen_index(answer, ("Rome", "Paris", "Oslo")) == place


@pytest.mark.parametrize(("answer", "right"), [("A", 1.0), ("B", 1.0), ("rake", 1.0), ("C", 0.0), ("Ответ: В", 0.0)])
def test_either_of_two_equal_options_is_correct_and_unreadable_options_are_noted(
    answer: str, right: float, bench: Bench, tmp_path: Path
) -> None:
    write(tmp_path, CHOICES, rows("B", "A", c=["rake", "Rake", "spade"]))
    assert "2 items have the same option twice" in bench("validate", "configs/benchmarks/sheds.yaml").stderr
    with serving(lambda body: completion(answer)) as stub:
        file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"}}
        (tmp_path / "configs/models").mkdir()
        (tmp_path / "configs/models/local.yaml").write_text(json.dumps(file), encoding="utf-8")
        bench("run", "--benchmarks", "sheds", "--providers", "bm25", "--answering-model", "local/m", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["metrics"]["accuracy"]["value"] == right
    text = "2 answers without a readable option, or with more than one, counted as wrong (such as q0)"
    assert any(note.startswith(text) for note in job["notes"]) is answer.startswith("Ответ")
