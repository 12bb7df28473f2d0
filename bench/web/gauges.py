"""The service as Prometheus sees it: requests, runs by state, the queue, items and costs of live runs.

Example::

    gauges.seen("GET", "/runs/{run_id}", 200, 0.012)
    gauges.text(site)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from bench.web.site import Site


class Gauges:
    """The metrics of one site, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bench_http_requests_total", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram("bench_http_request_seconds", "Time to answer", ("route",), registry=self.registry)
        self.queued = Gauge("bench_runs_queued", "Runs that wait for their turn", registry=self.registry)
        self.running = Gauge("bench_runs_running", "Runs under way in this service", registry=self.registry)
        labels = ("run_id",)
        self.planned = Gauge("bench_run_items_planned", "Items of a run under way", labels, registry=self.registry)
        self.ended = Gauge("bench_run_items_ended", "Items that ended", labels, registry=self.registry)
        self.in_flight = Gauge("bench_run_requests_in_flight", "Requests in flight", labels, registry=self.registry)
        self.limited = Gauge("bench_run_rate_limited", "Answers 429 so far", labels, registry=self.registry)
        self.cost = Gauge("bench_run_cost_usd", "Known cost so far", labels, registry=self.registry)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self, site: Site) -> bytes:
        """Everything in the text format."""
        service = site.service
        self.queued.set(len(service.queue) if service else 0)
        self.running.set(len(service.active) if service else 0)
        for gauge in (self.planned, self.ended, self.in_flight, self.limited, self.cost):
            gauge.clear()
        for name, one in dict(service.active if service else {}).items():
            progress = one.progress
            if progress is not None:
                self.planned.labels(name).set(progress.planned)
                self.ended.labels(name).set(progress.ended)
                self.in_flight.labels(name).set(progress.in_flight)
                self.limited.labels(name).set(progress.rate_limited)
                self.cost.labels(name).set(float(progress.cost_usd))
        return generate_latest(self.registry)
