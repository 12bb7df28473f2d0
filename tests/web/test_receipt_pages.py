"""Receipts on the pages: each is verified, an invalid one is a row and does not affect the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.web.documents.workspace_documents import receipts_by_job
from tests.web.test_pages import checked
from tests.web.workspaces import bench, run_demo, visiting


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a run of two jobs, both signed."""
    workspace = tmp_path_factory.mktemp("signed")
    run_demo(workspace, "r1", "--providers", "oracle", "no-memory", "--limit", "4", "--answering-model", "none")
    bench(workspace, "keys", "new", "me", "--key-dir", str(workspace / "private"))
    key = next((workspace / "private").glob("*.key"))
    bench(workspace, "sign", "r1", "--key", str(key))
    return workspace


@pytest.fixture
def workspace(signed: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(signed, tmp_path / "w")
    return tmp_path / "w"


def receipts(workspace: Path) -> list[Path]:
    return sorted((workspace / "results" / "r1" / "receipts").glob("*.json"))


async def listed(workspace: Path) -> dict[str, dict[str, Any]]:
    async with visiting(workspace) as visit:
        found = await visit.document("/receipts")
        status, page = await visit.get("/receipts")
    assert status == 200
    checked(page)
    assert all(one["verdict"] in page for one in found["receipts"])
    return {Path(one["file"]).name: one for one in found["receipts"]}


async def test_each_receipt_is_listed_with_verdict_and_statement_and_served_unchanged(workspace: Path) -> None:
    rows = await listed(workspace)
    assert set(rows) == {path.name for path in receipts(workspace)} and len(rows) == 2
    for one in rows.values():
        assert one["verdict"] == "VALID" and one["file"].startswith("results/r1/receipts/")
        assert one["statement"]["run"]["runId"] == "r1" and one["statement"]["benchmark"]["name"] == "demo"
        assert set(one["statement"]) <= {"benchmark", "provider", "kind", "issuedAt", "partial", "run", "models"}
    assert {one["statement"]["provider"]["name"] for one in rows.values()} == {"oracle", "no-memory"}
    async with visiting(workspace) as visit:
        for path in receipts(workspace):
            status, text, headers = await visit.ask("GET", f"/receipts/r1/{path.name}")
            assert (status, text, headers["Content-Type"]) == (200, path.read_text(), "application/json")


async def test_a_receipt_changed_while_the_site_is_open_becomes_invalid(workspace: Path) -> None:
    path = receipts(workspace)[0]
    async with visiting(workspace) as visit:
        before = {one["file"]: one["verdict"] for one in (await visit.document("/receipts"))["receipts"]}
        assert set(before.values()) == {"VALID"}
        path.write_text(
            path.read_text().replace('"runId": "r1"', '"runId": "r9"').replace('"runId":"r1"', '"runId":"r9"')
        )
        after = {one["file"]: one["verdict"] for one in (await visit.document("/receipts"))["receipts"]}
    name = str(path.relative_to(workspace))
    assert after.pop(name) == "INVALID" and set(after.values()) == {"VALID"}


BROKEN = {
    "no json": b"{",
    "no object": b"[1, 2]",
    "a text": b'"x"',
    "null": b"null",
    "empty": b"",
    "no utf-8": b"\xff\xfe{}",
    "a mark first": b"\xef\xbb\xbf{}",
    "no number": b'{"benchmark": {"name": NaN}, "run": Infinity}',
    "twice": b'{"run": 1, "run": 2}',
    "too deep": b"[" * 100_000,
    "deep objects": b'{"run":' * 5000 + b"1" + b"}" * 5000,
    "endless number": b'{"run": ' + b"9" * 6000 + b"}",
    "half a character": b'{"provider": "\\ud800"}',
    "models of another kind": b'{"models": 7, "benchmark": 7, "provider": []}',
    "models of texts": b'{"models": ["a", null, {"role": "answering", "requested": 7}], "benchmark": {"name": "demo"}}',
    "hostile": b'{"receiptId": "<script>alert(1)</script>", "kind": "<img src=x>", "run": {"name": "\\u202e"}}',
}


@pytest.mark.parametrize("case", BROKEN)
async def test_an_invalid_receipt_is_one_row_and_the_others_stay_valid(workspace: Path, case: str) -> None:
    (workspace / "results" / "r1" / "receipts" / "bad.json").write_bytes(BROKEN[case])
    rows = await listed(workspace)
    assert rows.pop("bad.json")["verdict"] == "INVALID"
    assert [one["verdict"] for one in rows.values()] == ["VALID", "VALID"]
    async with visiting(workspace) as visit:
        status, page = await visit.get("/leaderboard")
        assert status == 200 and page.count(">signed</a>") == 2


async def test_unreadable_receipt_files_cause_no_server_error(workspace: Path) -> None:
    place = workspace / "results" / "r1" / "receipts"
    (place / "gone.json").symlink_to(workspace / "nowhere")
    (place / "folder.json").mkdir()
    async with visiting(workspace) as visit:
        for path in ("/receipts", "/leaderboard", "/api/v1/receipts", "/api/v1/leaderboard"):
            assert (await visit.get(path))[0] == 200, path
        for name in ("gone.json", "folder.json", "nope.json"):
            status, text = await visit.get(f"/receipts/r1/{name}")
            assert status == 404 and " has no receipt " in text
        assert [one["verdict"] for one in (await visit.document("/receipts"))["receipts"]] == ["VALID", "VALID"]


async def test_only_receipts_of_the_workspace_are_served(workspace: Path) -> None:
    outside = workspace.parent / "secret.json"
    outside.write_text("{}")
    (workspace / "results" / "r1" / "receipts" / "link.json").symlink_to(outside)
    async with visiting(workspace) as visit:
        for path in ("/receipts/r1/link.json", "/receipts/r1/..", "/receipts/.hidden/x.json", "/receipts/nope/x.json"):
            assert (await visit.get(path))[0] in (400, 404), path


async def test_a_leaderboard_row_links_to_the_receipt_of_its_job(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        by_job = receipts_by_job(visit.site.site, {"r1", "r2"})
        assert {name[2]: address for name, address in by_job.items()} == {
            json.loads(path.read_text())["provider"]["name"]: f"/receipts/r1/{path.name}"
            for path in receipts(workspace)
        }
        assert {name[:2] for name in by_job} == {("r1", "demo")}
        (table,) = (await visit.document("/leaderboard"))["tables"]
        for row in table["rows"]:
            status, text = await visit.get(row["receipt"])
            assert status == 200 and json.loads(text)["provider"]["name"] == row["provider"]


async def test_a_missing_or_malformed_trust_file_is_reported_on_the_page(workspace: Path) -> None:
    (workspace / "keys" / "trusted.json").unlink()
    assert {one["verdict"] for one in (await listed(workspace)).values()} != {"VALID"}
    (workspace / "keys" / "trusted.json").write_text("{")
    async with visiting(workspace) as visit:
        found = await visit.document("/receipts")
        assert found["receipts"] == [] and "trusted.json" in found["problem"]
        status, page = await visit.get("/receipts")
        assert status == 200 and "trusted.json" in page


async def test_the_receipts_page_shows_size_and_origin_of_the_public_log(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visiting(workspace) as visit:
        assert (await visit.document("/receipts"))["log"] is None
    key = next((workspace / "private").glob("*.key"))
    monkeypatch.setenv("MEMORYBENCH_LOG_KEY_FILE", str(key))
    bench(workspace, "publish", str(receipts(workspace)[0]))
    async with visiting(workspace) as visit:
        found = await visit.document("/receipts")
        assert set(found["log"]) == {"size", "verdict", "origin"} and found["log"]["size"] >= 1
        assert any(one["file"].startswith("results/published/receipts/") for one in found["receipts"])
        published = next(one["file"] for one in found["receipts"] if "published" in one["file"])
        assert (await visit.get(f"/receipts/published/{Path(published).name}"))[0] == 200
        _, page = await visit.get("/receipts")
        assert f"Public log {found['log']['origin']}: {found['log']['size']} entries" in page
