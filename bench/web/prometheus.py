"""Prometheus metrics of the service: requests, the queue of runs, and the items, calls and costs of live runs.

Example::

    metrics = ServiceMetrics()
    metrics.count_request("GET", "/runs/{run_id}", 200, 0.012)
    await metrics.text(site)
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bench.engine import Progress
from bench.journal import Reader
from bench.journal.paths import CHECKPOINTS
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.cache import SHORT_WAIT_S
from bench.web.documents.run_documents import journal_stamp


class ServiceMetrics:
    """The metrics of one site; each site has its own Prometheus registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bench_http_requests_total", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram("bench_http_request_seconds", "Time to answer", ("route",), registry=self.registry)
        labels = ("run_id",)
        self.queued = self._gauge("runs_queued", "Runs that wait for their turn")
        self.running = self._gauge("runs_running", "Runs under way in this service")
        self.planned = self._gauge("run_items_planned", "Items of a run under way", labels)
        self.ended = self._gauge("run_items_ended", "Items that ended", labels)
        self.in_flight = self._gauge("run_requests_in_flight", "Requests in flight", labels)
        self.calls = self._gauge("run_calls", "Calls made so far", labels)
        self.rows_waiting = self._gauge("run_journal_rows_waiting", "Journal rows that are not yet durable", labels)
        self.states = self._gauge("run_items", "Items that ended, by state", ("run_id", "state"))
        self.phases = self._gauge(
            "run_phases", "Phase rows by outcome: ok, or the kind of error", ("run_id", "phase", "outcome")
        )
        self.limited = self._gauge("run_rate_limited", "Answers 429 so far", labels)
        self.cost = self._gauge("run_cost_usd", "Known cost so far", labels)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"bench_{name}", text, labels, registry=self.registry)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one HTTP request and its duration in seconds."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    async def text(self, site: Site) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        service = site.service
        self.queued.set(len(service.queue) if service else 0)
        self.running.set(len(service.active) if service else 0)
        totals = (self.planned, self.ended, self.in_flight, self.limited, self.cost, self.calls, self.rows_waiting)
        for gauge in (*totals, self.states, self.phases):
            gauge.clear()
        live = dict(service.active) if service else {}
        for name, one in live.items():
            if one.progress is not None:
                self._follow(name, one.progress)
                await self._count(site, name)
        return generate_latest(self.registry)

    def _follow(self, name: str, progress: Progress) -> None:
        """Set the gauges of the live run ``name`` from the engine's progress."""
        self.planned.labels(name).set(progress.planned)
        self.ended.labels(name).set(progress.ended)
        self.in_flight.labels(name).set(progress.in_flight)
        self.limited.labels(name).set(progress.rate_limited)
        self.cost.labels(name).set(float(progress.cost_usd))
        self.calls.labels(name).set(progress.calls)
        self.rows_waiting.labels(name).set(progress.rows_waiting)
        states: Counts[str] = Counts()
        for job in progress.jobs.values():
            states.update({str(state): count for state, count in job.states.items()})
        for state, count in states.items():
            self.states.labels(name, state).set(count)

    async def _count(self, site: Site, name: str) -> None:
        """Set the gauges that count phases by outcome for the live run ``name``; the counts come from its journal."""
        folder = site.workspace / CHECKPOINTS / name
        shown = await site.cache.get(
            ("phases", name), journal_stamp(folder), partial(_outcomes, folder), max_wait_s=SHORT_WAIT_S
        )
        for key, count in (shown.document or {}).items():
            phase, _, outcome = key.partition(" ")
            self.phases.labels(name, phase, outcome).set(float(str(count)))


async def _outcomes(folder: Path) -> Json:
    async with Reader.open(folder) as reader:
        return {f"{phase} {outcome}": count for (phase, outcome), count in (await reader.counts()).items()}


METRICS = web.AppKey("gauges", ServiceMetrics)
