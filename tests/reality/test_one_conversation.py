"""A run over one conversation has intervals, and a note states what they do not cover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.run_display import score_text
from bench.engine.progress import JobProgress
from bench.journal import Reader
from bench.metrics.aggregation import ONE_CLUSTER
from bench.model import Interval
from bench.report.fold import JobReport, fold
from bench.report.results_document import report_json
from bench.report.tables import overview
from tests.small_journal import Job, made, measuring, record

METRICS = ("accuracy", "ndcg_at_10", "accuracy_macro", "latency_p95", "latency")
RIGHT = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]


def job(conversations: int) -> Job:
    items = [f"q{at}" for at in range(len(RIGHT))]
    column = dict(zip(items, RIGHT, strict=True))
    shares = {item: 0.1 * at for at, item in enumerate(items)}
    times = {item: 1000.0 * (at + 1) for at, item in enumerate(items)}
    more = {"ndcg_at_10": shares, "accuracy_macro": column, "latency_p95": times, "latency": times}
    return Job(
        record=record("bm25", cluster_by="corpus", **measuring(*METRICS)),
        values=dict(column),
        more=more,
        corpora={item: f"c{at % conversations}" for at, item in enumerate(items)},
        types={item: f"t{at % 2}" for at, item in enumerate(items)},
    )


async def folded(workspace: Path, conversations: int) -> tuple[JobReport, list[str], object]:
    folder = await made(workspace, "r", [job(conversations)])
    async with Reader.open(folder) as reader, reader.snapshot():
        report = await fold(reader)
    (one,) = report.jobs
    return one, [note for grid in overview(report) for note in grid.notes], report_json(report)


async def test_one_conversation_has_intervals_over_its_items_and_a_note(tmp_path: Path) -> None:
    one, notes, _ = await folded(tmp_path, 1)
    methods = {name: None if found.interval is None else found.interval.method for name, found in one.metrics.items()}
    assert methods == {
        "accuracy": "wilson", "ndcg_at_10": "t", "accuracy_macro": "macro_t", "latency_p95": "bootstrap_percentile",
        "latency": "t",
    }  # fmt: skip
    assert all(ONE_CLUSTER in found.note for found in one.metrics.values())
    assert [note for note in notes if ONE_CLUSTER in note] == [f"bm25: {ONE_CLUSTER} (wilson)"]


async def test_the_same_note_of_several_providers_is_shown_once(tmp_path: Path) -> None:
    alone = job(1)
    other = replace(alone, record=record("random", cluster_by="corpus", **measuring(*METRICS)))
    folder = await made(tmp_path, "r", [alone, other])
    async with Reader.open(folder) as reader, reader.snapshot():
        grid = overview(await fold(reader))[0]
    assert grid.notes == (f"bm25, random: {ONE_CLUSTER} (wilson)",)
    assert "clusters" not in grid.title


async def test_several_conversations_have_intervals_over_conversations(tmp_path: Path) -> None:
    one, notes, _ = await folded(tmp_path, 4)
    assert one.metrics["accuracy"].interval is not None
    assert one.metrics["accuracy"].interval.method == "cluster_t"
    assert not any(ONE_CLUSTER in note for note in notes)


@pytest.mark.parametrize("conversations", [1, 2, 4, 8])
async def test_the_live_display_shows_the_interval_of_the_final_table(tmp_path: Path, conversations: int) -> None:
    one, _, _ = await folded(tmp_path, conversations)
    final = one.metrics["accuracy"].interval
    live = JobProgress(key="j", benchmark="b", provider="p", answering=None, judge=None, clustered=True)
    for at, value in enumerate(RIGHT):
        n, total, squares = live.scores.get(f"c{at % conversations}", (0, 0.0, 0.0))
        live.scores[f"c{at % conversations}"] = (n + 1, total + value, squares + value * value)
    assert isinstance(final, Interval)
    assert f"[{final.low:.3f}, {final.high:.3f}]" in score_text(live)
