"""Send one request over the network. Only this module sends requests with aiohttp.

``decoded`` decompresses gzip and deflate bodies. A truncated body is an error.

Example::

    decoded(gzip.compress(b"{}"), "gzip", max_bytes=1000)       # b"{}"
    decoded(gzip.compress(b"{}")[:-9], "gzip", max_bytes=1000)  # ResponseLost: the body is incomplete

Proxies and ``SSL_CERT_FILE`` come from the environment. Cookies are not stored. A redirect is followed only to the same
scheme, host and port, because the request contains a key.
"""

from __future__ import annotations

import base64
import errno
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from bench.errors import CA_HINT, is_certificate_error
from bench.http.errors import RequestNotSent, ResponseLost, ResponseTooLarge
from bench.http.message import AttemptTimes, FormField, Request
from bench.version import __version__

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


GZIP = 16 + zlib.MAX_WBITS
ZLIB_METHOD = 8


def decoded(body: bytes, encoding: str, *, max_bytes: int) -> bytes:
    """Return the decompressed body. A body in an unknown encoding is returned unchanged.

    Raises:
        ResponseLost: the body is truncated or damaged.
        ResponseTooLarge: the decompressed body is larger than ``max_bytes``.
    """
    if not encoding:
        return body
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in ("gzip", "x-gzip", "deflate") and body:
            body = _unpacked(body, name, max_bytes)
    return body


def _unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    found, left = b"", body
    while left:
        unpacker = zlib.decompressobj(_window(left, encoding))
        try:
            found += unpacker.decompress(left, max_bytes + 1 - len(found))
        except zlib.error as error:
            if found and left[:1] == b"\0":  # zeros that pad the last member
                return found
            raise ResponseLost(f"the response body ({encoding}) cannot be decompressed: {error}") from error
        if len(found) > max_bytes:
            raise ResponseTooLarge
        if not unpacker.eof:
            raise ResponseLost(f"the response body ({encoding}) is incomplete: it ended after {len(body)} bytes")
        left = unpacker.unused_data
    return found


def _window(body: bytes, name: str) -> int:
    """Return the window bits with which zlib must read the body. Some servers send deflate without a zlib header."""
    if name != "deflate":
        return GZIP
    return zlib.MAX_WBITS if body[0] & 0x0F == ZLIB_METHOD else -zlib.MAX_WBITS


KEEP_METHOD = frozenset({307, 308})
REDIRECTS = frozenset({301, 302, 303, *KEEP_METHOD})
MAX_REDIRECTS = 5
PROXY_AUTH = 407
PROXY_HINT = "check user and password in HTTP_PROXY or HTTPS_PROXY"
NO_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "TLSV1_ALERT_PROTOCOL_VERSION",
        "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV13_ALERT_CERTIFICATE_REQUIRED", "HTTP_REQUEST",
    }
)  # fmt: skip
"""reasons in TLS errors for which every attempt fails: no TLS, no common version, or a missing client certificate"""
DNS_CACHE_S = 300


JSON_HEADERS: Mapping[str, str] = {"Content-Type": "application/json"}

_stamps: ContextVar[AttemptTimes] = ContextVar("stamps")


class NetworkAttempt(NamedTuple):
    """The request of one attempt, with its times and limits."""

    request: Request
    body: bytes | None
    """the request body, encoded once per call; None if the request has no body"""
    stamps: AttemptTimes
    timing: aiohttp.ClientTimeout
    max_bytes: int


