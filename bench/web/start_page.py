"""Start a run from a page: choose settings, check the plan with its price and missing keys, then start.

Example::

    flags = flags_of(request.query.items())        # {"benchmarks": ["demo"], "providers": ["bm25"], "limit": "20"}
    plan = await planned(site, flags)
    plan["items"], plan["cost"], plan["unset"]     # 20, "cost at most USD 0", []
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import anyio.to_thread

from bench.config.catalog import Catalog
from bench.scalars import Json
from bench.settings import Rehearsal
from bench.web.app_state import Site
from bench.web.run_documents import AGAIN
from bench.web.workspace_documents import needs_of

SEVERAL = frozenset({"benchmarks", "providers", "k"})
"""flags that take several values"""


def flags_of(fields: Iterable[tuple[str, object]]) -> Json:
    """Return the filled-in fields of a query or form."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        text = str(value).strip()
        if name in AGAIN and text:
            found.setdefault(name, []).extend(text.split() if name in SEVERAL else [text])
    return {name: values if name in SEVERAL else values[-1] for name, values in found.items()}


def choices(site: Site) -> Json:
    """Return the choices of the form: benchmarks, the demo first; providers by available keys; models."""
    from bench.plan.provider import KEYLESS

    catalog = Catalog.load(site.workspace)
    groups: dict[str, list[str]] = {"built in, no key": list(KEYLESS), "ready": [], "a key is missing": []}
    for entry in catalog.providers():
        if not entry.shadowed and entry.name not in KEYLESS:
            unset = [name for name in needs_of(entry) if not site.environment.get(name)]
            groups["a key is missing" if unset else "ready"].append(entry.name)
    benchmarks = [entry.name for entry in catalog.benchmarks() if not entry.shadowed]
    return {
        "benchmarks": sorted(benchmarks, key=lambda name: (name != "demo", name)),
        "providers": groups,
        "models": [entry.name for entry in catalog.entries("models")],
    }


async def planned(site: Site, flags: Mapping[str, object]) -> Json:
    """Return what a run with these flags would do, cost and take, without any call.

    Raises:
        UsageError, ConfigError, DataError: as ``bench plan`` raises them.
    """
    return await anyio.to_thread.run_sync(_planned, site, flags)


def _planned(site: Site, flags: Mapping[str, object]) -> Json:
    from bench.plan import make_plan
    from bench.plan.budget import require_prices
    from bench.plan.cost_estimate import estimate
    from bench.providers.facts import needs
    from bench.web.admission import admit

    ahead = Rehearsal(values=site.environment.values, dotenv=site.environment.dotenv)
    plan = make_plan(Catalog.load(site.workspace), admit(flags), ahead)
    require_prices(plan)
    for lane in plan.lanes:
        for name in needs(lane.provider.config):
            ahead.ensure(name, user=lane.provider.label)
    found = estimate(plan)
    jobs = [(lane, job) for lane in plan.lanes for job in lane.jobs]
    return {
        "items": found.items,
        "calls": found.calls,
        "builds": found.builds,
        "searches": found.searches,
        "least_s": found.least_s,
        "cost": found.cost_text,
        "unset": list(ahead.absent),
        "notes": list(plan.notes),
        "jobs": [
            {
                "provider": lane.provider.label,
                "benchmark": lane.benchmark.name,
                "answering": job.answering,
                "judge": job.judge,
                "items": lane.benchmark.n_selected,
            }
            for lane, job in jobs
        ],
        "endpoints": [
            {
                "endpoint": one.endpoint,
                "calls": one.calls,
                "tokens_in": one.tokens_in,
                "tokens_out": one.tokens_out,
                "cost_usd": None if one.cost_usd is None else str(one.cost_usd),
                "least_s": one.least_s,
            }
            for one in found.endpoints
        ],
    }


def again_of(request: Mapping[str, object]) -> list[tuple[str, str]]:
    """Convert the flags of an earlier run to fields of the form."""
    found = []
    for name in AGAIN:
        value = request.get(name)
        several = value if isinstance(value, list | tuple) else [value]
        found += [(name, str(one)) for one in several if one not in (None, "")]
    return found
