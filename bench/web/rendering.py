"""Render pages and errors as HTML.

All values are escaped, invisible characters are made visible, and secrets are redacted. An error page has no traceback.

Example::

    html = page(request, "runs.html", runs=document["runs"])
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, Undefined
from markupsafe import Markup

from bench.errors import BenchError
from bench.events import redact
from bench.untyped_values import Json
from bench.version import __version__
from bench.visible_text import visible
from bench.web import formatting as text
from bench.web.app_state import SITE
from bench.web.errors import slug_of, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

API = "/api/"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}


def html(request: web.Request, template: str, **values: object) -> web.Response:
    """Render a template as an HTML response."""
    return web.Response(text=page(request, template, **values), content_type="text/html", charset="utf-8")


def page(request: web.Request, template: str, **values: object) -> str:
    """Render a template as HTML text; all ``values`` are escaped."""
    site = request.app[SITE]
    return redact(
        templates()
        .get_template(template)
        .render(
            site=site,
            csrf=site.secret.csrf if site.secret else "",
            path=request.path,
            query=defaultdict(str, request.query),
            version=__version__,
            now=datetime.now(UTC),
            **values,
        )
    )


def standalone(*, title: str, about: str, report_page: Json) -> str:
    """Render a report as one HTML file that contains its style and needs no script, link or network."""
    values = {"title": title, "about": about, "report_page": report_page, "version": __version__}
    css = Markup((Path(__file__).with_name("static") / "site.css").read_text(encoding="utf-8"))  # noqa: S704  our own
    return redact(templates().get_template("report_file.html").render(css=css, links="", per_day=1000, **values))


@cache
def templates() -> Environment:
    """Return the Jinja environment with the templates and filters of this package."""
    environment = Environment(
        loader=PackageLoader("bench.web"),
        autoescape=True,
        undefined=Undefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": text.number,
        "measured": text.measured,
        "difference": text.difference,
        "share": text.share,
        "usd": text.usd,
        "usd_rounded": text.usd_rounded,
        "duration": text.duration,
        "seconds": text.seconds,
        "instant": text.instant,
        "plain": text.plain_value,
        "chance": text.chance,
        "day": text.day,
        "pieces": text.pieces,
        "judge_reason": text.judge_reason,
        "age": text.age,
        "setting": text.setting,
        "slug": slug_of,
        "segment": _segment,
        "as_json": _as_json,
    }
    environment.globals["query_of"] = query_of
    return environment


def query_of(values: Mapping[str, object], **changed: object) -> str:
    """Build a query string from ``values`` and ``changed``; empty values are left out, and ``changed`` has priority."""
    both = {**values, **changed}
    return urlencode({name: str(value) for name, value in both.items() if value not in (None, "")})


def _segment(value: object) -> str:
    return quote(str(value), safe="")


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _visible(value: object) -> object:
    if value is None:
        return text.NONE
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def error_response(request: web.Request, error: Exception) -> web.StreamResponse:
    """Return the response for an exception that a handler raised.

    A redirect and an unexpected exception are raised again.
    """
    if isinstance(error, BenchError):
        return _error_page(request, status_of(error), error.kind, str(error), error.hint)
    if isinstance(error, web.HTTPException) and error.status >= 400:
        status = HTTPStatus(error.status)
        hint = "the API is described at /api/v1/openapi.json"
        found = _error_page(request, error.status, status.name.lower(), status.phrase, hint)
        if "Allow" in error.headers:
            found.headers["Allow"] = error.headers["Allow"]
        return found
    raise error


def _error_page(request: web.Request, status: int, kind: str, message: str, hint: str) -> web.Response:
    message, hint = redact(message), redact(hint)
    headers = HEADERS.get(status, {})
    if request.path.startswith(API):
        body = json.dumps({"error": {"kind": kind, "message": message, "hint": hint}})
        return web.Response(status=status, text=body, content_type="application/json", headers=headers)
    shown = page(request, "error.html", status=status, kind=kind, message=message, hint=hint)
    return web.Response(status=status, text=shown, content_type="text/html", headers=headers)