class HttpResponse(NamedTuple):
    """Status, headers and complete body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TimingConnector(aiohttp.TCPConnector):
    """A connector that records when a request gets its connection.

    Measuring this by aiohttp's tracing would cost 20 us more per call.
    """

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the signature is aiohttp's
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        _stamps.get().sent = time.perf_counter()
        return connection


class Transport:
    """The aiohttp session of a run; use it with ``async with``."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[tuple[str, str | None], tuple[URL | None, dict[str, str] | None]] = {}
        self._reached: set[str | None] = set()
        """hosts that have responded before; an unknown name of such a host is a temporary failure of the name server"""

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            connector=TimingConnector(limit=0, ttl_dns_cache=DNS_CACHE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"bench/{__version__}", "Accept-Encoding": "gzip, deflate"},
            auto_decompress=False,  # aiohttp takes a cut gzip body for a whole one
        )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self,
        request: Request,
        body: bytes | None,
        stamps: AttemptTimes,
        *,
        timing: aiohttp.ClientTimeout,
        max_bytes: int,
    ) -> HttpResponse:
        """Send the request once and follow its redirects; return the complete response.

        Raises:
            RequestNotSent, ResponseLost: there is no complete response.
            ResponseTooLarge: the response is larger than ``max_bytes``.
        """
        attempt = NetworkAttempt(request, body, stamps, timing, max_bytes)
        _stamps.set(stamps)
        stamps.begun = time.perf_counter()
        try:
            url = _url(request)
            answer = await self._exchange(attempt, url)
            return answer if answer.status not in REDIRECTS else await self._follow(attempt, url, answer)
        except aiohttp.InvalidURL as error:
            raise RequestNotSent(_reason(error), final=True, every_call=True) from error
        except aiohttp.ClientHttpProxyError as error:
            refused = error.status == PROXY_AUTH
            what_to_do = f"; {PROXY_HINT}" if refused else ""
            raise RequestNotSent(
                f"the proxy refuses the connection: {_reason(error)}{what_to_do}", final=refused, every_call=refused
            ) from error
        except (aiohttp.ClientConnectorError, ssl.SSLError) as error:
            raise self._unconnected(error, attempt) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise RequestNotSent(_reason(error), timed_out=True) from error
        except TimeoutError as error:
            raise ResponseLost(f"no answer within {attempt.timing.total:.3g} s", timed_out=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ResponseLost(_reason(error)) from error
        except ValueError as error:
            raise RequestNotSent(_reason(error), final=True) from error
        finally:
            stamps.ended = time.perf_counter()

    def _unconnected(self, error: OSError, attempt: NetworkAttempt) -> RequestNotSent | ResponseLost:
        """Return the exception for a failed connection. It is marked ``final`` if no retry can succeed."""
        if is_certificate_error(error):
            return RequestNotSent(f"{_reason(error)}; {CA_HINT}", final=True, every_call=True)
        if isinstance(error, ssl.SSLError):
            if any(reason in str(error) for reason in NO_TLS):
                return RequestNotSent(_reason(error), final=True, every_call=True)
            is_unsent = isinstance(error, aiohttp.ClientConnectorError)
            return (RequestNotSent if is_unsent else ResponseLost)(_reason(error))
        unknown = isinstance(error, aiohttp.ClientConnectorDNSError) and error.os_error.errno == socket.EAI_NONAME
        return RequestNotSent(_reason(error), every_call=unknown and URL(attempt.request.url).host not in self._reached)

    async def _follow(self, attempt: NetworkAttempt, url: URL, answer: HttpResponse) -> HttpResponse:
        for _ in range(MAX_REDIRECTS):
            target = _redirect(attempt.request, url, answer)
            if target is None:
                break
            url = target
            answer = await self._exchange(attempt, url)
        return answer

    async def _exchange(self, attempt: NetworkAttempt, url: URL) -> HttpResponse:
        assert self._session is not None
        request = attempt.request
        proxy, proxy_headers = self._proxy(url)
        async with self._session.request(
            request.method,
            url,
            headers=_headers(request),
            data=_form(request.multipart) if request.multipart is not None else attempt.body,
            allow_redirects=False,
            timeout=attempt.timing,
            proxy=proxy,
            proxy_headers=proxy_headers,
        ) as response:
            attempt.stamps.first_byte = time.perf_counter()
            self._reached.add(url.host)
            body = decoded(
                await _read(response, max_bytes=attempt.max_bytes),
                response.headers.get("Content-Encoding", ""),
                max_bytes=attempt.max_bytes,
            )
            return HttpResponse(status=response.status, headers=response.headers, body=body)

    def _proxy(self, url: URL) -> tuple[URL | None, dict[str, str] | None]:
        key = (url.scheme, url.host)
        if key not in self._proxies:
            self._proxies[key] = _proxy_of(*key)
        return self._proxies[key]


def _proxy_of(scheme: str, host: str | None) -> tuple[URL | None, dict[str, str] | None]:
    """Return the proxy for a host, and the headers for the proxy, from HTTP_PROXY, HTTPS_PROXY and NO_PROXY.

    Both are None if the host needs no proxy.
    """
    found = getproxies().get(scheme)
    if not found or (host and proxy_bypass(host)):
        return None, None
    proxy = URL(found if "://" in found else f"http://{found}")
    if not proxy.user:
        return proxy, None
    pair = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    # aiohttp moves this header to Proxy-Authorization, for plain and for tunnelled requests
    return proxy.with_user(None), {"Authorization": f"Basic {pair}"}


async def _read(response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    if (response.content_length or 0) > max_bytes:
        response.close()
        raise ResponseTooLarge
    first = await response.content.readany()
    if response.content.at_eof():
        return first
    chunks, size = [first], len(first)
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            response.close()
            raise ResponseTooLarge
    return first if len(chunks) == 1 else b"".join(chunks)


def _url(request: Request) -> URL:
    if not request.query:
        return URL(request.url, encoded=True)
    joint = "&" if "?" in request.url else "?"
    return URL(f"{request.url}{joint}{urlencode(request.query)}", encoded=True)


def _headers(request: Request) -> Mapping[str, str]:
    if request.json is not None and not request.headers:
        return JSON_HEADERS
    if request.json is None or any(name.lower() == "content-type" for name in request.headers):
        return request.headers
    return {"Content-Type": "application/json", **request.headers}


def _redirect(request: Request, url: URL, answer: HttpResponse) -> URL | None:
    """Return the URL to which a response redirects; None if there is no redirect, or if it must not be followed."""
    location = answer.headers.get("Location")
    if answer.status not in REDIRECTS or not location:
        return None
    if answer.status not in KEEP_METHOD and request.method not in ("GET", "HEAD"):
        return None
    try:
        target = url.join(URL(location, encoded=True))
        return target if target.origin() == url.origin() else None
    except ValueError:  # no address at all: the redirect is shown as it came
        return None


def _form(fields: Mapping[str, str | FormField]) -> aiohttp.FormData:
    form = aiohttp.FormData()
    for name, value in fields.items():
        if isinstance(value, str):
            form.add_field(name, value)
        else:
            form.add_field(name, value.content, filename=value.filename, content_type=value.type)
    return form


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno == errno.ECONNREFUSED:
        return f"nothing listens on {error.host}:{error.port}"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
