"""The real libraries mem0 and LangMem, each in its own environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import anyio.to_thread

from tests.contract import servers
from tests.fakes.embeddings import Embeddings


def extracts(asked: str) -> str:
    """A model for mem0's extraction: every new message of the user is a memory, word for word."""
    messages = re.findall(r"(?s)user: (.*?)\n+(?=user: |assistant: |## |$)", asked.rpartition("## New Messages")[2])
    return json.dumps({"memory": [{"id": str(index), "text": one} for index, one in enumerate(messages)]})


async def contract_reports(
    environment: str, name: str, folder: Path, *settings: dict[str, object]
) -> list[dict[str, object]]:
    """Run the contract in the library's environment, once with each of these ``local:``."""
    servers.require(environment)
    async with Embeddings(extracts).running() as fake:
        command = [str(servers.python_of(environment)), "-W", "ignore", "-m", "tests.fleet.library", name, fake.url]
        variables = {**os.environ, "PYTHONPATH": str(servers.ROOT), "MEM0_DIR": str(folder / "home")}

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*command, str(folder), *map(json.dumps, settings)],
                capture_output=True,
                text=True,
                env=variables,
                cwd=servers.ROOT,
                timeout=120,
            )

        done = await anyio.to_thread.run_sync(run)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, list) and len(found) == len(settings)
    return found


def failures(report: dict[str, object]) -> list[str]:
    checks = report["checks"]
    assert isinstance(checks, list) and len(checks) == 16
    return [f"{one['name']}: {one['detail']}" for one in checks if one["outcome"] == "fail"]


async def test_mem0_library_fulfills_the_contract_with_and_without_infer(tmp_path: Path) -> None:
    settings = [{"infer": infer, "dimensions": 64} for infer in (False, True)]
    without = "without entity search (spacy) and keyword search (fastembed)"
    for report, local in zip(
        await contract_reports("mem0", "mem0-library", tmp_path, *settings), settings, strict=True
    ):
        assert failures(report) == [], local
        assert report["version"] == f"mem0ai 2.2.1 {without}", (
            "features that the library omits silently are in the results"
        )
        assert report["after_restart"] == [["m1"]] and report["durability"] == "file", local


async def test_langmem_fulfills_the_contract(tmp_path: Path) -> None:
    (report,) = await contract_reports("langmem", "langmem", tmp_path, {})
    assert failures(report) == []
    assert report["after_restart"] == [] and report["durability"] == "process"
