"""Compile the calls of a provider's config once, then insert variables into each call and send it.

``HealthCheck`` waits before the first call until the service no longer returns status 503.

Example::

    connection = ProviderConnection.from_config(config, context, channel)
    add = connection.call("add", config.endpoints.add, traffic="add")
    answer = await add.send({"runTag": "ns", "content": "Ana lives in Lisbon."})

``ProviderConnection`` has what all calls of a provider share, such as constants and limits. ``CompiledCall`` is one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import quote

import anyio

from bench.config.provider.body import ABSENT, Compiler, Node, Scope, TextNode, ValueMissing, as_text
from bench.config.provider.calls import MultipartSection, PageSection, RequestSection
from bench.errors import MappingError, Unavailable
from bench.fast_dataclass import dataclass as value_dataclass
from bench.http import Endpoint
from bench.http import FormField as HttpPart
from bench.providers.declarative.body_errors import CheckKind
from bench.providers.declarative.response import WHOLE_BODY, ResponsePath, ServiceResponse, compact
from bench.providers.endpoints import Traffic, endpoints_of, is_repeatable
from bench.providers.protocol import ProviderContext
from bench.settings import VARIABLE

if TYPE_CHECKING:
    from bench.config.provider.calls import HealthCall
    from bench.config.provider.config import ProviderConfig


NOT_READY_STATUS = 503
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0


@dataclass(slots=True)
class HealthCheck:
    """A check that waits until a service is ready, before the first call of a run."""

    call: CompiledCall
    value: ResponsePath | None
    timeout_s: float
    passed: bool = False
    failed_before: bool = False
    """True if an earlier wait failed; a further wait then sends only one request"""
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """lets one caller send the check while the others wait for its result"""

    @classmethod
    def compile(cls, connection: ProviderConnection, health: HealthCall) -> HealthCheck:
        """Compile the ``health`` call of a config."""
        return cls(
            call=connection.call("health", health, traffic="status", ok=(NOT_READY_STATUS,)),
            value=ResponsePath.at("health.value", health.value) if health.value else None,
            timeout_s=health.ready_timeout_s,
        )

    async def wait(self) -> None:
        """Wait until the service is ready.

        Raises:
            Unavailable: the service still returns status 503 after ``timeout_s`` seconds.
        """
        async with self.lock:
            if not self.passed:
                await self._poll()
                self.passed = True

    async def _poll(self) -> None:
        pause_s = FIRST_PAUSE_S
        with anyio.move_on_after(self.timeout_s):
            while True:
                answer = await self.call.exchange({})
                if answer.status != NOT_READY_STATUS:
                    if self.value is not None:
                        answer.value(self.value)
                    self.failed_before = False
                    return
                if self.failed_before:
                    break
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        name = self.call.endpoint.name.rpartition(".")[0]
        self.failed_before = True
        failed_before = TimeoutError(f"waited {self.timeout_s:g} s")  # a cause: every further call would end like this
        raise Unavailable(
            f"{name} still returns status {NOT_READY_STATUS} after {self.timeout_s:g} s",
            hint="wait until the service has finished loading, then resume",
        ) from failed_before


DOT_SEGMENTS = frozenset({".", ".."})
SAFE_IN_PATHS = "/%:@!$&'()*+,;=~?"


@value_dataclass(frozen=True, slots=True, kw_only=True)
class FilledCall:
    """The parts of a request after the variables of its templates have been replaced by values."""

    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: object
    form: dict[str, str | HttpPart] | None


class Channel(Protocol):
    """The way to the service, HTTP or MCP, over which filled calls are sent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def exchange(self, call: CompiledCall, filled: FilledCall) -> ServiceResponse:
        """Send one call and return the response. Limits and retries of the call's endpoint apply."""
        ...


