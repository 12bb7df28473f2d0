"""``bench status``, ``pause``, ``clean``, ``merge``: management of runs, also of those of other processes."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.engine.run import PAUSE_FILE
from bench.journal import Journal, RunState
from tests.small_journal import Job, made, record

Bench = Callable[..., Any]
VALUES = {"q1": 1.0, "q2": 0.0, "q3": None}


def write(workspace: Path, run_id: str = "r", *, state: RunState = RunState.COMPLETE, planned: int = 3) -> Path:
    job = Job(record=record("p"), values=VALUES, planned=planned)
    return anyio.run(lambda: made(workspace, run_id, [job], state=state))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a run in this process."""
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(Journal.resume(folder)):
        yield


def shown(text: str) -> dict[str, str]:
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines()}


# -------------------------------------------------------------------------- status


def test_status_shows_state_item_counts_cost_and_the_next_command(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, state=RunState.STOPPED, planned=5)
    assert shown(bench("status", "r").stdout) == {
        "run": "r",
        "state": "stopped",
        "items": "3/5 (60%): 2 ended well, 1 failed, 2 pending",
        "evaluate": "ok 2",
        "cost": "USD 0",
        "next": "bench run --resume r",
    }


def test_status_json_has_the_same_numbers_as_the_text(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, state=RunState.STOPPED, planned=5)
    found = json.loads(bench("status", "r", "--json").stdout)
    keys = ("run_id", "state", "partial", "total", "completed", "failed", "in_progress", "eta_s", "oldest_request_s")
    assert [found[key] for key in keys] == ["r", "stopped", True, 5, 2, 1, 0, None, None]
    assert found["phases"] == {"evaluate": {"ok": 2}}, "the third item failed before its evaluation"
    assert "shards" not in found, "not a cluster run"


def test_status_of_a_complete_run_shows_no_next_command(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path)
    assert "next" not in shown(bench("status", "r").stdout)


def test_status_without_a_run_shows_the_newest(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, "newer")
    old = write(tmp_path, "older") / "journal.sqlite"
    os.utime(old, (time.time() - 99, time.time() - 99))
    assert shown(bench("status").stdout)["run"] == "newer"


def test_status_in_a_workspace_without_runs_hints_at_bench_run(bench: Bench) -> None:
    assert (
        bench("status", check=2).stderr == "error: this workspace has no run yet\nhint: start a run with: bench run\n"
    )


