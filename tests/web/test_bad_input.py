"""What a workspace may hold or a visitor may do, and the site goes on: broken and vanished runs, visitors that hang."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from pathlib import Path

import anyio
import pytest

from tests.web.test_pages import checked
from tests.web.workspaces import visiting


@pytest.fixture
def workspace(finished: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    shutil.copytree(finished, tmp_path / "w")
    return tmp_path / "w"


@pytest.mark.parametrize("damage", ["cut", "foreign", "empty", "folder"])
async def test_a_broken_journal_is_one_row_and_hides_no_other_run(workspace: Path, damage: str) -> None:
    shutil.copytree(workspace / "checkpoints" / "r1", workspace / "checkpoints" / "bad")
    file = workspace / "checkpoints" / "bad" / "journal.sqlite"
    content = file.read_bytes()
    for leftover in file.parent.glob("journal.sqlite-*"):
        leftover.unlink()
    file.unlink()
    match damage:
        case "cut":
            file.write_bytes(content[: len(content) // 3])
        case "foreign":
            with sqlite3.connect(file) as other:
                other.execute("CREATE TABLE t (x)")
            other.close()
        case "empty":
            file.touch()
        case "folder":
            file.mkdir()
    async with visiting(workspace) as visit:
        runs = {run["run_id"]: run["state"] for run in (await visit.document("/runs"))["runs"]}
        assert runs["r1"] == "complete" and runs.get("bad", "unreadable") in ("unreadable", "complete")
        for path in ("/", "/runs/bad", "/runs/bad/items", "/runs/bad/items/x", "/compare?a=bad:bm25&b=r1:oracle"):
            status, text = await visit.get(path)
            assert status < 500 or "journal" in text, (path, status, text)
            checked(text)
        status, text = await visit.get("/api/v1/runs/bad/items")
        assert (status != 200 and set(json.loads(text)["error"]) == {"kind", "message", "hint"}) or damage == "cut"
        assert (await visit.get("/runs/r1"))[0] == 200


async def test_a_run_that_is_deleted_while_it_is_shown_is_404_and_gone_from_the_list(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        item = (await visit.document("/runs/r1/items"))["items"][0]["slug"]
        assert (await visit.get("/runs/r1"))[0] == 200
        shutil.rmtree(workspace / "checkpoints" / "r1")
        for path in ("/runs/r1", "/runs/r1/items", f"/runs/r1/items/{item}", "/api/v1/runs/r1/events"):
            assert (await visit.get(path))[0] == 404, path
        assert (await visit.document("/runs"))["runs"] == []
        assert (await visit.get("/"))[0] == 200


async def test_a_reader_of_events_that_never_reads_holds_up_nobody(finished: Path) -> None:
    async with visiting(finished) as visit:
        host, port = visit.site.url.removeprefix("http://").split(":")
        hung = []
        for _ in range(20):
            one = socket.create_connection((host, int(port)))
            one.sendall(f"GET /api/v1/runs/r1/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            hung.append(one)
        with anyio.fail_after(20):
            assert (await visit.get("/runs/r1"))[0] == 200
        for one in hung:
            one.close()


async def test_queries_that_mean_nothing_are_told_so(finished: Path) -> None:
    async with visiting(finished) as visit:
        for query in (
            "runs/r1/items?state=nope", "runs/r1/items?sort=nope", "runs/r1/items?limit=0", "runs/r1/items?limit=1e9",
            "runs/r1/items?cursor=%00", "runs/r1/items?sort=state&cursor=x", "compare?a=r1:bm25", "compare?a=%00&b=..",
            "compare?a=r1:bm25&b=r1:oracle&metric=nope", "leaderboard?view=nope",
        ):  # fmt: skip
            status, text = await visit.get(f"/api/v1/{query}")
            assert status in (400, 404), (query, status, text)
            assert json.loads(text)["error"]["hint"], query


async def test_a_receipt_that_is_no_json_is_a_row_with_its_verdict(workspace: Path) -> None:
    folder = workspace / "results" / "r1" / "receipts"
    folder.mkdir(parents=True)
    (folder / "torn.json").write_text('{"schema": ')
    async with visiting(workspace) as visit:
        (row,) = (await visit.document("/receipts"))["receipts"]
        assert row["verdict"] == "INVALID"
        status, text = await visit.get("/receipts")
        assert status == 200 and "INVALID" in text
