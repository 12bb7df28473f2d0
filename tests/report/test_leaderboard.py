"""The board: what shares a table, who is first, and what a rank is said to prove."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.plan.job_record import ModelNames
from bench.report.leaderboard import VIEWS, board_csv, board_grids, board_json, load_board, summary_sentences, tables_of
from bench.report.summary import rebuild
from tests.small_journal import Job, made, measuring, record

ITEMS = [f"q{at:02d}" for at in range(20)]


def job(provider: str, right: int, **changes: object) -> Job:
    values = {item: float(at < right) for at, item in enumerate(ITEMS)}
    own = {"key": f"{provider}-{len(changes)}-{changes.get('benchmark', '')}"}
    return Job(record=record(provider, **{**own, **changes}), values=values)


async def shown(workspace: Path, view: str, *jobs: Job) -> list[list[str]]:
    """The providers of each table, in order."""
    await made(workspace, "r1", jobs)
    await rebuild(workspace)
    tables = tables_of(await load_board(workspace), view)
    return [[one.first.job.provider for one in table.standings] for table in tables]


async def test_the_best_is_first_and_ties_go_by_name(tmp_path: Path) -> None:
    assert await shown(tmp_path, "benchmark", job("b", 10), job("c", 15), job("a", 10)) == [["c", "a", "b"]]


async def test_where_less_is_better_the_least_is_first(tmp_path: Path) -> None:
    changes = measuring("over_abstention_rate")
    assert await shown(tmp_path, "benchmark", job("b", 10, **changes), job("a", 15, **changes)) == [["b", "a"]]


DIFFERENT: dict[str, dict[str, object]] = {
    "k": {"k": 5},
    "context budget": {"context_budget": 4000},
    "track": {"track": "vendor"},
    "prompt": {"prompts": {"answer.default": "e" * 64}},
    "dataset": {"dataset": {"content_sha256": "e" * 64}},
    "selection": {"selection": {"limit": 20}},
    "benchmark version": {"benchmark_version": "2"},
    "answering model": {"models": ModelNames(embedding=None, answering="acme/m9", judge=None)},
    "judge": {"models": ModelNames(embedding=None, answering="acme/m1", judge="acme/j")},
}


@pytest.mark.parametrize("what", DIFFERENT)
async def test_what_cannot_be_compared_never_shares_a_table(tmp_path: Path, what: str) -> None:
    tables = await shown(tmp_path, "benchmark", job("a", 10), job("b", 12), job("c", 15, **DIFFERENT[what]))
    assert sorted(tables, key=len) == [["c"], ["b", "a"]]


async def test_prompts_in_another_order_are_the_same_settings(tmp_path: Path) -> None:
    prompts = {"answer.default": "a" * 64, "judge.default": "j" * 64}
    turned = dict(reversed(prompts.items()))
    await made(tmp_path, "r1", [job("a", 10, prompts=prompts)])
    await made(tmp_path, "r2", [job("a", 12, prompts=turned)])
    await rebuild(tmp_path)
    (place,) = await load_board(tmp_path)
    assert place.job.run_id == "r2"


async def test_the_model_view_holds_the_provider_fast(tmp_path: Path) -> None:
    other = ModelNames(embedding=None, answering="acme/m9", judge=None)
    tables = await shown(tmp_path, "model", job("a", 10), job("a", 12, models=other), job("b", 9))
    assert tables == [["a", "a"], ["b"]]


async def test_overall_is_the_mean_of_benchmarks_and_leaves_out_who_lacks_one(tmp_path: Path) -> None:
    jobs = [job("a", 10), job("a", 20, benchmark="tales"), job("b", 18)]
    await made(tmp_path, "r1", jobs)
    await rebuild(tmp_path)
    (table,) = tables_of(await load_board(tmp_path), "overall")
    (only,) = table.standings
    assert (only.first.job.provider, only.value) == ("a", 0.75)
    assert any("b is not in this table: it has no result for tales" in note for note in table.notes)


async def test_a_table_says_who_leads_by_how_much_and_how_to_test_it(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("a", 10), job("b", 15), job("c", 1)])
    await rebuild(tmp_path)
    (table,) = tables_of(await load_board(tmp_path), "benchmark")
    (text,) = summary_sentences(table)
    assert text.startswith("b leads on accuracy with 0.75 [")
    assert "a is next, 0.25 behind. A rank is not proof: bench compare r1:b r1:a tests the difference" in text


async def test_where_several_are_first_nobody_leads_and_one_row_has_nothing_to_compare_with(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("a", 10), job("b", 10), job("d", 10), job("e", 9), job("c", 9, k=5)])
    await rebuild(tmp_path)
    said = [text for table in tables_of(await load_board(tmp_path), "benchmark") for text in summary_sentences(table)]
    assert len(said) == 2
    assert "no provider leads on accuracy: a, b and d have 0.50" in said
    assert "there is only c, so there is nothing to compare yet" in said


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_gives_grids_json_and_csv_of_one_shape(tmp_path: Path, view: str) -> None:
    await made(tmp_path, "r1", [job("a", 10), job("b", 12)])
    await rebuild(tmp_path)
    tables = tables_of(await load_board(tmp_path), view)
    for grid in board_grids(tables, view):
        assert all(len(row) == len(grid.head) for row in grid.rows)
    document = board_json(view, tables)
    assert document["view"] == view and document["tables"]
    head, *rows = board_csv(tables).splitlines()
    assert head.startswith("table,benchmark,provider") and rows


async def test_an_empty_workspace_is_an_empty_board_and_says_what_to_do(tmp_path: Path) -> None:
    assert await load_board(tmp_path) == []
    (grid,) = board_grids([], "benchmark")
    assert "use bench run" in grid.notes[0]
    await shown(tmp_path, "benchmark", job("a", 10))
    with pytest.raises(UsageError, match="no run of nope is known"):
        await load_board(tmp_path, ["nope"])
