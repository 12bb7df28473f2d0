"""The site as one aiohttp application: guard first, then the API and the pages.

Example::

    app = make_app(Site(workspace=Path("."), ...))
"""

from __future__ import annotations

import time
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from bench.web import api
from bench.web.guard import Handler, add_headers, guard
from bench.web.pages import routes as page_routes
from bench.web.site import SITE, Site

MAX_BODY = 2**20
STATIC = Path(__file__).with_name("static")


def make_app(site: Site) -> web.Application:
    """Put the site together."""
    app = web.Application(middlewares=[measure, guard], client_max_size=MAX_BODY)
    app[SITE] = site
    app.on_response_prepare.append(add_headers)
    app.add_routes(api.routes())
    app.add_routes(page_routes())
    app.router.add_static("/static", STATIC, append_version=False)
    return app


@web.middleware
async def measure(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count each answer by its route, never by its path."""
    began, status = time.monotonic(), HTTPStatus.INTERNAL_SERVER_ERROR.value
    try:
        response = await handler(request)
        status = response.status
    except web.HTTPException as redirect:
        status = redirect.status
        raise
    finally:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "none"
        request.app[SITE].gauges.seen(request.method, route, status, time.monotonic() - began)
    return response
