"""Send the calls of a provider over HTTP.

Every call uses :mod:`bench.http`, which handles limits, retries and statuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from bench.config.provider.body import JsonLines
from bench.config.provider.sections import check_address
from bench.errors import ConfigError
from bench.http import Http, Request
from bench.providers.declarative.body_errors import BodyErrors
from bench.providers.declarative.request import CompiledCall, FilledCall
from bench.providers.declarative.response import ServiceResponse
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

NDJSON = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class HttpChannel:
    """A channel that sends the calls of one provider to the service behind ``base_url``."""

    http: Http
    base_url: str
    headers: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    errors: BodyErrors

    @classmethod
    def from_config(cls, config: ProviderConfig, context: ProviderContext) -> HttpChannel:
        """Create the channel: resolve the environment variables in the URL, the headers and the keys.

        Raises:
            ConfigError: an environment variable is not set.
        """
        resolve = context.environment.resolve
        base = config.base_url
        if base is None:
            raise ConfigError(f"{config.name} has no base URL", where=config.place("connection"), hint="add baseUrl")
        headers, query = headers_and_query(config, context)
        place = config.place("connection", "base_url")
        url = check_address(resolve(base, where=place), place)
        return cls(context.http, url, headers, tuple(query), BodyErrors.compile(config.errors.error_when))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None: ...

    async def exchange(self, call: CompiledCall, filled: FilledCall) -> ServiceResponse:
        """Send one request with the headers and keys of the config; return the response."""
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


def headers_and_query(config: ProviderConfig, context: ProviderContext) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the headers and the URL parameters that every request needs, including the API keys."""
    headers = {name: context.environment.resolve(value) for name, value in config.connection.headers.items()}
    query: list[tuple[str, str]] = []
    for auth in config.auth:
        key_headers, key_query = auth.credentials(context.environment, user=config.name)
        headers |= key_headers
        query += key_query
    return headers, query
