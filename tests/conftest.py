"""What every test may use: the shared material and a fault-injecting server on the loopback interface."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench import events
from tests import checkout, forked, laws, parsing
from tests.small_world import World

checkout.register()
laws.register()
parsing.register()

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
ENOUGH = 4_000_000_000
"""free bytes at which temporary files go to memory; a run of all tests takes a quarter of it"""

if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # a disk may take milliseconds to make or remove a file


def pytest_configure(config: pytest.Config) -> None:
    """Have one server of forked processes for all workers, where all tests run."""
    starts_workers = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if starts_workers and config.args == config.getini("testpaths"):
        os.environ[forked.SHARED] = forked.address()


def pytest_sessionfinish() -> None:
    """Stop the browser that this process started, if a test did; a worker does not end as other programs do."""
    if (browser := sys.modules.get("tests.web.browser")) is not None:
        browser.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector: what is made is kept, and no later search for garbage goes through it."""
    gc.disable()
    try:
        import_from_another_file(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_from_another_file(config: pytest.Config) -> None:
    """Begin at another file in each worker, so that what one has compiled, the others read from its cache."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    first = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for file in files[first:] + files[:first]:
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


@pytest.fixture(autouse=True)
def a_process_of_its_own() -> Iterator[None]:
    """What a program keeps until it ends goes with its test: the secrets it knows, and the sinks of its log."""
    with events.redactor.forgetting():
        yield
    events.close()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of vectors, captures, cases and datasets; the test skips where it is absent."""
    path = Path(os.environ.get("MEMORYBENCH_SHARED", ROOT.parent / "shared")).resolve()
    if not path.is_dir():
        pytest.skip("MEMORYBENCH_SHARED is not there")
    return path


@pytest.fixture
def fault_server(shared: Path) -> Iterator[Callable[..., str]]:
    """Start fault servers: ``url = fault_server("search:status:code=503", "--record")``."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        faults = [part for argument in arguments if ":" in argument for part in ("--fault", argument)]
        flags = [argument for argument in arguments if ":" not in argument]
        command = [sys.executable, str(shared / "tools" / "fault_server.py"), "--parent-watch", *faults, *flags]
        process = forked.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["url"])

    yield start
    for process in processes:
        process.terminate()
        process.wait(timeout=120)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def world_of(tmp_path: Path, fault_server: Callable[..., str]) -> Callable[..., World]:
    """Make worlds of made-up facts on a server that fails on demand: ``world_of("search:hang", items=4)``."""

    def make(*faults: str, corpora: int = 2, items: int = 4, sessions: int = 3, flags: tuple[str, ...] = ()) -> World:
        url = fault_server(*faults, *flags)
        return World.make(
            tmp_path / f"w{len(list(tmp_path.iterdir()))}", url, corpora=corpora, items=items, sessions=sessions
        )

    return make