def test_status_reads_a_copied_journal_by_its_path(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_bytes((write(tmp_path / "other") / "journal.sqlite").read_bytes())
    assert shown(bench("status", "copy.sqlite").stdout)["run"] == "r"


def test_status_of_a_run_of_another_process_shows_running_with_its_pid(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path, planned=5)
    with held(folder):
        found = shown(bench("status", "r").stdout)
        document = json.loads(bench("status", "r", "--json").stdout)
    assert found["state"].startswith(f"running by pid {os.getpid()} on ")
    assert "next" not in found
    assert (document["in_progress"], document["partial"]) == (2, True)


def test_status_watch_ends_with_the_run(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, state=RunState.PAUSED)
    lines = bench("status", "r", "--watch", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["paused"]


# --------------------------------------------------------------------------- pause


def test_pause_of_a_run_that_is_not_running_does_nothing(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert bench("pause", "r").stderr == "run r is complete, so there is nothing to pause\n"
    assert json.loads(bench("pause", "r", "--json").stdout) == {"run_id": "r", "state": "complete", "asked": False}
    assert not (folder / PAUSE_FILE).exists()


def test_pause_of_a_running_run_writes_the_pause_file(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    with held(folder):
        done = bench("pause", "r")
        assert json.loads(bench("pause", "r", "--json").stdout) == {"run_id": "r", "state": "running", "asked": True}
    assert done.stderr == "run r will pause; watch the run with: bench status r --watch\n"
    assert (folder / PAUSE_FILE).is_file()


# --------------------------------------------------------------------------- clean


def test_clean_without_yes_lists_the_run_and_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    bench("status", "r")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    done = bench("clean", "r")
    assert done.stdout == f"r  {size / 1e6:.1f} MB, 0 namespaces left at providers\n"
    assert done.stderr == "nothing was changed; --yes deletes the run: journal, report and receipts\n"
    found = json.loads(bench("clean", "r", "--json").stdout)
    assert found == {"done": False, "runs": [{"run_id": "r", "bytes": size, "namespaces": 0, "running": False}]}
    assert folder.is_dir()


@pytest.mark.parametrize("yes", ["--yes", "-y"])
def test_clean_with_yes_deletes_only_the_run_and_its_results(bench: Bench, tmp_path: Path, yes: str) -> None:
    folder, other = write(tmp_path), write(tmp_path, "other")
    for name in ("r", "other"):
        (tmp_path / "results" / name).mkdir(parents=True)
    assert bench("clean", "r", yes).stderr == "r: deleted\n"
    assert not folder.exists() and other.is_dir()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["other"]


@pytest.mark.parametrize(("span", "gone"), [("2d", ["old"]), ("47h", ["old"]), ("4d", []), ("0m", ["new", "old"])])
def test_clean_older_than_selects_by_modification_time_of_the_journal(
    bench: Bench, tmp_path: Path, span: str, gone: list[str]
) -> None:
    write(tmp_path, "new")
    path = write(tmp_path, "old") / "journal.sqlite"
    os.utime(path, (time.time() - 3 * 86400, time.time() - 3 * 86400))
    found = json.loads(bench("clean", "--older-than", span, "--json").stdout)
    assert sorted(one["run_id"] for one in found["runs"]) == gone


@pytest.mark.parametrize("span", ["", "d", "30", "3w", "-1d", "1.5d", "²d", "d30", "999999d"])
def test_clean_older_than_rejects_an_invalid_duration(bench: Bench, span: str) -> None:
    output = bench("clean", "--older-than", span, check=2).stderr.splitlines()
    assert output[0] == f"error: --older-than {span}: expected a time such as 30d, 12h or 90m" or span == "-1d"


def test_clean_without_a_run_is_an_error(bench: Bench) -> None:
    output = bench("clean", check=2).stderr
    assert (
        output
        == "error: no run was given\nhint: name a run (bench clean RUN_ID), or use --older-than 30d or --orphans\n"
    )


def test_clean_without_matching_runs_reports_nothing_to_clean(bench: Bench) -> None:
    for flags in (("--older-than", "1d"), ("--orphans",)):
        assert bench("clean", *flags).stderr == "nothing to clean\n"


def test_clean_does_not_delete_a_running_run(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    with held(folder):
        output = bench("clean", "r", "--yes", check=6).stderr
        assert json.loads(bench("clean", "--orphans", "--json").stdout)["runs"] == []
    assert (
        output == f"error: run r is locked by pid {os.getpid()} on {platform.node()}\n"
        "hint: stop the run first: bench pause r\n"
    )
    assert folder.is_dir()


@pytest.mark.parametrize("name", ["downloads/journal.sqlite", "downloads"])
def test_clean_never_deletes_files_next_to_a_copied_journal(bench: Bench, tmp_path: Path, name: str) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "journal.sqlite").write_bytes((write(tmp_path) / "journal.sqlite").read_bytes())
    (downloads / "thesis.txt").write_text("mine")
    output = bench("clean", name, "--yes", check=2).stderr
    assert (
        output == f"error: {name} is not a run of this workspace\n"
        "hint: list the runs of this workspace with: bench list runs\n"
    )
    assert (downloads / "thesis.txt").read_text() == "mine"


def test_clean_accepts_the_path_of_a_journal(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    bench("clean", "checkpoints/r/journal.sqlite", "--yes")
    assert not folder.exists()


# --------------------------------------------------------------------------- merge


@pytest.mark.parametrize("into", ["", ".x", "a/b", "../x", "x" * 101, "é"])
def test_merge_rejects_an_invalid_run_id(bench: Bench, tmp_path: Path, into: str) -> None:
    write(tmp_path)
    output = bench("merge", "r", "--into", into, check=2).stderr
    assert (
        f"--into {into}: a run id has 1 to 100 characters of A-Z a-z 0-9 . _ - and does not begin with a dot" in output
    )
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["r"]


def test_merge_into_an_existing_run_is_rejected(bench: Bench, tmp_path: Path) -> None:
    folder = write(tmp_path)
    before = (folder / "journal.sqlite").read_bytes()
    output = bench("merge", "r", "--into", "r", check=2).stderr
    assert output == "error: run r exists already\nhint: choose another name\n"
    assert (folder / "journal.sqlite").read_bytes() == before


def test_merge_of_runs_with_different_plans_is_rejected_and_leaves_no_files(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b")
    bench("merge", "a", "b", "--into", "both", check=2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["a", "b"]


def test_merge_joins_ranges_and_reports_the_items_that_no_run_covers(bench: Bench) -> None:
    flags = ("--providers", "no-memory", "-q")
    for name, start, end in (("one", "1", "3"), ("three", "7", "9")):
        bench("run", "--run-id", name, *flags, "--start", start, "--end", end)
    done = bench("merge", "one", "three", "--into", "joined")
    assert done.stdout == "results: results/joined\n"
    assert done.stderr == "gap: no run covers items 4 to 6\ngap: no run covers items 10 to 160\n"
    found = json.loads(bench("merge", "three", "one", "one", "--into", "again", "--json").stdout)
    assert found == {"run_id": "again", "results": "results/again", "gaps": [[4, 6], [10, 160]]}
    one, other = (json.loads(bench("results", name, "--json").stdout) for name in ("joined", "again"))
    assert [document["jobs"][0]["memory_cost"]["build"].pop("paid_by") for document in (one, other)] == [
        "joined",
        "again",
    ]
    assert one["jobs"] == other["jobs"] and one["partial"] is True


def test_a_merged_run_is_listed_and_has_a_report(bench: Bench) -> None:
    bench("run", "--run-id", "one", "--providers", "no-memory", "-q", "--end", "3")
    bench("merge", "one", "--into", "joined")
    assert "joined" in bench("list", "runs").stdout
    assert Path("results/joined/report.json").is_file()


# ------------------------------------------------------------------- a held run


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "r"),
        ("run", "--resume", "r"),
        ("retry", "r"),
        ("rescore", "r", "--metrics", "mrr"),
        ("merge", "r", "--into", "m"),
        ("clean", "r", "--yes"),
        ("clean", "r", "--orphans", "--yes"),
        ("builds", "rm", "r", "--yes"),
        ("sign", "r"),
    ],
    ids=" ".join,
)
def test_commands_that_write_or_need_an_ended_run_name_the_process_that_holds_it(
    bench: Bench, tmp_path: Path, words: tuple[str, ...]
) -> None:
    bench("keys", "new", "--key-dir", str(tmp_path / "keys"))
    bench("run", "--providers", "no-memory", "--limit", "2", "--run-id", "r")
    folder = tmp_path / "checkpoints/r"
    key = ("--key", str(tmp_path / "keys/default.key")) if words[0] == "sign" else ()
    with held(folder):
        output = bench(*words, *key, check=6).stderr
    assert f"error: run r is locked by pid {os.getpid()} on {platform.node()}" in output
    assert not (tmp_path / "checkpoints/m").exists() and folder.is_dir()
