"""The pages: the documents of the API as HTML, and forms that order what the API orders.

Example::

    GET /runs/r1/items?provider=bm25&state=error&q=vault&cursor=...
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from aiohttp import web

from bench.config.catalog import Catalog, builtin_root
from bench.errors import UsageError
from bench.web import api, charts
from bench.web.boards import leaderboard_document, receipt_file, receipts_document
from bench.web.configviews import config_document, configs_document
from bench.web.faults import NotFound
from bench.web.ids import item_of
from bench.web.ids import run_id as checked
from bench.web.itemviews import item_document
from bench.web.render import page
from bench.web.site import SITE
from bench.web.views import Json, run_document, runs_document

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#2b4c7e"/>'
    '<path d="M3 13V8h2v5zm4 0V3h2v10zm4 0V6h2v7z" fill="#fff"/></svg>'
)
SESSION_S = 30 * 86400
META_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
RUN_SORTS = ("newest", "name", "state", "progress")


def routes() -> list[web.RouteDef]:
    """Every page and form."""
    return [
        web.get("/", runs),
        web.post("/runs", start),
        web.get("/runs/{run_id}", run),
        web.get("/runs/{run_id}/items", items),
        web.get("/runs/{run_id}/items/{item}", item),
        web.post("/runs/{run_id}/{action:pause|resume|cancel}", order),
        web.get("/compare", compare),
        web.get("/leaderboard", leaderboard),
        web.get("/receipts", receipts),
        web.get("/receipts/{run}/{name}", receipt),
        web.get("/configs", configs),
        web.get("/configs/{kind}/{name}", config),
        web.get("/verify.html", verify),
        web.get("/login", login),
        web.get("/favicon.ico", icon),
    ]


def html(text: str) -> web.Response:
    """A page."""
    return web.Response(text=text, content_type="text/html", charset="utf-8")


# ------------------------------------------------------------------ runs


async def runs(request: web.Request) -> web.Response:
    site = request.app[SITE]
    if site.run is not None and not request.query:
        raise web.HTTPSeeOther(f"/runs/{site.run}?")
    rows = cast("list[Json]", (await runs_document(site))["runs"])
    states = sorted({str(row["state"]) for row in rows})
    wanted, text = request.query.get("state", ""), request.query.get("q", "").casefold()
    rows = [row for row in rows if wanted in ("", row["state"]) and text in _searchable(row)]
    sort = request.query.get("sort", "newest")
    if sort in ("name", "state"):
        rows = sorted(rows, key=lambda row: str(row["run_id" if sort == "name" else "state"]))
    elif sort == "progress":
        rows = sorted(rows, key=lambda row: -_share(row))
    names = _names(Catalog.load(site.workspace)) if not site.read_only else {}
    return html(page(request, "runs.html", runs=rows, states=states, names=names, sorts=RUN_SORTS))


def _names(catalog: Catalog) -> dict[str, list[str]]:
    from bench.plan.providers import KEYLESS

    providers = [*KEYLESS, *(entry.name for entry in catalog.providers() if not entry.shadowed)]
    benchmarks = [entry.name for entry in catalog.benchmarks() if not entry.shadowed]
    return {"benchmarks": sorted(benchmarks, key=lambda name: (name != "demo", name)), "providers": providers}


def _searchable(row: Json) -> str:
    parts = [row["run_id"], row.get("note"), *cast("list[str]", row.get("benchmarks") or [])]
    return " ".join(str(part) for part in [*parts, *cast("list[str]", row.get("providers") or [])]).casefold()


def _share(row: Json) -> float:
    return int(str(row.get("ended", 0))) / max(1, int(str(row.get("planned", 0))))


async def start(request: web.Request) -> web.Response:
    """The form of the list of runs."""
    from bench.web.admission import admit

    service = request.app[SITE].service
    assert service is not None
    form = await request.post()
    flags: dict[str, object] = {
        name: [str(value) for value in form.getall(name)] for name in ("benchmarks", "providers") if form.get(name)
    }
    flags |= {name: str(form[name]) for name in ("limit", "run_id", "answering_model") if form.get(name)}
    run_id = await service.start(admit(flags))
    raise web.HTTPSeeOther(f"/runs/{run_id}?queued=1")


async def order(request: web.Request) -> web.Response:
    """Pause, resume or cancel, from a button."""
    run_id, action = request.match_info["run_id"], request.match_info["action"]
    if action == "resume":
        await api.resume(request)
    else:
        await api.stop_run(request.app[SITE], run_id, action)
    raise web.HTTPSeeOther(f"/runs/{run_id}" if action != "cancel" else "/")


async def run(request: web.Request) -> web.Response:
    site, run_id = request.app[SITE], checked(request.match_info["run_id"])
    try:
        document = await run_document(site, run_id)
    except NotFound:
        standing = site.service.standing().get(run_id) if site.service else None
        if standing is None:
            raise
        return html(page(request, "queued.html", run_id=run_id, standing=standing))
    jobs = _jobs(document)
    return html(page(request, "run.html", run=document, jobs=jobs, accuracy=_accuracy(jobs), times=_times(jobs)))


def _jobs(document: Mapping[str, object]) -> list[Json]:
    """Progress, digests and numbers of each job side by side."""
    progress = cast("Mapping[str, list[Json]]", document["progress"])["jobs"]
    records = cast("list[Json]", document["records"])
    results = document["results"]
    numbers = cast("list[Json]", results["jobs"]) if isinstance(results, Mapping) else []
    found: list[Json] = []
    for at, (standing, record) in enumerate(zip(progress, records, strict=True)):
        result = numbers[at] if at < len(numbers) else None
        found.append({"progress": standing, "record": record, "result": result, "headline": _headline(result)})
    return found


def _headline(result: Json | None) -> Json | None:
    """The first metric with a value of a valid job."""
    if result is None or not result["valid"]:
        return None
    metrics = cast("Mapping[str, Json]", result["metrics"])
    return next(({"metric": name, **one} for name, one in metrics.items() if one["n"]), None)


def _accuracy(jobs: Sequence[Json]) -> list[charts.Chart]:
    """The headline of each provider, a chart a benchmark and metric."""
    groups: dict[str, list[tuple[str, float | None, float | None, float | None]]] = {}
    for job in jobs:
        headline = cast("Json | None", job["headline"])
        record = cast("Json", job["record"])
        if headline is not None and headline.get("unit") is None:
            key = f"{record['benchmark']}: {headline['metric']}, 95 % intervals"
            groups.setdefault(key, []).append((_label(record, jobs), *_interval(headline)))
    return [chart for title, rows in groups.items() if (chart := charts.dots(rows, title)) is not None]


def _label(record: Json, jobs: Sequence[Json]) -> str:
    models = cast("Mapping[str, str | None]", record["models"])
    same = [job for job in jobs if cast("Json", job["record"])["provider"] == record["provider"]]
    return str(record["provider"]) if len(same) == 1 else f"{record['provider']} {models['answering']}"


def _interval(measured: Mapping[str, object]) -> tuple[float | None, float | None, float | None]:
    interval = cast("Mapping[str, float] | None", measured.get("interval"))
    value = cast("float | None", measured["value"])
    return value, interval["low"] if interval else None, interval["high"] if interval else None


def _times(jobs: Sequence[Json]) -> list[Json]:
    """How long a search took in each job: a histogram and its parts."""
    found = []
    for job in jobs:
        result = cast("Json | None", job["result"])
        times = cast("Mapping[str, Json]", (result or {}).get("times") or {})
        if times:
            search = times.get("search")
            histogram = cast("list[tuple[int, int, int]]", search["histogram"]) if search else []
            found.append({"record": job["record"], "phases": times, "chart": charts.bars(histogram)})
    return found


# ------------------------------------------------------------------ items


async def items(request: web.Request) -> web.Response:
    document = await api.items_of(request)
    template = "items_table.html" if request.headers.get("HX-Request") else "items.html"
    return html(page(request, template, grid=document))


async def item(request: web.Request) -> web.Response:
    where = request.match_info
    document = await item_document(
        request.app[SITE], where["run_id"], item_of(where["item"]), provider=request.query.get("provider") or None
    )
    return html(page(request, "item.html", item=document))


# ------------------------------------------------------------------ across runs


async def compare(request: web.Request) -> web.Response:
    site = request.app[SITE]
    query = request.query
    rows = cast("list[Json]", (await runs_document(site))["runs"])
    known = [f"{row['run_id']}:{name}" for row in rows for name in cast("list[str]", row.get("providers") or [])]
    if not any(query.get(name) for name in ("a", "b", "job")):
        return html(page(request, "compare.html", known=known, found=None, refusal=None))
    try:
        found, refusal = await api.compared(request), None
    except UsageError as error:
        found, refusal = None, str(error)
    return html(page(request, "compare.html", known=known, found=found, refusal=refusal))


async def leaderboard(request: web.Request) -> web.Response:
    query = request.query
    document = await leaderboard_document(request.app[SITE], benchmark=query.get("benchmark") or None)
    tables = [
        {**table, **_plots(cast("list[Json]", table["rows"]), query.get("type", ""))}
        for table in cast("list[Json]", document["tables"])
    ]
    return html(page(request, "leaderboard.html", board=document, tables=tables))


def _plots(rows: Sequence[Json], kind: str) -> Json:
    shown = [(row, cast("Json | None", _measured(row, kind))) for row in rows]
    points = [(str(row["provider"]), one) for row, one in shown if one is not None]
    latency = [(name, _number(row["latency"]), one["value"]) for (name, one), row in zip(points, rows, strict=False)]
    cost = [(str(row["provider"]), _cost(row), one["value"]) for row, one in shown if one is not None]
    return {
        "types": sorted({label for row in rows for label in cast("Json", row["types"])}),
        "shown": [{"row": row, "measured": one} for row, one in shown],
        "dots": charts.dots([(name, one["value"], one["low"], one["high"]) for name, one in points]),  # type: ignore[misc]
        "by_latency": charts.pareto(latency),  # type: ignore[arg-type]
        "by_cost": charts.pareto(cost) if any(x for _, x, _ in cost) else None,  # type: ignore[arg-type]
    }


def _measured(row: Json, kind: str) -> object:
    return cast("Json", row["types"]).get(kind) if kind else row["headline"]


def _number(measured: object) -> float | None:
    return cast("float | None", measured["value"]) if isinstance(measured, Mapping) else None


def _cost(row: Json) -> float | None:
    return None if row["cost_usd"] is None else float(str(row["cost_usd"]))


async def receipts(request: web.Request) -> web.Response:
    return html(page(request, "receipts.html", found=await receipts_document(request.app[SITE])))


async def receipt(request: web.Request) -> web.Response:
    """A receipt's own bytes."""
    path = receipt_file(request.app[SITE], checked(request.match_info["run"]), checked(request.match_info["name"]))
    return web.Response(body=path.read_bytes(), content_type="application/json")


async def configs(request: web.Request) -> web.Response:
    return html(page(request, "configs.html", found=await configs_document(request.app[SITE])))


async def config(request: web.Request) -> web.Response:
    where = request.match_info
    return html(
        page(request, "config.html", config=await config_document(request.app[SITE], where["kind"], where["name"]))
    )


# ------------------------------------------------------------------ doors


async def login(request: web.Request) -> web.Response:
    """Trade the token for a cookie, once; the address without it is shown afterwards."""
    secret = request.app[SITE].secret
    if secret is None:
        raise web.HTTPSeeOther("/")
    token = request.query.get("token", "")
    if not secret.opens(token):
        status = 401 if token else 200
        return web.Response(
            status=status, text=page(request, "login.html", wrong=bool(token)), content_type="text/html"
        )
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
