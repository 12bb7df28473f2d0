"""Calls as the file describes them, compiled once and sent many times.

``Wire`` is what all calls of a provider share: address, headers, keys, limits. ``Wired`` is one call::

    wire = Wire.of(config, context)
    add = wire.call("add", config.endpoints.add, traffic="add")
    answer = await add.send({"runTag": "ns", "content": "Ana lives in Lisbon."})
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from bench.config.provider.calls import Call, Part
from bench.config.provider.nodes import ABSENT, Missing, Node, Scope, Text, as_text
from bench.config.provider.sections import Auth
from bench.config.provider.trees import Compiler
from bench.errors import ConfigError, MappingError
from bench.events import redactor
from bench.http import Endpoint, Feedback, Limits, Request, Retry, Timeouts
from bench.http import Part as HttpPart
from bench.providers.declarative.answer import Answer, Field, compact
from bench.providers.declarative.bodyerrors import BodyErrors
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig
    from bench.config.provider.sections import Limit

Traffic = Literal["add", "search", "status", "manage"]
"""manage: set-up, clear and deletes; limited like add, counted apart"""

KEPT_IN_PATHS = "/%:@!$&'()*+,;=~?"
PREFIXES = {"bearer": "Bearer ", "token": "Token "}


@dataclass(frozen=True, slots=True)
class Wire:
    """What all calls of one provider share."""

    context: ProviderContext
    compiler: Compiler
    base_url: str
    headers: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    constants: Mapping[str, str]
    endpoints: Mapping[Traffic, Endpoint]
    errors: BodyErrors

    @classmethod
    def of(cls, config: ProviderConfig, context: ProviderContext) -> Wire:
        """Resolve address, headers and keys.

        Raises:
            ConfigError: a variable of the environment is not set.
        """
        resolve = context.environment.resolve
        base = config.base_url
        if base is None:
            raise ConfigError(f"{config.name} has no base URL", where=config.place("connection"), hint="add baseUrl")
        headers = {name: resolve(value) for name, value in config.connection.headers.items()}
        query: list[tuple[str, str]] = []
        for auth in config.auth:
            _authorise(config, auth, context, headers, query)
        return cls(
            context,
            Compiler(resolve),
            resolve(base, where=config.place("connection", "base_url")).rstrip("/"),
            headers,
            tuple(query),
            {name: resolve(value, where=config.place("vars", name)) for name, value in config.vars.items()},
            {traffic: _endpoint(config, traffic) for traffic in ("add", "search", "status", "manage")},
            BodyErrors.of(config.errors.error_when),
        )

    def call(self, key: str, call: Call, *, traffic: Traffic, ok: Sequence[int] = ()) -> Wired:
        """Compile one call that stands under ``key``."""
        compiler = self.compiler
        multipart = call.multipart
        return Wired(
            wire=self,
            key=key,
            method=call.method or "POST",
            path=compiler.text(call.path or "/"),
            query={name: compiler.tree(value) for name, value in call.query.items()},
            headers={name: compiler.tree(value) for name, value in call.headers.items()},
            body=compiler.tree(call.body) if call.has_body else None,
            multipart={name: _part(compiler, part) for name, part in multipart.items()} if multipart else None,
            for_each=compiler.string(call.for_each) if call.for_each else None,
            captures=dict(_captures(key, call)),
            endpoint=self.endpoints[traffic],
            ok_statuses=frozenset((*call.treat_as_ok, *ok)),
            idempotency_header=call.idempotency.header if call.idempotency else None,
            idempotent=_repeatable(call, traffic),
            timeout_s=call.timeout / 1000 if call.timeout else None,
        )


Form = Mapping[str, tuple[Node, Node | None, str | None]]
"""multipart field -> content, file name, content type"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """One compiled call."""

    wire: Wire
    key: str
    method: str
    path: Node
    query: Mapping[str, Node]
    headers: Mapping[str, Node]
    body: Node | None
    multipart: Form | None
    for_each: Node | None
    captures: Mapping[str, tuple[Field, bool]]
    """name -> path and whether it appends to a list"""
    endpoint: Endpoint
    ok_statuses: frozenset[int]
    idempotency_header: str | None
    idempotent: bool | None
    timeout_s: float | None

    def uses(self) -> frozenset[str]:
        """Names of the request variables this call needs."""
        nodes = [self.path, *self.query.values(), *self.headers.values()]
        nodes += [node for node in (self.body, self.for_each) if node is not None]
        for content, filename, _ in (self.multipart or {}).values():
            nodes += [content, *([filename] if filename else [])]
        return frozenset(name for node in nodes for name, _ in node.uses())

    async def send(self, values: Mapping[str, object], extra: Sequence[tuple[str, str]] = ()) -> Answer:
        """Fill the templates and send the call once (with the retries of its endpoint)."""
        request = self._request(values, extra)
        return Answer(await self.wire.context.http.call(self.endpoint, request))

    async def each(self, values: Mapping[str, object]) -> list[Answer]:
        """Send the call, or once for each element of ``for_each``; a list that is not there has no element."""
        if self.for_each is None:
            return [await self.send(values)]
        try:
            elements = self.for_each.fill(Scope(values))
        except Missing:
            elements = []
        if not isinstance(elements, list | tuple):
            raise MappingError(f"{self.key}.for_each: is no list")
        return [await self.send({**values, "each": element}) for element in elements]

    def captured(self, answers: Sequence[Answer]) -> dict[str, object]:
        """What the answers hold under ``capture``; lists are marked to grow."""
        found: dict[str, object] = {}
        for answer in answers:
            for name, (path, appends) in self.captures.items():
                if appends or not path.path.single:
                    known = found.setdefault(name, [])
                    assert isinstance(known, list)
                    known += answer.values(path)
                else:
                    found[name] = answer.one(path)
        return found

    def _request(self, values: Mapping[str, object], extra: Sequence[tuple[str, str]]) -> Request:
        scope = Scope(values)
        try:
            headers = {name: compact(node.fill(scope)) for name, node in self.headers.items()}
            body = self.body.fill(scope) if self.body is not None else None
            url = self.wire.base_url + self._path(values)
            query = [*self.wire.query, *self._query(scope), *extra]
            multipart = self._form(scope)
        except Missing as missing:
            raise MappingError(
                f"{self.key}: {missing}", hint="the call needs a variable that has no value here; see the config"
            ) from missing
        if self.idempotency_header is not None:
            headers[self.idempotency_header] = str(values.get("batchKey", ""))
        return Request(
            self.method,
            url,
            headers={**self.wire.headers, **headers},
            query=query,
            json=body,
            body=b"null" if self.body is not None and body is None else None,
            multipart=multipart,
            idempotent=self.idempotent,
            ok_statuses=self.ok_statuses,
            read=self.wire.errors.read if self.wire.errors.rules else None,
            timeout_s=self.timeout_s,
        )

    def _path(self, values: Mapping[str, object]) -> str:
        """The path with each variable as one segment; constants of the file keep their slashes."""
        if not isinstance(self.path, Text):
            return quote(str(self.path.fill(Scope(values))), safe=KEPT_IN_PATHS)
        parts = list(self.path.parts)
        for index, part in enumerate(parts):
            name = part if index % 2 else None
            if name is None or name in self.wire.constants:
                parts[index] = quote(self.wire.constants.get(part, part) if name else part, safe=KEPT_IN_PATHS)
            else:
                parts[index] = quote(as_text(name, values), safe="")
        return "".join(parts)

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


def _file(text: str, filename: str, kind: str | None) -> HttpPart:
    return HttpPart(content=text.encode("utf-8", "surrogatepass"), filename=filename, type=kind)


def _part(compiler: Compiler, part: str | Part) -> tuple[Node, Node | None, str | None]:
    if isinstance(part, str):
        return compiler.string(part), None, None
    return compiler.string(part.content), compiler.string(part.filename), part.type


def _captures(key: str, call: Call) -> Iterator[tuple[str, tuple[Field, bool]]]:
    for name, path in call.capture.items():
        where = f"{key}.capture.{name}"
        if isinstance(path, str):
            yield name, (Field.at(where, path), False)
        else:
            yield name, (Field.at(where, path[0]), True)


def _repeatable(call: Call, traffic: Traffic) -> bool | None:
    if call.idempotent is not None:
        return call.idempotent
    return True if call.idempotency is not None or traffic in ("search", "status") else None


def _authorise(
    config: ProviderConfig, auth: Auth, context: ProviderContext, headers: dict[str, str], query: list[tuple[str, str]]
) -> None:
    if auth.type == "none" or auth.env_var is None:
        return
    found = context.environment.secret(auth.env_var)
    if found is None and auth.optional:
        return
    key = (found or context.environment.require(auth.env_var, user=config.name)).get_secret_value()
    if auth.type == "query":
        query.append((auth.param or "key", key))
        return
    if auth.type == "basic":
        user = context.environment.resolve(auth.user or "")
        key = base64.b64encode(f"{user}:{key}".encode()).decode()
        redactor.learn(key)
    default = "Basic " if auth.type == "basic" else PREFIXES.get(auth.type, "")
    name = auth.header or ("X-API-Key" if auth.type == "apikey" else "Authorization")
    headers[name] = f"{default if auth.prefix is None else auth.prefix}{key}"


def _endpoint(config: ProviderConfig, traffic: Traffic) -> Endpoint:
    limits, connection, rate = config.limits, config.connection, config.rate_limit
    pauses = {"add": max(rate.add_delay_ms, rate.batch_delay_ms), "search": rate.search_delay_ms}
    limit = {"add": limits.add, "search": limits.search, "status": limits.status, "manage": limits.add}[traffic]
    feedback = limits.feedback
    return Endpoint(
        name=f"{config.name}.{traffic}",
        role="provider",
        limits=_limits(
            limit,
            pauses.get(traffic, 0) / 1000,
            Feedback(remaining=feedback.remaining, reset=feedback.reset) if feedback else None,
        ),
        retry=Retry(max_retries=rate.max_retries, delay_s=rate.retry_delay_ms / 1000),
        timeouts=Timeouts(attempt_s=connection.timeout / 1000, connect_s=connection.connect_timeout / 1000),
        key_variable=next((auth.env_var for auth in config.auth if auth.env_var), None),
        statuses=dict(config.errors.status),
        max_response_bytes=connection.max_response_bytes,
    )


def _limits(limit: Limit, pause_s: float, feedback: Feedback | None) -> Limits:
    return Limits(
        rps=limit.rps,
        rpm=limit.rpm,
        burst=limit.burst,
        tpm=limit.tpm,
        concurrency=limit.concurrency,
        min_interval_s=pause_s,
        feedback=feedback,
    )
