"""Status of runs, files of a report, and the database of results, read from journals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bench.errors import JournalError
from bench.journal import Journal, Reader, RunState
from bench.journal import write_queue as writer
from bench.journal.rows import now
from bench.model import Phase, State
from bench.report import fold
from bench.report.result_files import publish, replace_lines, replace_text
from bench.report.results_document import report_json
from bench.report.status import list_runs, run_status
from bench.report.summary import RESULTS_FILE, rebuild, store_report
from tests.full_journal import AT, ItemData, call, rows_of, write_run
from tests.small_journal import measuring, record

ERROR = ItemData(item="q3", state=State.ERROR, outcome="timeout")
ITEMS = [ItemData(item="q1"), ItemData(item="q2", state=State.INCORRECT), ERROR]


async def test_the_status_of_a_finished_run_has_counts_cost_and_ranges(tmp_path: Path) -> None:
    calls = {Phase.SEARCH: (call("embedding", cost="0.25"),), Phase.ANSWER: (call("answering", cost="1"),)}
    first = record("x", key="a", lane="lane", answer_owner="lane|m", selection={"question_type": ["two", "one"]})
    second = record("x", key="b", lane="lane", answer_owner="lane|m")
    paid = [ItemData(item="q1", calls=calls), *ITEMS[1:]]
    folder = await write_run(tmp_path, "r1", [(first, paid), (second, [ERROR])], ranges=((2, 4),), total=9)
    found = await run_status(folder)
    assert found.to_json() == {
        "run_id": "r1", "state": "complete", "reason": "", "holder": None, "partial": False, "total": 4, "completed": 2,
        "failed": 2, "in_progress": 0, "range": [[2, 4]], "gaps": [[1, 1], [5, 9]], "question_types": ["one", "two"],
        "eta_s": None, "oldest_request_s": None, "index_wait": None,
        "cost_usd": "1.25", "cost_unknown_calls": 0, "phases": found.phases,
    }  # fmt: skip
    assert found.phases == {
        "search": {"ok": 2}, "answer": {"ok": 2}, "evaluate": {"ok": 2},
    }  # fmt: skip


async def test_calls_without_a_known_price_are_counted(tmp_path: Path) -> None:
    calls = {Phase.SEARCH: (call("provider"), call("embedding")), Phase.ANSWER: (call("answering", cost="1"),)}
    folder = await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1", calls=calls)])])
    found = await run_status(folder)
    assert (found.cost_usd, found.cost_unknown_calls) == ("1", 2)


async def test_a_paused_run_has_no_remaining_time(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r1", [(record("x"), ITEMS)], state=RunState.PAUSED, planned=9)
    found = await run_status(folder)
    assert (found.partial, found.in_progress, found.eta_s, found.question_types) == (True, 0, None, None)
    assert (found.range, found.gaps) == (None, [])


async def test_a_running_run_has_holder_items_in_progress_and_remaining_time(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r1", [(record("x"), ITEMS)], state=RunState.RUNNING, planned=9)
    async with Journal.resume(folder) as journal:
        await journal.set_state(RunState.RUNNING)
        found = await run_status(folder)
    assert found.state == "running" and "pid" in str(found.holder)
    assert (found.completed, found.failed, found.in_progress) == (2, 1, 6)
    eta = found.eta_s
    assert isinstance(eta, float) and eta > 0, "each pending item takes as long as the ended ones"
    empty = await write_run(tmp_path, "r2", [(record("x"), [])], state=RunState.RUNNING, planned=9)
    async with Journal.resume(empty) as journal:
        await journal.set_state(RunState.RUNNING)
        assert (await run_status(empty)).eta_s is None, "no item has ended"


async def test_the_remaining_time_ignores_the_time_between_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = record("x")
    folder = await write_run(tmp_path, "r1", [(begun, ITEMS)], state=RunState.RUNNING, planned=9)
    resumed_at = now()
    monkeypatch.setattr(writer, "now", lambda: resumed_at)
    async with Journal.resume(folder) as journal:
        await journal.set_state(RunState.RUNNING)
        await journal.record_resume({})
        await journal.flush()
        assert (await run_status(folder)).eta_s is None, "no item ended in this process"
        for row in rows_of(begun, ItemData(item="q4")):
            journal.append(row)
        await journal.flush()
        eta = (await run_status(folder)).eta_s
        assert isinstance(eta, float) and eta < 3600, "the journal was started years before"


async def test_runs_are_listed_newest_first_and_unreadable_ones_with_a_reason(tmp_path: Path) -> None:
    again = replace(ITEMS[0], epoch=2)
    await write_run(tmp_path, "r1", [(record("x"), ITEMS), (record("y"), ITEMS)])
    await write_run(
        tmp_path,
        "r2",
        [(record("x", epochs=2), [*ITEMS, again])],
        state=RunState.PAUSED,
        created_at=AT + timedelta(days=1),
    )
    odd = await write_run(tmp_path, "odd", [(record("x"), ITEMS)])
    async with Journal.resume(odd) as journal:
        await journal.amend(jobs=[{"key": 7}])
    (tmp_path / "checkpoints" / "torn").mkdir()
    (tmp_path / "checkpoints" / "torn" / "journal.sqlite").write_text("no journal at all")
    rows = {str(row["run_id"]): row for row in await list_runs(tmp_path)}
    assert rows["r1"] == {
        "run_id": "r1", "state": "complete", "reason": "", "holder": None, "benchmarks": ["facts"],
        "providers": ["x", "y"], "planned": 6, "ended": 6, "created_at": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    assert (rows["r2"]["state"], rows["r2"]["planned"], rows["r2"]["ended"]) == ("paused", 3, 1)
    for name in ("torn", "odd"):
        assert rows[name]["state"] == "unreadable" and rows[name]["reason"]
    assert await list_runs(tmp_path / "nowhere") == []


# ------------------------------------------------------------------------------ files


async def test_publish_writes_three_complete_files(tmp_path: Path) -> None:
    job = record("x", **measuring("accuracy"))
    folder = await write_run(tmp_path, "r1", [(job, [*ITEMS, ItemData(item="q4", question="\ud800", answer="\u2028")])])
    async with Reader.open(folder) as reader:
        report = await fold(reader)
        place = await publish(reader, report, tmp_path / "results")
        again = await publish(reader, report, tmp_path / "results")
    assert place == again == tmp_path / "results" / "r1"
    assert sorted(path.name for path in place.iterdir()) == ["items.jsonl", "report.json", "report.md"]
    assert json.loads((place / "report.json").read_text()) == json.loads(json.dumps(report_json(report)))
    lines = (place / "items.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["item_id"] for row in rows] == ["q1", "q2", "q3", "q4"]
    assert not {"question", "answer", "hits", "verdicts"} & set(rows[0]), "no text of a dataset"
    assert (place / "report.md").read_text().startswith("# Run r1\n")


async def lines(*texts: str, fails: bool = False) -> AsyncIterator[str]:
    for text in texts:
        yield text
    if fails:
        raise JournalError("torn")


async def test_replace_lines_keeps_the_old_file_if_the_lines_fail(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert await replace_lines(path, lines("a", "b")) == 2
    with pytest.raises(JournalError):
        await replace_lines(path, lines("c", fails=True))
    assert path.read_text() == "a\nb\n" and list(tmp_path.iterdir()) == [path]
    assert await replace_lines(path, lines()) == 0 and path.read_text() == ""


def test_replace_text_writes_utf_8_with_unchanged_line_endings(tmp_path: Path) -> None:
    replace_text(tmp_path / "x", "ä\r\n\n\ud800")
    assert (tmp_path / "x").read_bytes() == b"\xc3\xa4\r\n\n\\ud800"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


# ------------------------------------------------------------------------------ the derived database


async def known(workspace: Path) -> dict[str, object]:
    from bench.journal.results_db import ResultsDb

    async with ResultsDb.open(workspace / "results" / RESULTS_FILE) as database:
        return {f"{job.run_id} {job.provider}": (job, await database.metrics(job)) for job in await database.runs()}


async def test_the_database_after_a_run_equals_that_after_a_rebuild(tmp_path: Path) -> None:
    job = record("x", **measuring("accuracy", "latency_p50"))
    folder = await write_run(tmp_path, "r1", [(job, ITEMS), (record("y", skipped="no key"), [])])
    await write_run(tmp_path, "r2", [(job, ITEMS[:1])], state=RunState.PAUSED, planned=2)
    (tmp_path / "results").mkdir()
    async with Reader.open(folder) as reader:
        await store_report(reader, await fold(reader), tmp_path / "results")
    first = await known(tmp_path)
    assert set(first) == {"r1 x", "r1 y"}
    count, broken = await rebuild(tmp_path)
    assert (count, broken) == (2, ())
    found = await known(tmp_path)
    assert {name: found[name] for name in first} == first
    one, metrics = found["r1 x"]  # type: ignore[misc]
    assert (one.n_planned, one.n_scored, one.partial, one.valid, one.cost_usd) == (3, 2, False, False, None)
    assert one.data["search_p50_ms"] == 1.0, "network and provider: 300 + 700 us"
    assert one.data["lower_is_better"] == ["latency_p50"] and one.data["metrics"] == ["accuracy", "latency_p50"]
    whole = next(m for m in metrics if m.metric == "accuracy" and not m.dimension)
    assert (whole.n, whole.n_failed, whole.value, whole.level, whole.method) == (2, 1, 1.0, 0.95, "wilson")
    assert {(m.dimension, m.label) for m in metrics if m.metric == "accuracy"} == {("", ""), ("question_type", "one")}
    skipped, _ = found["r1 y"]  # type: ignore[misc]
    assert not skipped.valid, "a skipped job is not a result"
    paused, _ = found["r2 x"]  # type: ignore[misc]
    assert paused.partial and paused.finished_at is not None


async def test_rebuild_names_the_journals_that_it_cannot_read(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(record("x"), ITEMS)])
    (tmp_path / "checkpoints" / "torn").mkdir()
    (tmp_path / "checkpoints" / "torn" / "journal.sqlite").write_text("no journal at all")
    count, broken = await rebuild(tmp_path)
    assert count == 1 and len(broken) == 1 and "torn" in broken[0]
    assert set(await known(tmp_path)) == {"r1 x"}


async def test_a_running_run_has_no_finish_time_in_the_database(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r1", [(record("x"), ITEMS)], state=RunState.RUNNING)
    async with Journal.resume(folder) as journal:
        await journal.set_state(RunState.RUNNING)
        await rebuild(tmp_path)
        found = await known(tmp_path)
    one, _ = found["r1 x"]  # type: ignore[misc]
    assert one.finished_at is None and one.partial and one.state == "running"


async def test_items_in_the_database_have_state_correct_and_error_kind(tmp_path: Path) -> None:
    import sqlite3

    items = [*ITEMS, ItemData(item="q4", state=State.MEASURED), ItemData(item="q5", state=State.ABSTAINED)]
    await write_run(tmp_path, "r1", [(record("x"), items)])
    await rebuild(tmp_path)
    connection = sqlite3.connect(tmp_path / "results" / RESULTS_FILE)
    try:
        names = [row[1] for row in connection.execute("PRAGMA table_info(results)")]
        rows = [dict(zip(names, row, strict=True)) for row in connection.execute("SELECT * FROM results")]
    finally:
        connection.close()
    ended = {row["item_id"]: (row["state"], row["correct"], row["error_kind"]) for row in rows}
    assert ended == {
        "q1": ("correct", 1, None), "q2": ("incorrect", 0, None), "q3": ("error", None, "timeout"),
        "q4": ("measured", None, None), "q5": ("abstained", 0, None),
    }  # fmt: skip
