"""Charts of documents: which jobs share a chart, names of jobs, and missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.web.charts import RowChart, Scatter
from bench.web.documents.run_documents import latency_spread
from bench.web.figures import board_charts, jobs_of, ranking_metric, run_charts, type_chart
from tests.rows import each_row

Json = dict[str, Any]


def one(value: float | None = 0.5, **more: Any) -> Json:
    plain = {"value": value, "n": 0 if value is None else 4, "interval": None, "breakdown": {}}
    return {**plain, **more}


def result(metrics: Mapping[str, Json], *, valid: bool = True, **more: Any) -> Json:
    return {"valid": valid, "metrics": metrics, "times": {}, "ends": [], **more}


def run_of(*jobs: tuple[Json, Json | None]) -> Json:
    """Return the document of a run from (record, result) pairs."""
    records = [
        {
            "benchmark": "facts",
            "provider": "x",
            "models": {"embedding": None, "answering": "m", "judge": None},
            **record,
        }
        for record, _ in jobs
    ]
    progress = [{"planned": 4, "ended": 4} for _ in jobs]
    results = [found for _, found in jobs]
    return {
        "progress": {"jobs": progress},
        "records": records,
        "results": None if None in results else {"jobs": results},
    }


def charts(*jobs: tuple[Json, Json | None]) -> dict[str, list[RowChart]]:
    return run_charts(jobs_of(run_of(*jobs)))


NAMES: list[tuple[list[Json], list[str]]] = [
    ([{"provider": "a"}, {"provider": "b"}], ["a", "b"]),
    ([{"provider": "a", "benchmark": "tales"}, {"provider": "a"}], ["a tales", "a facts"]),
    (
        [{"models": {"embedding": None, "answering": name, "judge": None}} for name in ("m1", "m2")],
        ["x m1", "x m2"],
    ),
    (
        [{"models": {"embedding": name, "answering": "m", "judge": "j"}} for name in ("e1", None)],
        ["x e1", "x"],
    ),
    ([{}], ["x"]),
]


@each_row(("records", "names"), NAMES)
def test_a_job_is_named_by_the_fields_that_differ_between_jobs(records: list[Json], names: list[str]) -> None:
    assert [job["name"] for job in jobs_of(run_of(*((record, None) for record in records)))] == names


def test_a_run_without_results_has_jobs_but_no_charts() -> None:
    jobs = jobs_of(run_of(({}, None), ({"provider": "y"}, None)))
    assert [(job["result"], job["headline"]) for job in jobs] == [(None, None)] * 2
    assert run_charts(jobs) == {"accuracy": [], "latency": [], "progress": []}


@each_row(
    ("found", "headline"),
    [
        (result({"a": one(None), "b": one(0.25)}), "b"), (result({"a": one(0.0), "b": one(1.0)}), "a"),
        (result({"a": one(1.0)}, valid=False), None), (result({"a": one(None)}), None), (result({}), None),
    ],
)  # fmt: skip
def test_the_headline_is_the_first_metric_with_a_value_of_a_valid_job(found: Json, headline: str | None) -> None:
    (job,) = jobs_of(run_of(({}, found)))
    assert (job["headline"] or {"metric": None})["metric"] == headline


def test_jobs_with_the_same_benchmark_and_headline_share_a_chart_sorted_by_value() -> None:
    low, high = result({"accuracy": one(0.25)}), result({"accuracy": one(0.75)})
    found = charts(
        ({"provider": "a"}, low), ({"provider": "b"}, high), ({"provider": "c"}, result({"mrr": one(0.5)})),
        ({"provider": "d", "benchmark": "tales"}, high), ({"provider": "e"}, result({"ms": one(7.0, unit="ms")})),
        ({"provider": "f"}, result({"accuracy": one(1.0)}, valid=False)),
    )["accuracy"]  # fmt: skip
    # benchmarks differ, so the name of a job contains its benchmark
    assert [(chart.title, [row.name for row in chart.rows]) for chart in found] == [
        ("facts: accuracy, with 95% intervals", ["b facts", "a facts"]),
        ("facts: mrr, with 95% intervals", ["c facts"]),
        ("tales: accuracy, with 95% intervals", ["d tales"]),
    ]


def test_question_types_have_their_own_chart_if_there_are_several() -> None:
    def typed(*labels: str) -> Json:
        kinds = {label: one(0.5, interval={"low": 0.25, "high": 0.75}) for label in labels}
        return result({"accuracy": one(0.5, breakdown={"question_type": kinds})})

    _, types = charts(({"provider": "a"}, typed("t1", "t2")), ({"provider": "b"}, typed("t2")))["accuracy"]
    assert types.title == "facts: accuracy by question type"
    assert [(row.group, row.name) for row in types.rows] == [("t1", "a"), ("t2", "a"), ("t2", "b")]
    first = types.rows[0]
    assert first.low is not None and first.dot is not None and first.high is not None
    assert (first.low * 2, first.high / 3 * 2) == (first.dot, first.dot), "0.25, 0.5 and 0.75 on one scale from zero"
    assert len(charts(({"provider": "a"}, typed("t1")))["accuracy"]) == 1


def test_latency_and_progress_charts_contain_only_jobs_with_times() -> None:
    timed = result(
        {"accuracy": one()},
        times={"search": latency_spread([{"total": 500}], 1), "evaluate": latency_spread([{"total": 9}], 1)},
        ends=[(1.0, 2), (2.0, 4)],
    )
    found = charts(({"provider": "a"}, timed), ({"provider": "b"}, result({"accuracy": one()})))
    assert [chart.title for chart in found["latency"]] == [
        "Search latency (network and provider, without queue and limiter): how many, and the median as a line"
    ]
    assert [row.name for row in found["latency"][0].rows] == ["a"]
    assert [row.value for row in found["progress"][0].rows] == ["100%"]


# ------------------------------------------------------------------------------ the board


def row(name: str, value: float | None, *, ms: float | None = 2.0, cost: str | None = "0.5", **types: float) -> Json:
    measured = {"value": value, "low": 0.1, "high": 0.9, "n": 4}
    kinds = {label: {**measured, "value": share} for label, share in types.items()}
    return {
        "name": name, "provider": name, "headline": "accuracy",
        "metrics": {"accuracy": measured} if value is not None else {},
        "question_types": kinds, "search_p50_ms": ms, "per_question": None if cost is None else float(cost) / 1000,
    }  # fmt: skip


def test_leaderboard_charts_show_value_latency_and_cost() -> None:
    found = board_charts([row("a", 0.5), row("b", 0.75, ms=4.0, cost="2")])
    values, latency, cost = found["values"], found["by_latency"], found["by_cost"]
    assert isinstance(values, RowChart) and isinstance(latency, Scatter) and isinstance(cost, Scatter)
    assert values.title == "accuracy, with 95% intervals" and [one.name for one in values.rows] == ["a", "b"]
    assert (latency.title, latency.takes) == (
        "accuracy against latency",
        "median search latency (network and provider), ms",
    )
    assert (cost.title, cost.takes) == ("accuracy against cost", "USD per 1,000 questions, judge included")
    assert all(point.best for point in latency.points), "more for more"


def test_a_scatter_is_omitted_if_costs_or_latencies_are_unknown() -> None:
    found = board_charts([row("a", 0.5, cost=None), row("b", 0.75, cost=None)])
    assert found["by_cost"] is None and found["by_latency"] is not None
    assert board_charts([row("a", 0.5, ms=None), row("b", 0.75)])["by_latency"] is None


def test_leaderboard_charts_omit_rows_without_a_value() -> None:
    rows = [row("a", 0.5), row("c", None)]
    found = board_charts(rows)["values"]
    assert isinstance(found, RowChart) and [one.name for one in found.rows] == ["a"]
    assert [ranking_metric(one) is None for one in rows] == [False, True]
    assert board_charts([]) == {"values": None, "by_latency": None, "by_cost": None}


def test_type_chart_groups_rows_by_question_type() -> None:
    chart = type_chart([row("a", 0.5, t2=0.5, t1=0.25), row("b", 0.5, t2=1.0)])
    assert chart is not None
    assert [(one.group, one.name, one.value) for one in chart.rows] == [
        ("t1", "a", "0.250"), ("t2", "a", "0.500"), ("t2", "b", "1.000"),
    ]  # fmt: skip
    assert type_chart([row("a", 0.5)]) is None and type_chart([]) is None
