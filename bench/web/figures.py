"""The charts of a run and of a leaderboard table, drawn from the documents of the API.

Example::

    run_charts(jobs_of(await run_document(site, "r1")))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from bench.web.cache import Json
from bench.web.charts import Measured, RowChart, Scatter, Steps, forest, intervals, latencies, pace, scatter

LINES = ("oracle", "no-memory", "random")
"""bounds that plots show as lines; full-context, which can be bought, is a point"""
PHASES = ("search", "answer")
"""phases whose times are compared between jobs"""


def jobs_of(run: Mapping[str, object]) -> list[Json]:
    """Join progress, digests and numbers of each job of a run's document."""
    progress = cast("Mapping[str, list[Json]]", run["progress"])["jobs"]
    results = run["results"]
    numbers = cast("list[Json]", results["jobs"]) if isinstance(results, Mapping) else []
    found: list[Json] = []
    for at, (standing, record) in enumerate(zip(progress, cast("list[Json]", run["records"]), strict=True)):
        result = numbers[at] if at < len(numbers) else None
        found.append(
            {"progress": standing, "record": record, "result": result, "headline": _headline(result, standing)}
        )
    names = _names(found)
    return [{**job, "name": name} for job, name in zip(found, names, strict=True)]


def _headline(result: Json | None, standing: Json) -> Json | None:
    """Return the first metric with a value of a valid job; without interval while items are pending."""
    if result is None or not result["valid"]:
        return None
    metrics = cast("Mapping[str, Json]", result["metrics"])
    found = next(({"metric": name, **one} for name, one in metrics.items() if one["n"]), None)
    if found is None or cast("int", standing["ended"]) >= cast("int", standing["planned"]):
        return found
    return {**found, "so_far": True, "interval": None, "value_failures_as_zero": None}


def _names(jobs: Sequence[Json]) -> list[str]:
    """Name each job by its provider, and by the benchmark and models in which the jobs differ."""
    records = [cast("Json", job["record"]) for job in jobs]
    facets = [(record["benchmark"], *cast("Json", record["models"]).values()) for record in records]
    telling = [at for at, column in enumerate(zip(*facets, strict=True)) if len(set(column)) > 1]
    return [
        " ".join([str(record["provider"]), *(str(facet[at]) for at in telling if facet[at])])
        for record, facet in zip(records, facets, strict=True)
    ]


# ------------------------------------------------------------------ a run


def run_charts(jobs: Sequence[Json]) -> dict[str, list[RowChart]]:
    """Return the charts of a run's page by section."""
    return {
        "accuracy": [chart for group in _by_metric(jobs) for chart in (_overall(*group), _types(*group)) if chart],
        "latency": [chart for phase in PHASES if (chart := _latency(jobs, phase)) is not None],
        "progress": [chart] if (chart := _progress(jobs)) is not None else [],
    }


def _by_metric(jobs: Sequence[Json]) -> Iterator[tuple[str, list[Json]]]:
    """Yield the jobs with the same benchmark and headline metric, the best first."""
    groups: dict[str, list[Json]] = {}
    for job in jobs:
        headline = cast("Json | None", job["headline"])
        if headline is not None and headline.get("unit") is None:
            key = f"{cast('Json', job['record'])['benchmark']}: {headline['metric']}"
            groups.setdefault(key, []).append(job)
    for key, group in groups.items():
        yield key, sorted(group, key=lambda job: -(_value(job) or 0.0))


def _value(job: Json) -> float | None:
    return cast("float | None", cast("Json", job["headline"])["value"])


def _overall(title: str, jobs: Sequence[Json]) -> RowChart | None:
    rows = [measured(str(job["name"]), cast("Json", job["headline"])) for job in jobs]
    lines = [
        (str(name), value)
        for job in jobs
        if (name := cast("Json", job["record"])["provider"]) in LINES and (value := _value(job)) is not None
    ]
    return intervals(rows, title=f"{title}, with 95 % intervals", lines=lines)


def _types(title: str, jobs: Sequence[Json]) -> RowChart | None:
    """Chart the headline by question type; None if there is only one type."""
    split = [(str(job["name"]), _breakdown(job)) for job in jobs]
    labels = sorted({label for _, found in split for label in found})
    rows = [measured(name, found[label], label) for label in labels for name, found in split if label in found]
    return intervals(rows, title=f"{title} by question type") if len(labels) > 1 else None


def _breakdown(job: Json) -> Mapping[str, Json]:
    found = cast("Mapping[str, Mapping[str, Json]]", cast("Json", job["headline"])["breakdown"])
    return found.get("question_type", {})


