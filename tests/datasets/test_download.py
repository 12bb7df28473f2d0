"""Downloads against a real server: resumed, checked, never half a file under the final name."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import anyio
import pytest
from aiohttp import web

from bench.config.benchmark import BenchmarkConfig
from bench.config.catalog import Catalog
from bench.datasets import download as module
from bench.datasets.download import Downloaded, download, origin_of
from bench.datasets.fetching import aiohttp_fetch
from bench.errors import DataError
from tests.datasets.conftest import Workspace

BODY = bytes(range(256)) * 4000
SHA = hashlib.sha256(BODY).hexdigest()


class Hub:
    """A file server with ranges that can break off once, change its file, or refuse."""

    def __init__(self) -> None:
        self.body = BODY
        self.etag = '"one"'
        self.break_after: int | None = None
        self.status: int | None = None
        self.requests: list[tuple[str, dict[str, str]]] = []

    async def file(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, dict(request.headers)))
        if self.status is not None:
            return web.Response(status=self.status)
        start = self._start(request)
        headers = {"ETag": self.etag, "Content-Length": str(len(self.body) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
        response = web.StreamResponse(status=206 if start else 200, headers=headers)
        await response.prepare(request)
        if self.break_after is not None:
            await response.write(self.body[start : start + self.break_after])
            self.break_after = None
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(self.body[start:])
        return response

    def _start(self, request: web.Request) -> int:
        asked = request.headers.get("Range")
        same = request.headers.get("If-Range") == self.etag
        return int(asked.removeprefix("bytes=").rstrip("-")) if asked and same else 0


@pytest.fixture
async def hub() -> AsyncIterator[tuple[Hub, str]]:
    server = Hub()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.file)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield server, f"http://{host}:{port}"
    await runner.cleanup()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)


YAML = """
name: big
version: "1"
data: {{type: {kind}, path: {path}, file: big.bin.json, format: json, sha256: {sha}}}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: exact-match}}
metrics: [accuracy]
"""


@pytest.fixture
def config(workspace: Workspace) -> Callable[..., BenchmarkConfig]:
    def make(path: str = "acme/set", kind: str = "huggingface", sha: str | None = SHA) -> BenchmarkConfig:
        workspace.yaml("big", YAML.format(path=path, kind=kind, sha=sha or "null"))
        return Catalog.load(workspace.root).benchmark("big")

    return make


async def run(
    config: BenchmarkConfig, root: Path, url: str, *, source: str | None = None, token: str | None = None
) -> Downloaded:
    values = {"HF_ENDPOINT": url, "HF_TOKEN": token}
    async with aiohttp.ClientSession() as session:
        return await download(config, root, fetch=aiohttp_fetch(session), environment=values.get, source=source)


def target_of(root: Path) -> Path:
    return root / "datasets" / "big" / "big.bin.json"


async def test_a_hub_file_comes_from_the_named_endpoint_with_the_token(hub, config, workspace) -> None:
    server, url = hub
    outcome = await run(config(), workspace.root, url, token="secret")
    assert (outcome.state, outcome.sha256, outcome.path) == ("downloaded", SHA, target_of(workspace.root))
    path, headers = server.requests[0]
    assert path == "/datasets/acme/set/resolve/main/big.bin.json"
    assert headers["Authorization"] == "Bearer secret"
    assert target_of(workspace.root).read_bytes() == BODY


async def test_a_file_that_is_there_and_right_needs_no_request(hub, config, workspace) -> None:
    server, url = hub
    await run(config(), workspace.root, url)
    assert (await run(config(), workspace.root, url)).state == "up to date"
    assert len(server.requests) == 1


async def test_a_lost_connection_is_resumed_where_it_stopped(hub, config, workspace) -> None:
    server, url = hub
    server.break_after = 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert int(server.requests[1][1]["Range"].removeprefix("bytes=").rstrip("-")) > 0
    assert not list(target_of(workspace.root).parent.glob("*.part*"))


async def test_a_part_of_an_older_file_is_fetched_from_zero(hub, config, workspace, monkeypatch) -> None:
    server, url = hub
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.break_after = 300_000
    server.body = b"old" * 400_000
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)
    assert target_of(workspace.root).with_name("big.bin.json.part").stat().st_size > 0
    server.body, server.etag = BODY, '"two"'
    assert (await run(config(), workspace.root, url)).sha256 == SHA


async def test_another_digest_is_refused_and_kept_aside(hub, config, workspace) -> None:
    server, url = hub
    server.body = b"other"
    found = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    assert SHA in str(caught.value) and found in str(caught.value)
    assert not target_of(workspace.root).exists()
    assert target_of(workspace.root).with_name("big.bin.json.rejected").read_bytes() == b"other"


async def test_from_file_is_checked_first_and_never_altered(hub, config, workspace, tmp_path) -> None:
    server, url = hub
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(BODY)
    bad.write_bytes(b"bad")
    assert (await run(config(), workspace.root, url, source=str(good))).state == "copied"
    with pytest.raises(DataError, match=r"bad\.json"):
        await run(config(), workspace.root, url, source=str(bad))
    assert bad.read_bytes() == b"bad" and target_of(workspace.root).read_bytes() == BODY
    assert server.requests == []


async def test_two_downloads_at_once_fetch_once(hub, config, workspace) -> None:
    server, url = hub
    states: list[str] = []

    async def one() -> None:
        states.append((await run(config(), workspace.root, url)).state)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert sorted(states) == ["downloaded", "up to date"]
    assert len(server.requests) == 1


async def test_offline_names_file_digest_and_way_out(config, workspace, monkeypatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "http://127.0.0.1:9")
    text = f"{caught.value} {caught.value.hint}"
    assert "big.bin.json" in text and SHA in text and "--from FILE" in text


async def test_a_refused_token_is_said(hub, config, workspace) -> None:
    server, url = hub
    server.status = 401
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    assert "HF_TOKEN" in (caught.value.hint or "")
    assert len(server.requests) == 1


async def test_a_changed_cached_file_is_checked_again(hub, config, workspace) -> None:
    _, url = hub
    await run(config(), workspace.root, url)
    target_of(workspace.root).write_bytes(b"changed")
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)


def test_local_data_has_no_origin(workspace: Workspace) -> None:
    workspace.manifest("notes")
    assert origin_of(workspace.config("notes"), {}.get) is None
