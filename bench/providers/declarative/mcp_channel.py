"""The way out for memory systems that are MCP servers: a command over stdio, or a URL.

A call names a ``tool``, its body is the arguments; the answer is ``structuredContent``, or the JSON of the first text.
The official SDK is imported here and nowhere else::

    async with McpChannel.of(config, context) as channel:
        answer = await channel.exchange(call, filled)
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import anyio
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from bench.config.findings import did_you_mean
from bench.config.provider.checks import calls_of
from bench.config.provider.sections import Mcp
from bench.errors import CallError, ConfigError, MappingError, Rejected, Unavailable
from bench.events import redact
from bench.http import Response, Timings, record
from bench.model import Call
from bench.providers.declarative.answer import Answer
from bench.providers.declarative.bodyerrors import BodyErrors
from bench.providers.declarative.request import Filled, Wired
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

START_S = 60.0
SHOWN = 500


@dataclass(slots=True)
class McpChannel:
    """One MCP session."""

    name: str
    command: StdioServerParameters | None
    url: str | None
    headers: Mapping[str, str]
    tools: Mapping[str, str | None]
    """tool -> place in the file"""
    where: str | None
    stderr: Path
    errors: BodyErrors
    limits: dict[str, anyio.CapacityLimiter]
    max_bytes: int
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _session: ClientSession | None = None

    @classmethod
    def of(cls, config: ProviderConfig, context: ProviderContext) -> McpChannel:
        """Resolve the command or address and the keys.

        Raises:
            ConfigError: a variable of the environment is not set.
        """
        from bench.providers.declarative.endpoints import endpoint_of
        from bench.providers.declarative.http_channel import authorise

        assert config.mcp is not None, "type mcp has its block"
        headers: dict[str, str] = {}
        for auth in config.auth:
            authorise(config, auth, context, headers, [])
        ends = [endpoint_of(config, traffic) for traffic in ("add", "search", "status", "manage")]
        return cls(
            name=config.name,
            command=_command(config, config.mcp, context),
            url=context.environment.resolve(config.mcp.url) if config.mcp.url else None,
            headers=headers,
            tools={call.tool: config.place(*path, "tool") for path, call in calls_of(config) if call.tool},
            where=config.place("mcp"),
            stderr=context.run_dir / f"{config.name}.stderr.log",
            errors=BodyErrors.of(config.errors.error_when),
            limits={end.name: anyio.CapacityLimiter(end.limits.concurrency or 100) for end in ends},
            max_bytes=config.connection.max_response_bytes,
        )

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()  # a server that was started must not outlive a failed start
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()  # without the error: the SDK's task groups would wrap it

    async def _start(self) -> None:
        try:
            read, write = await self._stack.enter_async_context(await self._transport())
            self._session = await self._stack.enter_async_context(ClientSession(read, write))
            with anyio.fail_after(START_S):  # only around calls: a scope must not be left before the SDK's own ones
                await self._session.initialize()
                offered = {tool.name for tool in (await self._session.list_tools()).tools}
        except (OSError, MCPError, TimeoutError) as error:
            raise ConfigError(
                f"the MCP server of {self.name} does not start: {redact(str(error))}",
                where=self.where,
                hint=f"its own words are in {self.stderr}",
            ) from error
        for tool, where in self.tools.items():
            if tool not in offered:
                raise ConfigError(
                    f'the MCP server of {self.name} has no tool "{tool}"{did_you_mean(tool, offered)}',
                    where=where,
                    hint=f"its tools: {', '.join(sorted(offered))}",
                )

    async def _transport(self) -> AbstractAsyncContextManager[Any]:
        """The SDK's two transports share no public type."""
        if self.command is not None:
            return stdio_client(self.command, errlog=self._open_stderr())
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        client = await self._stack.enter_async_context(create_mcp_http_client(headers=dict(self.headers)))
        return streamable_http_client(str(self.url), http_client=client)

    def _open_stderr(self) -> TextIO:
        self.stderr.parent.mkdir(parents=True, exist_ok=True)
        return self._stack.enter_context(self.stderr.open("a", encoding="utf-8"))

    async def exchange(self, call: Wired, filled: Filled) -> Answer:
        """Call one tool; a server that is gone is Unavailable, an error of the tool is Rejected."""
        begun = datetime.now(UTC)
        started = time.perf_counter()
        outcome = "ok"
        async with self.limits[call.endpoint.name]:
            try:
                result = await self._ask(call, filled)
                return self._answer(call, result)
            except CallError as error:
                outcome = error.kind
                raise
            finally:
                took_us = round((time.perf_counter() - started) * 1e6)
                record(_row(call.endpoint.name, outcome, begun, took_us))

    async def _ask(self, call: Wired, filled: Filled) -> CallToolResult:
        assert self._session is not None, "the channel is used inside `async with`"
        arguments = filled.body if isinstance(filled.body, dict) else {}
        timeout_s = call.timeout_s or call.endpoint.timeouts.attempt_s
        try:
            with anyio.fail_after(timeout_s):
                result = await self._session.call_tool(str(call.tool), arguments)
        except TimeoutError as error:
            text = f"{call.endpoint.name}: tool {call.tool} gave no answer within {timeout_s:g} s"
            raise Unavailable(text, timed_out=True) from error
        except MCPError as error:
            raise self._failure(call, error) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise Unavailable(f"{call.endpoint.name}: the MCP server is gone") from error
        assert isinstance(result, CallToolResult), "claimed results are not asked for"
        return result

    def _failure(self, call: Wired, error: MCPError) -> CallError:
        text = redact(f"{call.endpoint.name}: tool {call.tool}: {error}")[:SHOWN]
        gone = "closed" in str(error).lower() or "terminated" in str(error).lower()
        return Unavailable(text) if gone else Rejected(text)

    def _answer(self, call: Wired, result: CallToolResult) -> Answer:
        body = _body(result)
        if len(body) > self.max_bytes:
            raise MappingError(
                f"{call.endpoint.name}: tool {call.tool}: the answer is larger than {self.max_bytes} bytes"
            )
        response = Response(status=200, headers={}, body=body, timings=Timings(), request=f"tool {call.tool}")
        if self.errors.rules:
            self.errors.read(response)
        if result.is_error:
            raise Rejected(redact(f"{call.endpoint.name}: tool {call.tool}: {response.text}")[:SHOWN])
        return Answer(response)


def _body(result: CallToolResult) -> bytes:
    """What the paths read: the structured content, or the first text; an error says so itself."""
    text = next((part.text for part in result.content if isinstance(part, TextContent)), "")
    if result.is_error:
        return json.dumps({"isError": True, "text": text}, ensure_ascii=False).encode()
    if result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False).encode()
    return text.encode()


def _command(config: ProviderConfig, settings: Mcp, context: ProviderContext) -> StdioServerParameters | None:
    if settings.command is None:
        return None
    environment = context.environment
    program, *arguments = (environment.resolve(part) for part in settings.command)
    secrets = {
        name: environment.require(variable, user=config.name).get_secret_value()
        for name, variable in settings.env.items()
    }
    cwd = config.folder / settings.cwd if settings.cwd else None
    return StdioServerParameters(command=program, args=arguments, env=secrets or None, cwd=cwd)


def _row(endpoint: str, outcome: str, begun: datetime, took_us: int) -> Call:
    return Call(
        endpoint=endpoint,
        role="provider",
        attempt=1,
        status=None,
        outcome=outcome,
        started_at=begun,
        provider_us=took_us,
    )
