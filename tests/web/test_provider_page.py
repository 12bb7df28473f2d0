"""The page of a provider: config, variables, and results per setting and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report.leaderboard.standings import load_board, rank_spreads, tables_of
from bench.report.summary import rebuild
from tests.full_journal import write_run
from tests.small_journal import record
from tests.web.test_headlines import NAMES, failed, plain, share, text_of
from tests.web.workspaces import visiting


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """mem0 in two runs of one setting, one of another k, and one INVALID; bm25 beside it."""
    for run, count in (("week-1", 6), ("week-2", 9)):
        jobs = [(record(name, **NAMES), share(n)) for name, n in (("mem0", count), ("bm25", 1), ("zep", count - 1))]
        await write_run(tmp_path, run, jobs)
    await write_run(tmp_path, "other-k", [(record("mem0", **NAMES, k=5), share(3))])
    await write_run(tmp_path, "broken", [(record("mem0", **NAMES), [failed(at) for at in range(12)])])
    await rebuild(tmp_path)
    return tmp_path


async def test_runs_with_the_same_settings_form_a_series_with_the_change_of_each(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        found = await visit.document("/providers/mem0")
        page = await text_of(visit, "/providers/mem0")
    groups = {len(one["rows"]): one for one in found["settings"]}
    assert set(groups) == {1, 3}, "another k is another setting"
    rows = {row["run_id"]: row for row in groups[3]["rows"]}
    assert rows["broken"]["value"] is None and not rows["broken"]["valid"]
    changes = {run: row["change"] for run, row in rows.items() if row["change"] is not None}
    assert [abs(value) for value in changes.values()] == [0.25], "INVALID runs are no step of a series"
    assert "INVALID" in page and "/compare?a=" in page and "weeks" not in plain(page)


async def test_variables_are_shown_as_set_or_missing_without_their_values(workspace: Path) -> None:
    async with visiting(workspace, variables={"MEM0_API_URL": "http://127.0.0.1:1/secretly"}) as visit:
        page = plain(await text_of(visit, "/providers/mem0"))
    assert "MEM0_API_URL set" in page and "MEM0_API_KEY missing" in page and "secretly" not in page


async def test_the_page_of_an_unknown_provider_is_404(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        assert (await visit.get("/providers/nobody"))[0] == 404


async def test_ranks_differ_only_if_intervals_do_not_overlap(workspace: Path) -> None:
    table = next(one for one in tables_of(await load_board(workspace), "benchmark") if len(one.standings) == 3)
    assert [one.first.job.provider for one in table.standings] == ["mem0", "zep", "bm25"]
    assert rank_spreads(table) == [(1, 2), (1, 2), (3, 3)]
    async with visiting(workspace) as visit:
        board = await text_of(visit, "/leaderboard")
    assert 'href="/providers/mem0"' in board and "1–2" in board and "vs first" in board
