"""Reader: of active and finished runs, in read-only folders, after a new scoring, in order."""

from __future__ import annotations

import math
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from bench.journal import CorpusKind, Journal, JournaledPhase, Key, Reader, RunMeta, RunState
from bench.journal.file import create, open_reading
from bench.journal.reader import ITEMS_AT_ONCE
from bench.model import Phase, State, Verdict
from tests import forked
from tests.journal.journal_samples import (
    ANSWERING,
    CHAIN,
    JOB,
    LANE,
    call,
    failed,
    items_of,
    meta,
    scored,
    search,
    states_of,
    step,
    units,
)
from tests.journal.test_journal_crash import killed_after


async def test_an_active_run_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal, Reader.open(tmp_path / "run") as reader:
        assert (await reader.status()).state is RunState.RUNNING
        for number, unit in enumerate(units(5), 1):
            await journal.append_durable(scored(unit))
            assert await reader.states(JOB) == {State.CORRECT: number}


@pytest.mark.scenario("J3")
async def test_J3_a_reader_with_an_open_snapshot_does_not_block_the_writer(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal, Reader.open(tmp_path / "run") as reader:
        await journal.append_durable(scored("q0"))
        async with reader.snapshot():
            assert await reader.states(JOB) == {State.CORRECT: 1}
            with anyio.fail_after(20):
                for unit in units(3000):
                    await journal.wait_for_room()
                    journal.append(search(unit))
                    journal.append(scored(unit))
                await journal.flush()
            assert await reader.states(JOB) == {State.CORRECT: 1}
        assert await reader.states(JOB) == {State.CORRECT: 3001}


@pytest.mark.scenario("J3")
async def test_J3_a_journal_closes_within_five_seconds_while_a_reader_stays_open(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(scored("q1"))
        reading = sqlite3.connect(tmp_path / "run" / "journal.sqlite")
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM phase").fetchone()
        await journal.append_durable(scored("q2"))
        before = anyio.current_time()
    assert anyio.current_time() - before < 5
    reading.close()
    assert set(states_of(await items_of(tmp_path / "run"))) == {"q1", "q2"}


READ_AS_NOBODY = """
import anyio, os, sys
from pathlib import Path
from tests.journal.journal_samples import items_of
import bench.journal.reader
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(len(anyio.run(items_of, Path(sys.argv[1]))))
"""


def count_as_nobody(folder: Path) -> int:
    """Return the number of items that a user without write permission reads in a read-only folder."""
    for path in (folder, *folder.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    command = [sys.executable, "-c", READ_AS_NOBODY, str(folder)]
    process = forked.run(command, cwd=Path(__file__).parent, text=True, check=True)
    folder.chmod(0o755)
    return int(process.stdout)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may enter; the folders of pytest are closed to other users."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


async def test_a_finished_journal_in_a_read_only_folder_is_read(open_path: Path) -> None:
    async with Journal.create(open_path / "run", meta()) as journal:
        journal.append(scored("q1"))
    assert count_as_nobody(open_path / "run") == 1


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "copied without its index"])
async def test_the_journal_of_a_killed_process_in_a_read_only_folder_is_read_with_its_wal(
    open_path: Path, index: bool
) -> None:
    killed_after(open_path / "run", "create", 0.1, rows=True)
    shutil.copytree(open_path / "run", open_path / "copy")
    expected = len(await items_of(open_path / "copy"))
    if not index:
        (open_path / "run" / "journal.sqlite-shm").unlink()
    assert count_as_nobody(open_path / "run") == expected > 0


async def test_items_are_returned_by_corpus_item_and_epoch_for_any_order_of_writing(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for corpus, unit, epoch in [("c2", "a", 1), ("c1", "z", 2), ("c1", "z", 1), ("c1", "b", 1), ("c10", "a", 1)]:
            journal.append(scored(unit, corpus=corpus, epoch=epoch))
            journal.append(search(unit, corpus=corpus, epoch=epoch))
    expected = [("c1", "b", 1), ("c1", "z", 1), ("c1", "z", 2), ("c10", "a", 1), ("c2", "a", 1)]
    assert [(r.corpus, r.item, r.epoch) for r in await items_of(tmp_path / "run")] == expected
    async with Reader.open(tmp_path / "run") as reader:
        batches = [batch async for batch in reader.values(JOB)]
    assert [row for b in batches for row in zip(b.corpora, b.items, b.epochs, strict=True)] == expected


async def test_a_stream_of_several_chunks_has_each_item_once_and_complete(tmp_path: Path) -> None:
    count = ITEMS_AT_ONCE * 4 + 1
    async with Journal.create(tmp_path / "run", meta(), bound=10_000) as journal:
        for unit in units(count):
            journal.append(search(unit, payloads={}))
            journal.append(scored(unit))
    records = await items_of(tmp_path / "run")
    assert [record.item for record in records] == list(units(count))
    assert all(set(record.phases) == {Phase.SEARCH, Phase.EVALUATE} and record.verdicts for record in records)


async def test_an_item_record_has_the_latest_attempt_and_the_costs_of_all_attempts(tmp_path: Path) -> None:
    answer = Key(owner=ANSWERING, phase=Phase.ANSWER, corpus="c1", unit="q1")
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1", outcome="timeout", message="late", payloads={}, calls=(call(outcome="timeout"),)))
        journal.append(failed("q1"))
        journal.append(search("q1", calls=(call(), call(cost_usd=None))))
        journal.append(JournaledPhase(key=answer, data={"text": "42"}, calls=(call(role="answering", cost_usd="0.5"),)))
        journal.append(scored("q1"))
    (record,) = await items_of(tmp_path / "run")
    assert record.attempts == {Phase.SEARCH: 2, Phase.ANSWER: 1, Phase.EVALUATE: 2}
    assert record.phases[Phase.SEARCH].ok
    assert record.phases[Phase.ANSWER].data == {"text": "42"}
    assert (record.state, record.outcome, record.message) == (State.CORRECT, "ok", "")
    assert record.values == {"recall@5": 1.0, "mrr": None}
    assert record.labels == {"question_type": "temporal"}
    spent = record.spent["provider"]
    assert (spent.calls, spent.errors, spent.unknown_costs) == (3, 1, 1)
    assert Decimal(spent.cost_usd) == Decimal("0.000003")
    assert spent.usage.total_tokens == 45
    assert record.spent["answering"].cost_usd == "0.5"


async def test_an_item_that_was_not_evaluated_has_no_state(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1"))
    (record,) = await items_of(tmp_path / "run")
    assert record.state is None
    assert record.outcome is None


async def test_an_item_record_has_the_kind_and_message_of_its_error(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(failed("q1", "rate_limited"))
    (record,) = await items_of(tmp_path / "run")
    assert (record.state, record.outcome, record.message) == (
        State.ERROR,
        "rate_limited",
        "the provider did not answer",
    )
    assert record.values == {}


async def test_the_newest_scoring_is_returned_and_the_old_one_stays_stored(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1"))
        journal.append(scored("q2"))
        journal.append(scored("q1", 0.0, generation=1, verdicts=(Verdict(evaluator="new", value=0.0, correct=False),)))
    records = {record.item: record for record in await items_of(tmp_path / "run")}
    assert records["q1"].state is State.INCORRECT
    assert [verdict.evaluator for verdict in records["q1"].verdicts] == ["new"]
    assert records["q1"].attempts[Phase.EVALUATE] == 1
    assert records["q2"].state is State.CORRECT
    async with Reader.open(tmp_path / "run") as reader:
        assert await reader.states(JOB) == {State.CORRECT: 1, State.INCORRECT: 1}
        (batch,) = [batch async for batch in reader.values(JOB)]
        assert list(batch.values["recall@5"]) == [0.0, 1.0]
        assert len(await reader.attempts(CHAIN, "q1")) == 2


async def test_value_columns_distinguish_a_none_value_from_a_missing_metric(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1", 0.1))
        journal.append(failed("q2"))
        journal.append(scored("q3", None))
    async with Reader.open(tmp_path / "run") as reader:
        batches = [batch async for batch in reader.values(JOB)]
    assert [batch.items for batch in batches] == [("q1",), ("q2",), ("q3",)]
    assert batches[0].values["recall@5"][0] == 0.1
    assert batches[1].values == {}
    assert batches[1].outcomes == ("timeout",)
    assert math.isnan(batches[2].values["recall@5"][0])
    assert batches[0].labels[0] is batches[2].labels[0]


async def test_a_corpus_record_has_the_rows_of_its_last_attempt_and_the_costs_of_all(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for attempt in (1, 2):
            journal.append(step(CorpusKind.INTENT, attempt=attempt))
            journal.append(step(CorpusKind.BATCH, attempt=attempt, times_us={"ingest": 5}, calls=(call(),)))
            journal.append(step(CorpusKind.BATCH, attempt=attempt, times_us={"ingest": 7}, calls=(call(),)))
        journal.append(step(CorpusKind.READY, attempt=2, times_us={"index": 3}))
        journal.append(step(CorpusKind.FAILED, corpus="c2", outcome="not_ready", message="still indexing"))
    async with Reader.open(tmp_path / "run") as reader:
        first, second = [facts async for facts in reader.corpora(LANE)]
        spent = await reader.spent(LANE)
    assert (first.attempts, first.times_us) == (2, {"ingest": 12, "index": 3})
    assert first.row("ready") is not None
    assert first.row("failed") is None
    assert first.spent["provider"].calls == 4
    failure = second.row("failed")
    assert failure is not None
    assert (failure.outcome, failure.message) == ("not_ready", "still indexing")
    assert spent["provider"].calls == 4


async def test_calls_returns_every_call_of_an_owner(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(step(CorpusKind.BATCH, calls=(call(endpoint="p.add"),)))
        journal.append(search("q1", calls=(call(),)))
        journal.append(scored("q1", calls=(call(role="judge"),)))
    async with Reader.open(tmp_path / "run") as reader:
        assert sorted([c.endpoint async for c in reader.calls(LANE)]) == ["p.add", "p.search"]
        assert [c.role async for c in reader.calls(JOB)] == ["judge"]


async def test_an_unknown_owner_has_no_states_items_values_or_corpora(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()), Reader.open(tmp_path / "run") as reader:
        assert await reader.states("unknown") == {}
        assert await reader.item(CHAIN, "unknown") == []
        assert [batch async for batch in reader.values("unknown")] == []
        assert [record async for record in reader.corpora("unknown")] == []


async def test_a_reading_connection_canceled_in_a_query_is_closed_after_the_query(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    await create(path, RunMeta(run_id="r", plan_digest="d", identity={}))
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT count(*) FROM n"
    with anyio.move_on_after(0.02) as scope:
        async with open_reading(path) as connection, anyio.create_task_group() as readers:
            for _ in range(3):
                readers.start_soon(connection.execute_fetchall, slow)
    assert scope.cancelled_caught
    with pytest.raises(ValueError, match="no active connection"):
        await connection.execute("SELECT 1")
