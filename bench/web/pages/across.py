"""Pages over several runs: compare, leaderboard, receipts, configs.

Example::

    GET /compare?a=r1:bm25&b=r1:oracle
"""

from __future__ import annotations

from typing import cast

from aiohttp import web

from bench.errors import UsageError
from bench.web import api
from bench.web.configviews import config_document, configs_document
from bench.web.faults import Busy
from bench.web.figures import board_charts, shown_metric, type_chart
from bench.web.ids import run_id as checked
from bench.web.kept import Json
from bench.web.receiptviews import receipt_file, receipts_document
from bench.web.render import html
from bench.web.site import SITE
from bench.web.views import runs_document


async def compare(request: web.Request) -> web.Response:
    site, query = request.app[SITE], request.query
    rows = cast("list[Json]", (await runs_document(site))["runs"])
    known = [f"{row['run_id']}:{name}" for row in rows for name in cast("list[str]", row.get("providers") or [])]
    found, refusal, busy = None, None, False
    if any(query.get(name) for name in ("a", "b", "job")):
        try:
            found = await api.compared(request)
        except Busy:
            busy = True
        except UsageError as error:
            refusal = str(error)
    return html(request, "compare.html", known=known, found=found, refusal=refusal, busy=busy)


async def leaderboard(request: web.Request) -> web.Response:
    document = await api.board_of(request)
    kind = request.query.get("type", "")
    tables = [_drawn(table, kind, str(document["view"])) for table in cast("list[Json]", document["tables"])]
    return html(request, "leaderboard.html", board=document, tables=tables)


def _drawn(table: Json, kind: str, view: str) -> Json:
    """A table with what its rows show and its charts; a matrix is shown as it is."""
    if table["grid"] is not None:
        return table
    rows = cast("list[Json]", table["rows"])
    shown = [{"row": row, "measured": shown_metric(row, kind)} for row in rows]
    charts = {"types": type_chart(rows)} if view == "type" else board_charts(rows, kind)
    return {**table, "shown": shown, "charts": charts}


async def receipts(request: web.Request) -> web.Response:
    return html(request, "receipts.html", found=await receipts_document(request.app[SITE]))


async def receipt(request: web.Request) -> web.Response:
    """A receipt's own bytes."""
    path = receipt_file(request.app[SITE], checked(request.match_info["run"]), checked(request.match_info["name"]))
    return web.Response(body=path.read_bytes(), content_type="application/json")


async def configs(request: web.Request) -> web.Response:
    return html(request, "configs.html", found=await configs_document(request.app[SITE]))


async def config(request: web.Request) -> web.Response:
    where = request.match_info
    document = await config_document(request.app[SITE], where["kind"], where["name"])
    return html(request, "config.html", config=document)
