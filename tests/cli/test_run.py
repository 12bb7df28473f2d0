"""``bench run``: the demo, its files, exit codes and resume."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import forked

Bench = Callable[..., Any]
Ran = Callable[..., None]
Results = Callable[[str], dict[str, Any]]
FAST = ("--providers", "bm25", "no-memory", "--limit", "12")


def test_run_without_flags_measures_the_built_in_providers_on_the_demo(
    bench: Bench, tmp_path: Path, results: Results
) -> None:
    done = bench("run", "--run-id", "demo")
    assert done.stdout.rstrip().splitlines()[-1] == f"results: {Path('results/demo')}"
    for command in ("explore demo  (", "failures demo  (", "compare demo  ("):
        assert f"next: bench {command}" in done.stderr
    text = " ".join(done.stdout.partition("\n\n")[0].split())
    assert text.startswith(
        "bm25 answers 23% of 160 questions right (95% interval 16 to 31%). It finds evidence for 80%"
    )
    assert "(oracle) the same reader answers 36% right, so the reader limits the score more than the memory." in text
    assert "builtin/extractive, is a fixed rule, not a language model" in text
    rows = [line.split()[0] for line in done.stdout.splitlines() if "[0." in line]
    assert rows == ["bm25", "oracle", "full-context", "no-memory", "random"], "controls are below, sorted by score"
    assert {path.name for path in (tmp_path / "results/demo").iterdir()} >= {"report.json", "items.jsonl", "report.md"}
    found = results("demo")
    assert found["status"] == "complete" and found["partial"] is False
    ndcg = {job["provider"]: job["metrics"]["ndcg_at_10"]["value"] for job in found["jobs"]}
    assert ndcg["oracle"] == 1.0
    assert ndcg["oracle"] > ndcg["bm25"] > ndcg["random"] > ndcg["no-memory"]
    accuracy = {job["provider"]: job["metrics"]["accuracy"]["value"] for job in found["jobs"]}
    assert accuracy["full-context"] >= accuracy["bm25"]
    assert [note for job in found["jobs"] for note in job["notes"]] == [], "the demo and its bounds show no sign"


def test_each_breakdown_adds_up_to_the_overall_counts(ran: Ran, results: Results) -> None:
    ran("--run-id", "r", *FAST)
    for job in results("r")["jobs"]:
        assert sum(job["counts"].values()) + job["n_pending"] == job["n_planned"] == 12
        for metric in job["metrics"].values():
            assert metric["n"] + metric["n_excluded"] + metric["n_failed"] == 12
            for labels in metric["breakdown"].values():
                for count in ("n", "n_excluded", "n_failed"):
                    assert sum(one[count] for one in labels.values()) == metric[count]


def test_results_json_of_the_same_journal_is_the_same_bytes(bench: Bench, ran: Ran) -> None:
    ran("--run-id", "r", *FAST)
    assert bench("results", "r", "--json").stdout == bench("results", "r", "--json").stdout


def test_with_json_run_prints_one_event_per_line(bench: Bench) -> None:
    done = bench("run", "--run-id", "r", "--json", *FAST)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "launch"
    last = events[-1]
    assert last["event"] == "done"
    assert last["run_id"] == "r" and last["status"] == "complete" and last["exit_code"] == 0 and last["resume"] is None
    assert {job["provider"] for job in last["jobs"]} == {"bm25", "no-memory"}


def test_without_a_terminal_run_prints_no_escape_code(bench: Bench) -> None:
    done = bench("run", *FAST)
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr


def test_an_existing_run_id_is_rejected_and_its_journal_unchanged(bench: Bench, ran: Ran, tmp_path: Path) -> None:
    ran("--run-id", "r", *FAST)
    journal = (tmp_path / "checkpoints/r/journal.sqlite").read_bytes()
    done = bench("run", "--run-id", "r", *FAST, check=2)
    assert done.stderr.count("\n") == 2 and "r" in done.stderr
    assert (tmp_path / "checkpoints/r/journal.sqlite").read_bytes() == journal


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (("--benchmarks", "dmo"), 2, "demo"),
        (("--providers", "bm52"), 2, "bm25"),
        (("-k", "0"), 2, "k"),
        (("--limit", "0"), 2, "limit"),
        (("--start", "900"), 2, "900"),
        (("--shard", "5/4"), 2, "5/4"),
        (("--metrics", "ndgc_at_10"), 2, "ndcg_at_10"),
        (("--question-type", "temporel"), 2, "temporal"),
        (("--items", "nobody"), 2, "nobody"),
        (("--isolation", "maybe"), 2, "isolation"),
        (("--run-id", "../x"), 2, "run id"),
        (("--concurrency", "many"), 2, "concurrency"),
        (("--rate", "bm25=fast"), 2, "rate"),
        (("--answering-model", "gtp-4o"), 2, "gpt-4o"),
        (("--config", "nowhere.yaml"), 2, "nowhere"),
    ],
)
def test_an_invalid_flag_is_an_error_with_a_hint_and_starts_no_run(
    bench: Bench, tmp_path: Path, flags: tuple[str, ...], code: int, text: str
) -> None:
    done = bench("run", *flags, check=code)
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("error: ") and lines[-1].startswith("hint: ")
    assert text in done.stderr
    assert not list(tmp_path.glob("checkpoints/*/journal.sqlite"))


def test_resume_of_a_complete_run_has_nothing_to_do(bench: Bench, ran: Ran) -> None:
    ran("--run-id", "r", *FAST)
    done = bench("resume", "r")
    assert "nothing left to do" in done.stderr


def test_resume_with_a_changed_setting_is_rejected_with_both_values(bench: Bench, ran: Ran) -> None:
    ran("--run-id", "r", *FAST)
    done = bench("run", "--resume", "r", "-k", "3", check=2)
    assert "10 -> 3" in done.stderr


def start(tmp_path: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return forked.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_items(journal: Path, process: subprocess.Popen[str], count: int) -> None:
    """Wait until a running run has finished this number of items."""
    while process.poll() is None:
        if journal.is_file():
            connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
            with closing(connection), suppress(sqlite3.OperationalError):  # the tables are being made
                if connection.execute("select count(*) from score").fetchone()[0] >= count:
                    return
        time.sleep(0.01)


def repeatable(tmp_path: Path, run_id: str) -> object:
    return json.loads((tmp_path / "results" / run_id / "report.json").read_text())["results"]


@pytest.mark.parametrize("after_items", [0, 1, 60])
def test_a_killed_run_resumes_to_the_report_of_an_uninterrupted_run(
    bench: Bench, ran: Ran, tmp_path: Path, environment: dict[str, str], after_items: int
) -> None:
    flags = ("--providers", "bm25", "random", "--limit", "60")
    ran("--run-id", "whole", *flags)
    process = start(tmp_path, environment, "run", "--run-id", "cut", *flags)
    wait_for_items(tmp_path / "checkpoints/cut/journal.sqlite", process, after_items)
    process.kill()
    process.communicate()
    bench("run", "--resume", "cut")
    assert repeatable(tmp_path, "cut") == repeatable(tmp_path, "whole")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_pauses_a_run_and_prints_the_resume_command(
    bench: Bench, tmp_path: Path, environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    flags = ("--providers", "bm25", "full-context", "--concurrency", "1", "--limit", "80")
    process = start(tmp_path, environment, "run", "--run-id", "r", *flags)
    wait_for_items(tmp_path / "checkpoints/r/journal.sqlite", process, 5)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert "stopping" in err and "bench run --resume r" in err
    assert "Traceback" not in err
    status = json.loads(bench("status", "r", "--json").stdout)
    assert status["state"] == "paused" and status["partial"] is True
    bench("run", "--resume", "r")
    assert json.loads(bench("status", "r", "--json").stdout)["state"] == "complete"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_outside_of_the_run_reports_the_current_stage(number: int, code: int) -> None:
    source = (
        "import os, sys; from bench.cli import interrupts, run\n"
        "def call(arguments):\n"
        "    interrupts.stage('nothing was called yet', hint='give it again')\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "import bench.cli.app; bench.cli.app.call = call; sys.exit(run(['run']))"
    )
    done = forked.run([sys.executable, "-c", source], text=True)
    name = signal.Signals(number).name
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"error: the command was stopped by {name}; nothing was called yet\nhint: give it again\n"


def test_merged_shards_have_the_report_of_the_whole_run(bench: Bench, tmp_path: Path) -> None:
    flags = ("--benchmarks", "code-rag", "--providers", "bm25", "random")
    bench("run", "--run-id", "whole", *flags)
    for index in (1, 2, 3):
        bench("run", "--run-id", f"part{index}", "--shard", f"{index}/3", *flags)
    bench("merge", "part3", "part1", "part2", "--into", "joined")
    assert repeatable(tmp_path, "joined") == repeatable(tmp_path, "whole")


def test_on_end_gets_run_id_and_exit_code(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "end.sh"
    script.write_text('#!/bin/sh\necho "$BENCH_RUN_ID $BENCH_EXIT_CODE" > ended.txt\n')
    script.chmod(0o755)
    bench("run", "--run-id", "r", "--on-end", os.fspath(script), *FAST)
    assert (tmp_path / "ended.txt").read_text() == "r 0\n"
