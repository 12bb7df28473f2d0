"""The HTTP API under ``/api/v1``: documents as JSON, and orders to the service.

Example::

    curl -H "Authorization: Bearer $TOKEN" -d '{"benchmarks": ["demo"]}' http://127.0.0.1:3000/api/v1/runs
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from aiohttp import web

from bench.events import redact
from bench.journal.paging import Sort, Wanted
from bench.journal.places import CHECKPOINTS
from bench.model import State
from bench.web import openapi
from bench.web.boards import Asked, leaderboard_document
from bench.web.comparisons import compare_document
from bench.web.configviews import config_document, configs_document
from bench.web.faults import Refused
from bench.web.ids import item_of
from bench.web.itemviews import grid_document, item_document
from bench.web.kept import Json
from bench.web.receiptviews import receipts_document
from bench.web.site import SITE, Site
from bench.web.stream import stream
from bench.web.views import folder_of, results_document, run_document, runs_document, waiting_row

PAGE_ITEMS = 50
MOST_ITEMS = 500
SORTS = ("item", "state", "type")


def routes() -> list[web.RouteDef]:
    """Every route of the API; the same in ``explore`` and ``serve``."""
    at = "/api/v1"
    return [
        web.get(f"{at}/runs", runs),
        web.post(f"{at}/runs", start),
        web.get(f"{at}/runs/{{run_id}}", run),
        web.post(f"{at}/runs/{{run_id}}/pause", pause),
        web.post(f"{at}/runs/{{run_id}}/resume", resume),
        web.post(f"{at}/runs/{{run_id}}/cancel", cancel),
        web.get(f"{at}/runs/{{run_id}}/results", results),
        web.get(f"{at}/runs/{{run_id}}/items", items),
        web.get(f"{at}/runs/{{run_id}}/items/{{item}}", item),
        web.get(f"{at}/runs/{{run_id}}/events", events),
        web.get(f"{at}/compare", compare),
        web.get(f"{at}/leaderboard", leaderboard),
        web.get(f"{at}/receipts", receipts),
        web.get(f"{at}/configs", configs),
        web.get(f"{at}/configs/{{kind}}/{{name}}", config),
        web.get(f"{at}/openapi.json", description),
        web.get(f"{at}/healthz", healthz),
        web.get(f"{at}/readyz", readyz),
        web.get(f"{at}/metrics", metrics),
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
    ]


def json_answer(document: Mapping[str, object], status: int = 200) -> web.Response:
    """A document as JSON, without anything that looks like a secret."""
    text = redact(json.dumps(document, allow_nan=False, default=str))
    return web.Response(status=status, text=text, content_type="application/json")


# ------------------------------------------------------------------ reading


async def runs(request: web.Request) -> web.Response:
    return json_answer(await runs_document(request.app[SITE]))


async def run(request: web.Request) -> web.Response:
    """The run's document; of one that has no journal yet, its row of the list."""
    site, run_id = request.app[SITE], request.match_info["run_id"]
    return json_answer(waiting_row(site, run_id) or await run_document(site, run_id))


async def results(request: web.Request) -> web.Response:
    return json_answer(await results_document(request.app[SITE], request.match_info["run_id"]))


async def items(request: web.Request) -> web.Response:
    return json_answer(await items_of(request))


async def items_of(request: web.Request) -> Json:
    """The page of items that a request's query asks for."""
    query = request.query
    return await grid_document(
        request.app[SITE],
        request.match_info["run_id"],
        wanted_of(query),
        cursor=query.get("cursor", ""),
        limit=_limit(query.get("limit", "")),
        benchmark=query.get("benchmark") or None,
        provider=query.get("provider") or None,
    )


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """The filters of a query string.

    Raises:
        Refused: a state or an order that there is not.
    """
    state, sort = query.get("state") or None, query.get("sort") or "item"
    if state is not None and state not in set(State):
        raise Refused(400, "usage", f"there is no state {state!r}", f"known: {', '.join(State)}")
    if sort not in SORTS:
        raise Refused(400, "usage", f"items cannot be sorted by {sort!r}", f"known: {', '.join(SORTS)}")
    return Wanted(
        state=state, question_type=query.get("type") or None, text=query.get("q", "")[:200], sort=cast("Sort", sort)
    )


def _limit(text: str) -> int:
    if not text:
        return PAGE_ITEMS
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= MOST_ITEMS):
        raise Refused(400, "usage", "limit is no number from 1 to 500", "leave it out for 50")
    return int(text)


async def item(request: web.Request) -> web.Response:
    where = request.match_info
    provider = request.query.get("provider") or None
    return json_answer(
        await item_document(request.app[SITE], where["run_id"], item_of(where["item"]), provider=provider)
    )


