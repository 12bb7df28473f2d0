"""The leaderboard: rows of a table, order, and summary sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.plan.job_record import ModelNames
from bench.report.leaderboard.formats import board_grids
from bench.report.leaderboard.standings import RankingTable, load_board, summary_sentences, tables_of
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
    "evaluator": {"evaluators": ("exact-match/2",)},
    "evidence level": {"level": "turn"},
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


async def board_tables(workspace: Path, view: str, *jobs: Job) -> Sequence[RankingTable]:
    await made(workspace, "r1", jobs)
    await rebuild(workspace)
    return tables_of(await load_board(workspace), view)


async def test_overall_uses_the_settings_with_the_most_providers_and_names_the_others(tmp_path: Path) -> None:
    few: dict[str, object] = {"selection": {"sample": 20}}
    jobs = [job("a", 10), job("b", 9), job("a", 2, **few), job("b", 1, **few), job("c", 1, **few)]
    (table,) = await board_tables(tmp_path, "overall", *jobs)
    assert [one.value for one in table.standings] == [0.1, 0.05, 0.05]
    assert "only facts k=10 sample=20 accuracy is used, not facts k=10 accuracy (see --view provider)" in table.notes
    assert board_grids([table], "overall")[0].head[-1] == "facts k=10 sample=20 accuracy"


async def test_overall_prefers_the_settings_with_more_items(tmp_path: Path) -> None:
    half = Job(record=record("a", key="half", selection={"sample": 10}), values=dict.fromkeys(ITEMS[:10], 1.0))
    (table,) = await board_tables(tmp_path, "overall", job("a", 10), half)
    assert [one.value for one in table.standings] == [0.5]


async def test_titles_of_tables_and_columns_name_the_settings_that_differ(tmp_path: Path) -> None:
    jobs = [job("a", 10), job("a", 8, evaluators=("exact-match/2",))]
    (table,) = await board_tables(tmp_path, "provider", *jobs)
    head = board_grids([table], "provider")[0].head
    assert sorted(head[2:]) == [
        "facts k=10 accuracy | evaluator exact-match",
        "facts k=10 accuracy | evaluator exact-match/2",
    ]
    titles = {table.title for table in tables_of(await load_board(tmp_path), "benchmark")}
    assert len(titles) == 2


async def test_a_result_of_an_older_version_is_apart_until_the_journals_are_read_again(tmp_path: Path) -> None:
    await board_tables(tmp_path, "benchmark", job("a", 10))
    await made(tmp_path, "r2", [job("b", 12)])
    database = tmp_path / "results" / "results.sqlite"
    with closing(sqlite3.connect(database)) as raw, raw:
        raw.execute("UPDATE runs SET data = json_remove(data, '$.evaluator', '$.epochs_reducer')")
    (table,) = tables_of(await load_board(tmp_path), "benchmark")
    assert "not all settings of r1 are known: read the journals with bench results --rebuild" in table.notes
    await rebuild(tmp_path)
    (table,) = tables_of(await load_board(tmp_path), "benchmark")
    assert [one.first.job.provider for one in table.standings] == ["b", "a"]
    assert not table.notes


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
