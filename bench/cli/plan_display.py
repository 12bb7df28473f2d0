"""``bench plan``: show what a run would do, its cost and time, and the source of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from pydantic import BaseModel

from bench.cli import console
from bench.cli.flags import RunFlags, given_flags
from bench.cli.global_flags import current
from bench.config.run import RunRequest
from bench.journal.paths import CHECKPOINTS
from bench.plan import Lane, Plan
from bench.plan.cost_estimate import Estimate, batch_of, estimate
from bench.plan.model import BenchmarkPlan
from bench.stats.significance import CORRELATED, DISAGREEING, clusters_needed, planned_mde
from bench.untyped_values import Json
from bench.visible_text import counted, money_text


def show_plan(plan: Plan, flags: RunFlags, *, unset: Sequence[str] = (), detect: float | None = None) -> None:
    """Print the plan of a run as tables or JSON.

    ``unset`` are environment variables that the run requires but that are not set. ``detect`` is a difference of two
    scores (0 to 1); the number of items that are needed to detect this difference is also shown.
    """
    found = estimate(plan)
    benchmarks = {lane.benchmark.name: lane.benchmark for lane in plan.lanes}
    powers = [] if detect is None else [_power(one, detect) for one in benchmarks.values()]
    if current.get().json:
        console.json_value(
            _json(plan, found, flags, unset)
            | ({"detect": [one._asdict() for one in powers]} if detect is not None else {})
        )
        return
    _show_jobs(plan)
    if detect is not None:
        _show_powers(powers, detect)
    _show_traffic(found)
    console.table(("setting", "value", "from"), settings(plan, flags), title="settings")
    least = "" if found.least_s is None else f", at least {_seconds(found.least_s)}"
    console.line(f"items {found.items}, calls {found.calls}{least}")
    console.line(f"builds {found.builds} (ingests), searches {found.searches}")
    console.line(found.cost_text)
    if plan.request.cache is not None:
        console.line(_cache_text(plan))
    console.line(f"plan digest {plan.digest}")
    for text in plan.notes:
        console.line(f"note: {text}")
    if unset:
        console.line(f"note: bench run needs variables that are not set: {', '.join(unset)}")


class PlannedPower(NamedTuple):
    """The smallest difference between two providers that the selected items can show.

    ``items_needed`` and ``clusters_needed`` are the numbers of items and clusters that are needed to show a given
    difference. A cluster is a conversation with all its items, or a single item.
    """

    benchmark: str
    unit: str
    clusters: int
    items: int
    smallest_difference: float | None
    clusters_needed: int | None
    items_needed: int | None


def _power(benchmark: BenchmarkPlan, detect: float) -> PlannedPower:
    items = benchmark.n_selected
    clustered = benchmark.config.cluster_by is not None
    clusters = len({ref.corpus for ref in benchmark.dataset.items(benchmark.selection)}) if clustered else items
    each = items / clusters if clusters else 1.0
    needed = clusters_needed(detect, each) if clusters else None
    return PlannedPower(
        benchmark=benchmark.name,
        unit="conversation" if clustered else "question",
        clusters=clusters,
        items=items,
        smallest_difference=planned_mde(clusters, each),
        clusters_needed=needed,
        items_needed=None if needed is None else math.ceil(needed * each),
    )


def _show_powers(powers: Sequence[PlannedPower], detect: float) -> None:
    rows = []
    for one in powers:
        smallest = one.smallest_difference
        shown = "-" if smallest is None else f"{100 * smallest:.1f} points"
        needed = (str(one.clusters_needed or "-"), str(one.items_needed or "-"))
        rows.append((one.benchmark, str(one.clusters), str(one.items), shown, *needed))
    head = ("benchmark", "conversations", "questions", "can detect", "conversations needed", "questions needed")
    console.table(head, rows, title=f"to detect {100 * detect:g} points between two systems", right=tuple(range(1, 6)))
    console.line(
        "note: power 80%, level 5%, paired by question; assumed: two systems differ on "
        f"{100 * DISAGREEING:.0f}% of the "
        f"questions, and questions of one conversation correlate by {CORRELATED}; bench compare measures both "
        "after a run"
    )
    console.line()


def _cache_text(plan: Plan) -> str:
    """Return a line on the call cache: its mode, its file, and the number of stored replies."""
    from bench.models.call_cache import CACHE_FILE, count_replies

    path = plan.workspace / CHECKPOINTS / CACHE_FILE
    saved = "" if plan.request.cache == "write" else "; a call that is equal to one of them costs nothing"
    return (
        f"call cache ({plan.request.cache}): {counted(count_replies(path), 'repl(y|ies)')} in "
        f"{CHECKPOINTS}/{CACHE_FILE}{saved}"
    )


def _show_jobs(plan: Plan) -> None:
    rows = [
        (
            lane.provider.label,
            lane.benchmark.name,
            job.answering,
            job.judge,
            lane.provider.embedded_by or "-",
            str(lane.benchmark.n_selected),
            lane.skipped or _method_text(lane),
        )
        for lane in plan.lanes
        for job in lane.jobs
    ]
    head = ("provider", "benchmark", "answering", "judge", "embedding", "items", "how")
    same = [at for at in range(1, len(head)) if len(rows) > 1 and len({row[at] for row in rows}) == 1]
    shown = [at for at in range(len(head)) if at not in same]
    shared = [
        rows[0][at] if head[at] in ("benchmark", "how") else _shared_value_text(head[at], rows[0][at]) for at in same
    ]
    console.table(
        [head[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
        title=f"{len(rows)} jobs{': ' if shared else ''}{', '.join(shared)}" if len(rows) > 1 else "jobs",
        right=[place for place, at in enumerate(shown) if at == 5],
    )


def _shared_value_text(name: str, value: str) -> str:
    """Format a value that all jobs share, for the title of the table of jobs."""
    if name == "items":
        return f"{counted(int(value), 'item(|s)')} each" if value.isdecimal() else f"{value} items each"
    return f"no {name} model" if value in ("none", "-") else f"{name} {value}"


def _method_text(lane: Lane) -> str:
    parts = [f"k={lane.benchmark.k}, one memory per {lane.unit}"]
    if lane.provider.built_in is None:  # a built-in provider makes no calls
        parts.append(f"{batch_of(lane)} per add")
    if lane.provider.config.scoping.single:
        parts.append("one corpus at a time (scoping: single)")
    if lane.shares:
        parts.append(f"searches the ingest of {lane.shares}")
    return ", ".join(parts)


def _show_traffic(found: Estimate) -> None:
    rows = [
        (
            one.endpoint,
            str(one.calls),
            str(one.tokens_in or "-"),
            str(one.tokens_out or "-"),
            "unknown" if one.cost_usd is None else money_text(one.cost_usd),
            "-" if one.rate_per_s is None else f"{one.rate_per_s:g}/s",
            _seconds(one.least_s),
        )
        for one in found.endpoints
    ]
    head = ("endpoint", "calls", "tokens in", "tokens out", "USD", "limit", "at least")
    console.table(head, rows, title="traffic", right=tuple(range(1, 7)))


def _seconds(time_s: float | None) -> str:
    """Format a number of seconds; None becomes a dash."""
    if time_s is None:
        return "-"
    return f"{time_s:.0f} s" if time_s >= 10 or time_s == 0 else f"{time_s:.2g} s"


def settings(plan: Plan, flags: RunFlags) -> list[tuple[str, str, str]]:
    """Return (name, value, source) for each setting; the source is flag, run file or default.

    Defaults without a value are left out.
    """
    on_line = given_flags(flags)
    found = []
    for name in RunRequest.model_fields:
        value = getattr(plan.request, name)
        origin = "flag" if name in on_line else "run file" if name in plan.request.model_fields_set else "default"
        if origin != "default" or value not in (None, (), {}, False):
            found.append((name, _setting_text(value), origin))
    return found


def _setting_text(value: object) -> str:
    """Format the value of a setting as text; a boolean becomes yes or no, an object becomes its names and values."""
    if isinstance(value, BaseModel):
        return _setting_text(value.model_dump(mode="json", exclude_unset=True))
    if isinstance(value, tuple | list):
        return " ".join(map(_setting_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_setting_text(one)}" for name, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _json(plan: Plan, found: Estimate, flags: RunFlags, unset: Sequence[str]) -> Json:
    return {
        "plan_digest": plan.digest,
        "items": found.items,
        "corpora": found.corpora,
        "builds": found.builds,
        "searches": found.searches,
        "calls": found.calls,
        "cost_usd": None if found.cost_usd is None else str(found.cost_usd),
        "least_s": found.least_s,
        "jobs": [
            {
                "benchmark": lane.benchmark.name,
                "provider": lane.provider.label,
                "models": {
                    "embedding": lane.provider.embedded_by,
                    "answering": None if job.answering == "none" else job.answering,
                    "judge": None if job.judge == "none" else job.judge,
                },
                "n_planned": lane.benchmark.n_selected,
                "k": lane.benchmark.k,
                "build": lane.build,
                "batch": None if lane.provider.built_in is not None else batch_of(lane),
                "skipped": lane.skipped,
            }
            for lane in plan.lanes
            for job in lane.jobs
        ],
        "endpoints": [
            {**asdict(one), "cost_usd": None if one.cost_usd is None else str(one.cost_usd), "least_s": one.least_s}
            for one in found.endpoints
        ],
        "settings": [{"name": name, "value": value, "from": origin} for name, value, origin in settings(plan, flags)],
        "notes": list(plan.notes),
        "unset": list(unset),
    }
