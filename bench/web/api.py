"""The HTTP API under ``/api/v1``: it returns documents as JSON, and starts, pauses and resumes runs.

Example::

    curl -H "Authorization: Bearer $TOKEN" -d '{"benchmarks": ["demo"]}' http://127.0.0.1:3000/api/v1/runs
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from aiohttp import web

from bench.engine.resume import NOTHING_TO_RETRY
from bench.events import redact
from bench.journal.pages import ItemQuery
from bench.journal.paths import CHECKPOINTS
from bench.model import State
from bench.report.item_outcomes import JobOutcomes, RunOutcomes
from bench.untyped_values import Json
from bench.web.app_state import SITE, Site
from bench.web.documents.comparison_documents import (
    BoardDocument,
    LeaderboardFilter,
    ShownComparison,
    compare_document,
    leaderboard_document,
)
from bench.web.documents.item_documents import ItemGrid, grid_document, item_document
from bench.web.documents.item_filter import ItemFilter, positions
from bench.web.documents.provider_documents import provider_document
from bench.web.documents.report_documents import outcomes_of
from bench.web.documents.review_documents import draw_answers, put_labels, review_document
from bench.web.documents.run_documents import folder_of, require_document, results_document, run_document
from bench.web.documents.run_list import queued_row, runs_document
from bench.web.documents.workspace_documents import config_document, configs_document, receipts_document
from bench.web.errors import RequestRefused, item_of
from bench.web.errors import check_run_id as checked
from bench.web.openapi import ApiEndpoint, openapi_document
from bench.web.prometheus import METRICS
from bench.web.stream import stream

PAGE_ITEMS = 50
MOST_ITEMS = 500


def json_response(document: Mapping[str, object], status: int = 200) -> web.Response:
    """Send a document as JSON. Values that look like secrets are redacted."""
    text = redact(json.dumps(document, allow_nan=False, default=str))
    return web.Response(status=status, text=text, content_type="application/json")


# ------------------------------------------------------------------ reading


async def runs(request: web.Request) -> web.Response:
    return json_response(await runs_document(request.app[SITE]))


async def run(request: web.Request) -> web.Response:
    """Send the document of a run; for a queued run without a journal, send its row of the list of runs."""
    site, run_id = request.app[SITE], request.match_info["run_id"]
    return json_response(queued_row(site, run_id) or await run_document(site, run_id))


async def results(request: web.Request) -> web.Response:
    return json_response(await results_document(request.app[SITE], request.match_info["run_id"]))


async def items(request: web.Request) -> web.Response:
    return json_response(await items_of_query(request))


async def items_of_query(request: web.Request) -> Json:
    """Return one page of the items that match a request's query, with the cursor of the next page."""
    query, site, run_id = request.query, request.app[SITE], request.match_info["run_id"]
    wanted, item_filter, limit = wanted_of_query(query), ItemFilter.of(query), _limit(query.get("limit", ""))
    grid = partial(
        grid_document, site, run_id, wanted, limit=limit, benchmark=item_filter.benchmark, provider=item_filter.provider
    )
    shown, cursor = await outcomes_of(site, run_id), query.get("cursor", "")
    counted = cursor.isdigit() if cursor else shown.fresh and shown.document is not None
    if not item_filter.needs_outcomes and (wanted.text or not counted):
        document, _ = await grid(cursor=cursor)
        return {**_with_ranks(document, shown.document), "total": None, "previous": None, "first": None}
    outcomes = require_document(shown, "the outcomes of the items are being read")
    start, units, found = _offset(cursor), outcomes["units"], positions(outcomes, item_filter)
    page = found[start:] if wanted.text else found[start : start + limit]
    document, looked_at = await grid(chosen_units=[(units[at][0], units[at][1]) for at in page])
    end = start + looked_at
    return {
        **_with_ranks(document, outcomes),
        "cursor": str(end) if end < len(found) else None,
        "total": None if wanted.text else len(found),
        "previous": str(max(0, start - limit)) if start and not wanted.text else None,
        "first": start + 1,
    }


