"""K1: the wheel in an empty environment, from an empty folder, without a checkout in sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

DEMO = ("run", "--providers", "bm25", "oracle", "--limit", "8", "--run-id", "r")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The wheel, built from the checkout without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(root)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_K1_every_shipped_config_and_dataset_is_in_the_wheel(wheel: Path, root: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("bench/_data/")}
    tracked = subprocess.run(
        ["git", "ls-files", "configs", "datasets/*/*"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    missing = [name for name in tracked if f"bench/_data/{name}" not in inside]
    assert not missing


def test_K1_the_installed_program_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}

    def bench(*arguments: str) -> str:
        code = (
            f"import sys; sys.path.insert(0, {str(site)!r}); import bench; "
            f"assert bench.__file__.startswith({str(site)!r}), bench.__file__; "
            f"from bench.cli import main; main({list(arguments)!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "demo" in bench("list")
    bench("validate")
    assert json.loads(bench("schema", "provider"))["$schema"]
    bench(*DEMO)
    jobs = json.loads(bench("results", "r", "--json"))["jobs"]
    assert {job["provider"] for job in jobs} == {"bm25", "oracle"}
    assert "bench run" in bench("--help")
