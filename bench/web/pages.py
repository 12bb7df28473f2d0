"""Show the documents of the API as HTML pages, with forms for the commands of the API.

Example::

    GET /runs/r1/items?provider=bm25&state=error&q=vault&cursor=...
    GET /?state=paused&sort=progress&q=locomo
    GET /compare?a=r1:bm25&b=r1:oracle
    GET /login?token=...          # sets a cookie, then redirects to the runs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from urllib.parse import quote, urlencode

from aiohttp import web

from bench.config.catalog import builtin_root
from bench.errors import BenchError, UsageError
from bench.events import redact
from bench.untyped_values import Json
from bench.web import api
from bench.web.app_state import SITE
from bench.web.charts import RowChart
from bench.web.documents.comparison_documents import BoardRow, BoardTable, form_choice
from bench.web.documents.item_documents import item_document
from bench.web.documents.item_filter import LOSS_WORDS, ORDERS, SHOWS, ItemFilter, position_of
from bench.web.documents.provider_documents import provider_document
from bench.web.documents.receipt_summary import badge_of
from bench.web.documents.report_documents import (
    TableFormat,
    outcomes_of,
    receipts_of,
    report_page_document,
    results_text,
)
from bench.web.documents.review_documents import draw_answers, put_labels
from bench.web.documents.run_documents import run_document
from bench.web.documents.run_list import RunRow, queued_row, runs_document
from bench.web.documents.workspace_documents import (
    config_document,
    configs_document,
    receipt_file,
    receipt_row,
    receipts_by_job,
    receipts_document,
)
from bench.web.errors import Busy, NotFound, item_of, status_of
from bench.web.errors import check_run_id as checked
from bench.web.figures import board_charts, forest_chart, jobs_of, ranking_metric, run_charts, type_chart
from bench.web.rendering import html, page, standalone
from bench.web.report_page import heat_map
from bench.web.security import form_of
from bench.web.start_page import flags_of, form_choices, form_fields, plan_run


class ListedRun(RunRow):
    """A run in the list of runs.

    ``shown`` is the state that the page displays and filters by. ``why`` is the reason of this state.
    """

    shown: str
    why: str


SORTS: Mapping[str, Callable[[ListedRun], tuple[str, float]]] = {
    "newest": lambda row: ("", 0),
    "name": lambda row: (row["run_id"], 0),
    "state": lambda row: (row["state"], 0),
    "progress": lambda row: ("", -row["ended"] / max(1, row["planned"])),
    "cost": lambda row: ("", -float(row.get("cost_usd") or 0)),
}


async def runs(request: web.Request) -> web.Response:
    site = request.app[SITE]
    if site.run is not None and not request.query:
        raise web.HTTPSeeOther(f"/runs/{site.run}?")
    listed = [_listed(row) for row in (await runs_document(site))["runs"]]
    return html(
        request,
        "runs.html",
        runs=_filtered(listed, request.query),
        states=[*sorted({row["shown"] for row in listed}), INVALID],
        sorts=tuple(SORTS),
        live=any(row["shown"] in LIVE for row in listed),
    )


INVALID = "invalid"
LIVE = ("running", "queued", "stopping", "starting")


def _listed(row: RunRow) -> ListedRun:
    word, _, problem = (row.get("service") or "").partition(": ")
    return {**row, "shown": word or row["state"], "why": problem or row["reason"]}


def _filtered(rows: Sequence[ListedRun], query: Mapping[str, str]) -> list[ListedRun]:
    """Return the rows that match the query, in the order that the query requests."""
    state, text = query.get("state", ""), query.get("q", "").casefold()
    found = [row for row in rows if _has_state(row, state) and text in _searchable(row)]
    return sorted(found, key=SORTS.get(query.get("sort", ""), SORTS["newest"]))


def _has_state(row: ListedRun, state: str) -> bool:
    if state == INVALID:
        return bool(row.get("invalid_jobs"))
    return state in ("", row["state"], row["shown"])


def _searchable(row: ListedRun) -> str:
    parts = [row["run_id"], row.get("note"), *row.get("benchmarks", []), *row.get("providers", [])]
    return " ".join(map(str, parts)).casefold()


async def new(request: web.Request) -> web.Response:
    """Show the form for a new run. If the form is filled in, also show the plan of the run."""
    if request.app[SITE].read_only:
        raise NotFound("this service is read-only", "start runs with: bench serve, or bench run")
    return await _form_page(request, flags_of(request.query.items()))


async def _form_page(request: web.Request, flags: Json, error: BenchError | None = None) -> web.Response:
    site, plan = request.app[SITE], None
    if flags and error is None:
        try:
            plan = await plan_run(site, flags)
        except BenchError as problem:
            error = problem
    problem_fields = {"problem": str(error) if error else None, "hint": error.hint if error else None}
    answer = html(
        request,
        "new.html",
        offered=form_choices(site),
        flags=flags,
        fields=form_fields(flags),
        planned=plan,
        **problem_fields,
    )
    answer.set_status(status_of(error) if error else 200)
    return answer


async def start(request: web.Request) -> web.Response:
    """Start the run that a submitted form describes; on an error, show the form again with the message above it."""
    from bench.web.admission import admit

    service = request.app[SITE].service
    assert service is not None
    flags = flags_of((await form_of(request)).items())
    try:
        run_id = await service.start(admit(flags))
    except BenchError as error:
        return await _form_page(request, flags, error)
    raise web.HTTPSeeOther(f"/runs/{run_id}?queued=1")


async def order(request: web.Request) -> web.Response:
    """Pause, resume, retry or cancel a run, as a button of its page requests."""
    run_id, action = request.match_info["run_id"], request.match_info["action"]
    state = ""
    if action in ("resume", "retry"):
        await api.resume(request, retry=action == "retry")
    else:
        state = await api.stop_run(request.app[SITE], run_id, action)
    raise web.HTTPSeeOther("/" if state == "not started" else f"/runs/{run_id}")


async def run(request: web.Request) -> web.Response:
    site, run_id = request.app[SITE], request.match_info["run_id"]
    waiting = queued_row(site, run_id)
    if waiting is not None:
        return html(request, "queued.html", run=waiting)
    document = await run_document(site, run_id)
    jobs = jobs_of(document)
    report_page, busy = await report_page_document(site, document)
    more = {"report_page": report_page, "waiting": busy, "links": f"/runs/{quote(run_id)}", "per_day": None}
    more["again"] = urlencode(form_fields(document["again"]))
    return html(request, "run.html", run=document, jobs=jobs, charts=run_charts(jobs), **more)


async def report(request: web.Request) -> web.Response:
    """Show the one-page report of a run.

    With the query parameter ``download``, send the report as a self-contained HTML file.
    """
    site, run_id = request.app[SITE], request.match_info["run_id"]
    document = await run_document(site, run_id)
    report_page, waiting = await report_page_document(site, document)
    if request.query.get("download"):
        about = f"{document['state']}, plan {document['plan_digest'][:16]}"
        text = standalone(title=f"Run {run_id}", about=about, report_page=report_page)
        return web.Response(text=text, content_type="text/html", headers=_download_headers(f"{run_id}.html"))
    receipts = receipts_of(receipts_by_job(site, [run_id]))
    per_day = request.query.get("per_day", str(PER_DAY) if site.static else "")
    more = {
        "waiting": waiting,
        "receipts": receipts,
        "per_day": int(per_day) if re.fullmatch("[0-9]{1,10}", per_day) else None,
    }
    return html(request, "report.html", run=document, report_page=report_page, links=f"/runs/{quote(run_id)}", **more)


PER_DAY = 1000
"""assumed number of questions per day on a static page, where a reader cannot enter a number"""


def _download_headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


FORMS: Mapping[str, TableFormat] = {"csv": "csv", "md": "md"}


async def download(request: web.Request) -> web.Response:
    """Send the result tables of a run as a CSV or Markdown file."""
    run_id, form = request.match_info["run_id"], FORMS[request.match_info["form"]]
    text = await results_text(request.app[SITE], run_id, form)
    kind = {"csv": "text/csv", "md": "text/markdown"}[form]
    return web.Response(text=redact(text), content_type=kind, headers=_download_headers(f"{run_id}.{form}"))


async def items(request: web.Request) -> web.Response:
    document = await api.items_of_query(request)
    template = "items_table.html" if request.headers.get("HX-Request") else "items.html"
    more = {"shows": SHOWS, "losses": LOSS_WORDS, "orders": ORDERS, "kept": _list_query(request.query)}
    return html(request, template, grid=document, **more)


LIST_QUERY = ("provider", "benchmark", "state", "type", "show", "loss", "error", "sort", "by")
"""query parameters that links of an item's page keep, because they hold the filter and order of the item list"""


