"""Errors as answers: JSON under ``/api``, a page elsewhere; every text redacted, no traceback ever.

Example::

    raise Refused(404, "not_found", "there is no such item", "see the list of items")
"""

from __future__ import annotations

import json
from http import HTTPStatus

from aiohttp import web

from bench.errors import BenchError, ConfigError, DiskFull, IdentityError, JournalError, Locked, UsageError
from bench.events import redact
from bench.web.ids import BadId

API = "/api/"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}
CONFLICTS = (IdentityError, Locked)


class Refused(BenchError):
    """A request that is answered with a status of its own."""

    kind = "refused"

    def __init__(self, status: int, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind  # type: ignore[misc]


class NotFound(Refused):
    """What was asked for is not here."""

    def __init__(self, message: str, hint: str = "see the list of runs") -> None:
        super().__init__(404, "not_found", message, hint)


class Busy(Refused):
    """What was asked for is being made in the background."""

    def __init__(self, message: str) -> None:
        super().__init__(503, "busy", message, "ask again in a few seconds")


def status_of(error: BenchError) -> int:
    """The HTTP status that fits an error."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, CONFLICTS):
        return 409
    if isinstance(error, DiskFull):
        return 507
    if isinstance(error, JournalError):
        return 500
    return 400 if isinstance(error, BadId | UsageError | ConfigError) or error.exit_code == 2 else 500


def answer_to(request: web.Request, error: Exception) -> web.StreamResponse:
    """Turn what a handler raised into an answer; what is a bug goes on to the server, which logs it."""
    if isinstance(error, BenchError):
        return _answer(request, status_of(error), error.kind, str(error), error.hint)
    if isinstance(error, web.HTTPException) and error.status >= 400:
        status = HTTPStatus(error.status)
        hint = "the API is described at /api/v1/openapi.json"
        found = _answer(request, error.status, status.name.lower(), status.phrase, hint)
        if "Allow" in error.headers:
            found.headers["Allow"] = error.headers["Allow"]
        return found
    raise error


def _answer(request: web.Request, status: int, kind: str, message: str, hint: str) -> web.Response:
    message, hint = redact(message), redact(hint)
    headers = HEADERS.get(status, {})
    if request.path.startswith(API):
        body = json.dumps({"error": {"kind": kind, "message": message, "hint": hint}})
        return web.Response(status=status, text=body, content_type="application/json", headers=headers)
    from bench.web.render import page

    shown = page(request, "error.html", status=status, kind=kind, message=message, hint=hint)
    return web.Response(status=status, text=shown, content_type="text/html", headers=headers)
