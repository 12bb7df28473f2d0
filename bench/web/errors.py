"""The errors of web requests, and the HTTP status of each error.

``check_run_id`` and ``item_of`` check and decode the ids in the path of a URL.

Example::

    raise RequestRefused(404, "not_found", "there is no such item", "see the list of items")
    check_run_id("20261128-4f9c")          # returns the id; raises BadId for "..", "C:" and ""
    item_of(slug_of("conv-26/q 1"))        # "conv-26/q 1"
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import unquote

from bench.config.value_rules import SEGMENT
from bench.errors import BenchError, ConfigError, DiskFull, IdentityError, JournalError, Locked, UsageError

PLAIN_ITEM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,149}")
ENCODED = "~"
DRIVE = re.compile(r"^[A-Za-z]:")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadId(UsageError):
    """A part of a path that is not a valid id."""

    kind = "bad_id"
    default_hint = "use letters, digits, dot, dash and underscore"


def check_run_id(text: str) -> str:
    """Return ``text`` if it can be a run id, otherwise raise BadId."""
    if not SEGMENT.fullmatch(text):
        raise BadId("the path contains a text that is not a run id")
    return text


def slug_of(item: str) -> str:
    """Encode an item id as one segment of a path; an id of plain characters is returned unchanged."""
    if PLAIN_ITEM.fullmatch(item):
        return item
    return ENCODED + urlsafe_b64encode(item.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def item_of(slug: str) -> str:
    """Return the item id of a path segment that ``slug_of`` returned.

    Raises:
        BadId: the text is not an encoded item id.
    """
    if not slug.startswith(ENCODED):
        return slug
    text = slug.removeprefix(ENCODED)
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise BadId("the path contains a text that is not an item id") from error


def check_path(raw: str) -> None:
    """Refuse a path whose segments could lead outside the site.

    Raises:
        BadId: a segment is empty, is a dot or two dots, or hides a slash, a drive letter or a control character.
    """
    path = raw.partition("?")[0]
    if not path.startswith("/"):
        raise BadId("this site has no page with this path", hint="open the start page: /")
    if path == "/":
        return
    for segment in path[1:].split("/"):
        text = unquote(segment, errors="replace")
        hidden = "/" in text or "\\" in text or "%" in text or CONTROL.search(text)
        if not text or text in (".", "..") or hidden or DRIVE.match(text):
            raise BadId("a segment of the path is not an id")


CONFLICTS = (IdentityError, Locked)


class RequestRefused(BenchError):
    """A refused request with its HTTP status."""

    kind = "refused"

    def __init__(self, status: int, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind  # type: ignore[misc]


class NotFound(RequestRefused):
    """The requested page or document does not exist."""

    def __init__(self, message: str, hint: str = "see the list of runs") -> None:
        super().__init__(404, "not_found", message, hint)


class Busy(RequestRefused):
    """The requested document is being created in the background."""

    def __init__(self, message: str) -> None:
        super().__init__(503, "busy", message, "repeat the request in a few seconds")


def status_of(error: BenchError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, RequestRefused):
        return error.status
    if isinstance(error, CONFLICTS):
        return 409
    if isinstance(error, DiskFull):
        return 507
    if isinstance(error, JournalError):
        return 500
    return 400 if isinstance(error, BadId | UsageError | ConfigError) or error.exit_code == 2 else 500
