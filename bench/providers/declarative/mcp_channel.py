"""Send calls to a memory system that is an MCP server. The server is started by a command or reached at a URL.

A call names a ``tool``, and its body contains the arguments. The response is ``structuredContent`` or, without this
field, the JSON of the first text part::

    async with McpChannel.from_config(config, context) as channel:
        answer = await channel.exchange(call, filled)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO
from urllib.parse import urlencode

import anyio
from mcp import MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from bench.config.file import did_you_mean
from bench.config.provider.checks import calls_of
from bench.config.provider.config import Mcp
from bench.config.provider.sections import refuse_user
from bench.errors import CA_HINT, CallError, ConfigError, MappingError, Rejected, Unavailable, is_certificate_error
from bench.events import redact
from bench.http import Http, Response, Timings
from bench.http.errors import failure_of_status
from bench.providers.declarative.body_errors import BodyErrors
from bench.providers.declarative.mcp_session import McpSession, SessionEnded, StdoutNoise, root_of
from bench.providers.declarative.request import CompiledCall, FilledCall
from bench.providers.declarative.response import ServiceResponse
from bench.providers.protocol import ProviderContext
from bench.settings import hide_secrets

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

START_S = 60.0
SHOWN = 500
ENDED_WORDS = ("connection closed", "terminated", "stream ended")
"""parts of an SDK error message that mean that the server has ended"""
STDERR_LINES = 5
"""number of stderr lines, counted from the end, that an error message quotes"""


@dataclass(slots=True)
class McpChannel:
    """A channel that sends the calls of one provider to its MCP server, in one session."""

    name: str
    http: Http
    """limits the number of calls and writes the call log; the SDK sends the requests itself"""
    command: StdioServerParameters | None
    url: str | None
    headers: Mapping[str, str]
    query: str
    """query string of the URL, if the API key is sent in the URL"""
    key: str | None
    """name of the environment variable with the API key"""
    tools: Mapping[str, str | None]
    """tool name -> place of the tool name in the config file"""
    where: str | None
    stderr: Path
    errors: BodyErrors
    max_bytes: int
    _noise: StdoutNoise = field(default_factory=StdoutNoise)
    _stderr_start: int = 0
    """size in bytes of the stderr file when the server started; earlier processes wrote these bytes"""
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _session: McpSession | None = None
    _status: int | None = None
    """the last HTTP error status, recorded here because the SDK does not report it"""

    @classmethod
    def from_config(cls, config: ProviderConfig, context: ProviderContext) -> McpChannel:
        """Create the channel: resolve the environment variables in the command, the URL and the keys.

        Raises:
            ConfigError: an environment variable is not set.
        """
        from bench.providers.declarative.http_channel import headers_and_query

        assert config.mcp is not None, "type mcp has its block"
        resolve = context.environment.resolve
        headers, query = headers_and_query(config, context)
        place = config.place("mcp", "url")
        url = resolve(config.mcp.url, where=place) if config.mcp.url else None
        refuse_user(url or "", place)
        return cls(
            name=config.name,
            http=context.http,
            command=_command(config, config.mcp, context),
            url=url,
            headers=headers,
            query=urlencode(query),
            key=next((auth.env_var for auth in config.auth if auth.env_var), None),
            tools={call.tool: config.place(*path, "tool") for path, call in calls_of(config) if call.tool},
            where=config.place("mcp"),
            stderr=context.run_dir / f"{config.name}.stderr.log",
            errors=BodyErrors.compile(config.errors.error_when),
            max_bytes=config.connection.max_response_bytes,
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._noise.suppressed(self.name))
            with _StartErrors(self):
                session = await stack.enter_async_context(McpSession(self._transport, start_s=START_S))
            self._require_tools(session.tools)
            self._session = session
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._stack.aclose()

    def _require_tools(self, offered: Set[str]) -> None:
        for tool, where in self.tools.items():
            if tool not in offered:
                raise ConfigError(
                    f'the MCP server of {self.name} has no tool "{tool}"{did_you_mean(tool, offered)}',
                    where=where,
                    hint=f"tools of this server: {', '.join(sorted(offered))}",
                )

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """Open the SDK's transport to the server command or to the URL."""
        async with AsyncExitStack() as stack:
            if self.command is not None:
                words = stack.enter_context(self._open_stderr())
                yield await stack.enter_async_context(stdio_client(self.command, errlog=words))
                return
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            client = await stack.enter_async_context(create_mcp_http_client(headers=dict(self.headers)))
            client.event_hooks["response"].append(self._record_status)
            url = f"{self.url}?{self.query}" if self.query else str(self.url)
            yield await stack.enter_async_context(streamable_http_client(url, http_client=client))

    async def _record_status(self, response: Any) -> None:
        """Record the status of an HTTP error response. ``response`` is an object of the SDK's HTTP library."""
        if response.status_code >= 400:
            self._status = response.status_code

    def _open_stderr(self) -> TextIO:
        self.stderr.parent.mkdir(parents=True, exist_ok=True)
        self._stderr_start = self.stderr.stat().st_size if self.stderr.exists() else 0
        return self.stderr.open("a", encoding="utf-8")

    def start_error(self, error: BaseException) -> ConfigError:
        """Return the error for a server that cannot be started or reached, with the server's last output."""
        if self._status in (401, 403):
            problem, hint = (
                f"refuses requests at {self.url} (status {self._status})",
                f"check the key in {self.key}" if self.key else "add auth to the config",
            )
        elif self.url is not None:
            answers = f" (status {self._status})" if self._status else ""
            problem, hint = f"is not reachable at {self.url}{answers}", "start the server, or correct mcp.url"
            hint = CA_HINT if is_certificate_error(error) else hint
        else:
            problem, hint = "does not start", f"run mcp.command by hand; the stderr of the server is in {self.stderr}"
        why = [f"no answer within {START_S:g} s" if isinstance(error, TimeoutError) else str(error)]
        if self._noise.first:
            why.append(f'it printed "{self._noise.first}" on stdout, which is not JSON-RPC')
        why += self._stderr_tail()
        text = f"the MCP server of {self.name} {problem}: " + "\n  ".join(filter(None, why))
        return ConfigError(redact(hide_secrets(text)), where=self.where, hint=hint)

    def _stderr_tail(self) -> list[str]:
        """Return the last lines that the server wrote to stderr since it started."""
        if self.command is None or not self.stderr.exists():
            return []
        with self.stderr.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._stderr_start)
            return [line.strip()[:SHOWN] for line in file.read().splitlines() if line.strip()][-STDERR_LINES:]

    async def exchange(self, call: CompiledCall, filled: FilledCall) -> ServiceResponse:
        """Call one tool and return its response.

        Raises:
            Unavailable: the server has ended, or does not answer in time.
            Rejected: the tool returns an error.
        """
        async with self.http.admit(call.endpoint, f"tool {call.tool}"):
            return self._answer(call, await self._poll(call, filled))

    async def _poll(self, call: CompiledCall, filled: FilledCall) -> CallToolResult:
        assert self._session is not None, "the channel is used inside `async with`"
        arguments = filled.body if isinstance(filled.body, dict) else {}
        timeout_s = self.http.attempt_s or call.timeout_s or call.endpoint.timeouts.attempt_s
        try:
            with anyio.fail_after(timeout_s):
                return await self._session.call(str(call.tool), arguments)
        except TimeoutError as error:
            text = f"{call.endpoint.name}: tool {call.tool} gave no answer within {timeout_s:g} s"
            raise Unavailable(text, timed_out=True) from error
        except MCPError as error:
            raise self._failure(call, error) from error
        except (SessionEnded, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise self._ended_error(call, str(error) or "its stream is closed") from error

    def _failure(self, call: CompiledCall, error: MCPError) -> CallError:
        if any(word in str(error).lower() for word in ENDED_WORDS):
            return self._ended_error(call, str(error))
        status, self._status = self._status, None
        if status is not None:
            answer = Response(status=status, headers={}, body=b"", timings=Timings(), request=f"tool {call.tool}")
            return failure_of_status(call.endpoint, answer, repeatable=False, wait_s=None).error
        return Rejected(redact(f"{call.endpoint.name}: tool {call.tool}: {error}")[:SHOWN])

    def _ended_error(self, call: CompiledCall, why: str) -> Unavailable:
        stderr = "; its stderr: " + " | ".join(words[-2:]) if (words := self._stderr_tail()) else ""
        text = f"{call.endpoint.name}: tool {call.tool}: the MCP server has ended: {why}{stderr}"
        return Unavailable(
            redact(text)[:SHOWN], hint="fix the cause, then resume the run: this starts the server again"
        )

    def _answer(self, call: CompiledCall, result: CallToolResult) -> ServiceResponse:
        body = _body(result, reads_text=call.reads_text)
        if len(body) > self.max_bytes:
            raise MappingError(
                f"{call.endpoint.name}: tool {call.tool}: the answer is larger than {self.max_bytes} bytes",
                hint='request less per call, or raise "max_response_bytes"',
            )
        response = Response(status=200, headers={}, body=body, timings=Timings(), request=f"tool {call.tool}")
        if self.errors.rules:
            self.errors.read(response)
        elif body[:1] in (b"{", b"[") and not result.is_error:
            self.errors.read(response, check_kind=call.check_kind, partial=call.reads_partial)
        if result.is_error:
            raise Rejected(redact(f"{call.endpoint.name}: tool {call.tool}: {response.text}")[:SHOWN])
        return ServiceResponse(response)


class _StartErrors:
    """A context manager that converts an error during the server's start to a ConfigError with the server's output."""

    def __init__(self, channel: McpChannel) -> None:
        self._channel = channel

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            raise self._channel.start_error(root_of(error)) from error


def _body(result: CallToolResult, *, reads_text: bool) -> bytes:
    """Return the tool's result as a response body.

    The body is the structured content, or the first text if there is none. An error of the tool is returned as JSON.

    With ``reads_text``, texts are preferred to the structured content, and are joined with empty lines between them.
    The reason is that SDKs also return the plain text of a tool as the structured content ``{"result": TEXT}``.
    """
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    first = next(iter(texts), "")
    if result.is_error:
        return json.dumps({"isError": True, "text": first}, ensure_ascii=False).encode()
    if reads_text and texts:
        return "\n\n".join(texts).encode()
    if result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False).encode()
    return first.encode()


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
