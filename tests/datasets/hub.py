"""A file server on the loopback interface that can fail like real servers, and a config that downloads from it.

::

    server.break_after = 300_000            # the connection is lost once after so many bytes
    outcome = await run(config(), workspace.root, url)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import aiohttp
import anyio
from aiohttp import web

from bench.config.benchmark.config import BenchmarkConfig
from bench.datasets.rows.download import DownloadResult, Progress, download
from bench.datasets.rows.file_transport import aiohttp_fetch

BODY = bytes(range(256)) * 4000
SHA = hashlib.sha256(BODY).hexdigest()
Config = Callable[..., BenchmarkConfig]


class Hub:
    """A file server with ranges that can disconnect, stall, change its file, redirect or refuse."""

    def __init__(self) -> None:
        self.body = BODY
        self.etag: str | None = '"one"'
        self.modified: str | None = None
        self.break_after: int | None = None
        self.statuses: list[int] = []
        """one per response, before the file"""
        self.status: int | None = None
        """of every response"""
        self.redirect: str | None = None
        self.ranges = True
        self.skew = 0
        """offset of the sent range from the requested one"""
        self.chunked = False
        self.pause_s = 0.0
        """between two pieces of the body"""
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def requested_ranges(self) -> list[str | None]:
        """Return the range of each request."""
        return [headers.get("Range") for _, headers in self.requests]

    async def file(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, dict(request.headers)))
        status = self.statuses.pop(0) if self.statuses else self.status
        if status is not None:
            return web.Response(status=status)
        if self.redirect is not None:
            return web.Response(status=302, headers={"Location": f"{self.redirect}{request.path}"})
        start = self._start(request)
        response = web.StreamResponse(status=206 if start else 200, headers=self._headers(start))
        await response.prepare(request)
        end = len(self.body) if self.break_after is None else start + self.break_after
        broken, self.break_after = self.break_after is not None, None
        for at in range(start, min(end, len(self.body)), 100_000):
            await response.write(self.body[at : min(at + 100_000, end)])
            await anyio.sleep(self.pause_s)
        if broken:
            assert request.transport is not None
            request.transport.close()
        return response

    def _headers(self, start: int) -> dict[str, str]:
        headers = {} if self.chunked else {"Content-Length": str(len(self.body) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start + self.skew}-{len(self.body) - 1}/{len(self.body)}"
        known = {"ETag": self.etag, "Last-Modified": self.modified}
        return headers | {name: value for name, value in known.items() if value is not None}

    def _start(self, request: web.Request) -> int:
        wanted = request.headers.get("Range")
        same = request.headers.get("If-Range") in (self.etag, self.modified)
        return int(wanted.removeprefix("bytes=").rstrip("-")) if self.ranges and wanted and same else 0


YAML = """
name: big
version: "1"
data: {{type: {kind}, path: {path}, file: {file}, format: json, sha256: {sha}, revision: {revision}}}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: exact-match}}
metrics: [accuracy]
"""


async def run(
    config: BenchmarkConfig,
    root: Path,
    url: str,
    *,
    source: str | None = None,
    token: str | None = None,
    progress: Progress | None = None,
) -> DownloadResult:
    """Download like the command, from the hub at this address."""
    values = {"HF_ENDPOINT": url, "HF_TOKEN": token}
    async with aiohttp.ClientSession() as session:
        fetch = aiohttp_fetch(session)
        return await download(config, root, fetch=fetch, environment=values.get, source=source, progress=progress)


def target_of(root: Path) -> Path:
    """Return the path of the downloaded file."""
    return root / "datasets" / "big" / "big.bin.json"


def left_beside(root: Path) -> list[str]:
    """Return the suffixes of the files next to the downloaded one."""
    folder = target_of(root).parent
    return sorted(path.name.removeprefix("big.bin.json") for path in folder.iterdir())
