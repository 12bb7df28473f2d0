"""Downloads against a real server: resumed, checked, never half a file under the final name."""

from __future__ import annotations

import hashlib

import anyio
import pytest

from bench.datasets.rows import download as module
from bench.datasets.rows.download import origin_of
from bench.errors import DataError
from tests.datasets.conftest import Workspace
from tests.datasets.hub import BODY, SHA, run, target_of


async def test_a_hub_file_comes_from_the_named_endpoint_with_the_token(hub, config, workspace) -> None:
    server, url = hub
    outcome = await run(config(), workspace.root, url, token="secret")
    assert (outcome.state, outcome.sha256, outcome.path) == ("downloaded", SHA, target_of(workspace.root))
    path, headers = server.requests[0]
    assert path == "/datasets/acme/set/resolve/main/big.bin.json"
    assert headers["Authorization"] == "Bearer secret"
    assert target_of(workspace.root).read_bytes() == BODY


async def test_a_file_that_is_there_and_right_needs_no_request(hub, config, workspace) -> None:
    server, url = hub
    await run(config(), workspace.root, url)
    assert (await run(config(), workspace.root, url)).state == "up to date"
    assert len(server.requests) == 1


async def test_a_lost_connection_is_resumed_where_it_stopped(hub, config, workspace) -> None:
    server, url = hub
    server.break_after = 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert int(server.requests[1][1]["Range"].removeprefix("bytes=").rstrip("-")) > 0
    assert not list(target_of(workspace.root).parent.glob("*.part*"))


async def test_a_part_of_an_older_file_is_fetched_from_zero(hub, config, workspace, monkeypatch) -> None:
    server, url = hub
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.break_after = 300_000
    server.body = b"old" * 400_000
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)
    assert target_of(workspace.root).with_name("big.bin.json.part").stat().st_size > 0
    server.body, server.etag = BODY, '"two"'
    assert (await run(config(), workspace.root, url)).sha256 == SHA


async def test_another_digest_is_refused_and_kept_aside(hub, config, workspace) -> None:
    server, url = hub
    server.body = b"other"
    found = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    assert SHA in str(caught.value) and found in str(caught.value)
    assert not target_of(workspace.root).exists()
    assert target_of(workspace.root).with_name("big.bin.json.rejected").read_bytes() == b"other"


async def test_from_file_is_checked_first_and_never_altered(hub, config, workspace, tmp_path) -> None:
    server, url = hub
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(BODY)
    bad.write_bytes(b"bad")
    assert (await run(config(), workspace.root, url, source=str(good))).state == "copied"
    with pytest.raises(DataError, match=r"bad\.json"):
        await run(config(), workspace.root, url, source=str(bad))
    assert bad.read_bytes() == b"bad" and target_of(workspace.root).read_bytes() == BODY
    assert server.requests == []


async def test_two_downloads_at_once_fetch_once(hub, config, workspace) -> None:
    server, url = hub
    states: list[str] = []

    async def one() -> None:
        states.append((await run(config(), workspace.root, url)).state)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert sorted(states) == ["downloaded", "up to date"]
    assert len(server.requests) == 1


async def test_offline_names_file_digest_and_way_out(config, workspace, monkeypatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "http://127.0.0.1:9")
    text = f"{caught.value} {caught.value.hint}"
    assert "big.bin.json" in text and SHA in text and "--from FILE" in text


async def test_a_refused_token_is_said(hub, config, workspace) -> None:
    server, url = hub
    server.status = 401
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    assert "HF_TOKEN" in (caught.value.hint or "")
    assert len(server.requests) == 1


async def test_a_changed_cached_file_is_checked_again(hub, config, workspace) -> None:
    _, url = hub
    await run(config(), workspace.root, url)
    target_of(workspace.root).write_bytes(b"changed")
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)


def test_local_data_has_no_origin(workspace: Workspace) -> None:
    workspace.manifest("notes")
    assert origin_of(workspace.config("notes"), {}.get) is None
