"""``bench describe``: a benchmark, provider, metric or run by its name; and, line by line, what a run would do."""

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


def test_text_and_json_say_the_same_and_nothing_empty_is_shown(bench: Bench) -> None:
    document = json.loads(bench("describe", "demo", "--json").stdout)
    shown = bench("describe", "demo").stdout
    assert document["items"] == 160
    assert "items                  160\n" in shown
    assert "question_types:\n  single-session    51\n" in shown
    assert "required_capabilities  add_memory, retrieve_memory\n" in shown
    empty = [key for key, value in document.items() if value in (None, [], {}, "")]
    assert empty and not any(f"\n{key} " in shown for key in empty)


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
def test_a_name_of_any_kind_is_found(bench: Bench, name: str, key: str, value: str) -> None:
    assert json.loads(bench("describe", name, "--json").stdout)[key] == value


@pytest.mark.parametrize(
    ("name", "hint"),
    [("dmo", 'did you mean "demo"?'), ("bm52", 'did you mean "bm25"?'), ("zzzz", "bench list shows what there is")],
)
def test_what_nothing_is_called_names_the_nearest(bench: Bench, name: str, hint: str) -> None:
    assert (
        bench("describe", name, check=2).stderr
        == f'error: no benchmark, provider or metric has the name "{name}"\nhint: {hint}\n'
    )


def test_a_run_is_described_by_what_it_was_started_with(bench: Bench, tmp_path: Path) -> None:
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
def test_nothing_is_described_with_literals_of_python_or_in_lines_that_nobody_reads(bench: Bench, name: str) -> None:
    bench("run", "-q", "--providers", "no-memory", "--limit", "1", "--run-id", "r")
    shown = bench("describe", name).stdout
    assert not re.search(r"\b(True|False|None)\b|[{}]", shown)
    assert "MEM0_API_KEY  required" in shown or name != "mem0"
    assert max(map(len, shown.splitlines())) < 200


def test_a_resume_is_told_with_its_time(bench: Bench) -> None:
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "r", "--phases", "ingest,index")
    bench("run", "--resume", "r", "--phases", "ingest,index,search,answer,evaluate")
    (resumed,) = json.loads(bench("describe", "r", "--json").stdout)["resumes"]
    assert resumed["at"].endswith("+00:00")
    assert resumed["operation"]["phases"] == ["ingest", "index", "search", "answer", "evaluate"]


def test_a_benchmark_stands_before_a_run_of_its_name(bench: Bench, tmp_path: Path) -> None:
    anyio.run(lambda: made(tmp_path, "demo", [Job(record=record("x"), values={"q": 1.0})]))
    assert json.loads(bench("describe", "demo", "--json").stdout)["items"] == 160


def test_a_broken_provider_says_where_and_not_that_there_is_none(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "configs/providers/torn.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("name: torn\ntype: hosted\nendpoint: {}\n")
    assert "torn.yaml:3:1" in bench("describe", "torn", check=2).stderr


# ------------------------------------------------------------------ items and memories


def test_items_are_what_a_run_would_ask(bench: Bench) -> None:
    found = lines(bench, "--items")
    assert [one["position"] for one in found] == list(range(1, 161))
    assert {"position", "id", "corpus", "question", "answers", "question_type", "evidence"} <= set(found[0])


def test_memories_are_what_a_run_would_ingest_and_hold_no_gold(bench: Bench) -> None:
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
def test_the_flags_of_run_choose(bench: Bench, flags: tuple[str, ...], positions: list[int]) -> None:
    assert [one["position"] for one in lines(bench, "--items", *flags)] == positions


def test_a_sample_is_the_same_each_time_and_another_with_another_seed(bench: Bench) -> None:
    one, again, other = (
        [item["id"] for item in lines(bench, "--items", "--sample", "12", "--seed", seed)] for seed in "112"
    )
    assert one == again != other
    assert len(one) == 12


def test_a_sample_of_each_type_has_as_many_of_each(bench: Bench) -> None:
    found = lines(bench, "--items", "--sample", "2", "--per-type")
    types = [one["question_type"] for one in found]
    assert {types.count(kind) for kind in types} == {2}
    assert len(set(types)) == 6


def test_memories_of_named_items_are_those_of_their_corpora(bench: Bench) -> None:
    assert {one["corpus"] for one in lines(bench, "--memories", "--items", "irena-q01")} == {"irena"}


def test_types_choose_too(bench: Bench) -> None:
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
def test_a_selection_that_cannot_be_is_refused_with_nothing_printed(
    bench: Bench, flags: tuple[str, ...], text: str
) -> None:
    done = bench("describe", "demo", "--items", *flags, check=2)
    assert text in done.stderr and done.stdout == ""


def test_only_a_benchmark_has_items(bench: Bench) -> None:
    assert 'no benchmark "bm25"' in bench("describe", "bm25", "--items", check=2).stderr
