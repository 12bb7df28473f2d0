"""``bench run`` around the engine: checks before it, and output, commands and files after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
RUN = ("run", "--providers", "no-memory", "--limit", "2", "--run-id", "r")


def test_a_failed_gate_is_reported_on_stderr_and_as_exit_code_4_in_the_json(bench: Bench) -> None:
    done = bench(*RUN, "--min-score", "accuracy=0.99", "--json", check=4)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["status"]) == ("done", 4, "complete")
    assert "gate failed: demo x no-memory: accuracy = " in done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/program x", "--on-end: /no/such/program: No such file or directory\n"),
        ("sh -c 'exit 7'", "--on-end: sh ended with exit code 7\n"),
    ],
)
def test_a_failure_of_the_on_end_command_is_reported_and_leaves_the_exit_code(
    bench: Bench, command: str, message: str
) -> None:
    assert bench(*RUN, "--on-end", command).stderr.endswith(message)


def test_on_end_gets_the_exit_code_of_the_failed_gate(bench: Bench, tmp_path: Path) -> None:
    bench(*RUN, "--min-score", "accuracy=0.99", "--on-end", "sh -c 'echo $BENCH_EXIT_CODE > code'", check=4)
    assert (tmp_path / "code").read_text() == "4\n"


def test_output_sets_the_folder_of_the_report(bench: Bench, tmp_path: Path) -> None:
    done = bench(*RUN, "--output", "elsewhere")
    assert done.stdout.rstrip().splitlines()[-1] == "results: elsewhere/r"
    assert (tmp_path / "elsewhere/r/report.json").is_file()


def test_a_run_without_an_id_gets_a_timestamp_as_id(bench: Bench, tmp_path: Path) -> None:
    bench("run", "--providers", "no-memory", "--limit", "1", "-q")
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert len(folder.name) == 17 and folder.name[8] == "-"


def test_a_run_of_some_phases_prints_the_command_that_resumes_it(bench: Bench) -> None:
    done = bench(*RUN, "--phases", "ingest,index")
    assert "next: bench run --resume r\n" in done.stderr
    ended = bench("run", "--resume", "r", "--phases", "ingest,index,search,answer,evaluate").stderr.splitlines()
    assert ended[-2].startswith("next: bench explore r  (") and ended[-1].startswith("next: bench failures r  (")


def test_verbose_prints_events_of_bench_and_no_debug_lines_of_libraries(bench: Bench) -> None:
    shown = bench("run", "-v", "--providers", "bm25", "--limit", "1", "--run-id", "r").stderr
    assert "run_started" in shown
    assert "aiosqlite" not in shown and "asyncio" not in shown


def test_quiet_prints_only_the_results(bench: Bench) -> None:
    done = bench(*RUN, "-q")
    assert done.stderr == ""
    assert done.stdout.rstrip().endswith("results: results/r")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [("nightly", 0, ""), ("configs/runs/nightly.yaml", 0, ""), ("nightli", 2, 'did you mean "nightly"?')],
)
def test_a_run_file_is_found_by_name_or_path_and_flags_override_it(
    bench: Bench, tmp_path: Path, name: str, code: int, text: str
) -> None:
    folder = tmp_path / "configs/runs"
    folder.mkdir(parents=True)
    (folder / "nightly.yaml").write_text("providers: [no-memory]\nlimit: 3\nnote: each night\n")
    done = bench("run", "-c", name, "--limit", "2", "--run-id", "r", check=code)
    assert text in done.stderr
    if code == 0:
        request = json.loads(bench("describe", "r", "--json").stdout)["request"]
        assert request["note"] == "each night"
        assert json.loads(bench("status", "r", "--json").stdout)["total"] == 2, "a flag wins"


def test_run_with_download_fetches_missing_data_before_the_plan(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    (folder / "far.yaml").write_text(
        'name: far\nversion: "1"\ndata: {type: url, path: "http://127.0.0.1:9/rows.jsonl", localPath: rows.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
        "evaluation: {method: exact-match}\nmetrics: [accuracy]\n"
    )
    flags = ("run", "--benchmarks", "far", "--providers", "no-memory", "--run-id", "r")
    assert "bench download far" in bench(*flags, check=2).stderr
    output = bench(*flags, "--download", check=None)
    assert output.returncode in (2, 3)
    assert "far: license unknown, from http://127.0.0.1:9/rows.jsonl\n" in output.stderr
    copy = tmp_path / "copy.jsonl"
    copy.write_text('{"id": "1", "q": "q", "a": "a", "c": "c"}\n')
    brought = bench("download", "far", "--from", "copy.jsonl")
    assert brought.stdout.startswith("far: ") and f"({copy.stat().st_size} bytes, sha256 " in brought.stdout
    bench(*flags)


def test_a_missing_env_file_is_an_error_and_a_loaded_one_is_reported(bench: Bench, tmp_path: Path) -> None:
    output = bench(*RUN, "--env-file", "no.env", check=2).stderr
    assert output == "error: no such file: no.env\nhint: name an existing file with --env-file\n"
    (tmp_path / "my.env").write_text("A=1\n")
    assert ("variables from my.env (variables of the environment take precedence)\n") in bench(
        *RUN, "--env-file", "my.env"
    ).stderr


def test_log_file_gets_all_events_and_its_folder_must_exist(bench: Bench, tmp_path: Path) -> None:
    bench(*RUN, "--log-file", "all.log")
    events = [json.loads(line)["event"] for line in (tmp_path / "all.log").read_text().splitlines()]
    assert events[0] == "run_started" and events[-1] == "run_ended"
    output = bench(*RUN, "--log-file", "no/all.log", check=2).stderr
    assert output == "error: --log-file no/all.log: no such folder no\nhint: create the folder first\n"


@pytest.mark.parametrize("name", ["fork", "retry", "rescore"])
def test_fork_retry_and_rescore_of_an_unknown_run_name_the_run(bench: Bench, name: str) -> None:
    words = {"fork": ("--from", "answer"), "retry": (), "rescore": ()}[name]
    output = bench(name, "nobody", *words, check=2).stderr
    assert output.splitlines()[0] == 'error: there is no run "nobody"'


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("--from", "evaluate", "--answer-prompt", "x"), "--answer-prompt would change answers", "use --from answer"),
        (("--from", "evaluate", "--context-budget", "9"), "--context-budget would change answers", "use --from answer"),
        (
            ("--from", "answer", "--cluster", "local:2"),
            "a fork of a run cannot use several processes",
            "remove --cluster",
        ),
    ],
)
def test_fork_rejects_flags_that_would_change_stored_results(
    bench: Bench, words: tuple[str, ...], error: str, hint: str
) -> None:
    first, second = bench("fork", "r", *words, check=2).stderr.splitlines()
    assert error in first and second == f"hint: {hint}"


@pytest.mark.parametrize(("phase", "what"), [("answer", "search result"), ("evaluate", "answer")])
def test_fork_of_a_run_without_stored_results_is_rejected(bench: Bench, phase: str, what: str) -> None:
    bench(*RUN, "--phases", "ingest,index")
    output = bench("fork", "r", "--from", phase, "--run-id", "f", check=2).stderr
    assert output == f"error: run r has no stored {what}s\nhint: start a new run with: bench run\n"
    assert not Path("checkpoints/f").exists()
