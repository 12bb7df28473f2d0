"""``bench score``: external rankings and answers get exactly the values of a run."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_data_shapes import put, row

Bench = Callable[..., Any]
TIMES = ("latency_p50", "latency_p95")


def job_of(text: str) -> dict[str, Any]:
    (job,) = json.loads(text)["jobs"]
    found: dict[str, Any] = job
    return found


def write(path: Path, *rows: object) -> str:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def scored(bench: Bench, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that scores rows on the demo and returns the job."""

    def score(*rows: object, flags: tuple[str, ...] = ()) -> dict[str, Any]:
        return job_of(
            bench("score", write(tmp_path / "theirs.jsonl", *rows), "--benchmark", "demo", "--json", *flags).stdout
        )

    return score


def test_an_exported_trec_run_has_the_scores_of_the_run(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--run-id", "r", "--providers", "bm25", "--limit", "20", "--answering-model", "none")
    bench("export", "r", "--format", "trec", "--output", str(tmp_path / "trec"))
    theirs = job_of(bench("score", "trec/demo__bm25.run", "--benchmark", "demo", "--json").stdout)
    ours = job_of(bench("results", "r", "--json").stdout)
    assert theirs["n_pending"] == theirs["n_planned"] - theirs["counts"]["measured"]
    for name, metric in ours["metrics"].items():
        if name not in TIMES:
            assert (theirs["metrics"][name]["value"], theirs["metrics"][name]["n"]) == (metric["value"], metric["n"]), (
                name
            )


def test_exported_hits_and_answers_have_the_scores_of_the_run(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--run-id", "r", "--providers", "bm25", "--limit", "20")
    rows = [json.loads(line) for line in bench("export", "r").stdout.splitlines()]
    theirs = [{"item": row["item_id"], "hits": row["retrieved"], "answer": row["answer"]} for row in rows]
    path = write(tmp_path / "theirs.jsonl", *theirs)
    again = job_of(bench("score", path, "--benchmark", "demo", "--json").stdout)
    ours = job_of(bench("results", "r", "--json").stdout)
    assert again["counts"] == ours["counts"]
    for name, metric in ours["metrics"].items():
        if name not in TIMES:
            assert (again["metrics"][name]["value"], again["metrics"][name]["n"]) == (metric["value"], metric["n"]), (
                name
            )


def test_metrics_and_evaluator_agree_on_Unicode_forms_and_the_note_counts_other_spellings(
    bench: Bench, tmp_path: Path
) -> None:
    put("forms", [row(0, a="Café Zoë"), row(1, a="12.5"), row(2, a="Zoë")])
    answers = [unicodedata.normalize("NFD", "Café Zoë"), "It is 12.50 dollars.", "Z"]
    path = write(tmp_path / "a.jsonl", *({"item": f"r{at}", "answer": text} for at, text in enumerate(answers)))
    names = ("accuracy", "contains_match", "exact_match", "bleu_1")
    job = job_of(bench("score", path, "--benchmark", "forms", "--json", "--metrics", *names).stdout)
    assert {name: job["metrics"][name]["value"] for name in names} == pytest.approx(dict.fromkeys(names, 1 / 3))
    assert job["metrics"]["contains_match"]["definition"] == "contains_match[unicode=nfc]/3"
    assert any(note.startswith("1 answer that contains the gold in another spelling") for note in job["notes"])


@pytest.mark.parametrize(
    ("flags", "k", "hit_at_20", "mrr", "noted"),
    [
        ((), 12, 1.0, 1 / 12, ["hit_at_20"]),
        (("-k", "10"), 10, 0.0, 0.0, ["hit_at_20"]),
        (("-k", "20"), 20, 1.0, 1 / 12, []),
    ],
)
def test_all_hits_of_a_file_count_unless_k_is_set(
    bench: Bench,
    scored: Callable[..., dict[str, Any]],
    flags: tuple[str, ...],
    k: int,
    hit_at_20: float,
    mrr: float,
    noted: list[str],
) -> None:
    lines = bench("describe", "demo", "--items", "--json", "--limit", "40").stdout.splitlines()
    item = next(one for one in map(json.loads, lines) if len(one["evidence"]["turns"]) == 1)
    hits = [*(f"x{rank}" for rank in range(11)), *item["evidence"]["turns"]]
    job = scored({"item": item["id"], "hits": hits}, flags=("--metrics", "hit_at_10", "hit_at_20", "mrr", *flags))
    values = {name: metric["value"] for name, metric in job["metrics"].items()}
    assert (job["k"], values["hit_at_10"], values["hit_at_20"]) == (k, 0.0, hit_at_20)
    assert values["mrr"] == pytest.approx(mrr)
    assert [note.partition(":")[0] for note in job["notes"] if "because k is" in note] == noted


def test_items_without_a_row_are_pending_and_the_job_stays_valid(scored: Callable[..., dict[str, Any]]) -> None:
    job = scored({"item": "irena-q01", "answer": "no idea at all"})
    assert job["n_pending"] == job["n_planned"] - 1
    assert sum(job["counts"].values()) == 1
    accuracy = job["metrics"]["accuracy"]
    assert accuracy["n"] == 1 and accuracy["n_failed"] == job["n_pending"]
    assert job["valid"], "an item that was not run does not count as a failure of the system"


def test_a_row_without_answer_is_measured_and_a_row_without_hits_excluded_from_retrieval(
    scored: Callable[..., dict[str, Any]],
) -> None:
    job = scored({"item": "irena-q01", "hits": ["s6:2"]}, {"item": "irena-q02", "answer": "x"})
    assert job["counts"]["measured"] == 1 and sum(job["counts"].values()) == 2
    assert job["metrics"]["accuracy"]["n"] == 1
    hits = job["metrics"]["hit_at_5"]
    assert hits["n"] == 1 and hits["n_excluded"] == 1


def test_hits_can_be_lists_of_ids_and_unknown_ids_keep_their_rank(bench: Bench, tmp_path: Path) -> None:
    lines = bench("describe", "demo", "--items", "--json", "--limit", "40").stdout.splitlines()
    item = next(one for one in map(json.loads, lines) if len(one["evidence"]["turns"]) == 1)
    (gold,) = item["evidence"]["turns"]
    for hits, rank in (([[gold, "x"]], 1.0), (["x", gold], 0.5), ([["x"], "y", [gold]], 1 / 3), (["x"], 0.0)):
        path = write(tmp_path / "theirs.jsonl", {"item": item["id"], "hits": hits})
        job = job_of(bench("score", path, "--benchmark", "demo", "--json").stdout)
        assert job["metrics"]["mrr"]["value"] == pytest.approx(rank)


def test_score_prints_a_table_of_a_trec_run_and_writes_no_file(bench: Bench, tmp_path: Path) -> None:
    path = write(tmp_path / "theirs.run", "irena-q01 Q0 s6:2 2 0.5 me", "irena-q01 Q0 s1:2 1 0.9 me")
    shown = bench("score", path, "--benchmark", "demo", "--name", "their system").stdout
    assert "their system" in shown and "mrr" in shown
    assert not (tmp_path / "checkpoints").exists() and not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "cut", [b'{"item": "irena-q02", "ans', '{"item": "irena-q02", "answer": "\u00e9'.encode()[:-1]]
)
def test_J5_a_truncated_last_line_is_reported_and_the_other_rows_are_scored(
    bench: Bench, tmp_path: Path, cut: bytes
) -> None:
    path = tmp_path / "theirs.jsonl"
    whole = b'{"item": "irena-q01", "answer": "x"}\n'
    path.write_bytes(whole + cut)
    done = bench("score", str(path), "--benchmark", "demo", "--json")
    assert job_of(done.stdout)["metrics"]["accuracy"]["n"] == 1
    assert "torn_last_line" in done.stderr and f"{path}:2" in done.stderr


def test_J5_an_incomplete_line_elsewhere_is_an_error_with_its_line(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    path.write_bytes(b'{"item": "irena-q01", "ans\n{"item": "irena-q02", "answer": "x"}\n')
    refused = bench("score", str(path), "--benchmark", "demo", check=2)
    assert "theirs.jsonl:1: the line is not JSON" in refused.stderr


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (("irena-q01 Q0 s1",), "theirs:1: the line has 3 fields, but a line of a TREC run has 6"),
        (("irena-q01 Q0 s1:2 one 0.5 me",), "theirs:1: rank must be a whole number and score a number"),
        (("irena-q01 Q0 s1:2 1 nan me",), "theirs:1: the score"),
        (("irena-q01 Q0 s1:2 1 2 me", "irena-q01 Q0 s1:2 2 1 me"), "theirs:2: hit"),
        (({"item": "irena-q01", "answer": "x"}, '{"item":'), "theirs:2: the line is not JSON"),
        (({"item": "irena-q01", "answer": "x"}, "[1]"), "theirs:2: a row must be a JSON object"),
        (({"item": "irena-q01", "answer": "x"}, {"item": "irena-q01", "answer": "y"}), "theirs:2: item"),
        (({"item": "irena-q01", "hit": ["s1"]},), 'theirs:1: unknown key "hit"'),
        (({"item": "irena-q01"},), "theirs:1: the row has neither"),
        (({"item": "irena-q01", "hits": "s1"},), "theirs:1"),
        (({"item": "irena-q01", "answer": 3},), "theirs:1"),
        (({"item": None, "answer": "x"},), "theirs:1"),
        (({"item": "irena-q1", "answer": "x"},), "did you mean"),
        (("",), "no row"),
    ],
)
def test_an_invalid_row_exits_2_with_its_line(
    bench: Bench, tmp_path: Path, rows: tuple[object, ...], text: str
) -> None:
    done = bench("score", write(tmp_path / "theirs", *rows), "--benchmark", "demo", check=2)
    assert text in done.stderr
    assert done.stdout == "" and len(done.stderr.splitlines()) == 2


def test_text_that_is_not_utf_8_is_an_error_with_its_line(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b'{"item": "irena-q01", "answer": "x"}\n{"item": "\xff"}\n')
    assert "theirs:2" in bench("score", "theirs", "--benchmark", "demo", check=2).stderr
    assert "nowhere" in bench("score", "nowhere", "--benchmark", "demo", check=2).stderr


def test_a_session_id_in_a_ranking_of_turns_is_rejected(bench: Bench, tmp_path: Path) -> None:
    lines = bench("describe", "demo", "--memories", "--json", "--limit", "1").stdout.splitlines()
    session = json.loads(lines[0])["session"]
    path = write(tmp_path / "theirs", {"item": "irena-q01", "hits": ["s6:2"]}, {"item": "irena-q02", "hits": [session]})
    assert "theirs:2" in bench("score", path, "--benchmark", "demo", check=2).stderr
