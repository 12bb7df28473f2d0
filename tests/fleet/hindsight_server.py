"""A real Hindsight with its own PostgreSQL, for the one test that is opt-in because of its size (1.1 GB).

Example::

    python -m tests.contract.servers install hindsight
    with hindsight(folder, model_url) as url: ...
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract import servers
from tests.fakes.frame import SECRET

START_S = 180


@contextmanager
def postgres() -> Iterator[str]:
    """PostgreSQL 18 of pg0; it does not run as root, so root starts it as another user."""
    (binary,) = (servers.HOME / "hindsight").glob("lib/python3*/site-packages/pg0/bin/pg0")
    account = 65534 if os.geteuid() == 0 else None
    port = servers.free_port()
    with tempfile.TemporaryDirectory(prefix="bench-pg0-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        own = Path(shutil.copy(binary, folder / "pg0"))
        if account is not None:
            os.chown(folder, account, account)
        name = f"bench{port}"

        def pg0(*arguments: str) -> None:
            subprocess.run(
                [str(own), *arguments, "--name", name],
                check=True,
                user=account,
                group=account,
                env={**os.environ, "HOME": str(folder)},
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )

        pg0("start", "--port", str(port), "--data-dir", str(folder / "data"))
        try:
            yield f"postgresql://postgres:postgres@127.0.0.1:{port}/postgres"
        finally:
            pg0("stop")


@contextmanager
def hindsight(folder: Path, model_url: str) -> Iterator[str]:
    """The API over its database; models are one OpenAI-compatible endpoint."""
    port = servers.free_port()
    with postgres() as database, (folder / "hindsight.log").open("wb") as log:
        settings = {
            "DATABASE_URL": database,
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": model_url,
            "LLM_API_KEY": SECRET,
            "LLM_MODEL": "words",
            "EMBEDDINGS_PROVIDER": "openai",
            "EMBEDDINGS_OPENAI_BASE_URL": model_url,
            "EMBEDDINGS_OPENAI_API_KEY": SECRET,
            "EMBEDDINGS_OPENAI_MODEL": "words",
            "RERANKER_PROVIDER": "rrf",
            "SKIP_LLM_VERIFICATION": "true",
        }
        process = subprocess.Popen(
            [str(servers.HOME / "hindsight" / "bin" / "hindsight-api"), "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **{f"HINDSIGHT_API_{name}": value for name, value in settings.items()}},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _until_up(url, process, folder / "hindsight.log")
            yield url
        finally:
            process.terminate()
            process.wait(timeout=120)


def _until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/version", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"hindsight did not start:\n{log.read_text(errors='replace')[-3000:]}")
