"""Download files by HTTP: one GET request for the bytes of a file, from an offset to the end of the file.

Example::

    fetch = aiohttp_fetch(session)
    async with fetch(url, token=None, offset=1000, validators=known) as remote:
        async for chunk in remote.chunks(): ...
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import CA_HINT, DataError, is_certificate_error

if TYPE_CHECKING:
    import aiohttp


_NETWORK_CHUNK = 1 << 18
_STALLED_S = 60


class FetchError(DataError):
    """A file cannot be downloaded."""

    default_hint = "check the address and the network"


class DownloadInterrupted(FetchError):
    """The connection failed or was lost. The bytes received so far are kept."""

    default_hint = "give the command again: the download continues"


class RangeRefused(DownloadInterrupted):
    """The server cannot continue a partial file. The download must restart at byte 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validators:
    """The ETag and the Last-Modified date of a remote file. They change when the file changes."""

    etag: str | None = None
    last_modified: str | None = None

    @classmethod
    def read(cls, path: Path) -> Validators | None:
        """Read the ETag and date that an earlier attempt stored. Return None if nothing is stored."""
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
        """Return the value for the HTTP header ``If-Range``: a strong ETag or the Last-Modified date.

        Return None if the server sent no strong ETag and no date.
        """
        strong = self.etag if self.etag and not self.etag.startswith("W/") else None
        return strong or self.last_modified


class Remote:
    """An open HTTP response.

    The body starts at byte ``offset`` of the file. ``total`` is the size of the file in bytes.
    """

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
            async for chunk in self._response.content.iter_chunked(_NETWORK_CHUNK):
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DownloadInterrupted(f"the connection to {self._response.host} was lost") from error


Fetch = Callable[..., AbstractAsyncContextManager[Remote]]
"""function that requests a file by HTTP: its arguments are the URL, ``token``, ``offset`` and ``validators``"""


def aiohttp_fetch(session: aiohttp.ClientSession) -> Fetch:
    """Return a function that downloads files with this session.

    The token is sent only to the host of the URL, and not after a redirect to another host.
    """

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
            hint = CA_HINT if is_certificate_error(error) else None
            reason = str(error) or type(error).__name__
            raise DownloadInterrupted(f"cannot reach {_host(url)}: {reason}", hint=hint) from error
        async with response:
            yield Remote(response, _offset_of(response, offset))

    return fetch


def _offset_of(response: aiohttp.ClientResponse, offset: int) -> int:
    """Return the byte of the file at which the response body starts. This is 0 if the server sends the whole file.

    Raises:
        FetchError: the server rejects the request.
        RangeRefused: the server cannot continue at this offset.
        DownloadInterrupted: the server is not available at the moment.
    """
    match response.status:
        case 200:
            return 0
        case 206 if response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            return offset
        case 401 | 403:
            raise FetchError(
                f"{response.host} refuses the file ({response.status})",
                hint="set HF_TOKEN to a token that may read the file",
            )
        case 206 | 416:
            raise RangeRefused(f"{response.host} cannot continue the download at byte {offset}")
        case 408 | 425 | 429 | 500 | 502 | 503 | 504:
            raise DownloadInterrupted(f"{response.host} returned status {response.status}")
        case status:
            raise FetchError(
                f"{response.host} returned status {status} for {response.url.path}", hint="check data.path"
            )


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or url
