"""Bodies that were sent compressed: gzip and deflate, whole or not at all.

Example::

    decoded(gzip.compress(b"{}"), "gzip", max_bytes=1000)       # b"{}"
    decoded(gzip.compress(b"{}")[:-9], "gzip", max_bytes=1000)  # Lost: the gzip body was cut
"""

from __future__ import annotations

import zlib

from bench.http.signals import Lost, TooLarge

GZIP = 16 + zlib.MAX_WBITS
ZLIB_METHOD = 8


def decoded(body: bytes, encoding: str, *, max_bytes: int) -> bytes:
    """Return the body as it was before the server packed it; of an unknown encoding the bytes as they came.

    Raises:
        Lost: it ends before its end, or is damaged.
        TooLarge: it unpacks to more than ``max_bytes``.
    """
    if not encoding:
        return body
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in ("gzip", "x-gzip", "deflate") and body:
            body = _unpacked(body, name, max_bytes)
    return body


def _unpacked(body: bytes, name: str, max_bytes: int) -> bytes:
    found, left = b"", body
    while left:
        unpacker = zlib.decompressobj(_window(left, name))
        try:
            found += unpacker.decompress(left, max_bytes + 1 - len(found))
        except zlib.error as error:
            if found and left[:1] == b"\0":  # zeros that pad the last member
                return found
            raise Lost(f"the {name} body is damaged: {error}") from error
        if len(found) > max_bytes:
            raise TooLarge
        if not unpacker.eof:
            raise Lost(f"the {name} body was cut after {len(body)} bytes")
        left = unpacker.unused_data
    return found


def _window(body: bytes, name: str) -> int:
    """Some servers send deflate without its header."""
    if name != "deflate":
        return GZIP
    return zlib.MAX_WBITS if body[0] & 0x0F == ZLIB_METHOD else -zlib.MAX_WBITS
