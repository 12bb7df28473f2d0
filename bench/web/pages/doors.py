"""The pages that hold nothing of the workspace: login, verification of a file, the icon.

Example::

    GET /login?token=...          # a cookie, and on to the runs
"""

from __future__ import annotations

import re
from functools import cache

from aiohttp import web

from bench.config.catalog import builtin_root
from bench.web.faults import NotFound
from bench.web.render import page
from bench.web.site import SITE

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#2b4c7e"/>'
    '<path d="M3 13V8h2v5zm4 0V3h2v10zm4 0V6h2v7z" fill="#fff"/></svg>'
)
SESSION_S = 30 * 86400
META_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


async def login(request: web.Request) -> web.Response:
    """Trade the token for a cookie, once; the address without it is shown afterwards."""
    secret = request.app[SITE].secret
    if secret is None:
        raise web.HTTPSeeOther("/")
    token = request.query.get("token", "")
    if not secret.opens(token):
        shown = page(request, "login.html", wrong=bool(token))
        return web.Response(status=401 if token else 200, text=shown, content_type="text/html")
    answer = web.HTTPSeeOther("/")
    answer.set_cookie(secret.cookie_name, secret.cookie, max_age=SESSION_S, httponly=True, samesite="Strict", path="/")
    raise answer


async def icon(request: web.Request) -> web.Response:
    return web.Response(text=ICON, content_type="image/svg+xml")


async def verify(request: web.Request) -> web.Response:
    """The page that checks receipts by itself, with the policy that it states."""
    text = _verify_page()
    if text is None:
        raise NotFound("this installation has no verify.html", "bench verify does the same")
    policy = META_POLICY.search(text)
    headers = {"Content-Security-Policy": policy[1]} if policy else {}
    return web.Response(text=text, content_type="text/html", headers=headers)


@cache
def _verify_page() -> str | None:
    path = builtin_root() / "docs" / "verify.html"
    return path.read_text(encoding="utf-8") if path.is_file() else None
