"""The leaderboard: rows of a table, order, and summary sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.plan.job_record import ModelNames
from bench.report.leaderboard.formats import board_grids
from bench.report.leaderboard.standings import load_board, summary_sentences, tables_of
from bench.report.summary import rebuild
from tests.small_journal import Job, made, measuring, record

ITEMS = [f"q{at:02d}" for at in range(20)]


def job(provider: str, right: int, **changes: object) -> Job:
    values = {item: float(at < right) for at, item in enumerate(ITEMS)}
    own = {"key": f"{provider}-{len(changes)}-{changes.get('benchmark', '')}"}
    return Job(record=record(provider, **{**own, **changes}), values=values)


async def shown(workspace: Path, view: str, *jobs: Job) -> list[list[str]]:
    """Return the providers of each table in order."""
    await made(workspace, "r1", jobs)
    await rebuild(workspace)
    tables = tables_of(await load_board(workspace), view)
    return [[one.first.job.provider for one in table.standings] for table in tables]


async def test_rows_are_sorted_by_value_and_then_by_name(tmp_path: Path) -> None:
    assert await shown(tmp_path, "benchmark", job("b", 10), job("c", 15), job("a", 10)) == [["c", "a", "b"]]


async def test_rows_are_sorted_ascending_if_lower_is_better(tmp_path: Path) -> None:
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
async def test_jobs_with_different_settings_are_in_different_tables(tmp_path: Path, what: str) -> None:
    tables = await shown(tmp_path, "benchmark", job("a", 10), job("b", 12), job("c", 15, **DIFFERENT[what]))
    assert sorted(tables, key=len) == [["c"], ["b", "a"]]


async def test_the_order_of_prompts_does_not_matter_for_the_settings(tmp_path: Path) -> None:
    prompts = {"answer.default": "a" * 64, "judge.default": "j" * 64}
    turned = dict(reversed(prompts.items()))
    await made(tmp_path, "r1", [job("a", 10, prompts=prompts)])
    await made(tmp_path, "r2", [job("a", 12, prompts=turned)])
    await rebuild(tmp_path)
    (place,) = await load_board(tmp_path)
    assert place.job.run_id == "r2"


async def test_the_model_view_has_one_table_per_provider(tmp_path: Path) -> None:
    other = ModelNames(embedding=None, answering="acme/m9", judge=None)
    tables = await shown(tmp_path, "model", job("a", 10), job("a", 12, models=other), job("b", 9))
    assert tables == [["a", "a"], ["b"]]


async def test_overall_is_the_mean_of_benchmarks_and_omits_a_provider_that_lacks_one(tmp_path: Path) -> None:
    jobs = [job("a", 10), job("a", 20, benchmark="tales"), job("b", 18)]
    await made(tmp_path, "r1", jobs)
    await rebuild(tmp_path)
    (table,) = tables_of(await load_board(tmp_path), "overall")
    (only,) = table.standings
    assert (only.first.job.provider, only.value) == ("a", 0.75)
    assert any("b is not in this table: it has no result for tales" in note for note in table.notes)


async def test_the_summary_names_the_leader_its_distance_and_the_command_that_tests_it(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("a", 10), job("b", 15), job("c", 1)])
    await rebuild(tmp_path)
    (table,) = tables_of(await load_board(tmp_path), "benchmark")
    (text,) = summary_sentences(table)
    assert text.startswith("b leads on accuracy with 0.75 [")
    assert "a is next, 0.25 behind. A rank is not proof: bench compare r1:b r1:a tests the difference" in text


async def test_tied_first_rows_have_no_leader_and_a_single_row_no_comparison(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [job("a", 10), job("b", 10), job("d", 10), job("e", 9), job("c", 9, k=5)])
    await rebuild(tmp_path)
    sentences = [
        text for table in tables_of(await load_board(tmp_path), "benchmark") for text in summary_sentences(table)
    ]
    assert len(sentences) == 2
    assert "no provider leads on accuracy: a, b and d have 0.50" in sentences
    assert "there is only c, so there is nothing to compare yet" in sentences


async def test_an_empty_workspace_has_an_empty_leaderboard_with_a_hint(tmp_path: Path) -> None:
    assert await load_board(tmp_path) == []
    (grid,) = board_grids([], "benchmark")
    assert "use bench run" in grid.notes[0]
    await shown(tmp_path, "benchmark", job("a", 10))
    with pytest.raises(UsageError, match="there is no run of nope"):
        await load_board(tmp_path, ["nope"])
