"""Fixtures of the HTTP tests: local servers, and the counters of a fault server."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.local_server import Handler, LocalServers


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Start a server for a handler: ``url = await serve(handler)``."""
    servers = LocalServers()
    yield servers.start
    await servers.close()


def control(url: str, path: str) -> object:
    """Return a control document of a fault server."""
    with urllib.request.urlopen(f"{url}/control/{path}") as answer:
        return json.load(answer)


@pytest.fixture
def seen() -> Callable[..., dict[str, object]]:
    """Counters of one endpoint of a fault server."""

    def counters(url: str, endpoint: str = "search", provider: str = "default") -> dict[str, object]:
        stats = control(url, "stats")
        return stats["providers"].get(provider, {}).get("endpoints", {}).get(endpoint, {"calls": 0})  # type: ignore[index]

    return counters


@pytest.fixture
def starts() -> Callable[..., list[float]]:
    """Seconds at which the calls of one endpoint reached the fault server."""

    def instants(url: str, endpoint: str = "search", provider: str = "default") -> list[float]:
        rows = control(url, f"timeline?endpoint={endpoint}&provider={provider}")
        return sorted(row[0] for row in rows)  # type: ignore[attr-defined]

    return instants


@pytest.fixture
def window() -> Callable[..., int]:
    """The most calls in any window of one second."""

    def most(url: str, endpoint: str = "search", seconds: float = 1.0) -> int:
        return int(control(url, f"window?endpoint={endpoint}&seconds={seconds}")["max"])  # type: ignore[index]

    return most


@pytest.fixture
def reset() -> Callable[[str], None]:
    """Reset the counters of a fault server; faults and data stay."""

    def forget(url: str) -> None:
        body = json.dumps({"keep": ["faults", "data"]}).encode()
        request = urllib.request.Request(f"{url}/control/reset", data=body, method="POST")
        urllib.request.urlopen(request).close()

    return forget


@pytest.fixture
def faults() -> Callable[[str, list[str]], None]:
    """Replace the faults of a fault server."""

    def change(url: str, specs: list[str]) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{url}/control/faults", method="DELETE")).close()
        body = json.dumps(specs).encode()
        urllib.request.urlopen(urllib.request.Request(f"{url}/control/faults", data=body, method="POST")).close()

    return change
