"""Fixtures for all tests: the shared material, and a server on the loopback interface that injects faults."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests import checkout, forked, laws, lean_nltk, parsing, rows
from tests.fault_servers import FaultServer, FaultServers
from tests.small_world import World

checkout.register()
laws.register()
lean_nltk.register()
parsing.register()

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
ENOUGH = 4_000_000_000
"""free bytes from which temporary files are in memory; a run of all tests takes a quarter of it"""

if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # a disk may take milliseconds to make or remove a file

os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"  # it looks at every stack each 10 ms
os.environ["DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL"] = "1s"  # each 20 ms otherwise


def pytest_configure(config: pytest.Config) -> None:
    """Start one server of forked processes for all workers if the whole test suite runs; let workers send less."""
    starts_workers = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if starts_workers and config.args == config.getini("testpaths"):
        os.environ[forked.SHARED] = forked.address()
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":  # of pytest-xdist, in a worker
            plugin.sendevent = sending_less(plugin.sendevent)


def sending_less(send: Callable[..., None]) -> Callable[..., None]:
    """Return a function that sends neither that a test starts nor that its setup or teardown passed.

    That is half of what the main process reads of a test, and it does nothing with it. ``--durations`` of a run with
    workers shows calls only.
    """

    def send_some(name: str, **values: Any) -> None:
        report = values["data"] if name == "testreport" else {}
        if name != "logstart" and (report.get("outcome") != "passed" or report["when"] == "call"):
            send(name, **values)

    return send_some


def pytest_sessionfinish() -> None:
    """Stop the browser that this process started, if any, because workers do not run exit handlers."""
    if (browser := sys.modules.get("tests.web.browser")) is not None:
        browser.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Let workers send little of a test that passed; the main process reads tens of thousands of reports."""
    if isinstance(report, pytest.TestReport) and report.passed:
        report.keywords, report.sections = {}, []


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, and exclude the collected objects from later collections."""
    gc.disable()
    try:
        import_from_another_file(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # as seldom as in the program
        gc.enable()


def import_from_another_file(config: pytest.Config) -> None:
    """Start importing at a different file in each worker, so that workers share compiled files."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    first = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for file in files[first:] + files[:first]:
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Give each test its own process state; a fixture would take longer."""
    with rows.process_state():
        return (yield)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of vectors, captures, cases and datasets; skip the test if it is missing."""
    path = Path(os.environ.get("MEMORYBENCH_SHARED", ROOT.parent / "shared")).resolve()
    if not path.is_dir():
        pytest.skip("MEMORYBENCH_SHARED is not there")
    return path


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what starts processes of this interpreter fork them, here and in these processes."""
    monkeypatch.setattr(sys, "executable", str(forked.client("python")))
    monkeypatch.setenv(forked.PYTHON, sys.executable)


@pytest.fixture(scope="session")
def fault_servers(shared: Path) -> Iterator[FaultServers]:
    servers = FaultServers(shared / "tools" / "fault_server.py")
    yield servers
    servers.close()


@pytest.fixture
def fault_server(fault_servers: FaultServers) -> Iterator[Callable[..., str]]:
    """Return a function that gives fault servers: ``fault_server("search:status:code=503", "--record")``."""
    used: list[FaultServer] = []

    def give(*arguments: str) -> str:
        faults = [argument for argument in arguments if ":" in argument]
        used.append(fault_servers.take(faults, [argument for argument in arguments if ":" not in argument]))
        return used[-1].url

    yield give
    for server in used:
        fault_servers.give_back(server)


@pytest.fixture
def world_of(tmp_path: Path, fault_server: Callable[..., str]) -> Callable[..., World]:
    """Return a function that makes worlds on a fault server: ``world_of("search:hang", items=4)``."""

    def make(*faults: str, corpora: int = 2, items: int = 4, sessions: int = 3, flags: tuple[str, ...] = ()) -> World:
        url = fault_server(*faults, *flags)
        return World.make(
            tmp_path / f"w{len(list(tmp_path.iterdir()))}", url, corpora=corpora, items=items, sessions=sessions
        )

    return make
