"""Services of a compose file: used, started, stopped, and errors without Docker.

A replacement of the ``docker`` command starts and stops a small web server and records its calls.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from bench.providers.docker import running_projects, running_service
from tests import forked
from tests.contract.running import context_for, opened
from tests.contract.servers import free_port
from tests.fakes.recorder import recorder

COMMAND = """\
#!{python}
import json, os, pathlib, signal, subprocess, sys
home = pathlib.Path({home!r})
with (home / "calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if (home / "broken").exists():
    print((home / "broken").read_text())
    sys.exit(1)
verb = sys.argv[6]
if verb == "up" and not (home / "unhealthy").exists():
    server = subprocess.Popen([{python!r}, "-m", "http.server", "{port}", "--bind", "127.0.0.1", "-d", str(home)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    (home / "pid").write_text(str(server.pid))
elif verb == "stop" and (home / "pid").exists():
    pid = (home / "pid").read_text()
    cmdline = pathlib.Path("/proc", pid, "cmdline")
    # a server that could not bind is gone, and its number may be another process by now
    if not cmdline.parent.parent.joinpath("self").exists() or (cmdline.exists() and b"{port}" in cmdline.read_bytes()):
        os.kill(int(pid), signal.SIGTERM)
    (home / "pid").unlink()
elif verb == "ps":
    print("c0ffee")
elif verb == "logs":
    print("warming up")
"""

TEXT = """\
name: boxed
type: docker
docker: {compose: ./boxed.compose.yaml, service: box, healthcheck: /calls, baseUrl: "${BOX_URL}", health_timeout_s: 3}
endpoints:
  add: {method: POST, path: /add, body: {text: $.content}}
  search:
    {method: POST, path: /search, body: {q: $.query, n: $.k}, response: {results: $.results, contentField: $.text}}
  clear: {method: DELETE, path: "/ns/${runTag}"}
"""


class Box:
    """The config, the replacement of ``docker``, and its address."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        (folder / "bin").mkdir()
        program = folder / "bin" / "docker"
        program.write_text(COMMAND.format(python=sys.executable, home=str(folder), port=port), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (folder / "boxed.compose.yaml").write_text("services: {box: {image: box}}\n", encoding="utf-8")
        self.variables = {"BOX_URL": self.url, "PATH": str(folder / "bin")}

    def config(self) -> ProviderConfig:
        return load_provider(Source.parse(TEXT, self.home / "boxed.yaml"))

    def calls(self) -> list[list[str]]:
        path = self.home / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def box(folder: Path) -> Iterator[Box]:
    made = Box(folder)
    yield made
    assert not (folder / "pid").exists(), "something was left running"


async def test_a_docker_service_that_does_not_respond_is_started_and_stopped(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        async with opened(made.config(), tmp_path, made.variables):
            assert (tmp_path / "pid").exists()
        verbs = [call[5] for call in made.calls()]
        assert verbs == ["up", "ps", "stop"]
        start = ["compose", "-p", "bench-boxed", "-f", str(tmp_path / "./boxed.compose.yaml"), "up", "-d", "box"]
        assert made.calls()[0] == start


async def test_a_docker_service_is_stopped_when_the_run_fails_or_is_cancelled(tmp_path: Path) -> None:
    import anyio

    with box(tmp_path) as made:
        with pytest.raises(RuntimeError, match="boom"):
            async with opened(made.config(), tmp_path, made.variables):
                raise RuntimeError("boom")
        with anyio.move_on_after(2):
            async with opened(made.config(), tmp_path, made.variables):
                await anyio.sleep_forever()
        assert [call[5] for call in made.calls()].count("stop") == 2


async def test_a_docker_service_that_responds_is_not_started_or_stopped(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        async with recorder() as other, opened(made.config(), tmp_path, {**made.variables, "BOX_URL": other.url}):
            pass
        assert made.calls() == []


async def test_without_Docker_the_error_names_the_variable_but_no_password(tmp_path: Path) -> None:
    with box(tmp_path) as made, pytest.raises(ConfigError) as caught:
        nowhere = {"PATH": str(tmp_path / "nowhere"), "BOX_URL": made.url.replace("://", "://me:hunter22@")}
        async with opened(made.config(), tmp_path, {**made.variables, **nowhere}):
            pass
    shown = made.url.replace("://", "://[redacted]@")
    assert f"boxed is not reachable at {shown} and Docker is not available" in str(caught.value)
    assert "set BOX_URL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Cannot connect to the Docker daemon at unix:///x", r"Docker is not available \(its daemon does not answer"),
        (
            "docker: unknown command: docker compose\n\nRun 'docker --help'",
            r"not available \(its compose plug-in is not",
        ),
        ("\n".join(f"line {i}" for i in range(50)), r"compose up failed for boxed \(status 1\):\nline 30\n"),
    ],
)
async def test_a_failing_compose_command_shows_its_last_lines(output: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text(output, encoding="utf-8")
    with box(tmp_path) as made, pytest.raises(ConfigError, match=message):
        async with opened(made.config(), tmp_path, made.variables):
            pass


async def test_a_used_port_is_reported_with_the_response_of_the_other_program(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("Bind for 127.0.0.1:8000 failed: port is already allocated", encoding="utf-8")
    with box(tmp_path) as made:
        async with recorder({"GET /calls": (404, {})}) as other:
            with pytest.raises(ConfigError, match="port is already allocated") as caught:
                async with opened(made.config(), tmp_path, {**made.variables, "BOX_URL": other.url}):
                    pass
    assert "another program uses its port" in (caught.value.hint or "") and "-> 404" in (caught.value.hint or "")
    assert "set BOX_URL" in (caught.value.hint or "")


async def test_a_container_started_by_a_killed_process_is_stopped_by_the_next_one(tmp_path: Path) -> None:
    noted: list[tuple[str, Mapping[str, object]]] = []
    with box(tmp_path) as made:
        async with context_for(made.config(), tmp_path, made.variables) as context:
            context = replace(context, note=lambda kind, data: noted.append((kind, data)))
            killed = running_service(made.config(), context)
            await killed.__aenter__()
            started = list(noted)
            assert started == [("docker_started", {"project": "bench-boxed", "containers": ["c0ffee"]})]
            async with running_service(made.config(), replace(context, services=running_projects(started))):
                pass
            assert not (tmp_path / "pid").exists(), "still ours, so it was stopped"
            assert running_projects(noted) == frozenset()
            async with running_service(
                made.config(), context
            ):  # it does not respond, so it is started again and stopped
                pass
            await killed.__aexit__(None, None, None)
    assert [call[5] for call in made.calls()] == ["up", "ps", "stop", "up", "ps", "stop", "stop"]


async def test_a_docker_service_that_stays_unhealthy_is_stopped_and_its_log_shown(tmp_path: Path) -> None:
    (tmp_path / "unhealthy").touch()
    with box(tmp_path) as made:
        with pytest.raises(ConfigError, match=r"(?s)not healthy at .*/calls after 3 s \(.*\):\nwarming up"):
            async with opened(made.config(), tmp_path, made.variables):
                pass
        assert made.calls()[-1][5] == "stop"


def test_a_resumed_run_stops_the_container_of_its_killed_process(tmp_path: Path) -> None:
    """The journal records the owner of each container, so that none is left after the run."""
    with box(tmp_path) as made:
        folder = tmp_path / "configs" / "providers"
        folder.mkdir(parents=True)
        (folder / "boxed.compose.yaml").write_text("services: {box: {image: box}}\n", encoding="utf-8")
        text = TEXT.replace("health_timeout_s: 3", "health_timeout_s: 30") + "rateLimit: {maxRetries: 9}\n"
        (folder / "boxed.yaml").write_text(text, encoding="utf-8")
        environment = {**os.environ, **made.variables, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        command = [sys.executable, "-m", "bench", "run", "-q"]
        first = [*command, "--providers", "boxed", "--limit", "2", "--run-id", "r"]
        process = forked.Popen(first, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
        wait_for(lambda: _noted(tmp_path / "checkpoints" / "r" / "journal.sqlite", "docker_started"))
        process.kill()
        process.wait(timeout=120)
        assert (tmp_path / "pid").exists(), "it was not stopped"
        (folder / "boxed.yaml").write_text(text.replace("maxRetries: 9", "maxRetries: 0"), encoding="utf-8")
        resumed = [*command, "--resume", "r"]
        forked.run(resumed, cwd=tmp_path, env=environment)
    assert [call[5] for call in made.calls()] == ["up", "ps", "stop"]


def test_each_process_of_a_run_starts_and_stops_the_service_of_two_variants_once(tmp_path: Path) -> None:
    """A resumed process must not take its own start of the service for one of an earlier process."""
    with box(tmp_path) as made:
        folder = tmp_path / "configs" / "providers"
        folder.mkdir(parents=True)
        (folder / "boxed.compose.yaml").write_text("services: {box: {image: box}}\n", encoding="utf-8")
        text = TEXT.replace("health_timeout_s: 3", "health_timeout_s: 30") + "rateLimit: {maxRetries: 0}\n"
        (folder / "boxed.yaml").write_text(text, encoding="utf-8")
        environment = {**os.environ, **made.variables, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        variants = ["--providers", "boxed", "boxed@other", "--set", "boxed@other.capabilities.max_k=5"]
        command = [sys.executable, "-m", "bench", "run", "-q"]
        forked.run([*command, *variants, "--limit", "2", "--run-id", "r"], cwd=tmp_path, env=environment)
        forked.run([*command, "--resume", "r"], cwd=tmp_path, env=environment)
    assert [call[5] for call in made.calls()] == ["up", "ps", "stop"] * 2


def _noted(journal: Path, kind: str) -> bool:
    if not journal.exists():
        return False
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        try:
            return db.execute("select 1 from event where kind = ?", (kind,)).fetchone() is not None
        except sqlite3.OperationalError:
            return False


def wait_for(there: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.05)
