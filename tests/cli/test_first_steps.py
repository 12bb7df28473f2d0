"""First steps of a new user: each mistake is reported with the next command or value."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from tests import forked

Bench = Callable[..., Any]


def test_plan_needs_no_key_and_names_the_variables_that_a_run_needs(bench: Bench) -> None:
    arguments = ("--providers", "zep", "--answering-model", "gpt-4o", "azure/mine")
    text = bench("plan", *arguments).stdout
    names = "OPENAI_API_KEY, AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT, ZEP_API_KEY"
    assert f"bench run needs variables that are not set: {names}" in text
    unpriced = text.partition(", plus calls without a known price: ")[2].splitlines()[0]
    assert sorted(unpriced.split(", ")) == ["azure/mine.answering", "zep.add", "zep.search"]
    assert "ZEP_API_KEY" in json.loads(bench("plan", *arguments, "--json").stdout)["unset"]
    assert "OPENAI_API_KEY, which is not set" in bench("run", *arguments, check=2).stderr


def test_plan_neither_asks_for_nor_prints_a_variable_that_is_set(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEP_API_KEY", "z-secret-of-a-test")
    text = bench("plan", "--providers", "zep").stdout
    assert "needs" not in text
    assert "z-secret" not in text


def test_a_missing_run_file_is_reported_as_a_file_only_if_given_as_a_path(bench: Bench) -> None:
    assert "--config nowhere/r.yaml: no such file" in bench("run", "-c", "nowhere/r.yaml", check=2).stderr
    assert 'no run "nightly"' in bench("run", "-c", "nightly", check=2).stderr


def test_a_missing_run_file_lists_the_folder_and_the_existing_run_files(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "configs/runs"
    folder.mkdir(parents=True)
    (folder / "nightly.yaml").write_text("limit: 3\n")
    done = bench("run", "--config", "nope.yaml", check=2)
    place, _, names = done.stderr.partition("hint: ")[2].partition(": ")
    assert (
        place == "give the path of an existing file, the name of a run file in configs/runs, or the name "
        "of a shipped run file"
    )
    assert "nightly" in names.strip().split(", ")


@pytest.mark.parametrize("kind", ["provider", "benchmark"])
def test_a_new_config_names_its_json_schema_and_matches_it(bench: Bench, tmp_path: Path, kind: str) -> None:
    bench("new", kind, "mine")
    path = tmp_path / "configs" / f"{kind}s" / "mine.yaml"
    first, _, rest = path.read_text().partition("\n")
    assert first.startswith("# yaml-language-server: $schema=")
    schema = json.loads((path.parent / first.partition("=")[2]).read_text())
    jsonschema.Draft202012Validator(schema).validate(YAML(typ="safe").load(rest))
    bench("validate", str(path))


def test_new_json_has_the_path_and_the_next_command(bench: Bench, tmp_path: Path) -> None:
    found = json.loads(bench("new", "benchmark", "mine", "--json").stdout)
    assert (tmp_path / found["path"]).is_file()
    assert found["next"] == f"bench validate {found['path']}"


def test_suggested_commands_include_the_workspace(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "my place").mkdir()
    arguments = ("--workspace", "my place", "run", "--providers", "no-memory", "--limit", "2", "--run-id", "r")
    done = bench(*arguments)
    assert "next: bench failures r --workspace 'my place'  (why" in done.stderr
    bench("results", "r", "--workspace", "my place")


def test_status_lists_the_phases_in_order(bench: Bench) -> None:
    bench("run", "--providers", "bm25", "--limit", "2", "--run-id", "r")
    found = json.loads(bench("status", "r", "--json").stdout)
    assert list(found["phases"]) == ["ingest", "index", "search", "answer", "evaluate"]


def test_results_show_every_number_on_a_narrow_terminal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench("run", "--providers", "full-context", "no-memory", "--sample", "24", "--run-id", "r")
    monkeypatch.setenv("COLUMNS", "40")
    text = bench("results", "r").stdout
    assert re.search(r"^ provider +full-context \(control\)$", text, re.M), "a row is a block of lines"
    assert re.search(r"^ accuracy +0\.\d{4} \[0\.\d{4}, 0\.\d{4}\]$", text, re.M)
    assert "continued" not in text
    assert "bench results r --by question_type shows all 6 types" in text


def test_output_of_child_processes_is_not_in_the_json_event_stream(tmp_path: Path, environment: dict[str, str]) -> None:
    words = ["run", "--providers", "no-memory", "--limit", "2", "--json", "--on-end", "echo that was it"]
    done = forked.run(
        [sys.executable, "-m", "bench", *words],
        cwd=tmp_path,
        env=environment,
        text=True,
        check=True,
    )
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "done"
    assert "that was it" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rate", "bm52.add=5/s"), 'no job of this run uses the endpoint "bm52.add"'),
        (("--answer-prompt", "nowhere.txt"), "no such prompt file: nowhere.txt"),
    ],
)
def test_a_flag_that_would_have_no_effect_in_any_job_is_rejected(
    bench: Bench, flags: tuple[str, ...], message: str
) -> None:
    done = bench("run", "--providers", "bm25", "--limit", "1", *flags, check=2)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--judge-model", "builtin/extractive"), "--judge-model has no effect"),
        (("--batch",), "--batch has no effect: this run calls no model endpoint"),
        (("--cache", "read"), "--cache has no effect"),
        (("--embedding-model", "ollama/nomic"), "--embedding-model has no effect"),
        (("--sample", "999"), "--sample 999: demo has 160 matching items, so all are used"),
    ],
)
def test_plan_notes_a_flag_without_effect(bench: Bench, flags: tuple[str, ...], message: str) -> None:
    assert message in bench("plan", "--providers", "no-memory", *flags).stdout


def test_results_print_escape_codes_of_a_dataset_as_text(bench: Bench, tmp_path: Path) -> None:
    rows = [{"id": "a", "content": "c", "question": "q", "answer": "r", "type": "\x1b[31mred\0"}]
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    (folder / "hostile-rows.jsonl").write_text(json.dumps(rows[0]) + "\n", "utf-8")
    (folder / "hostile.yaml").write_text(HOSTILE, "utf-8")
    done = bench("run", "--benchmarks", "hostile", "--providers", "bm25", "--run-id", "r")
    shown = done.stdout + bench("results", "r", "--by", "question_type").stdout
    assert "\x1b" not in shown and "\0" not in shown
    assert "\\x1b[31mred" in shown


HOSTILE = """
name: hostile
version: "1"
data: {type: local, path: ./hostile-rows.jsonl, format: jsonl}
schema:
  itemId: id
  question: question
  answer: answer
  context: {field: content, type: string}
  metadata: {questionType: type}
