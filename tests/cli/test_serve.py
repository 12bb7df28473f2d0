"""``bench explore`` and ``bench serve``: one process that listens, says where, and ends by a signal."""

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

from tests.small_journal import Job, made, record

Bench = Callable[..., Any]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def visited(
    bench: Bench, *words: str, number: signal.Signals = signal.SIGTERM, path: str = "/healthz"
) -> tuple[Any, int]:
    """Start it, ask one page as soon as it answers, and end it; what it printed and the page's status."""
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
def test_a_signal_ends_it_with_its_own_code(bench: Bench, number: signal.Signals, code: int) -> None:
    done, status = visited(bench, "explore", number=number)
    assert (done.returncode, status) == (code, 200)
    assert done.stdout.count("\n") == 1, "no token, so nothing to log in with"


def test_the_service_makes_a_token_once_and_shows_the_address_to_log_in_once(bench: Bench, tmp_path: Path) -> None:
    first, status = visited(bench, "serve", path="/api/v1/runs")
    assert status == 401
    assert "log in once: http://127.0.0.1:" in first.stdout
    token = (tmp_path / "checkpoints/.token").read_text().strip()
    assert token in first.stdout
    again, _ = visited(bench, "serve")
    assert token not in again.stdout + again.stderr
    assert "log in with the token in the token file\n" in again.stderr


def test_a_token_file_may_be_named(bench: Bench, tmp_path: Path) -> None:
    visited(bench, "explore", "--token-file", "mine.token")
    assert len((tmp_path / "mine.token").read_text().strip()) >= 32


def test_a_workspace_that_is_only_looked_at_goes_on_with_nothing(bench: Bench, tmp_path: Path) -> None:
    anyio.run(lambda: made(tmp_path, "done", [Job(record=record("p"), values={"q": 1.0})]))
    done, status = visited(bench, "explore", "--run", "done", path="/")
    assert status == 200 and "goes on" not in done.stderr


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
def test_what_cannot_be_opened_is_said_before_anything_listens(bench: Bench, words: tuple[str, ...], text: str) -> None:
    done = bench(*words, check=2)
    assert text in done.stderr and done.stdout == ""


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_a_port_that_is_taken_is_said_in_two_lines(bench: Bench, command: str) -> None:
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
def test_a_number_that_no_port_has_is_refused(bench: Bench, command: str, port: str) -> None:
    done = bench(command, f"--port={port}", check=2)
    assert done.stderr == (
        f"error: --port {port} is not a valid port\nhint: use a number from 1 to 65535, or 0 for a free port\n"
    )
