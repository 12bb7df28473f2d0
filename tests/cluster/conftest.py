"""Real dask processes on the loopback interface: a scheduler and two workers per test file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import forked
from tests.small_world import World, wait_for


@dataclass
class Machines:
    """A scheduler and its workers, each a process; workers have no nanny, so that a killed one stays dead."""

    folder: Path
    port: int = 0
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> Machines:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        words = ["dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self._process([*words, "--dashboard-address", "127.0.0.1:0"], {})
        return self

    def worker(self, *flags: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        words = ["dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        place = ["--host", "127.0.0.1", "--local-directory", str(self.folder)]
        process = self._process([*words, *place, *flags], variables)
        self.workers.append(process)
        return process

    def _process(self, words: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", **variables}
        log = (self.folder / "log.txt").open("ab")
        with log:
            return forked.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def wait(self, count: int) -> None:
        """Wait until the scheduler answers and has this number of workers."""
        from distributed import Client

        with Client(self.address, timeout=180, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            wait_for(lambda: len(client.nthreads()) == count, seconds=180)

    def have(self, count: int) -> None:
        """Start or stop workers until there are this many."""
        self.workers = [one for one in self.workers if one.poll() is None]
        for _ in range(count - len(self.workers)):
            self.worker()
        for extra in self.workers[count:]:
            end(extra)
        self.wait(count)

    def stop(self) -> None:
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was started here, also one that is suspended."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait(timeout=120)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    found = Machines(tmp_path_factory.mktemp("dask")).start()
    found.worker()
    found.worker()
    yield found
    found.stop()


@pytest.fixture
def machines(pool: Machines) -> Machines:
    """Two healthy workers."""
    pool.have(2)
    return pool


@pytest.fixture
def world(tmp_path: Path, fault_server: object) -> World:
    """A workspace that a worker finds on the same disk, with its variables in .env."""
    assert callable(fault_server)
    alone = fault_server("--seed=0")  # a worker may still send requests when its test has ended
    made = World.make(tmp_path / "w", alone, corpora=4, items=8)
    made.write(".env", f"FAULT_URL={made.url}\n")
    return made
