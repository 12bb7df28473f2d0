"""Run a session of the MCP SDK in its own task, so that an error of the session does not end the run.

``StdoutNoise`` skips lines on the stdout of an MCP server that are not messages, and reports only the first such line.

Example::

    async with McpSession(transport, start_s=60) as session:
        result = await session.call("search_nodes", {"query": "Lisbon"})     # SessionEnded if the server has ended
    noise = StdoutNoise()
    with noise.suppressed("engram"):
        ...                              # one warning: engram printed "loading model" on stdout, which is not JSON-RPC
    noise.first                          # "loading model"

If the task of the session fails, calls of other tasks that wait for a response get an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import ClientSession
from mcp.types import CallToolResult
from pydantic import ValidationError

from bench.events import log, redact

Transport = Callable[[], AbstractAsyncContextManager[Any]]
"""opens one of the SDK's transports (untyped, because the transports have no common public type)"""


class SessionEnded(Exception):
    """Raised when the session has ended; the message is the reason."""


class McpSession:
    """A client session with one MCP server. ``tools`` has the names of the server's tools."""

    def __init__(self, transport: Transport, *, start_s: float) -> None:
        self._transport = transport
        self._start_s = start_s
        self._group: TaskGroup = anyio.create_task_group()
        self._leave = anyio.Event()
        self._client: ClientSession | None = None
        self._waiting: set[anyio.CancelScope] = set()
        self._why = "its session is closed"
        self.tools: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        """Start the server or connect to it, then list its tools. Errors of the SDK are raised unchanged."""
        await self._group.__aenter__()
        try:
            await self._group.start(self._run)
        except BaseException as error:
            await self._group.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._leave.set()
        await self._group.__aexit__(None, None, None)  # without the error: the group would wrap it

    async def call(self, tool: str, arguments: dict[str, object]) -> CallToolResult:
        """Call one tool of the server.

        Raises:
            SessionEnded: the server ended before or during the call.
            MCPError: the server returned an error.
        """
        if self._client is None:
            raise SessionEnded(self._why)
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                result = await self._client.call_tool(tool, arguments)
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            raise SessionEnded(self._why)
        assert isinstance(result, CallToolResult), "claimed results are not requested"
        return result

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        with _SessionScope(self):
            async with self._transport() as (read, write), ClientSession(read, write) as client:
                with anyio.fail_after(self._start_s):
                    await client.initialize()
                    self.tools = frozenset(tool.name for tool in (await client.list_tools()).tools)
                self._client = client
                task_status.started()
                await self._leave.wait()
                self._client = None

    def _end(self, error: BaseException | None) -> bool:
        """End the session: each waiting call raises SessionEnded.

        Return True if the session had begun and ``error`` ended it. The session then does not raise this error itself.
        """
        begun, self._client = self._client is not None, None
        if error is not None:
            root = root_of(error)
            self._why = f"{type(root).__name__}: {root}"
        for scope in self._waiting:
            scope.cancel()
        return begun and isinstance(error, Exception)


class _SessionScope:
    """A context manager for the time in which a session is open. An error inside it ends the session."""

    def __init__(self, session: McpSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._session._end(error)


def root_of(error: BaseException) -> BaseException:
    """Return the first error inside exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


SDK_LOGGER = "mcp.client.stdio"
"""name of the SDK's logger that reports unreadable output of a server"""
SHOWN = 100
_current_noise: ContextVar[StdoutNoise | None] = ContextVar("listening", default=None)
"""the StdoutNoise of the current task's server; needed because all servers share the SDK's logger"""


@dataclass(slots=True, eq=False)
class StdoutNoise:
    """A filter for the lines on a server's stdout that are not MCP messages. It keeps the first such line."""

    first: str = ""

    @contextmanager
    def suppressed(self, name: str) -> Iterator[None]:
        """Inside the `with` block, log the first unreadable line as a warning and suppress the SDK's own reports."""

        def noise_filter(record: logging.LogRecord) -> bool:
            error = record.exc_info[1] if record.exc_info else None
            if _current_noise.get() is not self or not isinstance(error, ValidationError):
                return True
            if not self.first:
                self.first = redact(str(error.errors()[0]["input"]).strip())[:SHOWN]
                log().warning(
                    "mcp_server_prints_on_stdout", provider=name, line=self.first, note="not JSON-RPC: skipped"
                )
            return False

        _current_noise.set(self)  # for the tasks that the SDK starts from here
        logging.getLogger(SDK_LOGGER).addFilter(noise_filter)
        try:
            yield
        finally:
            logging.getLogger(SDK_LOGGER).removeFilter(noise_filter)
