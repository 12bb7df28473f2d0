"""Ids in paths: a run id is one safe segment; any item id becomes one.

Example::

    run_id("20261128-4f9c")                # itself; BadId for "..", "C:", "" and the like
    item_of(slug_of("conv-26/q 1"))        # "conv-26/q 1"
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import unquote

from bench.config.filenames import SEGMENT
from bench.errors import UsageError

PLAIN_ITEM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,149}")
ENCODED = "~"
DRIVE = re.compile(r"^[A-Za-z]:")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadId(UsageError):
    """An id in a path that is none."""

    kind = "bad_id"
    default_hint = "ids are letters, digits, dot, dash and underscore"


def run_id(text: str) -> str:
    """Give the id back, or raise BadId."""
    if not SEGMENT.fullmatch(text):
        raise BadId("this is no run id")
    return text


def slug_of(item: str) -> str:
    """An item id as one segment of a path."""
    if PLAIN_ITEM.fullmatch(item):
        return item
    return ENCODED + urlsafe_b64encode(item.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def item_of(slug: str) -> str:
    """Undo ``slug_of``; an id that needed no encoding is taken as it is."""
    if not slug.startswith(ENCODED):
        return slug
    text = slug.removeprefix(ENCODED)
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise BadId("this is no item id") from error


def check_path(raw: str) -> None:
    """Refuse a path whose segments could mean another place, before anything is looked up.

    Raises:
        BadId: empty segments, dots, slashes in disguise, drive letters, control characters, double encoding.
    """
    path = raw.partition("?")[0]
    if not path.startswith("/"):
        raise BadId("the path is not one of this site")
    if path == "/":
        return
    for segment in path[1:].split("/"):
        text = unquote(segment, errors="replace")
        hidden = "/" in text or "\\" in text or "%" in text or CONTROL.search(text)
        if not text or text in (".", "..") or hidden or DRIVE.match(text):
            raise BadId("the path holds a segment that is no id")
