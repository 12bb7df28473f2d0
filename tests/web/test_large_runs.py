"""Large runs: pages answer at once, show that numbers are being computed, and later show the numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from bench.journal import Journal, RunState
from bench.model import State
from bench.web import cache
from bench.web.documents import run_documents, workspace_documents
from tests import forked
from tests.full_journal import ItemData, rows_of, write_run
from tests.small_journal import record
from tests.web.workspaces import Visit, visiting

ITEMS = [ItemData(item=f"q{at}", state=State.CORRECT) for at in range(4)]
JOB = record("x")


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute each document in another process and wait only briefly for it."""
    monkeypatch.setattr(sys, "executable", str(forked.client("python")))
    monkeypatch.setattr(cache, "SMALL_ITEMS", 0)
    monkeypatch.setattr(cache, "SMALL_ITEMS", 0)
    monkeypatch.setattr(cache, "SHORT_WAIT_S", 0.001)
    monkeypatch.setattr(workspace_documents, "QUICK_BYTES", 0)
    monkeypatch.setattr(workspace_documents, "SHORT_WAIT_S", 0.001)


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    await write_run(tmp_path, "r1", [(JOB, ITEMS), (record("y"), ITEMS)])
    return tmp_path


async def in_the_end(visit: Visit, path: str) -> str:
    """Repeat a request until its document is complete."""
    with anyio.fail_after(60):
        while True:
            status, text = await visit.get(path)
            if status == 200 and "data-again" not in text:
                return text
            assert status in (200, 503), text
            await anyio.sleep(0.05)


async def test_results_that_are_being_computed_are_503_with_retry_after(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        status, text, headers = await visit.ask("GET", "/api/v1/runs/r1/results")
        assert (status, headers["Retry-After"]) == (503, "2")
        assert json.loads(text)["error"] == {
            "kind": "busy", "message": "the numbers are being computed", "hint": "repeat the request in a few seconds",
        }  # fmt: skip
        found = json.loads(await in_the_end(visit, "/api/v1/runs/r1/results"))
        assert [job["provider"] for job in found["jobs"]] == ["x", "y"]


async def test_the_page_of_a_run_shows_its_state_at_once_and_reloads_for_its_numbers(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        status, page = await visit.get("/runs/r1")
        assert status == 200 and "The numbers are being computed; reload in a moment." in page
        assert 'data-again="2000"' in page and "no number yet" in page
        page = await in_the_end(visit, "/runs/r1")
        assert "8 items ended" in page and "<strong>1.00</strong>" in page


async def test_the_list_marks_runs_whose_items_are_still_being_counted(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        _, page = await visit.get("/")
        assert ("items are being counted" in page) is ('class="state complete"' not in page), "no tick before that"
        (row,) = (await visit.document("/runs"))["runs"]
        assert row["planned"] == 8 and row["ended"] == (8 if row["counted"] else 0)
        with anyio.fail_after(60):
            while (await visit.document("/runs"))["runs"][0]["ended"] != 8:
                await anyio.sleep(0.02)


async def test_a_comparison_in_progress_is_503_and_the_page_reloads(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        status, text, _ = await visit.ask("GET", "/api/v1/compare?a=r1:x&b=r1:y")
        assert status == 503 and "the runs are being compared" in text
        status, page = await visit.get("/compare?a=r1:x&b=r1:y")
        if "data-again" in page:
            assert status == 200 and "The runs are large and being compared" in page
        page = await in_the_end(visit, "/compare?a=r1:x&b=r1:y")
        assert "Neither side can be called better" in page
        status, text = await visit.get("/api/v1/compare?a=r1:x&b=r1:y")
        assert status == 200


async def test_an_error_of_the_other_process_is_the_error_of_the_request(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        with anyio.fail_after(60):
            while (await visit.get("/api/v1/compare?a=r1:x&b=r1:nope"))[0] == 503:
                await anyio.sleep(0.05)
        status, text = await visit.get("/api/v1/compare?a=r1:x&b=r1:nope")
        assert status == 400
        assert json.loads(text)["error"]["message"] == "run r1 has no job nope"
        assert json.loads(text)["error"]["hint"] == "jobs of this run: facts x x, facts x y"


async def test_receipts_are_verified_in_the_background_and_the_last_result_is_shown(workspace: Path) -> None:
    place = workspace / "results" / "r1" / "receipts"
    place.mkdir(parents=True)
    (place / "a.json").write_text("{")
    async with visiting(workspace) as visit:
        first = await visit.document("/receipts")
        assert first == {"receipts": [], "log": None, "problem": None, "fresh": False}
        status, page = await visit.get("/receipts")
        assert status == 200 and ("being verified" in page or "INVALID" in page)
        page = await in_the_end(visit, "/receipts")
        assert "INVALID" in page
        (place / "a.json").write_text("[]")
        again = await visit.document("/receipts")
        assert again["fresh"] is False and len(again["receipts"]) == 1, "the last one that is known"


async def test_the_last_numbers_are_shown_while_newer_ones_are_computed(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        await in_the_end(visit, "/runs/r1")
        async with Journal.resume(workspace / "checkpoints" / "r1") as journal:
            for row in rows_of(JOB, ItemData(item="q9", state=State.INCORRECT)):
                journal.append(row)
            await journal.set_state(RunState.PAUSED)
        status, page = await visit.get("/runs/r1")
        assert (
            status == 200 and "a moment old; they are being computed again" in page and "<strong>1.00</strong>" in page
        )


async def test_eight_concurrent_requests_share_one_computation(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    make_off_loop = run_documents.make_off_loop

    async def counted(*arguments: object, items: int) -> cache.Json:
        nonlocal made
        made += 1
        return await make_off_loop(*arguments, items=items)  # type: ignore[arg-type]

    monkeypatch.setattr(run_documents, "make_off_loop", counted)
    monkeypatch.setattr(cache, "SHORT_WAIT_S", 30)
    statuses: list[int] = []

    async def ask(visit: Visit) -> None:
        statuses.append((await visit.get("/api/v1/runs/r1/results"))[0])

    async with visiting(workspace) as visit, anyio.create_task_group() as asking:
        for _ in range(8):
            asking.start_soon(ask, visit)
    monkeypatch.setattr(cache, "SHORT_WAIT_S", 0.001)
    assert statuses == [200] * 8 and made == 1
