"""K1: the wheel in an empty environment and folder, without a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from bench.version import __version__

COMMANDS = (
    ("list",),
    ("validate",),
    ("schema", "provider"),
    ("run", "--providers", "bm25", "oracle", "--limit", "8", "--run-id", "r"),
    ("results", "r", "--json"),
    ("--help",),
)
END = "\0"
IN_ONE_PROCESS = """
import json, sys
from bench.cli import run
for words in json.loads(sys.argv[1]):
    if code := run(words):
        sys.exit(code)
    print(end="\\0")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The wheel, built from the checkout without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(root)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_K1_the_wheel_contains_each_shipped_config_and_dataset(wheel: Path, root: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("bench/_data/")}
    tracked = subprocess.run(
        ["git", "ls-files", "configs", "datasets/*/*"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    missing = [name for name in tracked if f"bench/_data/{name}" not in inside]
    assert not missing


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` of a new environment with the wheel and the packages of this environment."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, symlinks=True)
    python = [sys.executable, "-m", "pip", "--python", str(home)]
    subprocess.run([*python, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", str(wheel)], check=True)
    (site,) = home.glob("lib/*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return home / "bin"


def test_K1_the_installed_program_works_in_an_empty_folder(installed: Path, tmp_path: Path, root: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert run(str(installed / "bench"), "--version").startswith(f"bench {__version__} (commit {head[:7]}")
    outputs = run(str(installed / "python"), "-P", "-c", IN_ONE_PROCESS, json.dumps(COMMANDS)).split(END)
    found = dict(zip((words[0] for words in COMMANDS), outputs, strict=False))
    assert "demo" in found["list"]
    assert json.loads(found["schema"])["$schema"]
    assert {job["provider"] for job in json.loads(found["results"])["jobs"]} == {"bm25", "oracle"}
    assert "bench run" in found["--help"]


def test_K1_the_wheel_has_the_package_and_program_name_of_the_readme(installed: Path, root: Path) -> None:
    assert (installed / "memorybench").is_file(), "uvx and pipx run the program that has the package's name"
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert "pip install memorybench" in readme and "uvx memorybench" in readme