def _list_query(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query[name] for name in LIST_QUERY if query.get(name)}


async def item(request: web.Request) -> web.Response:
    where = request.match_info
    site, item_id, query = request.app[SITE], item_of(where["item"]), request.query
    document = await item_document(site, where["run_id"], item_id, provider=query.get("provider") or None)
    shown = await outcomes_of(site, where["run_id"])
    item_filter, benchmark = ItemFilter.of(query), document["sides"][0]["benchmark"]
    item_filter = replace(
        item_filter, benchmark=benchmark, provider=None if "," in (item_filter.provider or "") else item_filter.provider
    )
    place = position_of(shown.document, item_filter, item_id) if shown.document else None
    return html(request, "item.html", item=document, place=place, kept=_list_query(query), losses=LOSS_WORDS)


async def review(request: web.Request) -> web.Response:
    """Show the next answer that a person is to label, without its provider and verdict."""
    if request.app[SITE].read_only:
        raise NotFound("this service is read-only", "label answers with: bench serve, or bench review RUN_ID --n 50")
    return html(request, "review.html", review=await api.review_of_query(request))


async def label(request: web.Request) -> web.Response:
    """Handle the two forms of the review page.

    The form with ``n`` draws answers. The other form labels one answer and redirects to the next answer.
    """
    site, run_id, form = request.app[SITE], request.match_info["run_id"], await form_of(request)
    if "n" in form:
        await draw_answers(site, run_id, form["n"])
        raise web.HTTPSeeOther(f"/runs/{run_id}/review")
    name = str(form.get("id", ""))
    await put_labels(site, run_id, {name: {"right": True, "wrong": False}.get(str(form.get("label")))})
    raise web.HTTPSeeOther(f"/runs/{run_id}/review?{urlencode({'after': name})}")


