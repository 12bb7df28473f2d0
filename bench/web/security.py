"""Who may ask what: Host and Origin, methods, ids in paths, token, cookie, csrf, and the headers of every answer.

Here too:

* The service's token: where it lies, and what is derived from it for cookies and forms.

Example::

    secret = Secret.at(Path("checkpoints/.token"))      # made on first use
    secret.opens("Bearer ..."), secret.cookie, secret.csrf

The checks run in this order, before any handler; see ``docs/server.md`` for what each is against.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from aiohttp import web

from bench.errors import BenchError, ConfigError
from bench.events import redactor
from bench.web.app_state import SITE, Site
from bench.web.errors import RequestRefused, answer_to, check_path

TOKEN_BYTES = 32
SHORTEST = 43
"""characters of 32 random bytes in base64"""


@dataclass(frozen=True, slots=True)
class Secret:
    """A token; what browsers hold is derived from it and never it itself."""

    token: str = field(repr=False)
    fresh: bool = False
    """it was made by this process"""

    @classmethod
    def at(cls, path: Path) -> Secret:
        """Read a token file, or make it, readable by its owner alone.

        Raises:
            ConfigError: the file cannot be read or made, or holds too short a token.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls._read(path)
        except OSError as error:
            raise ConfigError(f"the token file cannot be made: {error.strerror}", where=str(path)) from error
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
        redactor.learn(token)
        return cls(token, fresh=True)

    @classmethod
    def _read(cls, path: Path) -> Secret:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("the token file cannot be read", where=str(path)) from error
        if len(token) < SHORTEST:
            raise ConfigError(
                "the token is too short: at least 32 random bytes",
                where=str(path),
                hint="delete the file: a new token is made at the next start",
            )
        redactor.learn(token)
        return cls(token)

    def opens(self, token: str) -> bool:
        """Whether this is the token, in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def cookie_name(self) -> str:
        """A name of its own for each token: cookies know no ports."""
        return f"bench_{self._derived('name')[:12]}"

    @property
    def cookie(self) -> str:
        return self._derived("cookie")

    @property
    def csrf(self) -> str:
        return self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), f"bench {purpose}".encode(), sha256).hexdigest()


def same(given: object, expected: str) -> bool:
    """Compare two texts in constant time."""
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
OPEN = frozenset({"/api/v1/healthz", "/api/v1/readyz", "/healthz", "/readyz", "/login", "/favicon.ico", "/verify.html"})
"""paths that need no token: they hold nothing of the workspace"""
READING = ("GET", "HEAD")
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give every answer its policy; a page with a policy of its own keeps it."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if not request.path.startswith("/static/"):
        response.headers.setdefault("Cache-Control", "no-store")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through, or answer why not."""
    site = request.app[SITE]
    try:
        _check_host(request, site)
        check_path(request.raw_path)
        _check_method(request, site)
        await _check_token(request, site)
        return await handler(request)
    except (web.HTTPException, BenchError) as error:
        return answer_to(request, error)


def _check_host(request: web.Request, site: Site) -> None:
    """A foreign Host is DNS rebinding, a foreign Origin another site."""
    host = request.headers.get("Host", "")
    name = _name(f"//{host}")
    if name is None or not (name in site.hosts or (site.any_address and _is_address(name))):
        raise RequestRefused(403, "host", "this Host is not served here", "use the address that the service printed")
    origin = request.headers.get("Origin")
    if origin is not None and not _is_from(origin, host):
        raise RequestRefused(403, "origin", "requests of other sites are refused", "open the page itself")


def _is_from(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
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


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_method(request: web.Request, site: Site) -> None:
    if site.read_only and request.method not in READING:
        raise web.HTTPMethodNotAllowed(request.method, READING)


async def _check_token(request: web.Request, site: Site) -> None:
    secret = site.secret
    if secret is None or request.path in OPEN or request.path.startswith("/static/"):
        return
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer" or not secret.opens(token.strip()):
            _refuse_stranger("the token is wrong")
        return
    if not same(request.cookies.get(secret.cookie_name), secret.cookie):
        _refuse_stranger("a token is needed")
    if request.method not in READING and not same(await _csrf(request), secret.csrf):
        raise RequestRefused(
            403, "csrf", "the form's csrf_token is missing or wrong", "load the page again and send the form"
        )


async def _csrf(request: web.Request) -> object:
    given = request.headers.get(CSRF_HEADER)
    if given is None and request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return (await form_of(request)).get(CSRF_FIELD)
    return given


async def form_of(request: web.Request) -> Form:
    """The fields of a form; Refused where they cannot be read."""
    try:
        return await request.post()
    except (ValueError, LookupError) as error:
        raise RequestRefused(400, "body", "the form cannot be read", "send it as the page does") from error


def _refuse_stranger(text: str) -> NoReturn:
    raise RequestRefused(
        401,
        "token",
        text,
        "API: Authorization: Bearer TOKEN; pages: open the login address once; the token lies in the token file",
    )
