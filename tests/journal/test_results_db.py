"""The results database: runs are replaced one at a time, found by name, and rebuilt when the file is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.errors import JournalError
from bench.journal.results_db import ItemResult, JobSummary, MetricSummary, ResultsDb


def job(run_id: str = "r1", provider: str = "bm25", **changes: object) -> JobSummary:
    values: dict[str, object] = {
        "run_id": run_id,
        "job": f"locomo/{provider}",
        "benchmark": "locomo",
        "provider": provider,
        "embedding_model": None,
        "answering_model": "openai/gpt-4o",
        "judge_model": "openai/gpt-4o",
        "track": "uniform",
        "plan_digest": "d",
        "created_at": datetime(2026, 3, 1, tzinfo=UTC),
        "finished_at": None,
        "state": "complete",
        "partial": False,
        "valid": True,
        "n_planned": 2,
        "n_scored": 2,
        "cost_usd": None,
        "report": f"results/{run_id}",
        "data": {"labels": {"team": "a"}},
        **changes,
    }
    return JobSummary(**values)  # type: ignore[arg-type]


def metric(value: float = 0.5, **changes: object) -> MetricSummary:
    values: dict[str, object] = {
        "metric": "accuracy",
        "definition": "accuracy",
        "value": value,
        "value_failures_as_zero": value,
        "n": 2,
        **changes,
    }
    return MetricSummary(**values)  # type: ignore[arg-type]


def item(name: str, value: float | None, *, provider: str = "bm25") -> ItemResult:
    return ItemResult(
        job=f"locomo/{provider}",
        corpus="c",
        item_id=name,
        question_type="temporal",
        state="correct",
        correct=True,
        error_kind=None,
        values={"accuracy": value},
    )


def item_values(path: Path) -> list[tuple[str, int, float | None]]:
    """Return the accuracy of each item of the job of ``r1``, as (item, epoch, value)."""
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(
            "SELECT r.item_id, r.epoch, m.value FROM results r LEFT JOIN result_metrics m ON m.run_id = r.run_id "
            "AND m.job = r.job AND m.item_id = r.item_id AND m.epoch = r.epoch AND m.metric = 'accuracy' "
            "WHERE r.run_id = 'r1' AND r.job = 'locomo/bm25' ORDER BY r.item_id, r.epoch"
        ).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "results.sqlite"


async def test_a_stored_run_is_read_back_with_its_metrics_and_items(path: Path) -> None:
    stored = job(metrics=(metric(), metric(0.25, dimension="question_type", label="temporal", low=0.1, high=0.4)))
    async with ResultsDb.open(path) as results:
        await results.put("r1", [stored], [item("q2", 1.0), item("q1", None)])
    async with ResultsDb.open(path) as results:
        (found,) = await results.runs()
        assert await results.metrics(found) == stored.metrics
        assert item_values(path) == [("q1", 1, None), ("q2", 1, 1.0)]
        assert await results.benchmarks() == ["locomo"]
    assert found == job()


async def test_writing_a_run_again_replaces_it_and_leaves_others(path: Path) -> None:
    async with ResultsDb.open(path) as results:
        await results.put("r1", [job(metrics=(metric(),)), job(provider="vector")], [item("q1", 1.0)])
        await results.put("r2", [job("r2")])
        await results.put("r1", [job(n_scored=1)], [item("q9", 0.0)])
        found = await results.runs(run_id="r1")
        assert [(one.provider, one.n_scored) for one in found] == [("bm25", 1)]
        assert await results.metrics(found[0]) == ()
        assert item_values(path) == [("q9", 1, 0.0)]
        assert len(await results.runs()) == 2


async def test_put_accepts_items_as_an_async_stream(path: Path) -> None:
    async def stream() -> AsyncIterator[ItemResult]:
        for number in range(5000):
            yield item(f"q{number:04d}", float(number % 2))

    async with ResultsDb.open(path) as results:
        await results.put("r1", [job()], stream())
        assert len(item_values(path)) == 5000


async def test_an_item_stream_that_raises_leaves_the_stored_run_unchanged(path: Path) -> None:
    async def stream() -> AsyncIterator[ItemResult]:
        yield item("q2", 1.0)
        raise ZeroDivisionError

    async with ResultsDb.open(path) as results:
        await results.put("r1", [job()], [item("q1", 1.0)])
        with pytest.raises(ZeroDivisionError):
            await results.put("r1", [job(n_scored=0)], stream())
        assert [one.n_scored for one in await results.runs()] == [2]
        assert [name for name, _, _ in item_values(path)] == ["q1"]


async def test_newest_is_the_newest_complete_valid_run_of_each_provider(path: Path) -> None:
    later, latest = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)
    async with ResultsDb.open(path) as results:
        await results.put("old", [job("old")])
        await results.put("new", [job("new", created_at=later), job("new", "vector", created_at=later)])
        await results.put("partial", [job("partial", created_at=latest, partial=True)])
        await results.put("invalid", [job("invalid", created_at=latest, valid=False)])
        await results.put("stopped", [job("stopped", created_at=latest, state="stopped")])
        await results.put("other", [job("other", created_at=later, answering_model="none")])
        newest = await results.newest("locomo")
    assert [(one.run_id, one.provider, one.answering_model) for one in newest] == [
        ("other", "bm25", "none"),
        ("new", "bm25", "openai/gpt-4o"),
        ("new", "vector", "openai/gpt-4o"),
    ]


async def test_prompts_in_another_order_are_the_same_settings(path: Path) -> None:
    prompts = {"answer.default": "a1", "judge.default": "b2"}
    async with ResultsDb.open(path) as results:
        await results.put("old", [job("old", data={"prompts": prompts})])
        turned = dict(reversed(prompts.items()))
        later = datetime(2026, 3, 2, tzinfo=UTC)
        await results.put("new", [job("new", created_at=later, data={"prompts": turned})])
        assert [one.run_id for one in await results.newest("locomo")] == ["new"]


async def test_forget_removes_a_run_with_its_metrics_and_items(path: Path) -> None:
    async with ResultsDb.open(path) as results:
        await results.put("r1", [job(metrics=(metric(),))], [item("q1", 1.0)])
        await results.forget("r1")
        assert await results.runs() == []
        assert item_values(path) == []


async def test_the_hint_for_a_damaged_file_is_rebuild_and_rebuild_works(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(JournalError) as refusal:
        async with ResultsDb.open(path):
            pass
    assert "--rebuild" in (refusal.value.hint or "")
    async with ResultsDb.rebuild(path) as results:
        await results.put("r1", [job()])
    async with ResultsDb.open(path) as results:
        assert len(await results.runs()) == 1


async def test_a_rebuild_that_fails_leaves_the_old_file(path: Path) -> None:
    async with ResultsDb.open(path) as results:
        await results.put("r1", [job()])
    with pytest.raises(ZeroDivisionError):
        async with ResultsDb.rebuild(path) as results:
            raise ZeroDivisionError
    async with ResultsDb.open(path) as results:
        assert len(await results.runs()) == 1
    assert [file.name for file in path.parent.iterdir()] == ["results.sqlite"]


async def test_two_open_connections_can_write_in_turn(path: Path) -> None:
    async with ResultsDb.open(path) as first, ResultsDb.open(path) as second:
        await first.put("r1", [job()])
        await second.put("r2", [job("r2")])
        assert len(await first.runs()) == 2