evaluation: {method: contains, answeringModel: {model: builtin/extractive}}
metrics: [accuracy]
"""


def test_a_k_of_twenty_digits_is_a_usage_error(bench: Bench) -> None:
    assert "--k" in bench("run", "-k", "9" * 20, "--providers", "bm25", "--limit", "1", check=2).stderr


def test_validate_counts_configs_and_lists_all_errors_of_each(bench: Bench, tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        file = tmp_path / f"configs/benchmarks/{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"name: {name}\nversion: '1'\nfoo: 1\nbar: 2\n")
    done = bench("validate", "configs/benchmarks", check=2)
    assert done.stderr.count('unknown field "foo"') == done.stderr.count('unknown field "bar"') == 2
    assert done.stdout.splitlines()[-1] == "2 configs checked, 2 with errors"


def test_a_vector_store_without_embeddings_hints_at_a_model_without_a_key(bench: Bench) -> None:
    refused = bench("run", "demo", "chroma", check=2).stderr
    assert refused.rstrip().endswith("; or use --embedding-model local/bge-small-en-v1.5, which needs no key")


def test_a_judge_model_without_a_use_is_noted_below_the_results(bench: Bench) -> None:
    done = bench("run", "demo", "bm25", "--limit", "2", "--judge-model", "openai/gpt-4o")
    assert "note: --judge-model has no effect: no evaluator of this run uses a judge" in done.stderr.splitlines()


def test_doctor_names_the_address_on_which_nothing_listens(bench: Bench, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bench("new", "provider", "mine")
    file = tmp_path / "configs/providers/mine.yaml"
    file.write_text(re.sub(r"http://[\w.]+:\d+", f"http://127.0.0.1:{port}", file.read_text()))
    done = bench("doctor", "mine", check=4)
    assert f"nothing listens on 127.0.0.1:{port}" in " ".join(done.stdout.split())
    assert "hint: start with the first failed check" in done.stderr


def test_an_exact_match_manifest_with_type_field_has_question_types(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "configs/benchmarks/kinds"
    folder.mkdir(parents=True)
    manifest = {
        "manifest_version": "1", "name": "kinds", "version": "1", "data_file": "data.jsonl",
        "ingestion": {"strategy": "simple", "content_field": "content"},
        "query": {"question_field": "question", "expected_answer_field": "answer"},
        "evaluation": {"protocol": "exact-match", "type_field": "kind"},
        "metrics": ["contains_match"], "required_capabilities": ["add_memory", "retrieve_memory"],
    }  # fmt: skip
    rows = [{"id": f"q{at}", "content": f"Code {at}.", "question": f"Code {at}?", "answer": f"{at}", "kind": kind}
            for at, kind in enumerate(["easy", "hard"])]  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench("run", "kinds", "bm25", "--answering-model", "builtin/extractive", "--run-id", "r")
    assert {"easy", "hard"} <= set(re.findall("easy|hard", bench("results", "r", "--by", "question_type").stdout))


def test_the_package_lists_its_public_functions() -> None:
    import bench as package

    assert {"plan", "run", "report", "compare", "resume", "frames"} <= set(dir(package))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("describe provider mem0", 'unexpected argument: "mem0"'),
        ("score x.run", "--benchmark is missing"),
        ("results r1 bm25", 'unexpected argument: "bm25"'),
    ],
)
def test_argument_errors_contain_no_python_list(bench: Bench, line: str, text: str) -> None:
    assert bench(*line.split(), check=2).stderr.startswith(f"error: {text}\n")
