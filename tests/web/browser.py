"""A headless browser over its debugging protocol: pages, values, keys, sizes and all errors.

Example::

    async with browsing() as browser:
        await browser.open(url)
        await browser.value("document.title")
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import anyio

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0",
    "--disable-extensions", "--in-process-gpu", "--disable-features=SpareRendererForSitePerProcess",
    "--no-startup-window",
)  # fmt: skip
LEFT = "Inspected target navigated or closed"
"""the reply to an evaluation during which the page was closed or changed"""

B = TypeVar("B", bound="Browser")


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
                if message.get("error", {}).get("message") == LEFT:
                    return {"result": {}}
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
        raise AssertionError(f"still false: {expression}; the page shows {shown}; {self.problems}")

    async def open(self, url: str, expression: str = "true") -> None:
        await self.call("Page.navigate", url=url)
        await self.until(f"location.href !== 'about:blank' && ({expression})")

    async def press(self, key: str) -> None:
        await self.value(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")

    async def give(self, selector: str, *files: Path) -> None:
        document = await self.call("DOM.getDocument")
        node = await self.call("DOM.querySelector", nodeId=document["root"]["nodeId"], selector=selector)
        await self.call("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(path) for path in files])

    async def size(self, width: int, height: int = 1200) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)


@asynccontextmanager
async def browsing(kind: type[B] = Browser) -> AsyncIterator[B]:  # type: ignore[assignment]
    """Open an empty page that shares no storage with another; one browser serves all tests of a process."""
    address, path = _started()
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}{path}") as socket:
        whole = Browser(socket)
        context = (await whole.call("Target.createBrowserContext"))["browserContextId"]
        target = (await whole.call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        try:
            async with session.ws_connect(f"{address}/devtools/page/{target}", max_msg_size=0) as page:
                browser = kind(page)
                for name in ("Page", "Runtime", "DOM", "Network", "Log"):
                    await browser.call(f"{name}.enable")
                yield browser
        finally:
            await whole.call("Target.disposeBrowserContext", browserContextId=context)


@cache
def _started() -> tuple[str, str]:
    """Start the browser and return its address and the path of its own connection."""
    profile = Path(tempfile.mkdtemp(prefix="browser-"))
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _running.append((process, profile))
    ends = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < ends:
        with suppress(FileNotFoundError):
            port, _, path = (profile / "DevToolsActivePort").read_text().partition("\n")
            if path:
                return f"ws://127.0.0.1:{port}", path
        time.sleep(0.02)
    raise AssertionError("the browser did not start")


_running: list[tuple[subprocess.Popen[bytes], Path]] = []


def stop() -> None:
    """Stop the browser of this process, if any."""
    while _running:
        process, profile = _running.pop()
        process.terminate()
        process.wait(timeout=120)
        shutil.rmtree(profile, ignore_errors=True)
