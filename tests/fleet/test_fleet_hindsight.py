"""The real Hindsight: opt-in, because it is 1.1 GB."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from bench.providers.doctor import examine
from tests.contract import servers
from tests.contract.running import context_for
from tests.fakes.embeddings import Embeddings
from tests.fleet.fleet import quick
from tests.fleet.hindsight_server import hindsight

VERBATIM = {
    "name": "verbatim",
    "method": "PATCH",
    "path": "/v1/default/banks/${runTag}/config",
    "body": {"updates": {"retain_extraction_mode": "chunks"}},
}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[str]:
    """Run the server in a thread and its models in the event loop."""
    async with Embeddings(lambda asked: "{}").running() as models:
        manager = hindsight(folder, models.url)
        url = await anyio.to_thread.run_sync(manager.__enter__)
        try:
            yield url
        finally:
            await anyio.to_thread.run_sync(manager.__exit__, None, None, None)


async def test_hindsight_fulfills_the_contract(tmp_path: Path) -> None:
    if not servers.installed("hindsight"):
        pytest.skip("opt-in: python -m tests.contract.servers install hindsight")
    shipped = quick("hindsight")
    setup = [{"name": "bank", "method": "PUT", "path": "/v1/default/banks/${runTag}", "body": {"name": "$.runTag"}}]
    config = quick("hindsight", {"setup": [*setup, VERBATIM], "wait.interval_ms": 100, "wait.timeout_s": 60})
    assert [call.name for call in shipped.setup] == ["bank"]
    async with running(tmp_path) as url, context_for(config, tmp_path, {"HINDSIGHT_API_URL": url}) as context:
        report = await examine(config, context)
    failed = [f"{one.name}: {one.detail}" for one in report.checks if one.outcome == "fail"]
    assert failed == [], report.as_json()
    assert report.version == "1.1.0"
