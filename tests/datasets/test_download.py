"""Downloads from a real server: resumed, checked, and complete before the file gets its final name."""

from __future__ import annotations

import anyio
import pytest

from bench.datasets.rows import download as module
from bench.datasets.rows.download import origin_of
from bench.errors import DataError
from tests.datasets.conftest import Workspace
from tests.datasets.hub import BODY, SHA, run, target_of


async def test_a_Hugging_Face_file_is_downloaded_from_HF_ENDPOINT_with_the_token(hub, config, workspace) -> None:
    server, url = hub
    outcome = await run(config(), workspace.root, url, token="secret")
    assert (outcome.state, outcome.sha256, outcome.path) == ("downloaded", SHA, target_of(workspace.root))
    path, headers = server.requests[0]
    assert path == "/datasets/acme/set/resolve/main/big.bin.json"
    assert headers["Authorization"] == "Bearer secret"
    assert target_of(workspace.root).read_bytes() == BODY


async def test_a_file_with_the_right_digest_is_not_requested_again(hub, config, workspace) -> None:
    server, url = hub
    await run(config(), workspace.root, url)
    assert (await run(config(), workspace.root, url)).state == "up to date"
    assert len(server.requests) == 1


async def test_a_download_resumes_after_a_lost_connection(hub, config, workspace) -> None:
    server, url = hub
    server.break_after = 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert int(server.requests[1][1]["Range"].removeprefix("bytes=").rstrip("-")) > 0
    assert not list(target_of(workspace.root).parent.glob("*.part*"))


async def test_a_partial_download_of_a_changed_file_starts_over(hub, config, workspace, monkeypatch) -> None:
    server, url = hub
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.break_after = 300_000
    server.body = b"old" * 400_000
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)
    assert target_of(workspace.root).with_name("big.bin.json.part").stat().st_size > 0
    server.body, server.etag = BODY, '"two"'
    assert (await run(config(), workspace.root, url)).sha256 == SHA


async def test_two_simultaneous_downloads_request_the_file_once(hub, config, workspace) -> None:
    server, url = hub
    states: list[str] = []

    async def one() -> None:
        states.append((await run(config(), workspace.root, url)).state)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert sorted(states) == ["downloaded", "up to date"]
    assert len(server.requests) == 1


async def test_an_unreachable_server_error_names_file_sha256_and_the_from_flag(config, workspace, monkeypatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "http://127.0.0.1:9")
    text = f"{caught.value} {caught.value.hint}"
    assert "big.bin.json" in text and SHA in text and "--from FILE" in text


async def test_a_modified_downloaded_file_fails_its_digest_check(hub, config, workspace) -> None:
    _, url = hub
    await run(config(), workspace.root, url)
    target_of(workspace.root).write_bytes(b"changed")
    with pytest.raises(DataError, match=SHA):
        await run(config(), workspace.root, url)


def test_local_data_has_no_download_origin(workspace: Workspace) -> None:
    workspace.manifest("notes")
    assert origin_of(workspace.config("notes"), {}.get) is None
