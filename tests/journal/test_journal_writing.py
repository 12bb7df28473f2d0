"""Journal: order, durability, back-pressure, and no lost rows when it closes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio
import pytest

from bench.errors import JournalError, UsageError
from bench.events import redactor
from bench.journal import CorpusKind, Event, Journal, Key, Reader, RunState
from bench.model import Phase, State
from tests.journal.journal_samples import (
    CHAIN,
    JOB,
    LANE,
    START,
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
from tests.rows import each_row


def raw(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path / "journal.sqlite")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def test_an_entry_is_read_back_as_it_was_appended(tmp_path: Path) -> None:
    entry = search(
        "q1", message="", measured={"model": "m"}, calls=(call(), call(attempt=2, outcome="timeout", status=None))
    )
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(entry)
    async with Reader.open(tmp_path / "run") as reader:
        (found,) = await reader.attempts(CHAIN, "q1")
        assert found.data == entry.data
        assert found.measured == entry.measured
        assert found.times_us == entry.times_us
        assert found.started_at == entry.started_at
        assert found.calls == entry.calls
        assert found.attempt == 1
        assert await reader.payload(str(found.payloads["hits"])) == entry.payloads["hits"]


@each_row(
    "text", ["emoji \N{PILE OF POO}", "line\u2028separator", "lone \ud800 surrogate", "nul \0 byte", "quote ' \" \\"]
)
async def test_any_text_can_be_stored_and_is_read_back_unchanged(tmp_path: Path, text: str) -> None:
    entry = search("q1", data={"text": text}, payloads={"small": text, "large": text * 2000})
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(entry)
        journal.append(failed("q2", message=text))
        await journal.flush()
        found = await journal.load(entry.key)
    assert found is not None
    assert found.data == {"text": text}
    assert found.payloads == entry.payloads


async def test_an_id_with_a_lone_surrogate_is_found_by_load(tmp_path: Path) -> None:
    entry = search("q\ud800")
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(entry)
        assert await journal.load(entry.key) is not None


async def test_append_durable_returns_after_the_commit(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(step(CorpusKind.INTENT))
        assert raw(tmp_path / "run", "SELECT kind FROM corpus_row") == [("intent",)]


async def test_append_does_not_wait_and_a_thousand_rows_share_one_commit(tmp_path: Path) -> None:
    commits: list[int] = []
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.on_commit = lambda rows: commits.append(len(rows))
        for unit in units(1000):
            journal.append(search(unit))
        assert journal.pending == 1000
        await journal.flush()
        assert journal.pending == 0
    assert sum(commits) == 1000
    assert len(commits) == 1


async def test_rows_are_committed_in_the_order_of_append(tmp_path: Path) -> None:
    seen: list[str] = []
    async with Journal.create(tmp_path / "run", meta(), linger_s=0.001) as journal:
        journal.on_commit = lambda rows: seen.extend(row.key.unit for row in rows)
        for number, unit in enumerate(units(500)):
            journal.append(search(unit))
            if number % 50 == 0:
                await anyio.sleep(0.002)
    assert seen == list(units(500))


async def test_an_appended_row_is_committed_within_two_seconds_without_flush(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1"))
        with anyio.fail_after(2):
            while journal.pending:
                await anyio.sleep(0.005)
        assert raw(tmp_path / "run", "SELECT count(*) FROM entry") == [(1,)]


async def test_wait_for_room_keeps_the_number_of_pending_rows_within_the_bound(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta(), bound=10) as journal:
        for unit in units(10):
            journal.append(search(unit))
        await journal.wait_for_room()
        assert journal.pending < 10
        for unit in units(200):
            await journal.wait_for_room()
            journal.append(search(unit, epoch=2))
            assert journal.pending <= 10


async def test_durable_counts_only_committed_rows(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1"))
        journal.append(failed("q1"))
        journal.append(step(CorpusKind.INGESTED))
        assert journal.durable == {}
        await journal.flush()
        assert journal.durable == {(Phase.SEARCH, "ok"): 1, (Phase.EVALUATE, "timeout"): 1, (Phase.INGEST, "ok"): 1}
    async with Reader.open(tmp_path / "run") as reader:
        assert await reader.counts() == journal.durable


async def test_a_canceled_journal_commits_its_pending_rows(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with Journal.create(tmp_path / "run", meta()) as journal:
            for unit in units(300):
                journal.append(scored(unit))
            scope.cancel()
            await anyio.sleep(1)
    assert len(await items_of(tmp_path / "run")) == 300


async def test_an_exception_in_the_with_block_is_raised_unchanged_after_the_flush(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Journal.create(tmp_path / "run", meta()) as journal:
            journal.append(scored("q1"))
            raise ZeroDivisionError
    assert len(await items_of(tmp_path / "run")) == 1


async def test_a_row_that_is_not_json_stops_the_journal_and_loses_no_earlier_row(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be stored"):
        async with Journal.create(tmp_path / "run", meta()) as journal:
            await journal.append_durable(scored("q1"))
            await journal.append_durable(search("q2", data={"object": object()}))
    assert states_of(await items_of(tmp_path / "run")) == {"q1": State.CORRECT}


async def test_every_call_after_a_failed_write_is_a_journal_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        async with Journal.create(tmp_path / "run", meta()) as journal:
            journal.append(search("q1", data={"object": object()}))
            with pytest.raises(JournalError):
                await journal.flush()
            for act in (journal.flush, journal.wait_for_room):
                with pytest.raises(JournalError):
                    await act()
            with pytest.raises(JournalError):
                journal.append(search("q2"))


async def test_attempts_are_numbered_by_the_journal(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(failed("q1"))
        journal.append(failed("q1"))
        journal.append(scored("q1"))
    async with Reader.open(tmp_path / "run") as reader:
        assert [(entry.attempt, entry.outcome) for entry in await reader.attempts(CHAIN, "q1")] == [
            (1, "timeout"),
            (2, "timeout"),
            (3, "ok"),
        ]


async def test_a_repeated_attempt_number_is_a_journal_error_and_the_first_row_stays(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        async with Journal.create(tmp_path / "run", meta()) as journal:
            await journal.append_durable(scored("q1", attempt=1))
            await journal.append_durable(scored("q1", 0.0, attempt=1))
    assert states_of(await items_of(tmp_path / "run")) == {"q1": State.CORRECT}


async def test_ten_thousand_equal_error_messages_are_stored_once(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for unit in units(10_000):
            await journal.wait_for_room()
            journal.append(failed(unit))
    assert raw(tmp_path / "run", "SELECT count(*) FROM message") == [(1,)]
    assert raw(tmp_path / "run", "SELECT count(*) FROM phase") == [(10_000,)]


async def test_equal_payloads_are_stored_once(tmp_path: Path) -> None:
    hits = [{"content": "the same " * 1000}]
    async with Journal.create(tmp_path / "run", meta()) as journal:
        for unit in units(50):
            journal.append(search(unit, payloads={"hits": hits}))
    assert raw(tmp_path / "run", "SELECT count(*), max(length(body)) < 1000 FROM payload") == [(1, 1)]


async def test_dropping_payloads_keeps_every_row(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1"))
        journal.append(scored("q1"))
        await journal.drop_payloads()
    async with Reader.open(tmp_path / "run") as reader:
        (record,) = await reader.item(CHAIN, "q1")
        assert record.state is State.CORRECT
        assert await reader.payload(str(record.phases[Phase.SEARCH].payloads["hits"])) is None


async def test_a_dropped_payload_is_stored_again_by_the_next_row_with_it(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(search("q1"))
        await journal.drop_payloads()
        await journal.append_durable(search("q1"))
        found = await journal.load(search("q1").key)
    assert found is not None
    assert found.payloads == search("q1").payloads


async def test_a_secret_in_an_error_message_is_not_stored(tmp_path: Path) -> None:
    redactor.learn("correct-horse-battery")
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(failed("q1", message="401: key correct-horse-battery is not known"))
        journal.append(Event(kind="note", message="correct-horse-battery"))
        journal.append(step(CorpusKind.FAILED, outcome="auth", message="correct-horse-battery"))
    assert b"correct-horse-battery" not in (tmp_path / "run" / "journal.sqlite").read_bytes()


async def test_meta_resumes_and_state_are_read_back(tmp_path: Path) -> None:
    first = meta(request={"limit": 5}, ranges=((1, 50),), code_state={"commit": "c", "dirty": False}, created_at=START)
    async with Journal.create(tmp_path / "run", first) as journal:
        assert journal.meta == first
        await journal.amend(preregistration={"logIndex": 3})
        await journal.set_state(RunState.PAUSED, "budget")
    async with Journal.resume(tmp_path / "run") as journal:
        await journal.record_resume({"concurrency": 8})
        assert [resume.data for resume in journal.resumes] == [{"concurrency": 8}]
        await journal.set_state(RunState.PARTIAL)
    async with Reader.open(tmp_path / "run" / "journal.sqlite") as reader:
        assert reader.meta.extra == {"preregistration": {"logIndex": 3}}
        assert reader.meta.ranges == ((1, 50),)
        assert reader.meta.created_at == START
        assert [resume.data for resume in reader.resumes] == [{"concurrency": 8}]
        assert (await reader.status()).state is RunState.PARTIAL


async def test_R10_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1"))
    before = (tmp_path / "run" / "journal.sqlite").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        async with Journal.create(tmp_path / "run", meta()):
            pass
    assert (tmp_path / "run" / "journal.sqlite").read_bytes() == before


async def test_a_missing_journal_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no journal"):
        Journal.resume(tmp_path / "nothing")


async def test_finished_contains_only_ok_units_with_their_epochs(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(scored("q1"))
        journal.append(scored("q1", epoch=2))
        journal.append(failed("q2"))
        journal.append(search("q3"))
        await journal.flush()
        finished = await journal.finished(JOB, Phase.EVALUATE)
        assert ("q1", 1) in finished
        assert ("q1", 2) in finished
        assert ("q1", 3) not in finished
        assert ("q2", 1) not in finished
        assert ("q3", 1) not in finished
        assert len(finished) == 2
        assert len(await journal.finished("unknown", Phase.SEARCH)) == 0


async def test_load_returns_the_latest_attempt_of_a_key(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        journal.append(search("q1", outcome="timeout", data={}, payloads={}))
        journal.append(search("q1"))
        journal.append(search("q2"))
        await journal.flush()
        found = await journal.load(search("q1").key)
        assert found is not None
        assert (found.attempt, found.ok) == (2, True)
        assert await journal.load(search("q9").key) is None


async def test_corpus_rows_are_read_back_in_order_with_the_ids_of_the_provider(tmp_path: Path) -> None:
    ids = {f"m{number}": [f"their-{number}"] for number in range(2000)}
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(step(CorpusKind.INTENT))
        journal.append(step(CorpusKind.BATCH, data={"cursor": 7, "ids": ids}))
        journal.append(step(CorpusKind.FAILED, outcome="timeout", message="late"))
        journal.append(step(CorpusKind.INTENT, attempt=2))
        journal.append(step(CorpusKind.INTENT, corpus="other"))
    async with Journal.resume(tmp_path / "run") as journal:
        rows = await journal.corpus(LANE, "c1")
        assert [(row.attempt, row.seq, row.kind) for row in rows] == [
            (1, 1, "intent"),
            (1, 2, "batch"),
            (1, 3, "failed"),
            (2, 1, "intent"),
        ]
        assert rows[1].data == {"cursor": 7, "ids": ids}
        assert rows[2].message == "late"


async def test_load_finds_a_failed_unit_by_an_equal_key(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run", meta()) as journal:
        await journal.append_durable(failed("q1"))
        key = Key(owner=JOB, phase=Phase.EVALUATE, corpus="c1", unit="q1")
        found = await journal.load(key)
        assert found is not None
        assert found.outcome == "timeout"
