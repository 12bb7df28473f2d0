"""Bound providers are not ranked, identifiers in tables are not wrapped, and latency excludes local waits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.cli import console
from bench.report.leaderboard.formats import board_csv, board_grids, board_json
from bench.report.leaderboard.standings import load_board, summary_sentences, tables_of
from bench.report.summary import rebuild
from bench.web.charts import scatter
from bench.web.documents.run_documents import latency_spread
from tests.small_journal import Job, made, record

SCORES = {"oracle": 20, "bm25": 12, "vector": 9, "random": 3, "no-memory": 0, "full-context": 18}


async def board_of(workspace: Path) -> list[object]:
    jobs = [
        Job(record=record(name), values={f"q{at:02d}": float(at < right) for at in range(20)})
        for name, right in SCORES.items()
    ]
    await made(workspace, "r", jobs)
    await rebuild(workspace)
    return list(await load_board(workspace))


@pytest.mark.parametrize("view", ["benchmark", "overall"])
async def test_a_bound_provider_is_marked_and_not_ranked_in_the_leaderboard(tmp_path: Path, view: str) -> None:
    await board_of(tmp_path)
    tables = tables_of(await load_board(tmp_path), view)
    (table,) = tables
    names = [one.first.job.provider for one in table.standings]
    assert names == ["bm25", "vector", "oracle", "full-context", "random", "no-memory"]
    lead, bounds = summary_sentences(table)
    assert lead.startswith("bm25 leads on ") and "vector is next" in lead
    assert bounds == (
        "not ranked, because they only show the limits of a memory system: oracle, full-context, random, no-memory"
    )
    (grid,) = board_grids(tables, view)
    assert [row[0] for row in grid.rows][:3] == ["bm25", "vector", "oracle (control)"]
    document: object = board_json(view, tables)
    assert isinstance(document, dict)
    assert [row["bound"] for row in document["tables"][0]["rows"]] == [False, False, True, True, True, True]
    assert board_csv(tables).splitlines()[0].endswith(",bound")


def test_a_bound_provider_is_not_a_best_point_of_the_scatter_chart() -> None:
    points = [("random", 1.0, 0.1), ("bm25", 2.0, 0.5), ("oracle", 1.5, 0.9)]
    chart = scatter(points, title="t", takes="ms", bounds={"random", "oracle"})
    assert chart is not None
    assert [point.best for point in chart.points] == [False, True, False]


FINGERPRINT = f"sha256:{'0123456789abcdef' * 4}"


def test_a_table_outside_a_terminal_does_not_wrap_a_fingerprint(capsys: pytest.CaptureFixture[str]) -> None:
    console.table(("name", "text", "fingerprint"), [("k", "many words " * 30, FINGERPRINT)])
    assert FINGERPRINT in capsys.readouterr().out


def test_a_table_on_a_narrow_terminal_does_not_cut_a_fingerprint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", lambda: 60)
    monkeypatch.setattr(console, "is_terminal", lambda stream: stream is sys.stdout)
    console.table(("name", "fingerprint"), [("a key", FINGERPRINT)])
    out = capsys.readouterr().out
    assert FINGERPRINT in out and "…" not in out


def test_the_latency_p95_of_a_page_excludes_queue_and_rate_limiter() -> None:
    sample = [{"total": 900, "queue": 500, "limiter": 100, "network": 1, "provider": at} for at in range(100)]
    found = latency_spread(sample, 100)
    assert found["p95"] == {"latency": 95, "total": 900, "queue": 500, "limiter": 100, "network": 1, "provider": 94}
