"""Control the access to the site: check each request before a handler reads it.

The checks are, in this order: Host and Origin, path, HTTP method, token or cookie, and CSRF token. ``docs/server.md``
names the attack that each check prevents.

Example::

    web.Application(middlewares=[guard])
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn
from urllib.parse import urlsplit

from aiohttp import web

from bench.errors import BenchError
from bench.web.app_state import SITE, Site
from bench.web.errors import RequestRefused, check_path
from bench.web.rendering import error_response


def equal_texts(given: object, expected: str) -> bool:
    """Return True if the texts are equal. The comparison takes constant time."""
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Form = Mapping[str, str | bytes | bytearray | web.FileField]

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # no-referrer would make browsers send "Origin: null" with our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OPEN_PATHS = frozenset(
    {"/api/v1/healthz", "/api/v1/readyz", "/healthz", "/readyz", "/login", "/favicon.ico", "/verify.html"}
)
"""paths that need no token, because they contain no data of the workspace"""
READ_METHODS = ("GET", "HEAD")
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to a response, except those that the response already has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    static = request.path.startswith("/static/")  # revalidated by its ETag, because an update changes it
    response.headers.setdefault("Cache-Control", "no-cache" if static else "no-store")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Pass a permitted request to its handler; respond to any other request with the reason for the refusal."""
    site = request.app[SITE]
    try:
        _check_host(request, site)
        check_path(request.raw_path)
        if site.read_only and request.method not in READ_METHODS:
            raise web.HTTPMethodNotAllowed(request.method, READ_METHODS)
        await _check_token(request, site)
        return await handler(request)
    except (web.HTTPException, BenchError) as error:
        return error_response(request, error)


def _check_host(request: web.Request, site: Site) -> None:
    """Refuse a Host that is not an address of this service (DNS rebinding), and an Origin of another site."""
    host = request.headers.get("Host", "")
    name = _name(f"//{host}")
    if name is None or not (name in site.hosts or (site.any_address and is_address(name))):
        raise RequestRefused(
            403,
            "host",
            "the Host of the request is not an address of this service",
            "use the address that the service printed; for a reverse proxy, start the service with --public-host NAME",
        )
    origin = request.headers.get("Origin")
    if origin is not None and not _is_from(origin, host, site.public_host):
        raise RequestRefused(
            403,
            "origin",
            "the request comes from another site and is refused",
            "open the page at the address of this service",
        )


def _is_from(origin: str, host: str, public_host: str) -> bool:
    """Return True if a page of this site, or of the reverse proxy in front of it, sent the request."""
    try:
        parts = urlsplit(origin)
        return parts.netloc.lower() == host.lower() or (bool(public_host) and parts.hostname == public_host)
    except ValueError:
        return False


def _name(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        if parts.username is not None or parts.path:
            return None
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def is_address(name: str) -> bool:
    """Return True if the name of a host is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _check_token(request: web.Request, site: Site) -> None:
    secret = site.secret
    if secret is None or request.path in OPEN_PATHS or request.path.startswith("/static/"):
        return
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer" or not secret.matches(token.strip()):
            _refuse_access("the token is wrong")
        return
    if not equal_texts(request.cookies.get(secret.cookie_name), secret.cookie):
        _refuse_access("a token is needed")
    if request.method not in READ_METHODS and not equal_texts(await _csrf(request), secret.csrf):
        raise RequestRefused(
            403, "csrf", 'the "csrf_token" of the form is missing or wrong', "load the page again, then send the form"
        )


async def _csrf(request: web.Request) -> object:
    given = request.headers.get(CSRF_HEADER)
    if given is None and request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return (await form_of(request)).get(CSRF_FIELD)
    return given


async def form_of(request: web.Request) -> Form:
    """Return the fields of a form.

    Raises:
        RequestRefused: the form cannot be read.
    """
    try:
        return await request.post()
    except (ValueError, LookupError) as error:
        raise RequestRefused(400, "body", "the form cannot be read", "send it from its page") from error


def _refuse_access(text: str) -> NoReturn:
    raise RequestRefused(
        401,
        "token",
        text,
        hint="in the browser, open the login address once; in the API, send the header Authorization: Bearer "
        "TOKEN with the token of the token file",
    )
