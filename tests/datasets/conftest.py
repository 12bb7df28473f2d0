"""Small workspaces on disk: a config of either dialect, its data, and the opened dataset."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.catalog import Catalog
from bench.datasets import Dataset, open_benchmark
from bench.datasets.rows import download as download_module
from tests.datasets.hub import SHA, YAML, Config, Hub
from tests.local_server import LocalServers


class Workspace:
    """A folder with benchmarks in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def yaml(self, name: str, text: str) -> Path:
        path = self.root / "configs" / "benchmarks" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def manifest(self, name: str, rows: Sequence[Mapping[str, object]] | None = None, **changes: object) -> Path:
        """Write a manifest of the simple strategy with some keys changed, and its rows next to it."""
        folder = self.root / "configs" / "benchmarks" / name
        folder.mkdir(parents=True, exist_ok=True)
        manifest: dict[str, object] = {
            "manifest_version": "1",
            "name": name,
            "version": "1",
            "data_file": "data.jsonl",
            "ingestion": {"strategy": "simple", "content_field": "content"},
            "query": {"question_field": "question", "expected_answer_field": "answer"},
            "evaluation": {"protocol": "exact-match"},
            "metrics": ["correctness"],
            "required_capabilities": ["add_memory", "retrieve_memory"],
        }
        manifest.update(changes)
        path = folder / "manifest.json"
        path.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if rows is not None:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / "data.jsonl").write_text(text, encoding="utf-8")
        return path

    def data(self, name: str, value: object) -> Path:
        path = self.root / "datasets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
        return path

    def config(self, name: str) -> BenchmarkConfig:
        return Catalog.load(self.root).benchmark(name)

    def open(self, name: str) -> Dataset:
        return open_benchmark(self.config(name), self.root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


CHAT = """
name: {name}
version: "1"
data: {{type: local, path: ./datasets/{name}.json}}
schema:
  itemId: id
  question: q
  answer: a
  context:
    field: sessions
    type: array
    dateField: dates
    sessionIdField: ids
    itemSchema: {{role: $.role, content: $.content}}
  metadata: {{questionType: kind, questionDate: asked}}
evidence: {{sessionIdsField: gold, turnFlag: has_answer}}
abstention: {{idPattern: _abs$}}
evaluation: {{method: exact-match}}
metrics: [accuracy]
"""


@pytest.fixture
def chat(workspace: Workspace) -> Callable[..., Dataset]:
    """Open a chat benchmark of these rows; ``extra`` is YAML added at the end."""

    def make(*rows: Mapping[str, object], extra: str = "", name: str = "chat") -> Dataset:
        workspace.yaml(name, CHAT.format(name=name) + extra)
        workspace.data(f"{name}.json", list(rows))
        return workspace.open(name)

    return make


def turn(content: str, role: str = "user", **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


def row(**changes: object) -> dict[str, object]:
    """Return a chat row of two sessions."""
    values: dict[str, object] = {
        "id": "q1",
        "q": "What colour?",
        "a": "teal",
        "kind": "fact",
        "asked": "2023/06/01 (Thu) 10:00",
        "sessions": [[turn("My bike is teal.", has_answer=True), turn("Nice.", "assistant")], [turn("I like glue.")]],
        "dates": ["2023/05/20 (Sat) 18:10", "2023/05/19 (Fri) 18:10"],
        "ids": ["s1", "s2"],
        "gold": ["s1"],
    }
    values.update(changes)
    return values


@pytest.fixture
async def hubs() -> AsyncIterator[Callable[[], Awaitable[tuple[Hub, str]]]]:
    """Start file servers, each with its address."""
    servers = LocalServers()

    async def start() -> tuple[Hub, str]:
        server = Hub()
        return server, await servers.start(server.file)

    yield start
    await servers.close()


@pytest.fixture
async def hub(hubs: Callable[[], Awaitable[tuple[Hub, str]]]) -> tuple[Hub, str]:
    """Start one file server."""
    return await hubs()


@pytest.fixture
def config(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Return a function that makes a benchmark with downloaded data, without pauses between attempts."""
    monkeypatch.setattr(download_module, "FIRST_PAUSE_S", 0.01)

    def make(
        path: str = "acme/set",
        kind: str = "huggingface",
        sha: str | None = SHA,
        file: str = "big.bin.json",
        revision: str | None = None,
    ) -> BenchmarkConfig:
        text = YAML.format(path=path, kind=kind, sha=sha or "null", file=file, revision=revision or "null")
        workspace.yaml("big", text)
        return Catalog.load(workspace.root).benchmark("big")

    return make
