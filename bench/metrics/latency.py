"""Performance metrics: percentiles of durations, computed in microseconds and shown in milliseconds.

``search_latency_p95`` is the time of network and provider. Other times have a suffix: ``search_latency_p95.queue`` is
the time that a call waits in bench. Only the successful attempt of a call is counted.

Example::

    bench.metrics.resolve("p95_latency_ms").definition       # "latency_p95/1"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.metrics.aggregation import FoldRule, Mean, MeanWithPercentiles, Percentile, PerSecond
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import Row

Params = Mapping[str, object]

UNTIMED_PART = "untimed"
"""key in ``times_us`` that marks a phase without a time of its own, because the reply was cached or batched"""
PARTS = ("queue", "limiter", "network", "provider")
US_PER_MS = 1_000
STATISTICS: Mapping[str, FoldRule] = {
    "p50": Percentile(50, US_PER_MS),
    "p90": Percentile(90, US_PER_MS),
    "p95": Percentile(95, US_PER_MS),
    "p99": Percentile(99, US_PER_MS),
    "mean": Mean(US_PER_MS, failures_as_zero=False, shares=False),
    "max": Percentile(100, US_PER_MS),
}
_ALIASES = {
    "latency_p50": ("latency_p50_ms", "p50_latency_ms"),
    "latency_p95": ("latency_p95_ms", "p95_latency_ms"),
    "latency_p99": ("latency_p99_ms", "p99_latency_ms"),
    "latency_mean": ("avg_search_latency_ms",),
    "total_latency_mean": ("avg_total_latency_ms",),
}


def phase_us(times_us: Mapping[str, int], phase: str, part: str | None = None) -> int | None:
    """Return the microseconds of one phase, such as ``search``.

    With ``part``, return only this part of the time, such as ``queue``. Without ``part``, return network + provider. If
    neither is known, return the total of the phase.
    """
    if part is not None:
        return times_us.get(f"{phase}.{part}")
    return _call_us(times_us.get(f"{phase}.network"), times_us.get(f"{phase}.provider"), times_us.get(phase))


def attempt_us(times_us: Mapping[str, int]) -> int | None:
    """Return the microseconds of one attempt of a call: network + provider, or the total if neither is known."""
    return _call_us(times_us.get("network"), times_us.get("provider"), times_us.get("total"))


def _call_us(network: int | None, provider: int | None, whole: int | None) -> int | None:
    if network is None and provider is None:
        return whole
    return (network or 0) + (provider or 0)


def total_us(times_us: Mapping[str, int], part: str | None = None) -> int | None:
    """Return the microseconds that a user waits: the search, and the answer if there is one.

    Return None if the search has no time, or if the answer came from a cache or a batch.
    """
    search = phase_us(times_us, "search", part)
    if search is None or f"answer.{UNTIMED_PART}" in times_us:
        return None
    return search + (phase_us(times_us, "answer", part) or 0)


def _item_time(phase: str, fold: FoldRule) -> Callable[[int | None, Params], Arithmetic]:
    def build(k: int | None, params: Params) -> Arithmetic:
        part = None if params["part"] is None else str(params["part"])

        def of_row(row: Row) -> float | None:
            found = total_us(row.times_us, part) if phase == "total" else phase_us(row.times_us, phase, part)
            return None if found is None else float(found)

        return Arithmetic(of_row=of_row, of_inputs=_of_microseconds, fold=fold)

    return build


def _of_microseconds(us: int | None = None) -> float | None:
    return None if us is None else float(us)


def _entry(name: str, phase: str, fold: FoldRule, aliases: Sequence[str], summary: str) -> RegisteredMetric:
    return RegisteredMetric(
        name=name,
        summary=summary,
        category="performance",
        build=_item_time(phase, fold),
        define=lambda params: name if params["part"] is None else f"{name}.{params['part']}",
        aliases={alias: {} for alias in aliases},
        parameters={"part": Parameter(default=None, choices=(*PARTS, None))},
        dotted="part",
        unit="ms",
        lower_is_better=True,
        scope="corpus" if phase == "ingest" else "item",
    )


def _phase_entries() -> list[RegisteredMetric]:
    entries = []
    for phase in ("search", "answer", "ingest", "evaluate", "total"):
        for statistic, fold in STATISTICS.items():
            name = f"latency_{statistic}" if phase == "search" else f"{phase}_latency_{statistic}"
            aliases = list(_ALIASES.get(name, ()))
            if phase == "search":
                aliases.append(f"search_latency_{statistic}")
            what = {
                "total": "search + answer time",
                "ingest": "ingest time of a corpus (the sum of its adds)",
            }.get(phase, f"{phase} time")
            entries.append(
                _entry(
                    name,
                    phase,
                    fold,
                    aliases,
                    f"{statistic} of the {what}, without the waits in queue and limiter",
                )
            )
    return entries


def _searchable(fold: FoldRule) -> Callable[[int | None, Params], Arithmetic]:
    arithmetic = Arithmetic(of_row=lambda row: _of_microseconds(row.times_us.get("searchable")), fold=fold)
    return lambda k, params: arithmetic


def _memories(row: Row) -> float | None:
    count = row.tokens.get("memories")
    return None if count is None else float(count)


ENTRIES = (
    *_phase_entries(),
    _entry(
        "latency", "search", MeanWithPercentiles(US_PER_MS), ("latency_ms",), "mean search time, with all percentiles"
    ),
    *(
        RegisteredMetric(
            name=f"ingest_to_searchable_{statistic}",
            summary=f"{statistic} of the time from the last acknowledged add until the corpus could be searched",
            category="performance",
            build=_searchable(STATISTICS[statistic]),
            unit="ms",
            lower_is_better=True,
            scope="corpus",
        )
        for statistic in ("p50", "p95")
    ),
    RegisteredMetric(
        name="ingest_throughput",
        summary="ingested memories per second of wall time; depends on --ingest-concurrency",
        category="performance",
        build=lambda k, params: Arithmetic(of_row=_memories, fold=PerSecond()),
        aliases={"ingest_throughput_items_per_sec": {}},
        unit="memories/s",
        scope="corpus",
    ),
)