def _offset(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise RequestRefused(
            400,
            "usage",
            f"cursor {cursor!r} is not valid for this list",
            "remove the cursor, so that the list starts at the first item",
        )
    return int(cursor)


def _with_ranks(document: ItemGrid, outcomes: RunOutcomes | None) -> ItemGrid:
    """Add the search time, the context tokens and the rank of the first evidence to each cell.

    The document is returned unchanged while the outcomes are unknown.
    """
    if outcomes is None:
        return document
    at = {(unit[0], unit[1]): place for place, unit in enumerate(outcomes["units"])}
    known = {job["job"]: job for job in outcomes["jobs"]}
    columns = [known.get(str(job["job"])) for job in document["jobs"]]
    for row in document["items"]:
        place = at.get((row["corpus"], row["item_id"]))
        for cell, column in zip(row["cells"], columns, strict=True):
            if cell is not None:
                cell.update(_more_of(column, place))
    return document


def _more_of(column: JobOutcomes | None, place: int | None) -> Json:
    if column is None or place is None:
        return {"rank": None, "search_us": None, "tokens": None}
    return {"rank": column["ranks"][place], "search_us": column["search_us"][place], "tokens": column["tokens"][place]}


def wanted_of_query(query: Mapping[str, str]) -> ItemQuery:
    """Read the state, the question type and the searched text of a query string.

    Raises:
        RequestRefused: the state is unknown.
    """
    state = query.get("state") or None
    if state is not None and state not in set(State):
        raise RequestRefused(400, "usage", f"there is no state {state!r}", f"known: {', '.join(State)}")
    return ItemQuery(state=state, question_type=query.get("type") or None, text=query.get("q", "")[:200])


def _limit(text: str) -> int:
    if not text:
        return PAGE_ITEMS
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= MOST_ITEMS):
        raise RequestRefused(
            400, "usage", f"limit={text} is not valid: expected 1 to 500", "remove the limit (default: 50)"
        )
    return int(text)


async def item(request: web.Request) -> web.Response:
    where = request.match_info
    provider = request.query.get("provider") or None
    return json_response(
        await item_document(request.app[SITE], where["run_id"], item_of(where["item"]), provider=provider)
    )


async def events(request: web.Request) -> web.StreamResponse:
    return await stream(request, request.app[SITE], request.match_info["run_id"])


async def review(request: web.Request) -> web.Response:
    return json_response(await review_of_query(request))


async def review_of_query(request: web.Request) -> Json:
    """Return the answer that a person is to label next; the request's query can name an answer."""
    site, run_id, query = request.app[SITE], request.match_info["run_id"], request.query
    return await review_document(site, run_id, after=query.get("after"), at=query.get("at"))


async def compare(request: web.Request) -> web.Response:
    return json_response(await comparison_of_query(request))


async def comparison_of_query(request: web.Request) -> ShownComparison:
    """Compare the jobs that a request names in the parameters ``a`` to ``f`` or in several ``job`` parameters."""
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
    return json_response(await board_of_query(request))


async def board_of_query(request: web.Request) -> BoardDocument:
    """Return the leaderboard that a request's query selects."""
    query = request.query
    board_filter = LeaderboardFilter(
        view=query.get("view") or "benchmark",
        benchmark=query.get("benchmark") or None,
        provider_type=query.get("provider_type") or None,
        model=query.get("model") or None,
        question_type=query.get("type") or None,
    )
    return await leaderboard_document(request.app[SITE], board_filter)


async def receipts(request: web.Request) -> web.Response:
    return json_response(await receipts_document(request.app[SITE]))


async def configs(request: web.Request) -> web.Response:
    return json_response(await configs_document(request.app[SITE]))


async def config(request: web.Request) -> web.Response:
    where = request.match_info
    return json_response(await config_document(request.app[SITE], where["kind"], where["name"]))


async def provider(request: web.Request) -> web.Response:
    return json_response(await provider_document(request.app[SITE], checked(request.match_info["name"])))


async def description(request: web.Request) -> web.Response:
    return json_response(openapi_document(ENDPOINTS))


# ------------------------------------------------------------------ orders


async def start(request: web.Request) -> web.Response:
    """Accept a run. The body of the request has the settings of a run file, as JSON."""
    from bench.web.admission import admit

    site = request.app[SITE]
    assert site.service is not None
    run_id = await site.service.start(admit(await _body(request)))
    document: Json = {"run_id": run_id, "state": site.service.states().get(run_id, "ended")}
    answer = json_response(document, status=202)
    answer.headers["Location"] = f"/api/v1/runs/{run_id}"
    return answer


async def draw(request: web.Request) -> web.Response:
    body = await _body(request)
    run_id = request.match_info["run_id"]
    await draw_answers(request.app[SITE], run_id, body.get("n", 50), body.get("seed", 0))
    return await review(request)


async def label(request: web.Request) -> web.Response:
    changed = await put_labels(request.app[SITE], request.match_info["run_id"], await _body(request))
    return json_response({**await review_of_query(request), "changed": changed})


async def _body(request: web.Request) -> Mapping[str, object]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "body", "the body is not JSON", "send a JSON object") from error
    if not isinstance(body, dict):
        raise RequestRefused(400, "body", "the body is not a JSON object", "send a JSON object")
    return body


async def pause(request: web.Request) -> web.Response:
    return await _stop(request, "pause")


async def cancel(request: web.Request) -> web.Response:
    return await _stop(request, "cancel")


async def _stop(request: web.Request, why: str) -> web.Response:
    run_id = request.match_info["run_id"]
    return json_response({"run_id": run_id, "state": await stop_run(request.app[SITE], run_id, why)}, status=202)


