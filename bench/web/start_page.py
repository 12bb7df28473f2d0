"""The form for a new run: its flags, and the plan with the price and the missing keys.

Example::

    flags = flags_of(request.query.items())        # {"benchmarks": ["demo"], "providers": ["bm25"], "limit": "20"}
    plan = await plan_run(site, flags)
    plan.estimate.items, plan.estimate.cost_text, plan.unset     # 20, "cost USD 0", []
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from bench.config.catalog import Catalog
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.documents.run_documents import FORM_FLAGS
from bench.web.documents.workspace_documents import needs_of

if TYPE_CHECKING:
    from bench.plan import Plan
    from bench.plan.cost_estimate import Estimate

SEVERAL = frozenset({"benchmarks", "providers", "k"})
"""flags that take several values"""


def flags_of(fields: Iterable[tuple[str, object]]) -> Json:
    """Return the flags of a run from the fields of a form or query; empty and unknown fields are left out."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        text = str(value).strip()
        if name in FORM_FLAGS and text:
            found.setdefault(name, []).extend(text.split() if name in SEVERAL else [text])
    return {name: values if name in SEVERAL else values[-1] for name, values in found.items()}


def form_choices(site: Site) -> Json:
    """Return the choices of the form for a new run: benchmarks, providers and models.

    The demo is the first benchmark. Providers are grouped by whether their keys are set.
    """
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


class PlannedRun(NamedTuple):
    """A plan with its estimated cost and time, and the names of required variables that are not set."""

    plan: Plan
    estimate: Estimate
    unset: Sequence[str]
    """environment variables that the run requires but that are not set"""


async def plan_run(site: Site, flags: Mapping[str, object]) -> PlannedRun:
    """Plan a run with these flags, and estimate its cost and time. No provider and no model is called.

    Raises:
        UsageError, ConfigError, DataError: as ``bench plan`` raises them.
    """
    return await anyio.to_thread.run_sync(_plan_run, site, flags)


def _plan_run(site: Site, flags: Mapping[str, object]) -> PlannedRun:
    from bench.plan import make_plan
    from bench.plan.cost_estimate import estimate
    from bench.plan.provider import require_variables
    from bench.plan.unpriced_calls import require_prices
    from bench.web.admission import admit

    ahead = site.environment.dry_run()
    plan = make_plan(Catalog.load(site.workspace), admit(flags), ahead)
    require_prices(plan)
    require_variables(plan.lanes, ahead)
    return PlannedRun(plan, estimate(plan), ahead.unset)


def form_fields(request: Mapping[str, object]) -> list[tuple[str, str]]:
    """Convert the flags of an earlier run to (name, value) fields of the form."""
    found = []
    for name in FORM_FLAGS:
        value = request.get(name)
        several = value if isinstance(value, list | tuple) else [value]
        found += [(name, str(one)) for one in several if one not in (None, "")]
    return found
