"""``bench explore`` and ``bench serve``: address, token, port and end by a signal."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.contract.servers import free_port
from tests.small_journal import Job, made, record

Bench = Callable[..., Any]


def visited(
    bench: Bench, *words: str, number: signal.Signals = signal.SIGTERM, path: str = "/healthz"
) -> tuple[Any, int]:
    """Start the command, request a page as soon as it answers, and end it; return its output and the status."""
    port, seen = free_port(), []

    def visit() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120) as page:
                    seen.append(page.status)
                break
            except urllib.error.HTTPError as refused:
                seen.append(refused.code)
                refused.close()
                break
            except OSError:
                time.sleep(0.02)
        os.kill(os.getpid(), number)

    visitor = threading.Thread(target=visit)
    visitor.start()
    done = bench(*words, "--port", str(port), check=None)
    visitor.join()
    assert f"listening on http://127.0.0.1:{port}" in done.stdout
    return done, seen[0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_explore_with_the_exit_code_of_the_signal(
    bench: Bench, number: signal.Signals, code: int
) -> None:
    done, status = visited(bench, "explore", number=number)
    assert (done.returncode, status) == (code, 200)
    assert done.stdout.count("\n") == 1, "no token, so nothing to log in with"


def test_serve_creates_a_token_once_and_prints_the_login_address_only_then(bench: Bench, tmp_path: Path) -> None:
    first, status = visited(bench, "serve", path="/api/v1/runs")
    assert status == 401
    assert "log in once: http://127.0.0.1:" in first.stdout
    token = (tmp_path / "checkpoints/.token").read_text().strip()
    assert token in first.stdout
    again, _ = visited(bench, "serve")
    assert token not in again.stdout + again.stderr
    assert "log in with the token in the token file\n" in again.stderr


def test_token_file_sets_the_path_of_the_token(bench: Bench, tmp_path: Path) -> None:
    visited(bench, "explore", "--token-file", "mine.token")
    assert len((tmp_path / "mine.token").read_text().strip()) >= 32


def test_explore_resumes_no_run(bench: Bench, tmp_path: Path) -> None:
    anyio.run(lambda: made(tmp_path, "done", [Job(record=record("p"), values={"q": 1.0})]))
    done, status = visited(bench, "explore", "--run", "done", path="/")
    assert status == 200 and "continuing run" not in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("explore", "--run", "nobody"), 'no run "nobody"'),
        (("explore", "--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines: a token is needed"),
        (("serve", "--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines: a token is needed"),
        (("serve", "--max-runs", "0"), "--max-runs 0: expected at least 1"),
        (("explore", "--port", "1.5"), "not a whole number"),
    ],
)
def test_explore_and_serve_reject_invalid_arguments_before_they_listen(
    bench: Bench, words: tuple[str, ...], text: str
) -> None:
    done = bench(*words, check=2)
    assert text in done.stderr and done.stdout == ""


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_a_port_in_use_is_an_error_of_two_lines(bench: Bench, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = bench(command, "--port", str(port), check=2)
    assert done.stderr == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use\nhint: choose another --port\n"
    )
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["explore", "serve"])
@pytest.mark.parametrize("port", ["99999", "65536", "-1"])
def test_an_invalid_port_number_is_rejected(bench: Bench, command: str, port: str) -> None:
    done = bench(command, f"--port={port}", check=2)
    assert done.stderr == (
        f"error: --port {port} is not a valid port\nhint: use a number from 1 to 65535, or 0 for a free port\n"
    )


@pytest.mark.parametrize("command", ["explore", "serve"])
@pytest.mark.parametrize(
    "name",
    ["https://x.org", "x.org/path", "x.org:443", "*", "*.x.org", "", " ", "x..org", "me@x.org", "[::1]"],
)
def test_a_public_host_that_no_request_can_name_is_rejected(bench: Bench, command: str, name: str) -> None:
    done = bench(command, "--port=0", f"--public-host={name}", check=2)
    assert done.stderr.startswith(f'error: --public-host "{name}" is not a host name\nhint: give only the name')
    assert done.stdout == ""