def measured(name: str, one: Mapping[str, object], group: str = "") -> Measured:
    interval = cast("Mapping[str, float] | None", one.get("interval"))
    return Measured(
        name=name,
        group=group,
        value=cast("float | None", one["value"]),
        low=interval["low"] if interval else None,
        high=interval["high"] if interval else None,
        n=cast("int", one["n"]),
    )


def _latency(jobs: Sequence[Json], phase: str) -> RowChart | None:
    found = []
    for job in jobs:
        result = cast("Json | None", job["result"])
        times = cast("Mapping[str, Json]", result["times"]) if result else {}
        if phase in times:
            found.append((str(job["name"]), times[phase]))
    what = f"{phase.capitalize()} latency (network and provider, without queue and limiter)"
    return latencies(found, title=f"{what}: how many, and the median as a line")


def _progress(jobs: Sequence[Json]) -> RowChart | None:
    found = []
    for job in jobs:
        result = cast("Json | None", job["result"])
        steps = cast("Steps", result["ends"]) if result else ()
        found.append((str(job["name"]), cast("int", cast("Json", job["progress"])["planned"]), steps))
    return pace(found, title="Progress over time: the share of items that had ended")


# ------------------------------------------------------------------ a comparison


def forest_chart(pair: Json) -> RowChart | None:
    """Chart the difference of every compared share with its interval, by family."""
    rows = [row for row in cast("list[Json]", pair["rows"]) if row["delta"] is not None and _is_share(row)]
    return forest([_difference(row) for row in rows], title="A − B, with 95 % intervals around no difference")


def _is_share(row: Json) -> bool:
    """Return True for a share; times and money have other scales and would hide the shares."""
    sides = [abs(cast("float", row[side] or 0)) for side in ("a", "b")]
    return not row.get("unit") and row["family"] != "percentiles" and max(sides) <= 1


def _difference(row: Json) -> Measured:
    interval = cast("Mapping[str, float] | None", row["interval"])
    label = row["label"] or ""
    return Measured(
        name=f"{row['metric']} {label}".strip(),
        group=str(row["family"]),
        value=cast("float", row["delta"]),
        low=interval["low"] if interval else None,
        high=interval["high"] if interval else None,
        n=cast("int | None", row.get("n")),
    )


# ------------------------------------------------------------------ a table of the leaderboard


def board_charts(rows: Sequence[Json], kind: str) -> dict[str, RowChart | Scatter | None]:
    """Chart the values of a table's rows: with intervals, against latency, and against cost."""
    every = [(row, one) for row in rows if (one := shown_metric(row, kind)) is not None]
    lines = [
        (str(row["provider"]), value)
        for row, one in every
        if row["provider"] in LINES and (value := cast("float | None", one["value"])) is not None
    ]
    known = [(row, one) for row, one in every if row["provider"] not in LINES]
    names = [str(row["name"]) for row, _ in known]
    values = [cast("float | None", one["value"]) for _, one in known]
    metric = str(every[0][0]["headline"]) if every else ""
    times = [cast("float | None", row["search_p50_ms"]) for row, _ in known]
    costs = [None if (usd := row.get("per_question")) is None else 1000 * cast("float", usd) for row, _ in known]
    measured = [_summed(row, one) for row, one in every]
    bounds = {str(row["name"]) for row, _ in known if row.get("bound")}
    about = f"{metric} ({kind})" if kind else metric
    return {
        "values": intervals(measured, title=f"{about}, with 95 % intervals", lines=lines),
        "by_latency": scatter(
            list(zip(names, times, values, strict=True)),
            title=f"{about} against latency",
            takes="median search latency (network and provider), ms",
            bounds=bounds,
            lines=lines,
        ),
        "by_cost": scatter(
            list(zip(names, costs, values, strict=True)),
            title=f"{about} against cost",
            takes="USD per 1,000 questions, judge included",
            bounds=bounds,
            lines=lines,
        ),
    }


def type_chart(rows: Sequence[Json]) -> RowChart | None:
    """Chart the values by question type and provider."""
    labels = sorted({label for row in rows for label in cast("Json", row["question_types"])})
    measured = [
        _summed(row, one, label)
        for label in labels
        for row in rows
        if (one := cast("Mapping[str, Json]", row["question_types"]).get(label)) is not None
    ]
    return intervals(measured, title="By question type, with 95 % intervals")


def _summed(row: Json, one: Json, group: str = "") -> Measured:
    value, low, high = (cast("float | None", one[name]) for name in ("value", "low", "high"))
    return Measured(name=str(row["name"]), group=group, value=value, low=low, high=high, n=cast("int", one["n"]))


def shown_metric(row: Json, kind: str) -> Json | None:
    """Return the metric that a row is ranked by: its headline, or the headline of one question type."""
    if kind:
        return cast("Mapping[str, Json]", row["question_types"]).get(kind)
    return _metrics(row).get(str(row["headline"]))


def _metrics(row: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", row["metrics"])
