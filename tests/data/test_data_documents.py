"""The document sets contain what their configs promise."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from bench.evaluators.deterministic import run_tests
from tests.rows import each_row

FOLDERS = ("demo", "rag-template", "legal-rag", "financial-rag", "code-rag")
Row = dict[str, object]


@pytest.fixture(scope="session")
def handbook(datasets: Path) -> list[Row]:
    lines = (datasets / "rag-template" / "data.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def statutes(datasets: Path) -> Row:
    (row,) = json.loads((datasets / "legal-rag" / "data.json").read_text("utf-8"))
    return row  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def reports(datasets: Path) -> list[dict[str, str]]:
    with (datasets / "financial-rag" / "data.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def passages(handbook: list[Row]) -> dict[str, str]:
    return {f"{row['id']}.{n}": text for row in handbook for n, text in enumerate(row["documents"], 1)}  # type: ignore[call-overload]


@each_row("folder", FOLDERS)
def test_each_dataset_folder_has_a_README_with_license_and_origin(datasets: Path, folder: str) -> None:
    text = (datasets / folder / "README.md").read_text("utf-8")
    assert "CC0-1.0" in text
    assert "**Made:** written by hand" in text


def test_all_shipped_data_is_below_1500_kB(datasets: Path) -> None:
    assert sum(file.stat().st_size for name in FOLDERS for file in (datasets / name).iterdir()) < 1_500_000


def test_the_handbook_has_30_passages_and_20_questions(handbook: list[Row]) -> None:
    assert len(handbook) == 20
    assert len({row["library"] for row in handbook}) == 1
    assert len(set(passages(handbook).values())) == 30


def test_handbook_evidence_contains_the_answer(handbook: list[Row]) -> None:
    texts = passages(handbook)
    for row in handbook:
        answer, (named,) = row["answer"], row["evidence"]  # type: ignore[misc]
        accepted = answer if isinstance(answer, list) else [answer]
        assert named.startswith(f"{row['id']}.")  # type: ignore[has-type]
        assert any(str(text).lower() in texts[named].lower() for text in accepted), row["id"]  # type: ignore[has-type]


def test_at_least_ten_handbook_answers_accept_whole_sentences(handbook: list[Row]) -> None:
    quoted = [row["id"] for row in handbook if isinstance(row["answer"], list) and str(row["answer"][-1]).endswith(".")]
    assert len(quoted) >= 10


def test_the_statutes_have_25_clauses_and_20_questions(statutes: Row) -> None:
    clauses, questions = statutes["clauses"], statutes["questions"]
    assert isinstance(clauses, list)
    assert isinstance(questions, list)
    ids = {clause["id"] for clause in clauses}
    assert len(ids) == len(clauses) == 25
    assert len({question["id"] for question in questions}) == len(questions) == 20
    assert all(set(question["evidence"]) <= ids for question in questions)


def test_each_expected_citation_is_the_citation_of_the_evidence(statutes: Row) -> None:
    cited = {clause["id"]: clause["citation"] for clause in statutes["clauses"]}  # type: ignore[attr-defined]
    for question in statutes["questions"]:  # type: ignore[attr-defined]
        (answer,) = question["answer"] if isinstance(question["answer"], list) else [question["answer"]]
        assert sorted(answer.split(" and ")) == sorted(cited[clause] for clause in question["evidence"])


def test_each_clause_contains_its_citation_in_words(statutes: Row) -> None:
    for clause in statutes["clauses"]:  # type: ignore[attr-defined]
        assert re.fullmatch(r"Act \d+, s\. \d+(\(\d\))?", clause["citation"])
        assert clause["citation"].replace("s.", "section") in clause["content"]


def test_the_reports_have_25_passages_and_20_questions(reports: list[dict[str, str]]) -> None:
    asked = [row for row in reports if row["question"]]
    assert len({row["id"] for row in reports}) == len(reports) == 25
    assert len(asked) == 20
    assert {row["collection"] for row in reports} == {"reports"}
    assert all(row["evidence"] in {other["id"] for other in reports} for row in asked)
    assert all(not row["answer"] and not row["evidence"] for row in reports if not row["question"])


def test_report_answers_are_in_the_passage_or_computed_from_its_table(reports: list[dict[str, str]]) -> None:
    passage = {row["id"]: row["passage"] for row in reports}
    worked_out = [row["id"] for row in reports if row["question"] and row["answer"] not in passage[row["evidence"]]]
    assert worked_out == ["P19", "P23"]
    assert "Energy | (690) | (540)" in passage["P16"]
    assert "Total assets | 150\nEquity | 60" in passage["P23"]


def test_report_answers_use_the_number_formats_of_reports(reports: list[dict[str, str]]) -> None:
    shapes = {re.sub(r"\d+", "0", row["answer"]) for row in reports if row["answer"]}
    assert {"0,0", "0.0 %", "(0)", "(0,0)", "0", "0.0"} <= shapes


def test_at_least_five_report_passages_contain_tables(reports: list[dict[str, str]]) -> None:
    assert sum(row["passage"].count(" | ") >= 4 for row in reports) >= 5


async def test_each_code_answer_passes_only_its_own_tests(datasets: Path) -> None:
    (library,) = json.loads((datasets / "code-rag" / "data.json").read_text("utf-8"))
    names = {one["id"] for one in library["snippets"]}
    for place, asked in enumerate(library["questions"]):
        other = library["questions"][place - 1]
        assert set(asked["evidence"]) <= names
        assert await run_tests(asked["answer"], asked["tests"], time_limit_s=20), asked["id"]
        assert not await run_tests(other["answer"], asked["tests"], time_limit_s=20), asked["id"]