async def events(request: web.Request) -> web.StreamResponse:
    return await stream(request, request.app[SITE], request.match_info["run_id"])


async def compare(request: web.Request) -> web.Response:
    return json_answer(await compared(request))


async def compared(request: web.Request) -> Json:
    """The comparison that a request's query asks for: ``a``, ``b`` ... or several ``job``."""
    query = request.query
    named = [query[name] for name in "abcdef" if query.get(name)]
    return await compare_document(
        request.app[SITE],
        [*named, *query.getall("job", [])],
        metrics=query.getall("metric", []),
        benchmark=query.get("benchmark") or None,
        force=query.get("force") in ("1", "true"),
    )


async def leaderboard(request: web.Request) -> web.Response:
    return json_answer(await board_of(request))


async def board_of(request: web.Request) -> Json:
    """The leaderboard that a request's query asks for."""
    query = request.query
    asked = Asked(
        view=query.get("view") or "benchmark",
        benchmark=query.get("benchmark") or None,
        provider_type=query.get("provider_type") or None,
        model=query.get("model") or None,
        question_type=query.get("type") or None,
    )
    return await leaderboard_document(request.app[SITE], asked)


async def receipts(request: web.Request) -> web.Response:
    return json_answer(await receipts_document(request.app[SITE]))


async def configs(request: web.Request) -> web.Response:
    return json_answer(await configs_document(request.app[SITE]))


async def config(request: web.Request) -> web.Response:
    where = request.match_info
    return json_answer(await config_document(request.app[SITE], where["kind"], where["name"]))


async def description(request: web.Request) -> web.Response:
    return json_answer(openapi.document())


# ------------------------------------------------------------------ orders


async def start(request: web.Request) -> web.Response:
    """Accept a run: the body is a run file's content as JSON."""
    from bench.web.admission import admit

    site = request.app[SITE]
    assert site.service is not None
    run_id = await site.service.start(admit(await _body(request)))
    document: Json = {"run_id": run_id, "state": site.service.standing().get(run_id, "ended")}
    answer = json_answer(document, status=202)
    answer.headers["Location"] = f"/api/v1/runs/{run_id}"
    return answer


async def _body(request: web.Request) -> Mapping[str, object]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "body", "the body is no JSON", "send a run file's content as a JSON object") from error
    if not isinstance(body, dict):
        raise Refused(400, "body", "the body is no JSON object", "send a run file's content as a JSON object")
    return body


async def pause(request: web.Request) -> web.Response:
    return await _stop(request, "pause")


async def cancel(request: web.Request) -> web.Response:
    return await _stop(request, "cancel")


async def _stop(request: web.Request, why: str) -> web.Response:
    run_id = request.match_info["run_id"]
    return json_answer({"run_id": run_id, "state": await stop_run(request.app[SITE], run_id, why)}, status=202)


async def stop_run(site: Site, run_id: str, why: str) -> str:
    """Pause or cancel a run that runs, waits, or is not there."""
    assert site.service is not None
    if not site.service.is_at(run_id):
        folder_of(site, run_id)
    return await site.service.stop(run_id, why)


async def resume(request: web.Request) -> web.Response:
    site, run_id = request.app[SITE], request.match_info["run_id"]
    assert site.service is not None
    folder_of(site, run_id)
    await site.service.resume(run_id)
    return json_answer({"run_id": run_id, "state": site.service.standing().get(run_id, "ended")}, status=202)


# ------------------------------------------------------------------ health


async def healthz(request: web.Request) -> web.Response:
    return json_answer({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Ready when the workspace can be read and, for a service, written with a WAL."""
    site = request.app[SITE]
    problem = None if site.workspace.is_dir() else "the workspace is gone"
    if problem is None and not site.read_only:
        problem = _unwritable(site.workspace / CHECKPOINTS)
    document: Json = {"status": "ready" if problem is None else "not ready", "problem": problem}
    return json_answer(document, status=200 if problem is None else 503)


def _unwritable(folder: Path) -> str | None:
    """Try what a journal needs: a file, and a write-ahead log beside it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".ready-") as place:
            connection = sqlite3.connect(Path(place) / "wal.sqlite")
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                connection.execute("CREATE TABLE t (x)")
            finally:
                connection.close()
    except (OSError, sqlite3.Error) as error:
        return f"the journal folder cannot be written: {type(error).__name__}"
    return None if mode == "wal" else "the journal folder cannot hold a write-ahead log"


async def metrics(request: web.Request) -> web.Response:
    site = request.app[SITE]
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=await site.gauges.text(site), headers=headers)