async def stop_run(site: Site, run_id: str, why: str) -> str:
    """Pause or cancel a run, as ``why`` says, and return its state.

    Raises:
        NotFound: the run does not exist.
    """
    assert site.service is not None
    if not site.service.has_run(run_id):
        folder_of(site, run_id)
    return await site.service.stop(run_id, why)


async def retry(request: web.Request) -> web.Response:
    return await resume(request, retry=True)


async def resume(request: web.Request, *, retry: bool = False) -> web.Response:
    site, run_id = request.app[SITE], request.match_info["run_id"]
    assert site.service is not None
    if not site.service.has_run(run_id):
        folder_of(site, run_id)
    unchanged = await site.service.resume(run_id, retry=retry)
    if unchanged is not None:
        return json_response({"run_id": run_id, "state": unchanged, "message": NOTHING_TO_RETRY}, status=202)
    return json_response({"run_id": run_id, "state": site.service.states().get(run_id, "ended")}, status=202)


# ------------------------------------------------------------------ health


async def healthz(request: web.Request) -> web.Response:
    return json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Report whether the workspace can be read. A service that starts runs must also be able to write journals."""
    site = request.app[SITE]
    problem = None if site.workspace.is_dir() else "the workspace does not exist any more"
    if problem is None and not site.read_only:
        problem = _unwritable(site.workspace / CHECKPOINTS)
    document: Json = {"status": "ready" if problem is None else "not ready", "problem": problem}
    return json_response(document, status=200 if problem is None else 503)


def _unwritable(folder: Path) -> str | None:
    """Check that a journal can be written to ``folder``; return the problem, or None if there is no problem.

    The check creates a test database with a write-ahead log.
    """
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
    return None if mode == "wal" else "the journal folder does not support a write-ahead log"


async def metrics(request: web.Request) -> web.Response:
    site = request.app[SITE]
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=await request.app[METRICS].text(site), headers=headers)


# ------------------------------------------------------------------ routes


ITEM_QUERY = "cursor limit benchmark provider type state show loss error q sort by"
ENDPOINTS = (
    ApiEndpoint("get", "/runs", "All runs of the workspace, newest first", runs),
    ApiEndpoint("post", "/runs", "Start a run: the body is a run file's content", start, status=202),
    ApiEndpoint("get", "/runs/{run_id}", "One run: state, progress, jobs, digests, numbers", run),
    ApiEndpoint("post", "/runs/{run_id}/pause", "Stop cleanly; a later resume continues", pause, status=202),
    ApiEndpoint("post", "/runs/{run_id}/resume", "Resume a run", resume, status=202),
    ApiEndpoint("post", "/runs/{run_id}/retry", "Run only the failed items again", retry, status=202),
    ApiEndpoint("post", "/runs/{run_id}/cancel", "Stop cleanly and leave it stopped", cancel, status=202),
    ApiEndpoint("get", "/runs/{run_id}/results", "The numbers, as bench results --json", results),
    ApiEndpoint("get", "/runs/{run_id}/items", "A page of items x providers", items, ITEM_QUERY),
    ApiEndpoint("get", "/runs/{run_id}/items/{item}", "Everything of one item", item, "provider"),
    ApiEndpoint(
        "get",
        "/runs/{run_id}/review",
        "The next answer of the review to label, without provider and verdict",
        review,
        "after at",
    ),
    ApiEndpoint("post", "/runs/{run_id}/review", 'Draw answers to label: {"n": 50, "seed": 0}', draw),
    ApiEndpoint("post", "/runs/{run_id}/labels", 'Label answers of the review: {"ID": true} is right', label),
    ApiEndpoint("get", "/runs/{run_id}/events", "Live updates (text/event-stream, Last-Event-ID resumes)", events),
    ApiEndpoint("get", "/compare", "Two or more jobs RUN:PROVIDER compared", compare, "a b job metric benchmark force"),
    ApiEndpoint(
        "get", "/leaderboard", "Comparable results side by side", leaderboard, "view benchmark provider_type model type"
    ),
    ApiEndpoint("get", "/receipts", "Receipts with their verification", receipts),
    ApiEndpoint("get", "/configs", "Every config with its problems", configs),
    ApiEndpoint("get", "/configs/{kind}/{name}", "One config with its text", config),
    ApiEndpoint("get", "/providers/{name}", "A provider: config, variables, its jobs over time", provider),
    ApiEndpoint("get", "/openapi.json", "This document", description),
    ApiEndpoint("get", "/healthz", "The process answers", healthz),
    ApiEndpoint("get", "/readyz", "The workspace can be used", readyz),
    ApiEndpoint("get", "/metrics", "Prometheus metrics", metrics),
)


def routes() -> list[web.RouteDef]:
    """Return the routes of the API; ``bench explore`` and ``bench serve`` have equal routes."""
    every = [web.route(one.method.upper(), f"/api/v1{one.path}", one.handler) for one in ENDPOINTS]
    return [*every, web.get("/healthz", healthz), web.get("/readyz", readyz)]
