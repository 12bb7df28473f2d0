"""Code state from git or the image, and a description of the machine without its name."""

from __future__ import annotations

import json
import platform
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from bench.engine import run_metadata as codestate
from bench.engine import run_metadata as machine
from bench.engine.run_metadata import (
    CodeState,
    _git_output,
    code_tree_sha256,
    cpu_name,
    describe,
    lock_sha256,
    memory_bytes,
    packages,
)
from bench.settings import Environment


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout that contains the package."""
    module = tmp_path / "bench/engine/run_metadata.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    monkeypatch.setattr(codestate, "__file__", str(module))
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    settings = ("user.name=n", "user.email=n@example.org", "commit.gpgsign=false", "tag.gpgsign=false")
    given = [part for one in settings for part in ("-c", one)]
    done = subprocess.run(["git", "-C", str(folder), *given, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def read(**variables: str) -> CodeState:
    return CodeState.read(Environment(values=variables))


def test_the_code_state_of_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    assert read() == CodeState(commit=git(checkout, "rev-parse", "HEAD"), tag=None, dirty=False, source="git")


def test_the_code_state_has_a_tag_only_on_the_tagged_commit(checkout: Path) -> None:
    git(checkout, "tag", "-a", "v1.2.0", "-m", "release")
    assert read().tag == "v1.2.0"
    (checkout / "more").write_text("x")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "second")
    assert read().tag is None


@pytest.mark.parametrize("name", ["bench/engine/run_metadata.py", "new.py", "configs/own.yaml"])
def test_a_changed_file_makes_the_code_state_dirty(checkout: Path, name: str) -> None:
    path = checkout / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
    assert read().dirty is True


@pytest.mark.parametrize("name", ["results/r/report.json", "checkpoints/r/journal.sqlite", "datasets/locomo/data.json"])
def test_files_written_by_runs_do_not_make_the_code_state_dirty(checkout: Path, name: str) -> None:
    path = checkout / name
    path.parent.mkdir(parents=True)
    path.write_text("written")
    assert read().dirty is False


def test_without_a_checkout_the_code_state_is_the_declared_commit(checkout: Path) -> None:
    (checkout / ".git").rename(checkout / "gone")
    assert read() == CodeState()
    declared = read(MEMORYBENCH_GIT_COMMIT="3f2a", MEMORYBENCH_GIT_TAG="v1")
    assert declared == CodeState(commit="3f2a", tag="v1", dirty=None, source="declared")
    assert read(MEMORYBENCH_GIT_COMMIT="3f2a").tag is None


def test_a_checkout_takes_precedence_over_declared_variables(checkout: Path) -> None:
    assert read(MEMORYBENCH_GIT_COMMIT="3f2a").source == "git"


def test_without_git_the_code_state_is_unknown(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codestate.shutil, "which", lambda name: None)
    assert read() == CodeState()


def test_a_checkout_without_a_commit_has_no_code_state(checkout: Path) -> None:
    (checkout / ".git/refs/heads/main").unlink()
    assert read() == CodeState()


@pytest.mark.parametrize("error", [OSError("no such program"), subprocess.TimeoutExpired("git", 10)])
def test_a_failing_or_hanging_git_returns_none(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def run(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(codestate.subprocess, "run", run)
    assert _git_output("git", checkout, "rev-parse", "HEAD") is None


def test_a_failing_git_command_returns_none(checkout: Path) -> None:
    assert _git_output("git", checkout, "rev-parse", "nobody") is None


# ------------------------------------------------------------------ the machine


def test_the_machine_is_described_without_its_name() -> None:
    found = describe("r1", Environment())
    assert json.loads(json.dumps(found)) == found
    assert platform.node() not in json.dumps(found) or len(platform.node()) < 4
    assert found["python"] == platform.python_version()
    assert found["cpuCount"] and found["memoryBytes"] and found["cpu"]
    assert (found["containerImage"], found["containerDigest"]) == (None, None)


def test_the_host_hash_differs_between_runs() -> None:
    one, two = (describe(name, Environment())["hostHash"] for name in ("r1", "r2"))
    assert one != two
    assert one == describe("r1", Environment())["hostHash"]
    assert len(str(one)) == 16


def test_the_container_image_is_read_from_variables() -> None:
    found = describe("r", Environment(values={"MEMORYBENCH_IMAGE": "bench:1", "MEMORYBENCH_IMAGE_DIGEST": "sha256:0"}))
    assert (found["containerImage"], found["containerDigest"]) == ("bench:1", "sha256:0")
    assert describe("r", Environment(values={"MEMORYBENCH_IMAGE": ""}))["containerImage"] is None


def test_package_names_are_normalized() -> None:
    found = packages()
    assert {"aiohttp", "pydantic", "sqlite", "ruamel-yaml"} <= set(found)
    assert list(found) == sorted(found)
    assert not [name for name in found if name != name.lower() or "_" in name or "." in name]
    assert found["aiohttp"] == __import__("aiohttp").__version__


def test_the_code_hash_changes_with_content_and_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed() -> str:
        code_tree_sha256.cache_clear()
        return code_tree_sha256()

    monkeypatch.setattr(machine, "PACKAGE", tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text("1")
    (tmp_path / "b.sql").write_text("2")
    before = hashed()
    (tmp_path / "sub/__pycache__").mkdir()
    (tmp_path / "sub/__pycache__/a.cpython-311.pyc").write_text("compiled")
    (tmp_path / "a.pyc").write_text("compiled")
    assert hashed() == before
    (tmp_path / "b.sql").write_text("3")
    changed = hashed()
    (tmp_path / "b.sql").rename(tmp_path / "c.sql")
    assert len({before, changed, hashed()}) == 3
    code_tree_sha256.cache_clear()


def test_an_installation_without_a_lock_file_has_no_lock_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PACKAGE", tmp_path / "bench")
    assert lock_sha256() is None
    (tmp_path / "requirements.lock").write_text("aiohttp==3\n")
    assert lock_sha256() == sha256(b"aiohttp==3\n").hexdigest()


def test_a_processor_without_a_name_is_its_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / "absent")
    assert cpu_name() == (platform.processor() or platform.machine())
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: A Fine CPU @ 3 GHz\nflags : x\n")
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / "cpuinfo")
    assert cpu_name() == "A Fine CPU @ 3 GHz"


@pytest.mark.parametrize("error", [ValueError, OSError, AttributeError])
def test_an_unknown_memory_size_is_zero(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def sysconf(name: str) -> int:
        raise error

    monkeypatch.setattr(machine.os, "sysconf", sysconf)
    assert memory_bytes() == 0
