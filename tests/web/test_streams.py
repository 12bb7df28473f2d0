"""The event stream: the current state first, then each change, then an end."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from bench.journal import Event, Journal, Reader, RunState
from bench.model import State
from bench.web import stream as streaming
from bench.web.app_state import Site
from tests.full_journal import ItemData, rows_of, write_run
from tests.small_journal import record
from tests.web.workspaces import Visit, visiting

JOB = record("x")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same stream with shorter pauses."""
    monkeypatch.setattr(streaming, "POLL_S", 0.02)
    monkeypatch.setattr(streaming, "KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(streaming, "REST_FACTOR", 1)


@asynccontextmanager
async def running(workspace: Path) -> AsyncIterator[Journal]:
    """A run of three items of which one ended, locked by this process."""
    folder = await write_run(workspace, "r1", [(JOB, [ItemData(item="q1")])], state=RunState.RUNNING, planned=3)
    async with Journal.resume(folder) as journal:
        await journal.set_state(RunState.RUNNING)
        yield journal


class Messages:
    """The messages of a stream in order."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.comments = 0

    async def next(self) -> tuple[str, Any, int] | None:
        """Return kind, data and id; None at the end."""
        found: dict[str, str] = {}
        with anyio.fail_after(20):
            async for raw in self.answer.content:
                line = raw.decode().rstrip("\n")
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    found[name] = value
                elif found:
                    return found["event"], json.loads(found["data"]), int(found["id"])
        return None


@asynccontextmanager
async def listening(visit: Visit, run_id: str = "r1", last: str = "") -> AsyncIterator[Messages]:
    headers = {**visit.token, **({"Last-Event-ID": last} if last else {})}
    async with visit.session.get(f"{visit.site.url}/api/v1/runs/{run_id}/events", headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        yield Messages(answer)


async def test_the_stream_of_a_running_run_sends_states_and_events_until_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as journal, visiting(tmp_path) as visit, listening(visit) as messages:
        kind, now, _ = await messages.next() or ("", {}, 0)
        assert (kind, now["run_id"], now["state"], now["service"]) == ("state", "r1", "running", None)
        assert (now["progress"]["planned"], now["progress"]["ended"]) == (3, 1)
        for row in rows_of(JOB, ItemData(item="q2", state=State.INCORRECT)):
            journal.append(row)
        await journal.flush()
        kind, now, _ = await messages.next() or ("", {}, 0)
        assert (kind, now["progress"]["ended"]) == ("state", 2)
        assert now["progress"]["jobs"][0]["counts"] == {"correct": 1, "incorrect": 1}
        journal.append(Event(kind="slow", message="the provider is slow"))
        await journal.flush()
        kind, event, number = await messages.next() or ("", {}, 0)
        assert (kind, event["kind"], event["message"]) == ("event", "slow", "the provider is slow")
        await journal.set_state(RunState.PAUSED, "asked to")
        kind, now, at = await messages.next() or ("", {}, 0)
        assert (kind, now["state"], now["reason"], at) == ("state", "paused", "asked to", number)
        assert await messages.next() == ("end", {"run_id": "r1", "state": "paused"}, number)
        assert await messages.next() is None


async def test_a_stream_with_Last_Event_ID_sends_only_later_events(tmp_path: Path) -> None:
    events = [Event(kind="k", message=f"number {number}") for number in range(5)]
    await write_run(tmp_path, "r1", [(JOB, [ItemData(item="q1")])], more=events)
    async with visiting(tmp_path) as visit:
        async with listening(visit) as messages:
            whole = [one async for one in all_of(messages)]
        messages_sent = [(data["message"], number) for kind, data, number in whole if kind == "event"]
        assert [text for text, _ in messages_sent] == [f"number {number}" for number in range(5)]
        async with listening(visit, last=str(messages_sent[2][1])) as messages:
            rest = [one async for one in all_of(messages)]
        assert [data["message"] for kind, data, _ in rest if kind == "event"] == ["number 3", "number 4"]
        assert [kind for kind, _, _ in rest] == ["state", "event", "event", "end"]


async def all_of(messages: Messages) -> AsyncIterator[tuple[str, Any, int]]:
    while (one := await messages.next()) is not None:
        yield one


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30, "²", " ", "0x1"])
async def test_an_invalid_Last_Event_ID_starts_from_the_beginning(tmp_path: Path, last: str) -> None:
    await write_run(tmp_path, "r1", [(JOB, [ItemData(item="q1")])], more=[Event(kind="k", message="first")])
    async with visiting(tmp_path) as visit, listening(visit, last=last.encode().decode("latin-1")) as messages:
        (kind, _, at), (then, data, _) = [await messages.next() or ("", {}, 0) for _ in range(2)]
    assert (kind, at, then, data["message"]) == ("state", 0, "event", "first")


async def test_a_stream_without_changes_sends_keep_alive_comments(tmp_path: Path) -> None:
    async with running(tmp_path) as journal, visiting(tmp_path) as visit, listening(visit) as messages:
        await messages.next()
        await anyio.sleep(0.2)
        await journal.set_state(RunState.COMPLETE)
        assert [kind async for kind, _, _ in all_of(messages)] == ["state", "end"]
        assert messages.comments >= 1


@pytest.fixture
def journal_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry per read of a journal by a stream."""
    found: list[str] = []
    state = streaming._state

    async def counted(site: Site, reader: Reader, run_id: str) -> Any:
        found.append(run_id)
        return await state(site, reader, run_id)

    monkeypatch.setattr(streaming, "_state", counted)
    return found


async def test_head_of_a_stream_is_answered_without_reading_the_journal(
    tmp_path: Path, journal_reads: list[str]
) -> None:
    async with running(tmp_path), visiting(tmp_path) as visit:
        status, body, headers = await visit.ask("HEAD", "/api/v1/runs/r1/events")
        assert (status, body, headers["Content-Type"]) == (200, "", "text/event-stream")
        assert (await visit.ask("HEAD", "/api/v1/runs/nope/events"))[0] == 404
        await anyio.sleep(0.05)
    assert journal_reads == []


async def test_a_client_that_disconnects_ends_its_stream_without_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, journal_reads: list[str]
) -> None:
    async with running(tmp_path), visiting(tmp_path) as visit:
        for _ in range(5):
            async with listening(visit) as messages:
                assert (await messages.next() or ("",))[0] == "state"
                messages.answer.close()
        with anyio.fail_after(20):
            before = -1
            while len(journal_reads) != before:  # until no stream reads any more
                before = len(journal_reads)
                await anyio.sleep(0.2)
        assert (await visit.get("/api/v1/runs/r1"))[0] == 200
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_run_deleted_during_a_stream_is_reported_as_a_problem(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit, running(tmp_path):
        async with listening(visit) as messages:
            assert (await messages.next() or ("",))[0] == "state"
            shutil.move(tmp_path / "checkpoints" / "r1", tmp_path / "moved")
            kind, data, _ = await messages.next() or ("", {}, 0)
            assert (kind, data["run_id"]) == ("problem", "r1")
            assert "journal" in data["message"]
            assert await messages.next() is None, "and the line is closed"
        shutil.move(tmp_path / "moved", tmp_path / "checkpoints" / "r1")


async def test_documents_of_a_run_that_is_being_written_are_consistent(tmp_path: Path) -> None:
    """All documents are consistent at any moment, and reading does not change the journal."""
    stop = anyio.Event()

    async with running(tmp_path) as journal, visiting(tmp_path) as visit, anyio.create_task_group() as writing:

        async def write() -> None:
            for number in range(2, 400):
                for row in rows_of(
                    JOB, ItemData(item=f"q{number}", state=State.INCORRECT if number % 2 else State.CORRECT)
                ):
                    await journal.wait_for_room()
                    journal.append(row)
                await anyio.sleep(0)
                if stop.is_set():
                    return

        writing.start_soon(write)
        ended: list[int] = []
        for _ in range(12):
            document = await visit.document("/runs/r1")
            progress = document["progress"]
            assert document["state"] == "running" and "pid" in document["holder"]
            assert progress["ended"] == sum(progress["jobs"][0]["counts"].values())
            ended.append(progress["ended"])
            grid = await visit.document("/runs/r1/items?limit=500")
            assert len({row["item_id"] for row in grid["items"]}) == len(grid["items"]) >= progress["ended"]
            assert (await visit.get("/runs/r1"))[0] == (await visit.get("/runs/r1/items"))[0] == 200
            assert (await visit.get("/"))[0] == 200
        assert ended == sorted(ended)
        stop.set()


async def test_reading_the_pages_of_a_run_changes_no_file(tmp_path: Path) -> None:
    folder = await write_run(tmp_path, "r1", [(JOB, [ItemData(item="q1")])])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    async with visiting(tmp_path) as visit:
        for path in ("/", "/runs/r1", "/runs/r1/items", "/runs/r1/items/q1", "/api/v1/runs/r1/events", "/leaderboard"):
            assert (await visit.get(path))[0] == 200
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".sqlite"} == {
        name: content for name, content in before.items() if name.endswith(".sqlite")
    }
    assert not (tmp_path / "results").exists() and not (tmp_path / "checkpoints" / ".token").exists()
