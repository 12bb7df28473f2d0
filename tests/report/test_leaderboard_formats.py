"""The leaderboard: summary sentences, rows, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.journal import RunState
from bench.model import Phase, State
from bench.plan.job_record import ModelNames
from bench.report.leaderboard.formats import board_csv, board_grids, board_json
from bench.report.leaderboard.standings import RankedJob, load_board, summary_sentences, tables_of
from bench.report.summary import rebuild
from tests.full_journal import WRONG, ItemData, call, write_run
from tests.small_journal import measuring, record

NONE = ModelNames(embedding=None, answering=None, judge=None)


def items(right: int, *, of: int = 20, calls: Mapping[Phase, Any] | None = None, **values: float) -> list[ItemData]:
    return [
        ItemData(
            item=f"q{at:02d}",
            state=State.CORRECT if at < right else State.INCORRECT,
            verdicts=(WRONG,),
            values={"accuracy": float(at < right), **values},
            labels={"question_type": "ab"[at % 2]},
            calls=calls or {},
        )
        for at in range(of)
    ]


def named(provider: str, benchmark: str = "facts", **changes: Any) -> Any:
    own = {"key": f"{provider}-{benchmark}-{len(changes)}", "lane": f"{provider}-{benchmark}"}
    return record(provider, benchmark=benchmark, **{**own, "answer_owner": f"{provider}-{benchmark}", **changes})


async def board(workspace: Path, *jobs: tuple[Any, list[ItemData]], **more: Any) -> list[RankedJob]:
    await write_run(workspace, "r1", jobs, **more)
    await rebuild(workspace)
    return await load_board(workspace)


async def sentences(workspace: Path, view: str, *jobs: tuple[Any, list[ItemData]]) -> list[tuple[str, ...]]:
    return [summary_sentences(table) for table in tables_of(await board(workspace, *jobs), view)]


async def test_overall_names_the_leader_by_mean_and_states_that_it_is_not_tested(tmp_path: Path) -> None:
    jobs = [
        (named("a"), items(20)), (named("b"), items(10)),
        (named("a", "tales"), items(10)), (named("b", "tales"), items(10)),
    ]  # fmt: skip
    ((text,),) = await sentences(tmp_path, "overall", *jobs)
    assert text == (
        "a leads on the mean of 2 benchmarks with 0.75; b is next, 0.25 behind "
        "(a mean over benchmarks is not tested: compare them one by one)"
    )


async def test_the_model_view_names_rows_by_model_and_suggests_their_comparison(tmp_path: Path) -> None:
    other = ModelNames(embedding=None, answering="acme/m2", judge=None)
    jobs = [(named("a", key="1"), items(10)), (named("a", key="2", models=other, answer_owner="o"), items(15))]
    ((text,),) = await sentences(tmp_path, "model", *jobs)
    assert text.startswith("acme/m2 leads on accuracy with 0.75 [") and "acme/m1 is next, 0.25 behind" in text
    assert text.endswith("bench compare r1:a:acme/m2 r1:a:acme/m1 tests the difference")


async def test_a_table_with_a_row_without_value_has_no_leader(tmp_path: Path) -> None:
    unscored = [ItemData(item="q1", state=State.UNSCORED, values={"accuracy": None}, verdicts=())]
    jobs = [(named("a"), items(10)), (named("b"), unscored)]
    found = await board(tmp_path, *jobs)
    assert {one.job.provider: one.headline is None for one in found} == {"a": False, "b": True}
    tables = tables_of(found, "benchmark")
    alone = ("there is only a, so there is nothing to compare yet",)
    assert [summary_sentences(table) for table in tables] in ([(), alone], [alone, ()])
    for grid in board_grids(tables, "benchmark"):
        if grid.rows[0][0] == "b":
            assert grid.head[2] == "no metric" and grid.rows[0][2:5] == ("-", "-", "0")


async def test_the_provider_view_has_no_summary_sentence(tmp_path: Path) -> None:
    jobs = [(named("a"), items(20)), (named("b"), items(10)), (named("a", "tales"), items(10))]
    assert await sentences(tmp_path, "provider", *jobs) == [()]
    (grid,) = board_grids(tables_of(await load_board(tmp_path), "provider"), "provider")
    assert grid.head == ("provider", "embedding", "facts k=10 accuracy", "tales k=10 accuracy")
    assert [row[0] for row in grid.rows] == ["a", "b"] and grid.rows[1][3] == "-"
    assert grid.notes == ("only values of one column are comparable",)


async def test_the_distance_of_the_leader_is_positive_if_lower_is_better(tmp_path: Path) -> None:
    changes = measuring("latency_mean")
    jobs = [
        (named("slow", **changes), [ItemData(item="q1", values={"latency_mean": 20_000.0})]),
        (named("fast", **changes), [ItemData(item="q1", values={"latency_mean": 5_000.0})]),
    ]
    ((text,),) = await sentences(tmp_path, "benchmark", *jobs)
    assert text.startswith("fast leads on latency_mean with 5.00; slow is next, 15.00 behind.")


async def test_a_row_shows_search_time_and_cost_and_marks_partly_unknown_cost(tmp_path: Path) -> None:
    paid = {Phase.ANSWER: (call("answering", cost="0.5"), call("answering"))}
    known = {Phase.ANSWER: (call("answering", cost="0.125"),)}
    found = await board(
        tmp_path, (named("a"), items(1, of=2, calls=paid)), (named("b"), items(1, of=2, calls=known)),
        (named("c"), items(1, of=2)),
    )  # fmt: skip
    assert {place.job.provider: place.cost for place in found} == {"a": ">= 1", "b": "0.25", "c": "-"}
    assert {place.search_ms for place in found} == {1.0}
    (grid,) = board_grids(tables_of(found, "benchmark"), "benchmark")
    assert [row[-3:] for row in grid.rows] == [
        ("1.00", ">= 1", "r1"), ("1.00", "0.25", "r1"), ("1.00", "-", "r1"),
    ]  # fmt: skip


async def test_the_type_view_sorts_rows_by_type_and_then_by_value(tmp_path: Path) -> None:
    found = await board(tmp_path, (named("a"), items(10)), (named("b"), items(15)))
    (grid,) = board_grids(tables_of(found, "type"), "type")
    assert grid.head == ("question type", "provider", "accuracy", "n") and grid.right == (2, 3)
    assert [row[:2] for row in grid.rows] == [("a", "b"), ("a", "a"), ("b", "b"), ("b", "a")]
    assert {row[3] for row in grid.rows} == {"10"}


async def test_the_leaderboard_json_has_all_fields_of_each_row(tmp_path: Path) -> None:
    found = await board(tmp_path, (named("a"), items(10)), (named("a", "tales"), items(20)))
    (first, second) = board_json("benchmark", tables_of(found, "benchmark"))["tables"]  # type: ignore[misc]
    assert (first["benchmark"], second["benchmark"]) == ("facts", "tales")
    (row,) = first["rows"]
    assert row | {"metrics": None, "question_types": None} == {
        "provider": "a", "provider_type": "local", "models": {"embedding": None, "answering": "acme/m1", "judge": None},
        "track": "uniform", "k": 10, "run_id": "r1", "created_at": "2026-01-02T03:04:05Z", "n_planned": 20,
        "n_scored": 20, "cost_usd": None, "cost_unknown_calls": 0, "search_p50_ms": 1.0, "headline": "accuracy",
        "metrics": None, "question_types": None, "value": 0.5, "bound": False,
    }  # fmt: skip
    assert set(row["metrics"]["accuracy"]) == {
        "definition", "value", "value_failures_as_zero", "n", "low", "high", "unit",
    }  # fmt: skip
    assert {label: one["n"] for label, one in row["question_types"].items()} == {"a": 10, "b": 10}
    (table,) = board_json("overall", tables_of(found, "overall"))["tables"]  # type: ignore[misc]
    (one,) = table["rows"]
    assert (one["value"], table["benchmark"], [place["benchmark"] for place in one["places"]]) == (
        0.75, None, ["facts", "tales"],
    )  # fmt: skip


async def test_the_leaderboard_csv_has_one_line_per_job_metric_and_label_and_escapes_formulas(tmp_path: Path) -> None:
    models = ModelNames(embedding="=e", answering="@m", judge="-j")
    found = await board(tmp_path, (named("a", models=models), items(10)))
    rows = list(csv.DictReader(io.StringIO(board_csv(tables_of(found, "benchmark")), newline="")))
    assert [(row["metric"], row["dimension"], row["label"], row["n"]) for row in rows] == [
        ("accuracy", "", "", "20"), ("accuracy", "question_type", "a", "10"), ("accuracy", "question_type", "b", "10"),
    ]  # fmt: skip
    assert {(row["embedding"], row["answering"], row["judge"]) for row in rows} == {("'=e", "'@m", "'-j")}
    assert {row["table"] for row in rows} == {"1"} and float(rows[0]["low"]) < 0.5 < float(rows[0]["high"])


async def test_the_leaderboard_shows_the_newest_complete_valid_job_of_each_provider(tmp_path: Path) -> None:
    from datetime import timedelta

    from tests.full_journal import AT

    failed = [*items(9, of=9), ItemData(item="q10", state=State.ERROR, outcome="timeout")]
    runs: list[tuple[str, list[ItemData], dict[str, Any]]] = [
        ("old", items(5), {}), ("new", items(10), {}), ("paused", items(20), {"state": RunState.PAUSED}),
        ("open", items(20), {"planned": 30}), ("invalid", failed, {}),
    ]  # fmt: skip
    for day, (run, ended, more) in enumerate(runs):
        await write_run(tmp_path, run, [(named("a"), ended)], created_at=AT + timedelta(days=day), **more)
    await rebuild(tmp_path)
    assert [(one.job.run_id, one.headline.value) for one in await load_board(tmp_path) if one.headline] == [
        ("new", 0.5)
    ]
    assert [one.job.run_id for one in await load_board(tmp_path, ["facts"])] == ["new"]


@pytest.mark.parametrize("providers", [("a",), ("a", "b", "c")])
async def test_overall_ranks_providers_with_each_benchmark_under_the_most_common_settings(
    tmp_path: Path, providers: tuple[str, ...]
) -> None:
    jobs = [(named(name), items(at)) for at, name in enumerate(providers, start=10)]
    jobs += [(named(name, "tales", k=5), items(20)) for name in providers]
    jobs.append((named("z", k=3), items(20)))
    (table,) = tables_of(await board(tmp_path, *jobs), "overall")
    assert [one.first.job.provider for one in table.standings] == sorted(providers, reverse=True)
    assert all(len(one.places) == 2 for one in table.standings)
    assert table.title == "overall: mean over facts, tales | answering acme/m1 | judge none"
