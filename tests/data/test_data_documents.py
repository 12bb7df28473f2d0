"""The three document sets hold what their configs promise."""

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
def test_each_folder_has_a_readme_with_licence_and_origin(datasets: Path, folder: str) -> None:
    text = (datasets / folder / "README.md").read_text("utf-8")
    assert "CC0-1.0" in text
    assert "**Made:** written by hand" in text


def test_all_data_together_is_under_one_and_a_half_megabytes(datasets: Path) -> None:
    assert sum(file.stat().st_size for name in FOLDERS for file in (datasets / name).iterdir()) < 1_500_000


def test_the_handbook_has_thirty_passages_and_twenty_questions_in_one_library(handbook: list[Row]) -> None:
    assert len(handbook) == 20
    assert len({row["library"] for row in handbook}) == 1
    assert len(set(passages(handbook).values())) == 30


def test_each_answer_of_the_handbook_stands_in_its_evidence(handbook: list[Row]) -> None:
    texts = passages(handbook)
    for row in handbook:
        answer, (named,) = row["answer"], row["evidence"]  # type: ignore[misc]
        accepted = answer if isinstance(answer, list) else [answer]
        assert named.startswith(f"{row['id']}.")  # type: ignore[has-type]
        assert any(str(text).lower() in texts[named].lower() for text in accepted), row["id"]  # type: ignore[has-type]


def test_whole_sentences_are_accepted_where_a_quoting_reader_may_be_right(handbook: list[Row]) -> None:
    quoted = [row["id"] for row in handbook if isinstance(row["answer"], list) and str(row["answer"][-1]).endswith(".")]
    assert len(quoted) >= 10


def test_the_statutes_have_twenty_five_clauses_and_twenty_questions(statutes: Row) -> None:
    clauses, questions = statutes["clauses"], statutes["questions"]
    assert isinstance(clauses, list)
    assert isinstance(questions, list)
    ids = {clause["id"] for clause in clauses}
    assert len(ids) == len(clauses) == 25
    assert len({question["id"] for question in questions}) == len(questions) == 20
    assert all(set(question["evidence"]) <= ids for question in questions)


def test_each_expected_citation_is_that_of_the_evidence(statutes: Row) -> None:
    cited = {clause["id"]: clause["citation"] for clause in statutes["clauses"]}  # type: ignore[attr-defined]
    for question in statutes["questions"]:  # type: ignore[attr-defined]
        (answer,) = question["answer"] if isinstance(question["answer"], list) else [question["answer"]]
        assert sorted(answer.split(" and ")) == sorted(cited[clause] for clause in question["evidence"])


def test_each_clause_says_its_own_citation_in_words(statutes: Row) -> None:
    for clause in statutes["clauses"]:  # type: ignore[attr-defined]
        assert re.fullmatch(r"Act \d+, s\. \d+(\(\d\))?", clause["citation"])
        assert clause["citation"].replace("s.", "section") in clause["content"]


def test_there_are_twenty_five_passages_and_twenty_questions_on_reports(reports: list[dict[str, str]]) -> None:
    asked = [row for row in reports if row["question"]]
    assert len({row["id"] for row in reports}) == len(reports) == 25
    assert len(asked) == 20
    assert {row["collection"] for row in reports} == {"reports"}
    assert all(row["evidence"] in {other["id"] for other in reports} for row in asked)
    assert all(not row["answer"] and not row["evidence"] for row in reports if not row["question"])


def test_figures_of_reports_stand_in_their_passage_or_follow_from_its_table(reports: list[dict[str, str]]) -> None:
    passage = {row["id"]: row["passage"] for row in reports}
    worked_out = [row["id"] for row in reports if row["question"] and row["answer"] not in passage[row["evidence"]]]
    assert worked_out == ["P19", "P23"]
    assert "Energy | (690) | (540)" in passage["P16"]
    assert "Total assets | 150\nEquity | 60" in passage["P23"]


def test_report_answers_are_written_as_reports_write_figures(reports: list[dict[str, str]]) -> None:
    shapes = {re.sub(r"\d+", "0", row["answer"]) for row in reports if row["answer"]}
    assert {"0,0", "0.0 %", "(0)", "(0,0)", "0", "0.0"} <= shapes


def test_there_are_tables_among_the_passages(reports: list[dict[str, str]]) -> None:
    assert sum(row["passage"].count(" | ") >= 4 for row in reports) >= 5


async def test_each_answer_about_code_passes_its_own_tests_and_no_other_answer_does(datasets: Path) -> None:
    (library,) = json.loads((datasets / "code-rag" / "data.json").read_text("utf-8"))
    names = {one["id"] for one in library["snippets"]}
    for place, asked in enumerate(library["questions"]):
        other = library["questions"][place - 1]
        assert set(asked["evidence"]) <= names
        assert await run_tests(asked["answer"], asked["tests"], time_limit_s=20), asked["id"]
        assert not await run_tests(other["answer"], asked["tests"], time_limit_s=20), asked["id"]