@value_dataclass(slots=True)
class ProviderConnection:
    """The state that all calls of one provider share: constants, limits and the channel to the service."""

    compiler: Compiler
    constants: Mapping[str, str]
    in_paths: Mapping[str, str]
    """constants for use in URL paths: slashes in the config are kept, values of environment variables are encoded"""
    endpoints: Mapping[Traffic, Endpoint]
    channel: Channel
    health: HealthCheck | None = None

    @classmethod
    def from_config(cls, config: ProviderConfig, context: ProviderContext, channel: Channel) -> ProviderConnection:
        """Create the shared state: resolve the environment variables of the config.

        Raises:
            ConfigError: an environment variable is not set.
        """
        resolve = context.environment.resolve
        constants = {name: resolve(value, where=config.place("vars", name)) for name, value in config.vars.items()}
        in_paths = {name: _in_path(value, resolve) for name, value in config.vars.items()}
        connection = cls(Compiler(resolve), constants, in_paths, endpoints_of(config), channel)
        health = config.endpoints.health if config.endpoints else None
        connection.health = HealthCheck.compile(connection, health) if health is not None else None
        return connection

    def call(
        self,
        key: str,
        call: RequestSection,
        *,
        traffic: Traffic,
        ok: Sequence[int] = (),
        check_kind: CheckKind | None = None,
        reads_partial: bool = False,
        reads_text: bool = False,
    ) -> CompiledCall:
        """Compile one call. ``key`` is the path of the call in the config, for error messages."""
        compiler = self.compiler
        multipart = call.multipart
        return CompiledCall(
            connection=self,
            key=key,
            method=call.method or "POST",
            path=compiler.path(call.path or "/"),
            tool=call.tool,
            query={name: compiler.tree(value) for name, value in call.query.items()},
            headers={name: compiler.tree(value) for name, value in call.headers.items()},
            body=compiler.tree(call.body) if call.has_body else None,
            multipart={name: _part(compiler, part) for name, part in multipart.items()} if multipart else None,
            for_each=compiler.string(call.for_each) if call.for_each else None,
            captures=dict(_captures(key, call)),
            endpoint=self.endpoints[traffic],
            ok_statuses=frozenset((*call.treat_as_ok, *ok)),
            idempotency_header=call.idempotency.header if call.idempotency else None,
            idempotent=is_repeatable(call, traffic),
            timeout_s=call.timeout / 1000 if call.timeout else None,
            check_kind=check_kind or ("change" if traffic == "manage" else "other"),
            reads_partial=reads_partial,
            reads_text=reads_text,
        )


@value_dataclass(frozen=True, slots=True)
class Paging:
    """A compiled ``page`` section: how to request the next page of results."""

    cursor: ResponsePath | None
    param: str = ""
    max_pages: int = 1

    @classmethod
    def compile(cls, page: PageSection | None, key: str) -> Paging:
        """Compile a ``page`` section. ``key`` is the path of the section in the config, for error messages.

        Without a section, only one page is read.
        """
        return (
            cls(None)
            if page is None
            else cls(ResponsePath.at(f"{key}.cursor", page.cursor), page.param, page.max_pages)
        )

    def after(self, answer: ServiceResponse) -> tuple[tuple[str, str], ...]:
        """Return the query parameter that requests the next page, or () after the last page."""
        found = self.cursor.path.all(answer.tree) if self.cursor is not None and answer.ok else []
        return ((self.param, compact(found[0])),) if found and found[0] not in (None, "", False) else ()


Form = Mapping[str, tuple[Node, Node | None, str | None]]
"""field of a multipart body -> its content, its file name, its content type"""


