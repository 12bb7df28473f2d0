"""Reserved run ids, and the public log next to the runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench as api
from bench.errors import BenchError

Bench = Callable[..., Any]
RUN = ("run", "--providers", "bm25", "--limit", "2", "--display", "none")
RESERVED = ("published", "PUBLISHED", "README.md", "results.sqlite", "Results.sqlite-wal", ".service", ".token",
            "shards", "pause", "journal.sqlite", "receipts", "run.log", "nul", "Com1.log", "end.")  # fmt: skip


@pytest.fixture
def keyed(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a signed and published run, and the folder of its public log."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    bench(*RUN, "--run-id", "r1")
    bench("keys", "new", "me")
    bench("sign", "r1")
    bench("publish", str(next((tmp_path / "results/r1/receipts").glob("*[0-9A-Z].json"))))
    return tmp_path / "results" / "published"


@pytest.mark.parametrize("name", RESERVED)
def test_run_rejects_a_reserved_run_id_and_writes_no_file(bench: Bench, tmp_path: Path, name: str) -> None:
    done = bench(*RUN, "--run-id", name, check=2)
    assert "run id" in done.stderr or "file name" in done.stderr
    assert not (tmp_path / "checkpoints").exists() and not (tmp_path / "results").exists()


def test_merge_fork_a_run_file_and_the_api_reject_a_reserved_run_id(bench: Bench, tmp_path: Path) -> None:
    bench(*RUN, "--run-id", "r1")
    (tmp_path / "run.yaml").write_text("providers: [bm25]\nrun_id: Published\n")
    bench("run", "-c", "run.yaml", check=2)
    bench("merge", "r1", "--into", "published", check=2)
    bench("fork", "r1", "--from", "answer", "--answering-model", "none", "--run-id", "published", check=2)
    with pytest.raises(BenchError, match="published"):
        api.plan(providers=["bm25"], run_id="published", workspace=tmp_path)
    assert not (tmp_path / "results/published").exists() and not (tmp_path / "checkpoints/published").exists()


def test_clean_of_an_old_run_named_published_keeps_the_public_log(bench: Bench, keyed: Path, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "checkpoints/r1", tmp_path / "checkpoints/published")
    before = {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()}
    done = bench("clean", "published", "--yes")
    assert "public log" in done.stderr and not (tmp_path / "checkpoints/published").exists()
    assert {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()} == before
    bench("log", "verify")


def test_run_and_sign_write_no_file_into_a_public_log(bench: Bench, keyed: Path, tmp_path: Path) -> None:
    before = sorted(keyed.rglob("*"))
    for output in (keyed, keyed / "receipts"):
        done = bench(*RUN, "--run-id", "r2", "--output", str(output), check=2)
        assert "public log" in done.stderr
        assert not (tmp_path / "checkpoints/r2").exists()
    shutil.copytree(tmp_path / "checkpoints/r1", tmp_path / "checkpoints/published")
    bench("sign", "published", check=2)
    assert sorted(keyed.rglob("*")) == before


def test_keys_new_rejects_the_name_of_a_device(bench: Bench, keyed: Path) -> None:
    bench("keys", "new", "CON", check=2)
