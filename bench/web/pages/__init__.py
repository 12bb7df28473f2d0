"""The pages: the documents of the API as HTML, and forms that order what the API orders.

Example::

    GET /runs/r1/items?provider=bm25&state=error&q=vault&cursor=...
"""

from __future__ import annotations

from aiohttp import web

from bench.web.pages import across, doors, runs


def routes() -> list[web.RouteDef]:
    """Every page and form."""
    return [
        web.get("/", runs.runs),
        web.post("/runs", runs.start),
        web.get("/runs/{run_id}", runs.run),
        web.get("/runs/{run_id}/items", runs.items),
        web.get("/runs/{run_id}/items/{item}", runs.item),
        web.post("/runs/{run_id}/{action:pause|resume|cancel}", runs.order),
        web.get("/compare", across.compare),
        web.get("/leaderboard", across.leaderboard),
        web.get("/receipts", across.receipts),
        web.get("/receipts/{run}/{name}", across.receipt),
        web.get("/configs", across.configs),
        web.get("/configs/{kind}/{name}", across.config),
        web.get("/verify.html", doors.verify),
        web.get("/login", doors.login),
        web.get("/favicon.ico", doors.icon),
    ]
