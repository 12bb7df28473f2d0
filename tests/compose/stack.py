"""The stack really built and started: ``python -m tests.compose.stack`` as root (exit 77 = requirements are missing).

Builds the image from a base of Debian's packages, starts the service of compose.yaml, runs the demo over the API,
stops and kills the service during the run, checks that the run completes, signs it, and starts dask workers.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.compose.docker import BASE, ROOT, WHEELS, Docker, base_image, compose_command, engine, missing, run

PROJECT = "memorybench-stack-test"
PORT = 3977
SKIPPED = 77
IMAGE_USER = 10001
SERVICE = ("bench",)
LOAD = {"benchmarks": ["demo"], "run_id": "long", "epochs": 20, "concurrency": 1}
"""16,000 items: long enough to be stopped before its end"""


@dataclass(frozen=True, slots=True)
class Stack:
    """The services of compose.yaml as their own project."""

    docker: Docker
    file: Path
    key: Path

    def compose(self, *arguments: str) -> str:
        variables = {"BASE_IMAGE": BASE, "BENCH_PORT": str(PORT), "BENCH_SIGNING_KEY_FILE": str(self.key)}
        command = (*(compose_command() or ()), "-p", PROJECT, "--project-directory", str(ROOT), "-f", str(self.file))
        return run(*command, *arguments, environment={**self.docker.environment, **variables})

    def build(self, *services: str) -> None:
        settings = (f"PIP_FIND_LINKS=/{WHEELS}", "PIP_NO_INDEX=1")
        self.compose("build", *(part for one in settings for part in ("--build-arg", one)), *services)

    def container(self, service: str = "bench") -> str:
        return self.compose("ps", "-q", service).strip()

    def state(self, path: str) -> str:
        return self.docker("inspect", self.container(), "--format", f"{{{{.State.{path}}}}}").strip()

    def logs(self, service: str = "bench") -> str:
        return self.compose("logs", service)

    def inside(self, *command: str) -> str:
        return self.docker("exec", self.container(), *command).strip()

    @property
    def token(self) -> str:
        return self.inside("cat", "/workspace/token/token")

    def api(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/api/v1{path}", data, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def until(self, what: str, true: Any, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"still false: {what}\n{self.logs()[-3000:]}")
            time.sleep(0.5)

    def healthy(self) -> bool:
        return self.state("Health.Status") == "healthy"


def report(text: str) -> None:
    print(text, flush=True)


# ------------------------------------------------------------------ checks


def image_runs_without_root_and_cannot_write(stack: Stack) -> None:
    """The image runs without root, with a read-only root, and publishes only on the loopback address."""
    assert stack.inside("id", "-u") == str(IMAGE_USER)
    for path in ("/opt/bench/x", "/workspace/x", "/etc/x"):
        try:
            stack.inside("touch", path)
        except RuntimeError as refused:
            assert "Read-only file system" in str(refused) or "Permission denied" in str(refused)
        else:
            raise AssertionError(f"{path} can be written")
    ports = stack.docker("inspect", stack.container(), "--format", "{{json .NetworkSettings.Ports}}")
    assert json.loads(ports) == {"3000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(PORT)}]}


def pages_need_the_token(stack: Stack) -> None:
    """The login address is printed once, and pages need the token."""
    assert stack.logs().count("/login?token=") == 1 and stack.token in stack.logs()
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=120)
    except urllib.error.HTTPError as refused:
        assert refused.code == 401
        refused.close()
    else:
        raise AssertionError("the pages open without a token")


def a_stopped_and_killed_run_continues(stack: Stack) -> None:
    """``stop`` ends within eight seconds with 143, ``kill`` at once; each start continues the run."""
    stack.api("/runs", LOAD)
    stack.until("items end", lambda: stack.api("/runs/long")["progress"]["ended"] > 500)
    began = time.monotonic()
    stack.compose("stop", "bench")
    took = time.monotonic() - began
    assert took < 10 and stack.docker("wait", _stopped(stack)).strip() == "143", took
    report(f"  stopped in {took:.1f} s with exit code 143")
    stack.compose("start", "bench")
    stack.until("it is healthy again", stack.healthy)
    before = stack.api("/runs/long")["progress"]["ended"]
    stack.until("the run continues", lambda: stack.api("/runs/long")["progress"]["ended"] > before)
    report(f"  continued after {before} items")
    stack.docker("kill", "--signal", "KILL", stack.container())
    stack.compose("start", "bench")
    stack.until("it is healthy after a kill", stack.healthy)
    stack.until("the run is complete", lambda: stack.api("/runs/long")["state"] == "complete", 300)
    progress = stack.api("/runs/long")["progress"]
    assert progress["ended"] == progress["planned"] == 16_000 and progress["failed"] == 0, progress
    assert stack.logs().count("/login?token=") == 1


def _stopped(stack: Stack) -> str:
    found = stack.docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={PROJECT}")
    (container,) = found.split()
    return container


def volumes_survive_the_removal_of_containers(stack: Stack) -> None:
    """``down`` and ``up`` keep runs and token."""
    token = stack.token
    stack.compose("down")
    stack.compose("up", "-d", "--no-build", "bench")
    stack.until("it is healthy again", stack.healthy)
    assert stack.token == token and stack.api("/runs/long")["state"] == "complete"


def the_signing_service_signs(stack: Stack) -> None:
    """A one-shot container without network reads the key as a secret; the service itself has none."""
    stack.api("/runs", {"benchmarks": ["demo"], "run_id": "short", "providers": ["bm25"]})
    stack.until("the run is complete", lambda: stack.api("/runs/short")["state"] == "complete")
    output = stack.compose("run", "--rm", "-T", "sign", "sign", "short")
    assert "results/short/receipts/" in output, output
    (receipt,) = stack.api("/receipts")["receipts"]
    assert receipt["file"].startswith("results/short/receipts/")
    assert stack.inside("ls", "/run").find("secrets") < 0


def workers_register_at_the_scheduler(stack: Stack) -> None:
    """The cluster profile: scheduler and two workers of the same image with dask."""
    stack.build("scheduler")
    stack.compose("--profile", "cluster", "up", "-d", "--no-build", "--scale", "worker=2", "scheduler", "worker")
    stack.until("two workers are registered", lambda: stack.logs("scheduler").count("Register worker") >= 2, 60)


CHECKS = (
    image_runs_without_root_and_cannot_write,
    pages_need_the_token,
    a_stopped_and_killed_run_continues,
    volumes_survive_the_removal_of_containers,
    the_signing_service_signs,
    workers_register_at_the_scheduler,
)


# ------------------------------------------------------------------ setup


@contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    """An engine, a base image, a key, and the service up and healthy."""
    compose = YAML(typ="safe").load(ROOT / "compose.yaml")
    extra = compose["services"]["scheduler"]["build"]["args"]["EXTRA_REQUIREMENTS"]
    with engine(folder) as docker:
        report("base image: debootstrap, wheels, docker import")
        base_image(folder, docker, extra)
        stack = Stack(docker, _file(folder, compose), _key(folder))
        try:
            report("docker compose build")
            stack.build("bench")
            report("docker compose up")
            stack.compose("up", "-d", "--no-build", *SERVICE)
            stack.until("it is healthy", stack.healthy)
            yield stack
        finally:
            stack.compose("--profile", "cluster", "down", "--volumes")


def _file(folder: Path, compose: dict[str, Any]) -> Path:
    """compose.yaml itself; for the older command without unsupported keys: name and optional env file.

    The public keys come from the folder of the test, so that the checkout is unchanged.
    """
    compose["services"]["sign"]["volumes"][-1] = f"{folder / 'keys'}:/workspace/keys:ro"
    if compose_command() == ("docker-compose",):
        compose = {name: value for name, value in compose.items() if name != "name" and not name.startswith("x-")}
        for service in compose["services"].values():
            service.pop("env_file", None)
    path = folder / "compose.yaml"
    YAML(typ="safe").dump(compose, path)
    return path


def _key(folder: Path) -> Path:
    """A signing key that the user of the image can read, as in docs/server.md."""
    run(sys.executable, "-m", "bench", "--workspace", folder, "keys", "new", "stack", "--key-dir", folder / "private")
    key = folder / "signing.key"
    shutil.copyfile(folder / "private" / "stack.key", key)
    os.chown(key, IMAGE_USER, IMAGE_USER)
    key.chmod(0o400)
    return key


def main() -> int:
    """Run all checks; print a line in capitals if a requirement is missing."""
    absent = missing()
    if absent:
        report(f"THE STACK WAS NOT TESTED: missing here: {', '.join(absent)}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_stack(folder) as stack:
            for check in CHECKS:
                report(check.__name__.replace("_", " "))
                check(stack)
    report("THE STACK WORKS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
