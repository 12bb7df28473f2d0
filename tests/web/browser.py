"""A headless browser over its debugging protocol: pages, values, keys, screenshots, and everything that went wrong.

Example::

    async with browsing(tmp_path) as browser:
        await browser.open(url)
        await browser.value("document.title")
"""

from __future__ import annotations

import base64
import itertools
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0",
)  # fmt: skip


@dataclass
class Browser:
    """One page."""

    socket: aiohttp.ClientWebSocketResponse
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self.numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        while True:
            message = await self.socket.receive_json(timeout=60)
            self._note(message.get("method"), message.get("params", {}))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def _note(self, kind: str | None, params: Any) -> None:
        if kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif kind == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        elif kind == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))

    async def value(self, expression: str) -> Any:
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str, seconds: float = 120) -> None:
        with anyio.move_on_after(seconds):
            while not await self.value(f"document.readyState === 'complete' && !!({expression})"):
                await anyio.sleep(0.05)
            return
        shown = await self.value("location.href + ' ' + document.body.innerText.slice(0, 600)")
        raise AssertionError(f"never came true: {expression}; the page shows {shown}; {self.problems}")

    async def open(self, url: str, expression: str = "true") -> None:
        await self.call("Page.navigate", url=url)
        await self.until(f"location.href !== 'about:blank' && ({expression})")

    async def press(self, key: str) -> None:
        await self.value(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")

    async def give(self, selector: str, *files: Path) -> None:
        document = await self.call("DOM.getDocument")
        node = await self.call("DOM.querySelector", nodeId=document["root"]["nodeId"], selector=selector)
        await self.call("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(path) for path in files])

    async def look(self, path: Path, width: int) -> None:
        size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Browser]:
    """Start a browser with an empty page."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    found = next(match for line in process.stderr if (match := re.search(r"listening on ws://([^/]+)/", line)))
    try:
        async with aiohttp.ClientSession() as session:
            target = await _target(session, found[1])
            async with session.ws_connect(target, max_msg_size=0) as socket:
                browser = Browser(socket)
                for name in ("Page", "Runtime", "DOM", "Network", "Log"):
                    await browser.call(f"{name}.enable")
                yield browser
    finally:
        process.terminate()
        process.wait(timeout=120)
        process.stderr.close()


async def _target(session: aiohttp.ClientSession, address: str) -> str:
    with anyio.fail_after(30):
        while True:
            async with session.get(f"http://{address}/json") as response:
                for one in await response.json():
                    if one["type"] == "page":
                        return str(one["webSocketDebuggerUrl"])
            await anyio.sleep(0.05)