async def compare(request: web.Request) -> web.Response:
    site, query = request.app[SITE], request.query
    sides = {row["run_id"]: row["sides"] for row in (await runs_document(site))["runs"] if row.get("sides")}
    chosen = form_choice(sides, query)
    found: Json | None = None
    refusal, busy = None, False
    if chosen["whole"] or query.get("job"):
        try:
            compared = await api.comparison_of_query(request)
            pairs = [{**pair, "forest": forest_chart(pair)} for pair in compared["comparisons"]]
            found = {**compared, "comparisons": pairs}
        except Busy:
            busy = True
        except UsageError as error:
            refusal = str(error)
    return html(request, "compare.html", sides=sides, chosen=chosen, found=found, refusal=refusal, busy=busy)


async def leaderboard(request: web.Request) -> web.Response:
    document = await api.board_of_query(request)
    order = BOARD_SORTS.get(request.query.get("sort", ""))
    tables = [_with_charts(table, document["view"], order) for table in document["tables"]]
    return html(request, "leaderboard.html", board=document, tables=tables)


BoardOrder = Callable[[BoardRow], tuple[bool, float, str]]
BOARD_SORTS: Mapping[str, BoardOrder] = {
    "name": lambda row: (False, 0.0, row["name"]),
    "latency": lambda row: (row["search_p50_ms"] is None, row["search_p50_ms"] or 0.0, ""),
    "cost": lambda row: (row["per_question"] is None, row["per_question"] or 0.0, ""),
}
"""name of the order -> sort key of a leaderboard row; the order by rank needs no sort key"""


def _side(row: BoardRow, view: str) -> str:
    """Return the name of the row's job in a comparison.

    In the view ``model``, the name also contains the answering model.
    """
    return f"{row['run_id']}:{row['provider']}" + (f":{row['name']}" if view == "model" else "")


def _with_charts(table: BoardTable, view: str, order: BoardOrder | None) -> Mapping[str, object]:
    """Return the table with its charts and its rows in the requested order.

    A table with a ``grid`` (one column per benchmark) has no charts and is returned unchanged.
    """
    if table["grid"] is not None:
        return table
    rows = table["rows"]
    charts = {"types": type_chart(rows)} if view == "type" else board_charts(rows)
    heat = _board_heat(rows, table["benchmark"]) if view == "type" else None
    values = charts.pop("values", None)
    cells = iter(values.rows if isinstance(values, RowChart) else ())
    shown: list[tuple[BoardRow, Json]] = []
    for row in rows:
        measured = ranking_metric(row)
        cell = next(cells, None) if measured and measured["value"] is not None else None
        shown.append((row, {"row": row, "measured": measured, "cell": cell, "side": _side(row, view)}))
    if order is not None:
        shown.sort(key=lambda one: order(one[0]))
    ticks = values.ticks if isinstance(values, RowChart) else ()
    metric = rows[0]["headline"] if rows else None
    more = {"charts": charts, "ticks": ticks, "metric": metric, "heat": heat}
    return {**table, **more, "shown": [one for _, one in shown]}


