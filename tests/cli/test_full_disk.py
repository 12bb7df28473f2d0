"""A full disk or a read-only folder: clear errors, and no partly written file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def bench(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *words]
    return forked.run(command, env=environment, text=True)


def test_a_run_on_a_full_disk_exits_3_and_can_be_resumed(small: Path, environment: dict[str, str]) -> None:
    place = ("--workspace", str(small))
    done = bench("run", "--providers", "bm25", "--run-id", "full", *place, environment=environment)
    assert done.returncode == 3, done.stderr
    assert "full" in done.stderr
    assert "plugin_error" not in done.stderr
    subprocess.run(["mount", "-o", "remount,size=50m", str(small)], check=True)
    assert bench("resume", "full", *place, environment=environment).returncode == 0
    (job,) = json.loads(bench("results", "full", "--json", *place, environment=environment).stdout)["jobs"]
    assert job["n_pending"] == 0
    assert "error" not in job["counts"]


def test_an_html_file_on_a_full_disk_exits_3(small: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    place = ("--workspace", str(tmp_path))
    assert bench("run", "--providers", "no-memory", "--run-id", "r", *place, environment=environment).returncode == 0
    with pytest.raises(OSError, match="No space"):
        (small / "filler").write_bytes(b"x" * 700_000)
    done = bench("results", "r", "--html", str(small / "r.html"), *place, environment=environment)
    assert done.returncode == 3
    assert "make room" in done.stderr


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder ``shut`` that shows the content of ``work`` and cannot be written."""
    work, shut = tmp_path / "work", tmp_path / "shut"
    work.mkdir()
    shut.mkdir()
    subprocess.run(["mount", "--bind", str(work), str(shut)], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(shut)], check=True)
    yield shut
    subprocess.run(["umount", "-l", str(shut)], check=True)


def test_resume_in_a_read_only_workspace_exits_2_with_a_hint(
    locked: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    place = ("--workspace", str(tmp_path / "work"))
    words = ("run", "--providers", "bm25", "--run-id", "r", "--phases", "search")
    assert bench(*words, *place, environment=environment).returncode == 0
    done = bench("resume", "r", "--workspace", str(locked), environment=environment)
    assert done.returncode == 2
    assert "make the folder writable" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_new_leaves_no_private_key_if_the_public_key_cannot_be_written(
    locked: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    words = ("keys", "new", "bob", "--key-dir", str(tmp_path / "private"))
    done = bench(*words, "--workspace", str(locked), environment=environment)
    assert done.returncode == 2
    assert list((tmp_path / "private").glob("*")) == []
    assert bench(*words, "--workspace", str(tmp_path / "work"), environment=environment).returncode == 0
