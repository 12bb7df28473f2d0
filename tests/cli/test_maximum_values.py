"""Bounds of numbers, and runs with the largest values stop on request."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import World, ended, wait_for
from tests.web.workspaces import ServiceProcess

Bench = Callable[..., Any]
TOO_MUCH = {
    "--epochs": "1000000000",
    "--concurrency": "1000000000",
    "--ingest-concurrency": "1000000000",
    "-k": "1000000000",
    "--shards": "1000000000",
    "--sample": "99999999999999999999",
    "--limit": "99999999999999999999",
    "--timeout": "9999d",
    "--item-timeout": "9999d",
    "--max-time": "99999999d",
    "--shard": "1/99999999999999999999",
}
STOP_S = 20.0
"""the timeout of eight seconds, and time for a loaded machine"""


@pytest.mark.parametrize("flag", TOO_MUCH)
def test_a_flag_above_its_maximum_is_rejected_before_the_run(bench: Bench, tmp_path: Path, flag: str) -> None:
    done = bench("run", "--providers", "bm25", "--limit", "2", flag, TOO_MUCH[flag], check=2)
    assert f"--{flag.lstrip('-')}" in done.stderr
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    "block",
    [
        "rateLimit: {maxRetries: 1000000}",
        "rateLimit: {retryDelayMs: 99999999999}",
        "wait: {timeout_s: 1.0e+12}",
        "limits: {add: {concurrency: 1000000000}}",
        "connection: {baseUrl: 'http://127.0.0.1:9', timeout: 99999999999}",
    ],
)
def test_validate_rejects_a_config_number_above_its_maximum(bench: Bench, tmp_path: Path, block: str) -> None:
    folder = tmp_path / "configs/providers"
    folder.mkdir(parents=True)
    connection = "" if block.startswith("connection") else "connection: {baseUrl: 'http://127.0.0.1:9'}\n"
    (folder / "x.yaml").write_text(
        f"name: x\ntype: hosted\n{connection}{block}\nendpoints:\n  add: {{path: /a}}\n"
        "  search: {path: /s, response: {results: $.r, contentField: $.t}}\n"
    )
    done = bench("validate", "configs/providers/x.yaml", check=2)
    assert "less than or equal to" in done.stdout + done.stderr


def test_sigterm_ends_a_run_of_1000_epochs_within_20_seconds(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=40)
    process = world.start(providers=["bm25"], answering_model="builtin/extractive", epochs=1000, run_id="ep")
    wait_for(lambda: (tmp_path / "checkpoints/ep/journal.sqlite").exists())
    wait_for(lambda: world.query("ep", "SELECT count(*) FROM phase")[0][0] > 50, seconds=180)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 143
    assert time.monotonic() - began < STOP_S


def test_cancel_and_sigterm_end_a_service_run_of_1000_epochs_and_other_runs_continue(tmp_path: Path) -> None:
    request = {"benchmarks": ["demo"], "providers": ["bm25"], "epochs": 1000}
    service = ServiceProcess(tmp_path)
    try:
        service.call("POST", "/runs", {**request, "run_id": "r1"})
        service.wait_for("r1", "running", ended=0)
        service.call("POST", "/runs/r1/cancel")
        assert service.wait_for("r1", "stopped", idle=True)["reason"] == "cancelled"
        service.call("POST", "/runs", {**request, "run_id": "r2"})
        service.wait_for("r2", "running", ended=0)
    finally:
        began = time.monotonic()
        assert service.end() == 143
    assert time.monotonic() - began < STOP_S
    again = ServiceProcess(tmp_path)
    try:
        again.call("POST", "/runs/r2/cancel")
        again.wait_for("r2", "stopped", idle=True)
        again.call("POST", "/runs", {"providers": ["bm25"], "limit": 2, "run_id": "r3"})
        again.wait_for("r3", "complete")
    finally:
        assert again.end() == 143
