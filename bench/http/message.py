"""The classes `Request` and `Response`, and the usage and cost that a response reports.

Example::

    Request("POST", f"{base_url}/v1/search", headers={"X-API-Key": key}, json={"query": text}, idempotent=True)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from bench.errors import CallError, MappingError
from bench.events import redact
from bench.fast_dataclass import dataclass
from bench.model import Usage

SAFE_TO_REPEAT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
SHOWN_OF_BODY = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a multipart form. A field with a ``filename`` is sent as a file."""

    content: str | bytes
    filename: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedUsage:
    """Model, token usage and price that a response reports, for the call log."""

    model: str | None = None
    usage: Usage | None = None
    cost_usd: str | None = None
    error: CallError | None = None
    """the error for a response that cannot be used, although it may be billed; None if it can be used"""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. At most one of ``json``, ``body`` and ``multipart`` is set."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    query: Sequence[tuple[str, str]] = field(default=(), kw_only=True)
    """names and values of the query parameters, in order; several parameters may have the same name"""
    json: object = field(default=None, kw_only=True)
    """body as a JSON value; None = no JSON body (use ``body=b"null"`` to send null)"""
    body: bytes | None = field(default=None, kw_only=True)
    multipart: Mapping[str, str | FormField] | None = field(default=None, kw_only=True)
    idempotent: bool | None = field(default=None, kw_only=True)
    """True if the request can be sent again after a lost response, for example because it has an idempotency key; None
    = the method decides"""
    ok_statuses: frozenset[int] = field(default=frozenset(), kw_only=True)
    """statuses outside 2xx that also count as success"""
    read: Callable[[Response], ReportedUsage | None] | None = field(default=None, kw_only=True)
    """called with each successful response; returns the usage, and returns or raises a CallError if the body reports an
    error. Unavailable and RateLimited are retried."""
    read_failed: Callable[[Response], ReportedUsage | None] | None = field(default=None, kw_only=True)
    """called with each response whose status is not a success; returns the usage that it reports all the same"""
    tokens: int = field(default=0, kw_only=True)
    """number of tokens that the request needs from a limit of tokens per minute"""
    key: str = field(default="", kw_only=True)
    """distinguishes requests that are otherwise equal; not sent to the server"""
    timeout_s: float | None = field(default=None, kw_only=True)
    """timeout of one attempt in seconds, in place of the endpoint's timeout; None = the endpoint's timeout"""

    @property
    def repeatable(self) -> bool:
        """Return True if the request may be sent again after a lost response."""
        return self.method in SAFE_TO_REPEAT if self.idempotent is None else self.idempotent


class Timings(NamedTuple):
    """The time of one attempt in microseconds, split into four parts. Their sum is the total time."""

    queue_us: int = 0
    """time of waiting for a free slot"""
    limiter_us: int = 0
    """time of waiting for the rate limit, and before a retry"""
    network_us: int = 0
    """time of connecting, sending and receiving"""
    provider_us: int = 0
    """time from the sent request to the first byte of the response"""

    @property
    def latency_us(self) -> int:
        """Return network time plus provider time. Time that bench itself waited is not included."""
        return self.network_us + self.provider_us


@dataclass(slots=True)
class AttemptTimes:
    """The times at which the stages of one attempt happened, in seconds of the monotonic clock; 0.0 = not yet."""

    begun: float = 0.0
    sent: float = 0.0
    first_byte: float = 0.0
    ended: float = 0.0

    def provider_s(self) -> float:
        """Return the seconds from the sent request to the first byte; 0.0 if no byte arrived."""
        return max(0.0, self.first_byte - self.sent) if self.sent and self.first_byte else 0.0


@dataclass(frozen=True, kw_only=True)
class Response:
    """A response whose body was read completely."""

    status: int
    headers: Mapping[str, str]
    """response headers; the case of their names does not matter"""
    body: bytes
    timings: Timings
    attempts: int = 1
    request: str = ""
    """method and path of the request, for error messages"""

    @property
    def text(self) -> str:
        """Return the body as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> object:
        """Return the body parsed as JSON.

        Raises:
            MappingError: the body is empty, HTML, truncated or otherwise not JSON.
        """
        return self._tree

    @cached_property
    def _tree(self) -> object:
        if not self.body.strip():
            raise MappingError(f"{self.request} -> {self.status}: expected JSON, but the body is empty")
        try:
            tree: object = json.loads(_text_of(self.body))
        except (ValueError, RecursionError) as error:
            kind = "HTML, not JSON" if self.body.lstrip()[:1] == b"<" else "not JSON"
            shown = redact(self.text)[:SHOWN_OF_BODY]
            raise MappingError(f"{self.request} -> {self.status}: the body is {kind}: {shown}") from error
        return tree


def _text_of(body: bytes) -> bytes | str:
    """Decode the body if it is a JSON object in UTF-8. Return any other body unchanged, as bytes.

    ``json.loads`` reads text faster than bytes.
    """
    return body.decode("utf-8", "surrogatepass") if body[:1] == b"{" and body[1:2] != b"\0" else body