def _board_heat(rows: Sequence[BoardRow], benchmark: str | None) -> Json | None:
    names = [
        {"name": row["name"], "provider": row["provider"], "run_id": row["run_id"], "benchmark": benchmark}
        for row in rows
    ]
    return heat_map(names, [row["question_types"] for row in rows])


async def receipts(request: web.Request) -> web.Response:
    return html(request, "receipts.html", found=await receipts_document(request.app[SITE]))


async def receipt(request: web.Request) -> web.Response:
    """Send the file of a receipt unchanged."""
    path = receipt_file(request.app[SITE], checked(request.match_info["run"]), checked(request.match_info["name"]))
    return web.Response(body=path.read_bytes(), content_type="application/json")


async def receipt_badge(request: web.Request) -> web.Response:
    """Send the SVG badge of a receipt."""
    site, where = request.app[SITE], request.match_info
    path = receipt_file(site, checked(where["run"]), checked(where["name"]))
    text = badge_of(await receipt_row(site, path))
    return web.Response(text=text, content_type="image/svg+xml", headers={"Cache-Control": "no-cache"})


async def configs(request: web.Request) -> web.Response:
    return html(request, "configs.html", found=await configs_document(request.app[SITE]))


async def config(request: web.Request) -> web.Response:
    where = request.match_info
    document = await config_document(request.app[SITE], where["kind"], where["name"])
    return html(request, "config.html", config=document)


async def provider(request: web.Request) -> web.Response:
    name = checked(request.match_info["name"])
    return html(request, "provider.html", provider=await provider_document(request.app[SITE], name))


ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#2b4c7e"/>'
    '<path d="M3 13V8h2v5zm4 0V3h2v10zm4 0V6h2v7z" fill="#fff"/></svg>'
)
SESSION_S = 30 * 86400
META_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


async def login(request: web.Request) -> web.Response:
    """Check the token, set the login cookie, and redirect to the start page.

    A missing or wrong token shows the login form. Without access control, redirect at once.
    """
    secret = request.app[SITE].secret
    if secret is None:
        raise web.HTTPSeeOther("/")
    token = request.query.get("token", "")
    if not secret.matches(token):
        shown = page(request, "login.html", wrong=bool(token))
        return web.Response(status=401 if token else 200, text=shown, content_type="text/html")
    answer = web.HTTPSeeOther("/")
    answer.set_cookie(secret.cookie_name, secret.cookie, max_age=SESSION_S, httponly=True, samesite="Strict", path="/")
    raise answer


async def icon(request: web.Request) -> web.Response:
    return web.Response(text=ICON, content_type="image/svg+xml")


async def verify(request: web.Request) -> web.Response:
    """Serve the page that verifies receipts in the browser.

    The page has its own Content-Security-Policy, and the navigation links of the other pages.
    """
    text = _verify_page()
    if text is None:
        raise NotFound("this installation has no verify.html", "verify the receipt with: bench verify RECEIPT.json")
    policy = META_POLICY.search(text)
    headers = {"Content-Security-Policy": policy[1]} if policy else {}
    frame = page(request, "frame.html")
    return web.Response(text=text.replace("<body>", f"<body>{frame}", 1), content_type="text/html", headers=headers)


@cache
def _verify_page() -> str | None:
    path = builtin_root() / "docs" / "verify.html"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def routes() -> list[web.RouteDef]:
    """Return the routes of all pages and forms."""
    return [
        web.get("/", runs),
        web.get("/new", new),
        web.post("/runs", start),
        web.get("/runs/{run_id}", run),
        web.get("/runs/{run_id}/results.{form:csv|md}", download),
        web.get("/report/{run_id}", report),
        web.get("/runs/{run_id}/items", items),
        web.get("/runs/{run_id}/items/{item}", item),
        web.get("/runs/{run_id}/review", review),
        web.post("/runs/{run_id}/review", label),
        web.post("/runs/{run_id}/{action:pause|resume|retry|cancel}", order),
        web.get("/compare", compare),
        web.get("/leaderboard", leaderboard),
        web.get("/receipts", receipts),
        web.get(r"/receipts/{run}/{name:[^/]+\.json}.svg", receipt_badge),
        web.get("/receipts/{run}/{name}", receipt),
        web.get("/configs", configs),
        web.get("/configs/{kind}/{name}", config),
        web.get("/providers/{name}", provider),
        web.get("/verify.html", verify),
        web.get("/login", login),
        web.get("/favicon.ico", icon),
    ]
