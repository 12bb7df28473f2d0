"""``bench describe``: a benchmark, provider, metric or run by name; items and memories as lines of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.journal import Event
from tests.small_journal import Job, made, record

Bench = Callable[..., Any]


def lines(bench: Bench, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bench("describe", "demo", *arguments).stdout.splitlines()]


def test_describe_prints_the_same_values_as_text_and_json_and_omits_empty_ones(bench: Bench) -> None:
    document = json.loads(bench("describe", "demo", "--json").stdout)
    shown = bench("describe", "demo").stdout
    assert document["items"] == 160
    assert "items                  160\n" in shown
    assert "question_types:\n  single-session    51\n" in shown
    assert "required_capabilities  add_memory, retrieve_memory\n" in shown
    empty = [key for key, value in document.items() if value in (None, [], {}, "")]
    assert empty and not any(f"\n{key} " in shown for key in empty)


def test_describe_counts_the_same_questions_with_evidence_as_a_run(bench: Bench) -> None:
    bench("run", "demo", "bm25", "--answering-model", "none", "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    found = json.loads(bench("describe", "demo", "--json").stdout)["with_evidence"]
    assert found == job["metrics"]["mrr"]["n"] == 143


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("demo", "name", "demo"),
        ("DEMO", "name", "demo"),
        ("bm25", "displayName", "BM25"),
        ("LocalBaseline", "name", "bm25"),
        ("ndcg@10", "definition", "ndcg@10/1"),
        ("retrieval_ndcg_at_10", "definition", "ndcg@10/1"),
        ("accuracy", "definition", "accuracy/1"),
    ],
)
def test_describe_finds_a_benchmark_provider_or_metric_by_name_or_alias(
    bench: Bench, name: str, key: str, value: str
) -> None:
    assert json.loads(bench("describe", name, "--json").stdout)[key] == value


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dmo", 'did you mean "demo"?'),
        ("bm52", 'did you mean "bm25"?'),
        ("zzzz", "list the known names with: bench list"),
    ],
)
def test_describe_of_an_unknown_name_suggests_the_nearest_one(bench: Bench, name: str, hint: str) -> None:
    assert (
        bench("describe", name, check=2).stderr
        == f'error: no benchmark, provider or metric has the name "{name}"\nhint: {hint}\n'
    )


def test_describe_of_a_run_shows_its_request_identity_and_calibration(bench: Bench, tmp_path: Path) -> None:
    event = Event(kind="judge_calibration", scope="job", message="", data={"prompt": "default", "unparsed": 3})
    anyio.run(lambda: made(tmp_path, "r1", [Job(record=record("x"), values={"q": 1.0})], events=[event]))
    found = json.loads(bench("describe", "r1", "--json").stdout)
    assert set(found) == {
        "run_id", "created_at", "plan_digest", "request", "identity", "ranges", "versions", "code_state", "notes",
        "judge_calibration", "resumes",
    }  # fmt: skip
    assert (found["run_id"], found["plan_digest"]) == ("r1", "r1")
    assert found["judge_calibration"] == [{"prompt": "default", "unparsed": 3}]
    shown = bench("describe", "r1").stdout
    assert "judge_calibration:\n  - prompt    default\n    unparsed  3\n" in shown


@pytest.mark.parametrize("name", ["mem0", "demo", "ndcg_at_10", "r"])
def test_describe_prints_no_python_literal_and_no_line_of_200_characters(bench: Bench, name: str) -> None:
    bench("run", "-q", "--providers", "no-memory", "--limit", "1", "--run-id", "r")
    shown = bench("describe", name).stdout
    assert not re.search(r"\b(True|False|None)\b|[{}]", shown)
    assert "MEM0_API_KEY  required" in shown or name != "mem0"
    assert max(map(len, shown.splitlines())) < 200


def test_describe_lists_each_resume_with_its_time_and_phases(bench: Bench) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "r", "--phases", "ingest,index")
    bench("run", "--resume", "r", "--phases", "ingest,index,search,answer,evaluate")
    (resumed,) = json.loads(bench("describe", "r", "--json").stdout)["resumes"]
    assert resumed["at"].endswith("Z")
    assert resumed["operation"]["phases"] == ["ingest", "index", "search", "answer", "evaluate"]


def test_describe_prefers_a_benchmark_to_a_run_with_the_same_name(bench: Bench, tmp_path: Path) -> None:
    anyio.run(lambda: made(tmp_path, "demo", [Job(record=record("x"), values={"q": 1.0})]))
    assert json.loads(bench("describe", "demo", "--json").stdout)["items"] == 160


def test_describe_of_a_broken_provider_config_reports_its_line(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "configs/providers/torn.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("name: torn\ntype: hosted\nendpoint: {}\n")
    assert "torn.yaml:3:1" in bench("describe", "torn", check=2).stderr


# ------------------------------------------------------------------ items and memories


def test_describe_items_lists_all_items_that_a_run_would_select(bench: Bench) -> None:
    found = lines(bench, "--items")
    assert [one["position"] for one in found] == list(range(1, 161))
    assert {"position", "id", "corpus", "question", "answers", "question_type", "evidence"} <= set(found[0])


def test_describe_memories_lists_what_a_run_would_ingest_without_gold_fields(bench: Bench) -> None:
    found = lines(bench, "--memories", "--limit", "1")
    assert {one["corpus"] for one in found} == {"irena"}
    assert not {"answers", "question", "evidence", "question_type"} & set().union(*found)


@pytest.mark.parametrize(
    ("flags", "positions"),
    [
        (("--limit", "3"), [1, 2, 3]),
        (("--start", "159"), [159, 160]),
        (("--start", "5", "--end", "6"), [5, 6]),
        (("--shard", "80/80"), [159, 160]),
        (("irena-q02", "irena-q01"), [1, 2]),
        (("irena-q01,irena-q02", "--end", "1"), [1]),
        (("--items-of", "irena", "--end", "2"), [1, 2]),
    ],
)
def test_describe_items_accepts_the_selection_flags_of_run(
    bench: Bench, flags: tuple[str, ...], positions: list[int]
) -> None:
    assert [one["position"] for one in lines(bench, "--items", *flags)] == positions


def test_a_sample_depends_only_on_its_seed(bench: Bench) -> None:
    one, again, other = (
        [item["id"] for item in lines(bench, "--items", "--sample", "12", "--seed", seed)] for seed in "112"
    )
    assert one == again != other
    assert len(one) == 12


def test_sample_per_type_selects_the_same_number_of_each_type(bench: Bench) -> None:
    found = lines(bench, "--items", "--sample", "2", "--per-type")
    types = [one["question_type"] for one in found]
    assert {types.count(kind) for kind in types} == {2}
    assert len(set(types)) == 6


def test_describe_memories_of_some_items_lists_only_their_corpora(bench: Bench) -> None:
    assert {one["corpus"] for one in lines(bench, "--memories", "--items", "irena-q01")} == {"irena"}


def test_question_type_selects_items_of_that_type(bench: Bench) -> None:
    assert {one["question_type"] for one in lines(bench, "--items", "--question-type", "temporal")} == {"temporal"}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--shard", "3"), "--shard"),
        (("--shard", "0/2"), "there is no shard 0/2"),
        (("--start", "5", "--end", "2"), "--end"),
        (("nobody",), "nobody"),
        (("--question-type", "odd"), "odd"),
        (("--limit", "0"), "--limit"),
        (("--items-of", "nowhere"), "nowhere"),
    ],
)
def test_an_invalid_selection_is_rejected_without_output(bench: Bench, flags: tuple[str, ...], text: str) -> None:
    done = bench("describe", "demo", "--items", *flags, check=2)
    assert text in done.stderr and done.stdout == ""


def test_describe_items_rejects_a_provider(bench: Bench) -> None:
    assert 'no benchmark "bm25"' in bench("describe", "bm25", "--items", check=2).stderr