@value_dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCall:
    """One call of a config, ready to be filled with variables and sent."""

    connection: ProviderConnection
    key: str
    method: str
    path: Node
    tool: str | None
    query: Mapping[str, Node]
    headers: Mapping[str, Node]
    body: Node | None
    multipart: Form | None
    for_each: Node | None
    captures: Mapping[str, tuple[ResponsePath, bool]]
    """variable -> path of its value in the response, and True if the variable is a list of several values"""
    endpoint: Endpoint
    ok_statuses: frozenset[int]
    idempotency_header: str | None
    idempotent: bool
    timeout_s: float | None
    check_kind: CheckKind = "other"
    reads_partial: bool = False
    """True if the config declares which elements of a successful response failed"""
    reads_text: bool = False
    """type mcp: True if the response is the text of the tool's result, not its structured content"""

    def uses(self) -> frozenset[str]:
        """Return the names of the variables that the call's templates use."""
        nodes = [self.path, *self.query.values(), *self.headers.values()]
        nodes += [node for node in (self.body, self.for_each) if node is not None]
        for content, filename, _ in (self.multipart or {}).values():
            nodes += [content, *([filename] if filename else [])]
        return frozenset(name for node in nodes for name, _ in node.uses())

    async def send(self, values: Mapping[str, object], extra: Sequence[tuple[str, str]] = ()) -> ServiceResponse:
        """Wait until the service is ready, fill the templates and send the call.

        Retries follow the rules of the call's endpoint.

        Raises:
            MappingError: a variable has no value.
        """
        if self.connection.health is not None and not self.connection.health.passed:
            await self.connection.health.wait()
        return await self.exchange(values, extra)

    async def exchange(self, values: Mapping[str, object], extra: Sequence[tuple[str, str]] = ()) -> ServiceResponse:
        """Fill the templates and send the call, without waiting until the service is ready."""
        return await self.connection.channel.exchange(self, self._filled(values, extra))

    async def each(self, values: Mapping[str, object]) -> list[ServiceResponse]:
        """Send the call once. If the config sets ``for_each``, send the call once per element of this list.

        A missing list counts as empty.
        """
        if self.for_each is None:
            return [await self.send(values)]
        try:
            elements = self.for_each.fill(Scope(values))
        except ValueMissing:
            elements = []
        if not isinstance(elements, list | tuple):
            raise MappingError(f"{self.key}.for_each is not a list", hint="correct the value of for_each in the config")
        return [await self.send({**values, "each": element}) for element in elements]

    def captured(self, answers: Sequence[ServiceResponse]) -> dict[str, object]:
        """Return the values that ``capture`` reads from several responses.

        Lists of the same variable are joined. For any other variable, the last value is returned.
        """
        found: dict[str, object] = {}
        for answer in answers:
            for name, value in self.captured_in(answer).items():
                known = found.get(name)
                both = isinstance(known, list) and isinstance(value, list) and self._appends(name)
                found[name] = [*known, *value] if both else value  # type: ignore[misc]
        return found

    def captured_in(self, answer: ServiceResponse, node: object = WHOLE_BODY) -> dict[str, object]:
        """Return the values that ``capture`` reads from a response, or only from its part ``node``.

        Raises:
            MappingError: a value is missing or null, although later calls such as clear need the value.
        """
        found: dict[str, object] = {}
        for name, (path, _) in self.captures.items():
            values = answer.values(path, node) if self._appends(name) else [answer.value(path, node)]
            if None in values:
                raise answer.error(path, "the value is null, but later calls need it")
            found[name] = values if self._appends(name) else values[0]
        return found

    def _appends(self, name: str) -> bool:
        path, appends = self.captures[name]
        return appends or not path.path.single

    def _filled(self, values: Mapping[str, object], extra: Sequence[tuple[str, str]]) -> FilledCall:
        scope = Scope(values)
        try:
            filled = FilledCall(
                path=self._path(values),
                query=[*self._query(scope), *extra],
                headers={name: compact(node.fill(scope)) for name, node in self.headers.items()},
                body=self.body.fill(scope) if self.body is not None else None,
                form=self._form(scope),
            )
        except ValueMissing as missing:
            raise MappingError(f"{self.key}: {missing}", hint="correct this path in the config") from missing
        if self.idempotency_header is not None:
            filled.headers[self.idempotency_header] = str(values.get("batchKey", ""))
        return filled

    def _path(self, values: Mapping[str, object]) -> str:
        """Return the URL path. A variable fills exactly one segment; constants of the config may contain slashes.

        Raises:
            MappingError: the path contains a segment "." or "..".
        """
        if not isinstance(self.path, TextNode):
            return quote(str(self.path.fill(Scope(values))), safe=SAFE_IN_PATHS)
        parts = list(self.path.parts)
        for index, part in enumerate(parts):
            name = part if index % 2 else None
            if name is None or name in self.connection.in_paths:
                parts[index] = quote(self.connection.in_paths[part] if name else part, safe=SAFE_IN_PATHS)
            else:
                parts[index] = quote(as_text(name, values), safe="")
        path = "".join(parts)
        if "/." in path and DOT_SEGMENTS & set(path.partition("?")[0].split("/")):
            raise MappingError(
                f'{self.key}: the path "{path}" has a segment "." or ".."',
                hint="check the values of the variables in the path",
            )
        return path

    def _query(self, scope: Scope) -> Iterator[tuple[str, str]]:
        for name, node in self.query.items():
            value = node.fill(scope)
            if value is ABSENT:
                continue
            for single in value if isinstance(value, list) else [value]:
                yield name, compact(single)

    def _form(self, scope: Scope) -> dict[str, str | HttpPart] | None:
        if self.multipart is None:
            return None
        form: dict[str, str | HttpPart] = {}
        for name, (content, filename, kind) in self.multipart.items():
            text = compact(content.fill(scope))
            form[name] = text if filename is None else _file(text, compact(filename.fill(scope)), kind)
        return form


def _in_path(text: str, resolve: Callable[[str], str]) -> str:
    """Resolve a constant for use in a URL path.

    Values of environment variables are percent-encoded, so that they cannot add path segments.
    """
    parts = (VARIABLE.sub(lambda match: quote(resolve(match.group()), safe=""), part) for part in text.split("$${"))
    return "${".join(parts)


def _file(text: str, filename: str, kind: str | None) -> HttpPart:
    return HttpPart(content=text.encode("utf-8", "surrogatepass"), filename=filename, type=kind)


def _part(compiler: Compiler, part: str | MultipartSection) -> tuple[Node, Node | None, str | None]:
    if isinstance(part, str):
        return compiler.string(part), None, None
    return compiler.string(part.content), compiler.string(part.filename), part.type


def _captures(key: str, call: RequestSection) -> Iterator[tuple[str, tuple[ResponsePath, bool]]]:
    for name, path in call.capture.items():
        where = f"{key}.capture.{name}"
        if isinstance(path, str):
            yield name, (ResponsePath.at(where, path), False)
        else:
            yield name, (ResponsePath.at(where, path[0]), True)
