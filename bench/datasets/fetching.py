"""The transport of downloads: one ranged GET through an aiohttp session.

A partial file is continued only when its ETag or Last-Modified still holds; else the server sends it from zero::

    fetch = aiohttp_fetch(session)
    async with fetch(url, token=None, offset=1000, validators=known) as remote:
        async for chunk in remote.chunks(): ...
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.errors import CA_HINT, DataError, is_distrusted

if TYPE_CHECKING:
    import aiohttp

_CHUNK = 1 << 18
_STALLED_S = 60


class FetchError(DataError):
    """A file could not be fetched."""

    default_hint = "check the address and the network"


class Interrupted(FetchError):
    """The connection was lost; what arrived is kept."""

    default_hint = "start it again: it resumes"


class RangeRefused(Interrupted):
    """The part on disk is no part of the server's file; it must be fetched from zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validators:
    """What tells that a file on a server is still the same."""

    etag: str | None = None
    last_modified: str | None = None

    @classmethod
    def read(cls, path: Path) -> Validators | None:
        """Read what an earlier attempt noted; None when it cannot be trusted."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            found = cls(etag=values.get("etag"), last_modified=values.get("last_modified"))
        except (OSError, ValueError, AttributeError):
            return None
        return found if found.condition else None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @property
    def condition(self) -> str | None:
        """The value for ``If-Range``: a strong ETag, else the date."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else None
        return strong or self.last_modified


class Remote(Protocol):
    """An answered request: the body from ``offset`` on."""

    @property
    def offset(self) -> int: ...
    @property
    def total(self) -> int | None: ...
    @property
    def validators(self) -> Validators: ...
    def chunks(self) -> AsyncIterator[bytes]: ...


class Fetch(Protocol):
    """Ask for a file from an offset."""

    def __call__(
        self, url: str, *, token: str | None, offset: int, validators: Validators | None
    ) -> AbstractAsyncContextManager[Remote]: ...


class _Answer:
    """A response of aiohttp as a `Remote`."""

    def __init__(self, response: aiohttp.ClientResponse, offset: int) -> None:
        self._response = response
        self.offset = offset
        length = response.content_length
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        self.total = None if length is None or encoded else offset + length
        self.validators = Validators(
            etag=response.headers.get("ETag"), last_modified=response.headers.get("Last-Modified")
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async for chunk in self._response.content.iter_chunked(_CHUNK):
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Interrupted(f"the connection to {self._response.host} was lost") from error


def aiohttp_fetch(session: aiohttp.ClientSession) -> Fetch:
    """Make a `Fetch` of a session; the token goes to the first host only, never along a redirect."""

    @asynccontextmanager
    async def fetch(
        url: str, *, token: str | None, offset: int, validators: Validators | None
    ) -> AsyncIterator[Remote]:
        import aiohttp

        headers = {"Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if offset and validators and validators.condition:
            headers |= {"Range": f"bytes={offset}-", "If-Range": validators.condition}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_STALLED_S, sock_read=_STALLED_S)
        try:
            response = await session.get(url, headers=headers, timeout=timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            hint = CA_HINT if is_distrusted(error) else None
            raise Interrupted(f"cannot reach {_host(url)}: {str(error) or type(error).__name__}", hint=hint) from error
        async with response:
            yield _Answer(response, _offset_of(response, offset))

    return fetch


def _offset_of(response: aiohttp.ClientResponse, asked: int) -> int:
    """Where the body begins: the range that was asked for, or zero when the server sends everything."""
    match response.status:
        case 200:
            return 0
        case 206 if response.headers.get("Content-Range", "").startswith(f"bytes {asked}-"):
            return asked
        case 401 | 403:
            raise FetchError(f"{response.host} refuses the file ({response.status})", hint="HF_TOKEN names the token")
        case 206 | 416:
            raise RangeRefused(f"{response.host} has no such range of the file")
        case 408 | 425 | 429 | 500 | 502 | 503 | 504:
            raise Interrupted(f"{response.host} answers {response.status}")
        case status:
            raise FetchError(f"{response.host} answers {status} for {response.url.path}", hint="check data.path")


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or url
