"""A container engine for the stack test: requirements, its own daemon, a base image without a registry.

Everything comes from the packages of the machine's Debian: the engine, compose, and the base by debootstrap. What is
missing is reported::

    if absent := missing():
        ...
    with engine(folder) as docker:
        base_image(folder, docker, "distributed==2026.8.0")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = "memorybench-base:local"
WHEELS = "wheels"
"""folder of the base image that pip installs from: a build needs no network"""


@dataclass(frozen=True, slots=True)
class Docker:
    """A running daemon."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def __call__(self, *arguments: str | Path, **more: str) -> str:
        return run("docker", *arguments, environment={**self.environment, **more})


def run(*command: str | Path, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run a command and return its output; raise RuntimeError with its output if it fails."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = " ".join(str(part) for part in command)
        raise RuntimeError(f"{shown} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def missing() -> list[str]:
    """Return what this machine lacks for the test of the stack."""
    found = [] if os.geteuid() == 0 else ["root"]
    found += [name for name in ("docker", "debootstrap", "apt-get") if shutil.which(name) is None]
    found += [] if _answers(dict(os.environ)) or shutil.which("dockerd") else ["dockerd (Debian: docker.io)"]
    return found + ([] if compose_command() else ["compose (Debian: docker-compose)"])


def compose_command() -> tuple[str, ...] | None:
    """``docker compose`` where the plug-in is installed, else the older ``docker-compose``."""
    if shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else None


@contextmanager
def engine(folder: Path) -> Iterator[Docker]:
    """Yield the running daemon, or start one with its files in ``folder`` and stop it after the block."""
    if _answers(dict(os.environ)):
        yield Docker()
        return
    environment = {**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock"}
    flags = {"data-root": folder / "data", "exec-root": folder / "exec", "pidfile": folder / "docker.pid"}
    command = ["dockerd", "-H", environment["DOCKER_HOST"], *(f"--{name}={path}" for name, path in flags.items())]
    with (folder / "dockerd.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await(process, environment, folder / "dockerd.log")
        yield Docker(environment)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _await(process: subprocess.Popen[bytes], environment: Mapping[str, str], log: Path) -> None:
    until = time.monotonic() + 60
    while not _answers(environment):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"dockerd does not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


def _answers(environment: Mapping[str, str]) -> bool:
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return bool(shutil.which("docker")) and not subprocess.run(asked, env=environment, capture_output=True).returncode


def base_image(folder: Path, docker: Docker, *extras: str) -> str:
    """Make an image with Python from Debian's packages and, in ``/wheels``, all that the build installs."""
    system = folder / "system"
    suite, mirror = _packages()
    packages = "python3,python3-venv,ca-certificates"
    run("debootstrap", "--variant=minbase", f"--include={packages}", suite, system, mirror)
    version = next(path.name.removeprefix("python") for path in (system / "usr/bin").glob("python3.*[0-9]"))
    _download(system / WHEELS, version, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    _download(system / WHEELS, version, *extras)
    archive = folder / "base.tar"
    run("tar", "-C", system, "-cf", archive, ".")
    docker("import", archive, BASE)
    archive.unlink()
    shutil.rmtree(system)
    return BASE


def _packages() -> tuple[str, str]:
    """Code name and address of the Debian that this machine installs from."""
    asked = ("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
    suite, _, mirror = min(run(*asked).splitlines(), key=len).partition(" ")
    return suite, mirror


def _download(folder: Path, version: str, *wanted: str) -> None:
    """Fetch wheels as pip is configured on this machine, for the base's Python."""
    command: Sequence[str] = (sys.executable, "-m", "pip") if _has_pip() else ("python3", "-m", "pip")
    flags = ("--quiet", "--dest", str(folder), "--only-binary", ":all:", "--python-version", version)
    run(*command, "download", *flags, *wanted)


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
