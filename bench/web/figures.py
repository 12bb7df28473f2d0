"""Draw the charts of a run and of a leaderboard table from the documents of the API.

Example::

    run_charts(jobs_of(await run_document(site, "r1")))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from bench.report.comparison.formats import ComparedPair, ComparedRow
from bench.report.leaderboard.formats import BoardMetric
from bench.report.results_document import MetricDocument
from bench.web.charts import ChartValue, RowChart, Scatter, forest, intervals, latencies, progress_chart, scatter
from bench.web.documents.comparison_documents import BoardRow
from bench.web.documents.run_documents import JobCounts, JobDigests, JobResult, ReportedRun

LINES = ("oracle", "no-memory", "random")
"""control providers that charts draw as lines; full-context is a point, because it can be used in practice"""
PHASES = ("search", "answer")
"""phases whose latencies the page of a run compares between jobs"""


class Headline(MetricDocument):
    """The main metric of a job; ``so_far`` is True while some items have not ended."""

    metric: str
    so_far: bool


class RunJob(TypedDict):
    """A job of a run, with the values that pages show."""

    name: str
    progress: JobCounts
    record: JobDigests
    result: JobResult | None
    headline: Headline | None


def jobs_of(run: ReportedRun) -> list[RunJob]:
    """Return the jobs of a run's document, each with its progress, settings and results."""
    progress, results = run["progress"]["jobs"], run["results"]
    numbers: Sequence[JobResult | None] = results["jobs"] if results else [None] * len(progress)
    return [
        {"name": name, "progress": done, "record": record, "result": result, "headline": _headline(result, done)}
        for name, done, record, result in zip(_names(run["records"]), progress, run["records"], numbers, strict=True)
    ]


def _headline(result: JobResult | None, standing: JobCounts) -> Headline | None:
    """Return the first metric that has a value; None if no metric has a value, or if the job is INVALID.

    While some items have not ended, the metric has no interval.
    """
    if result is None or not result["valid"]:
        return None
    name = next((name for name, one in result["metrics"].items() if one["n"]), None)
    if name is None:
        return None
    pending = standing["ended"] < standing["planned"]
    found: Headline = {**result["metrics"][name], "metric": name, "so_far": pending}
    return {**found, "interval": None, "value_failures_as_zero": None} if pending else found


def _names(records: Sequence[JobDigests]) -> list[str]:
    """Return a name for each job: its provider, then the benchmark and models if they differ between the jobs."""
    facets = [(record["benchmark"], *record["models"].values()) for record in records]
    differing = [at for at, column in enumerate(zip(*facets, strict=True)) if len(set(column)) > 1]
    return [
        " ".join([record["provider"], *(str(facet[at]) for at in differing if facet[at])])
        for record, facet in zip(records, facets, strict=True)
    ]


# ------------------------------------------------------------------ a run


def run_charts(jobs: Sequence[RunJob]) -> dict[str, list[RowChart]]:
    """Return the charts of a run's page, grouped by section of the page."""
    ends = [(job["name"], job["progress"]["planned"], job["result"]["ends"] if job["result"] else ()) for job in jobs]
    return {
        "accuracy": [chart for group in _by_metric(jobs) for chart in (_overall(*group), _types(*group)) if chart],
        "latency": [chart for phase in PHASES if (chart := _latency(jobs, phase)) is not None],
        "progress": [chart]
        if (chart := progress_chart(ends, title="Progress over time: the share of items that had ended")) is not None
        else [],
    }


def _by_metric(jobs: Sequence[RunJob]) -> Iterator[tuple[str, list[tuple[RunJob, Headline]]]]:
    """Yield groups of jobs that have the same benchmark and main metric; in a group, the best job is first.

    Jobs whose main metric has a unit are left out.
    """
    groups: dict[str, list[tuple[RunJob, Headline]]] = {}
    for job in jobs:
        headline = job["headline"]
        if headline is not None and headline.get("unit") is None:
            groups.setdefault(f"{job['record']['benchmark']}: {headline['metric']}", []).append((job, headline))
    for key, group in groups.items():
        yield key, sorted(group, key=lambda one: -(one[1]["value"] or 0.0))


def _overall(title: str, jobs: Sequence[tuple[RunJob, Headline]]) -> RowChart | None:
    lines = [
        (name, value)
        for job, one in jobs
        if (name := job["record"]["provider"]) in LINES and (value := one["value"]) is not None
    ]
    rows = [chart_value(job["name"], one) for job, one in jobs]
    return intervals(rows, title=f"{title}, with 95% intervals", lines=lines)


