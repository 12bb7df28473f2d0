"""Broken and deleted runs, clients that hang and invalid queries: the site stays available."""

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
    """A copy that a test may damage."""
    shutil.copytree(finished, tmp_path / "w")
    return tmp_path / "w"


@pytest.mark.parametrize("damage", ["cut", "foreign", "empty", "folder"])
async def test_a_run_with_a_broken_journal_is_one_row_and_other_runs_stay_available(
    workspace: Path, damage: str
) -> None:
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


async def test_a_run_deleted_while_it_is_shown_is_404_and_not_listed(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        item = (await visit.document("/runs/r1/items"))["items"][0]["slug"]
        assert (await visit.get("/runs/r1"))[0] == 200
        shutil.rmtree(workspace / "checkpoints" / "r1")
        for path in ("/runs/r1", "/runs/r1/items", f"/runs/r1/items/{item}", "/api/v1/runs/r1/events"):
            assert (await visit.get(path))[0] == 404, path
        assert (await visit.document("/runs"))["runs"] == []
        assert (await visit.get("/"))[0] == 200


async def test_a_client_that_never_reads_its_events_does_not_block_others(finished: Path) -> None:
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
