"""Pages of runs: the list with its forms, one run, its items, one item.

Example::

    GET /?state=paused&sort=progress&q=locomo
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from aiohttp import web

from bench.config.catalog import Catalog
from bench.web import api
from bench.web.figures import jobs_of, run_charts
from bench.web.guard import form_of
from bench.web.ids import item_of
from bench.web.itemviews import item_document
from bench.web.kept import Json
from bench.web.render import html
from bench.web.site import SITE
from bench.web.views import run_document, runs_document, waiting_row

SORTS: Mapping[str, Callable[[Json], object]] = {
    "newest": lambda row: 0,
    "name": lambda row: str(row["run_id"]),
    "state": lambda row: str(row["state"]),
    "progress": lambda row: -int(str(row.get("ended", 0))) / max(1, int(str(row.get("planned", 0)))),
    "cost": lambda row: -float(str(row.get("cost_usd") or 0)),
}


async def runs(request: web.Request) -> web.Response:
    site = request.app[SITE]
    if site.run is not None and not request.query:
        raise web.HTTPSeeOther(f"/runs/{site.run}?")
    rows = cast("list[Json]", (await runs_document(site))["runs"])
    names = _names(Catalog.load(site.workspace)) if not site.read_only else {}
    return html(
        request,
        "runs.html",
        runs=_chosen(rows, request.query),
        states=sorted({str(row["state"]) for row in rows}),
        names=names,
        sorts=tuple(SORTS),
    )


def _chosen(rows: Sequence[Json], query: Mapping[str, str]) -> list[Json]:
    """The rows that a query asks for, in its order."""
    state, text = query.get("state", ""), query.get("q", "").casefold()
    found = [row for row in rows if state in ("", row["state"]) and text in _searchable(row)]
    order = SORTS.get(query.get("sort", ""), SORTS["newest"])
    return sorted(found, key=order)  # type: ignore[arg-type]  # every order gives values of one kind


def _searchable(row: Json) -> str:
    parts = [row["run_id"], row.get("note"), *cast("list[str]", row.get("benchmarks") or [])]
    return " ".join(str(part) for part in [*parts, *cast("list[str]", row.get("providers") or [])]).casefold()


def _names(catalog: Catalog) -> dict[str, list[str]]:
    """What the form offers: the demo first, then whatever the workspace knows."""
    from bench.plan.providers import KEYLESS

    providers = [*KEYLESS, *(entry.name for entry in catalog.providers() if not entry.shadowed)]
    benchmarks = [entry.name for entry in catalog.benchmarks() if not entry.shadowed]
    return {"benchmarks": sorted(benchmarks, key=lambda name: (name != "demo", name)), "providers": providers}


async def start(request: web.Request) -> web.Response:
    """The form of the list of runs."""
    from bench.web.admission import admit

    service = request.app[SITE].service
    assert service is not None
    form = await form_of(request)
    flags: dict[str, object] = {
        name: [str(value) for key, value in form.items() if key == name]
        for name in ("benchmarks", "providers")
        if form.get(name)
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
    site, run_id = request.app[SITE], request.match_info["run_id"]
    waiting = waiting_row(site, run_id)
    if waiting is not None:
        return html(request, "queued.html", run=waiting)
    document = await run_document(site, run_id)
    jobs = jobs_of(document)
    return html(request, "run.html", run=document, jobs=jobs, charts=run_charts(jobs))


async def items(request: web.Request) -> web.Response:
    document = await api.items_of(request)
    template = "items_table.html" if request.headers.get("HX-Request") else "items.html"
    return html(request, template, grid=document)


async def item(request: web.Request) -> web.Response:
    where = request.match_info
    document = await item_document(
        request.app[SITE], where["run_id"], item_of(where["item"]), provider=request.query.get("provider") or None
    )
    return html(request, "item.html", item=document)
