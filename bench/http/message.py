"""`Request`, `Response`, and the cost that a 2xx body reports.

Example::

    Request("POST", f"{base_url}/v1/search", headers={"X-API-Key": key}, json={"query": text}, idempotent=True)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from bench.errors import MappingError
from bench.events import redact
from bench.model import Usage
from bench.values import dataclass

SAFE_TO_REPEAT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
SHOWN_OF_BODY = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a multipart form; a field with a filename is a file."""

    content: str | bytes
    filename: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedUsage:
    """Model, usage and price in a 2xx response, for the call log."""

    model: str | None = None
    usage: Usage | None = None
    cost_usd: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. At most one of ``json``, ``body`` and ``multipart`` is set."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    query: Sequence[tuple[str, str]] = field(default=(), kw_only=True)
    """query parameters in order; a name may repeat"""
    json: object = field(default=None, kw_only=True)
    """a JSON tree; None = no body (send ``body=b"null"`` for a literal null)"""
    body: bytes | None = field(default=None, kw_only=True)
    multipart: Mapping[str, str | FormField] | None = field(default=None, kw_only=True)
    idempotent: bool | None = field(default=None, kw_only=True)
    """True if the request can be repeated after a lost response, for example by an idempotency key; None = decided by
    the method"""
    ok_statuses: frozenset[int] = field(default=frozenset(), kw_only=True)
    """statuses outside 2xx that count as success"""
    read: Callable[[Response], ReportedUsage | None] | None = field(default=None, kw_only=True)
    """function that gets each successful response and raises a CallError when the body is an error; Unavailable and
    RateLimited are retried"""
    tokens: int = field(default=0, kw_only=True)
    """tokens that count against a limit of tokens per minute"""
    key: str = field(default="", kw_only=True)
    """distinguishes equal requests; not sent"""
    timeout_s: float | None = field(default=None, kw_only=True)
    """timeout per attempt instead of the endpoint's, in seconds"""

    @property
    def repeatable(self) -> bool:
        """Return True when the request may be sent again after a lost response."""
        return self.method in SAFE_TO_REPEAT if self.idempotent is None else self.idempotent


class Timings(NamedTuple):
    """The four parts of one attempt's time in microseconds; their sum is the total time."""

    queue_us: int = 0
    """wait for a free slot"""
    limiter_us: int = 0
    """wait for the rate limit and before retries"""
    network_us: int = 0
    """connect, send and receive"""
    provider_us: int = 0
    """from the request sent to the first byte of the response"""

    @property
    def latency_us(self) -> int:
        """Return network plus provider time, without the time that bench itself waited."""
        return self.network_us + self.provider_us


@dataclass(slots=True)
class AttemptTimes:
    """Times of one attempt, in seconds of the monotonic clock."""

    begun: float = 0.0
    sent: float = 0.0
    first_byte: float = 0.0
    ended: float = 0.0

    def provider_s(self) -> float:
        """Return the seconds from the request sent to the first byte."""
        return max(0.0, self.first_byte - self.sent) if self.sent and self.first_byte else 0.0


@dataclass(frozen=True, kw_only=True)
class Response:
    """A response that was read completely."""

    status: int
    headers: Mapping[str, str]
    """case-insensitive"""
    body: bytes
    timings: Timings
    attempts: int = 1
    request: str = ""
    """method and path, for error messages"""

    @property
    def text(self) -> str:
        """Return the body as text; bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> object:
        """Return the parsed JSON body.

        Raises:
            MappingError: the body is blank, HTML, truncated or otherwise not JSON.
        """
        return self._tree

    @cached_property
    def _tree(self) -> object:
        if not self.body.strip():
            raise MappingError(f"{self.request} -> {self.status}: expected JSON, the body is empty")
        try:
            tree: object = json.loads(_text_of(self.body))
        except (ValueError, RecursionError) as error:
            kind = "HTML" if self.body.lstrip()[:1] == b"<" else "not JSON"
            shown = redact(self.text)[:SHOWN_OF_BODY]
            raise MappingError(f"{self.request} -> {self.status}: the body is {kind}: {shown}") from error
        return tree


def _text_of(body: bytes) -> bytes | str:
    """Return a JSON object in UTF-8 as text; return any other body as bytes, whose encoding ``json`` detects slowly."""
    return body.decode("utf-8", "surrogatepass") if body[:1] == b"{" and body[1:2] != b"\0" else body