def _types(title: str, jobs: Sequence[tuple[RunJob, Headline]]) -> RowChart | None:
    """Chart the main metric of each job by question type; None for fewer than two question types."""
    split = [(job["name"], one["breakdown"].get("question_type", {})) for job, one in jobs]
    labels = sorted({label for _, found in split for label in found})
    rows = [chart_value(name, found[label], label) for label in labels for name, found in split if label in found]
    return intervals(rows, title=f"{title} by question type") if len(labels) > 1 else None


def chart_value(name: str, one: MetricDocument, group: str = "") -> ChartValue:
    bounds = one["interval"]
    low, high = (bounds["low"], bounds["high"]) if bounds else (None, None)
    return ChartValue(name=name, group=group, value=one["value"], low=low, high=high, n=one["n"])


def _latency(jobs: Sequence[RunJob], phase: str) -> RowChart | None:
    known = [(job["name"], job["result"]["times"]) for job in jobs if job["result"]]
    found = [(name, times[phase]) for name, times in known if phase in times]
    what = f"{phase.capitalize()} latency (network and provider, without queue and limiter)"
    return latencies(found, title=f"{what}: how many, and the median as a line")


# ------------------------------------------------------------------ a comparison


def forest_chart(pair: ComparedPair) -> RowChart | None:
    """Chart the difference of each compared share with its interval; None if no share was compared.

    Rows whose p values are corrected together are shown as one group.
    """
    rows = [row for row in pair["rows"] if row["delta"] is not None and _is_share(row)]
    return forest([_difference(row) for row in rows], title="A − B, with 95% intervals around no difference")


def _is_share(row: ComparedRow) -> bool:
    """Return True if both values are between 0 and 1, and the row does not compare percentiles.

    Times and money would need another scale.
    """
    return row["family"] != "percentiles" and max(abs(row["a"] or 0), abs(row["b"] or 0)) <= 1


def _difference(row: ComparedRow) -> ChartValue:
    name, bounds = f"{row['metric']} {row['label'] or ''}".strip(), row["interval"]
    low, high = (bounds["low"], bounds["high"]) if bounds else (None, None)
    return ChartValue(name=name, group=row["family"], value=row["delta"], low=low, high=high, n=row["n"])


# ------------------------------------------------------------------ a table of the leaderboard


def board_charts(rows: Sequence[BoardRow]) -> dict[str, RowChart | Scatter | None]:
    """Chart a leaderboard table in three ways: values with intervals, values against latency, values against cost."""
    every = [(row, one) for row in rows if (one := ranking_metric(row)) is not None]
    lines = [
        (row["provider"], value)
        for row, one in every
        if row["provider"] in LINES and (value := one["value"]) is not None
    ]
    known = [(row, one) for row, one in every if row["provider"] not in LINES]
    names = [row["name"] for row, _ in known]
    values = [one["value"] for _, one in known]
    metric = every[0][0]["headline"] if every else ""
    times = [row["search_p50_ms"] for row, _ in known]
    costs = [None if (usd := row["per_question"]) is None else 1000 * usd for row, _ in known]
    measured = [_board_value(row, one) for row, one in every]
    bounds = {row["name"] for row, _ in known if row.get("bound")}
    return {
        "values": intervals(measured, title=f"{metric}, with 95% intervals", lines=lines),
        "by_latency": scatter(
            list(zip(names, times, values, strict=True)),
            title=f"{metric} against latency",
            takes="median search latency (network and provider), ms",
            bounds=bounds,
            lines=lines,
        ),
        "by_cost": scatter(
            list(zip(names, costs, values, strict=True)),
            title=f"{metric} against cost",
            takes="USD per 1,000 questions, judge included",
            bounds=bounds,
            lines=lines,
        ),
    }


def type_chart(rows: Sequence[BoardRow]) -> RowChart | None:
    """Chart the values of each row by question type; None if no row has question types."""
    labels = sorted({label for row in rows for label in row["question_types"]})
    measured = [
        _board_value(row, one, label)
        for label in labels
        for row in rows
        if (one := row["question_types"].get(label)) is not None
    ]
    return intervals(measured, title="By question type, with 95% intervals")


def _board_value(row: BoardRow, one: BoardMetric, group: str = "") -> ChartValue:
    return ChartValue(name=row["name"], group=group, value=one["value"], low=one["low"], high=one["high"], n=one["n"])


def ranking_metric(row: BoardRow) -> BoardMetric | None:
    """Return the metric by which a row is ranked; None if the row has no such metric."""
    return row["metrics"].get(row["headline"] or "")
