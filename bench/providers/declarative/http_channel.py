"""The HTTP channel of a provider: URL, headers and keys, resolved once.

Every call goes through :mod:`bench.http`, which handles limits, retries and statuses.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bench.config.provider.body import JsonLines
from bench.config.provider.sections import Auth, check_address
from bench.errors import ConfigError
from bench.events import redactor
from bench.http import Http, Request
from bench.providers.declarative.body_errors import BodyErrors
from bench.providers.declarative.request import CompiledCall, FilledCall
from bench.providers.declarative.response import ServiceResponse
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

NDJSON = "application/x-ndjson"
PREFIXES = {"bearer": "Bearer ", "token": "Token "}


@dataclass(frozen=True, slots=True)
class HttpChannel:
    """The HTTP channel to one service behind a base URL."""

    http: Http
    base_url: str
    headers: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    errors: BodyErrors

    @classmethod
    def from_config(cls, config: ProviderConfig, context: ProviderContext) -> HttpChannel:
        """Resolve URL, headers and keys.

        Raises:
            ConfigError: an environment variable is not set.
        """
        resolve = context.environment.resolve
        base = config.base_url
        if base is None:
            raise ConfigError(f"{config.name} has no base URL", where=config.place("connection"), hint="add baseUrl")
        headers = {name: resolve(value) for name, value in config.connection.headers.items()}
        query: list[tuple[str, str]] = []
        for auth in config.auth:
            add_key(config, auth, context, headers, query)
        place = config.place("connection", "base_url")
        url = check_address(resolve(base, where=place), place)
        return cls(context.http, url, headers, tuple(query), BodyErrors.compile(config.errors.error_when))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def exchange(self, call: CompiledCall, filled: FilledCall) -> ServiceResponse:
        """Send one request with the service's headers and keys; return its response."""
        has_body = call.body is not None
        lines = filled.body if isinstance(filled.body, JsonLines) else None
        headers = {**self.headers, **filled.headers}
        if lines is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = NDJSON
        request = Request(
            call.method,
            self.base_url + filled.path,
            headers=headers,
            query=[*self.query, *filled.query],
            json=None if lines is not None else filled.body,
            body=lines.encode() if lines is not None else b"null" if has_body and filled.body is None else None,
            multipart=filled.form,
            idempotent=call.idempotent,
            ok_statuses=call.ok_statuses,
            read=partial(self.errors.read, check_kind=call.check_kind, partial=call.reads_partial, ok=call.ok_statuses),
            timeout_s=call.timeout_s,
        )
        return ServiceResponse(await self.http.call(call.endpoint, request))


def add_key(
    config: ProviderConfig, auth: Auth, context: ProviderContext, headers: dict[str, str], query: list[tuple[str, str]]
) -> None:
    """Add the key of one ``auth`` entry to headers or query; an optional key that is not set is left out."""
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
