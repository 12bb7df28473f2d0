"""Downloads with failing servers, full disks and wrong files: no wrong file gets the final name."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest

from bench.config.catalog import Catalog
from bench.datasets.rows import download as module
from bench.datasets.rows.data_file import FileStamp, cached_sha256
from bench.datasets.rows.download import file_lock, origin_of
from bench.datasets.rows.file_transport import Validators
from bench.errors import DataError
from tests.datasets.hub import BODY, SHA, left_beside, run, target_of

WRONG = "this is another version of the file: download the version that the config expects"
OTHER = hashlib.sha256(b"other").hexdigest()


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Limit the size of files, which fails like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ------------------------------------------------------------------ the file given by hand


async def test_a_given_file_with_a_wrong_digest_is_refused_and_a_copy_is_saved(config, workspace, tmp_path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"other")
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "", source=str(bad))
    rejected = target_of(workspace.root).with_name("big.bin.json.rejected")
    assert str(caught.value) == f"{bad}: the SHA-256 is {OTHER}, but the config expects {SHA}"
    assert caught.value.hint == f"{WRONG}; a copy is kept as {rejected}"
    assert rejected.read_bytes() == bad.read_bytes() == b"other"
    assert left_beside(workspace.root) == [".lock", ".rejected"]


async def test_a_given_file_with_a_wrong_digest_leaves_the_good_file_in_place(config, workspace, tmp_path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(BODY)
    bad.write_bytes(b"other")
    await run(config(), workspace.root, "", source=str(good))
    for _ in range(2):
        with pytest.raises(DataError, match=r"bad\.json"):
            await run(config(), workspace.root, "", source=str(bad))
    assert target_of(workspace.root).read_bytes() == BODY
    assert left_beside(workspace.root) == ["", ".checked", ".lock", ".rejected"]
    assert (await run(config(), workspace.root, "http://127.0.0.1:9")).state == "up to date"


async def test_the_target_file_itself_may_be_given_and_is_checked_in_place(config, workspace) -> None:
    target = target_of(workspace.root)
    target.parent.mkdir(parents=True)
    target.write_bytes(BODY)
    outcome = await run(config(), workspace.root, "", source=str(target))
    assert (outcome.state, outcome.size, outcome.sha256) == ("up to date", len(BODY), SHA)
    target.write_bytes(b"other")
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "", source=str(target))
    assert str(caught.value).startswith(f"{target}: the SHA-256 is {OTHER}")
    assert caught.value.hint == WRONG
    assert target.read_bytes() == b"other", "a given file is never changed or moved"


async def test_a_link_to_the_target_file_counts_as_the_target_file(config, workspace, tmp_path) -> None:
    target, link = target_of(workspace.root), tmp_path / "link.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(BODY)
    link.symlink_to(target)
    assert (await run(config(), workspace.root, "", source=str(link))).state == "up to date"
    assert link.is_symlink() and target.read_bytes() == BODY


@pytest.mark.parametrize("name", ["gone.json", "."])
async def test_a_given_file_that_does_not_exist_is_reported(config, workspace, tmp_path, name) -> None:
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "", source=str(tmp_path / name))
    assert str(caught.value) == f"{tmp_path / name}: the file is not there"
    assert caught.value.hint == "correct the path after --from"


async def test_a_failed_copy_discards_an_interrupted_download(hub, config, workspace, tmp_path, monkeypatch) -> None:
    server, url = hub
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.break_after = 300_000
    with pytest.raises(DataError):
        await run(config(), workspace.root, url)
    large = tmp_path / "large.json"
    large.write_bytes(b"x" * 400_000)
    with disk_of(200_000), pytest.raises(OSError, match=r"File too large: '.*big\.bin\.json\.part'"):
        await run(config(), workspace.root, "", source=str(large))
    assert left_beside(workspace.root) == [".lock", ".part"], "half of a copy without a note that would resume it"
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges[1:] == [None]


async def test_without_a_pinned_digest_any_given_file_is_accepted(config, workspace, tmp_path) -> None:
    given = tmp_path / "any.json"
    given.write_bytes(b"other")
    outcome = await run(config(sha=None), workspace.root, "", source=str(given))
    assert (outcome.state, outcome.sha256, outcome.size) == ("copied", OTHER, 5)
    assert target_of(workspace.root).read_bytes() == b"other"


async def test_a_URL_may_be_given_and_its_file_is_checked_too(hub, config, workspace) -> None:
    server, url = hub
    outcome = await run(config(), workspace.root, "http://127.0.0.1:9", source=f"{url}/mirror/f.json", token="secret")
    assert (outcome.state, outcome.sha256) == ("downloaded", SHA)
    path, headers = server.requests[0]
    assert path == "/mirror/f.json"
    assert "Authorization" not in headers, "the hub's token is for the hub"
    server.body = b"other"
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, "", source=f"{url}/mirror/f.json")
    assert OTHER in str(caught.value)
    assert target_of(workspace.root).read_bytes() == BODY
    assert left_beside(workspace.root) == ["", ".checked", ".lock", ".rejected"]


# ------------------------------------------------------------------ what servers answer


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (401, "127.0.0.1 refuses the file (401)", "set HF_TOKEN to a token that may read the file"),
        (403, "127.0.0.1 refuses the file (403)", "set HF_TOKEN to a token that may read the file"),
        (404, "127.0.0.1 returned status 404 for /datasets/acme/set/resolve/main/big.bin.json", "check data.path"),
        (410, "127.0.0.1 returned status 410 for /datasets/acme/set/resolve/main/big.bin.json", "check data.path"),
    ],
)
async def test_an_HTTP_error_status_fails_at_once_with_a_hint(hub, config, workspace, status, message, hint) -> None:
    server, url = hub
    server.status = status
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    target = target_of(workspace.root)
    assert str(caught.value) == f"{message} ({target}, expected sha256 {SHA})"
    address = f"{url}/datasets/acme/set/resolve/main/big.bin.json"
    assert (
        caught.value.hint == f"{hint}; or download {address} on another machine and use bench download big --from FILE"
    )
    assert len(server.requests) == 1
    assert left_beside(workspace.root) == [".lock"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_temporary_HTTP_status_is_retried(hub, config, workspace, status) -> None:
    server, url = hub
    server.statuses = [status, status]
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert len(server.requests) == 3


async def test_a_temporary_HTTP_status_is_reported_after_the_last_attempt(hub, config, workspace) -> None:
    server, url = hub
    server.status = 503
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    assert str(caught.value).startswith("127.0.0.1 returned status 503 (")
    assert caught.value.hint.startswith("give the command again: the download continues; ")
    assert len(server.requests) == module.ATTEMPTS


async def test_a_redirect_is_followed_without_the_token(hubs, config, workspace) -> None:
    (first, url), (second, other) = await hubs(), await hubs()
    first.redirect = other
    outcome = await run(config(), workspace.root, url, token="secret")
    assert outcome.sha256 == SHA
    assert first.requests[0][1]["Authorization"] == "Bearer secret"
    assert "Authorization" not in second.requests[0][1]
    assert second.requests[0][0] == first.requests[0][0]


async def test_a_redirected_download_resumes_at_the_redirect_target(hubs, config, workspace) -> None:
    (first, url), (second, other) = await hubs(), await hubs()
    first.redirect, second.break_after = other, 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert second.requested_ranges[0] is None and second.requested_ranges[1] is not None


async def test_a_redirect_loop_fails(hub, config, workspace, monkeypatch) -> None:
    server, url = hub
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.redirect = url
    with pytest.raises(DataError, match=r"cannot reach 127\.0\.0\.1: 0, message"):
        await run(config(), workspace.root, url)
    assert left_beside(workspace.root) == [".lock"]


async def test_a_server_without_range_support_sends_the_whole_file_again(hub, config, workspace) -> None:
    server, url = hub
    server.ranges, server.break_after = False, 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges[1] is not None
    assert target_of(workspace.root).stat().st_size == len(BODY)


@pytest.mark.parametrize(
    ("etag", "modified", "resumed"),
    [
        ('"one"', None, True),
        (None, "Wed, 21 Oct 2015 07:28:00 GMT", True),
        ('W/"one"', "Wed, 21 Oct 2015 07:28:00 GMT", True),
        ('W/"one"', None, False),
        (None, None, False),
    ],
)
async def test_a_download_resumes_only_with_a_strong_ETag_or_a_modification_date(
    hub, config, workspace, etag, modified, resumed
) -> None:
    server, url = hub
    server.etag, server.modified, server.break_after = etag, modified, 300_000
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert (server.requested_ranges[1] is not None) == resumed


async def test_a_response_with_a_different_range_is_not_appended(hub, config, workspace) -> None:
    server, url = hub
    server.break_after, server.skew = 300_000, 5
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert [requested is None for requested in server.requested_ranges] == [True, False, True]


async def test_a_partial_file_longer_than_the_file_is_downloaded_again(hub, config, workspace) -> None:
    server, url = hub
    part = target_of(workspace.root).with_name("big.bin.json.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY + b"more")
    Validators(etag='"one"').write(part.with_name("big.bin.json.part.json"))
    server.statuses = [416]
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges == [f"bytes={len(BODY) + 4}-", None]


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"etag": ""}', "null"])
async def test_an_invalid_resume_note_makes_the_download_start_over(hub, config, workspace, note) -> None:
    server, url = hub
    part = target_of(workspace.root).with_name("big.bin.json.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"of something else")
    part.with_name("big.bin.json.part.json").write_text(note)
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges == [None]


async def test_a_partial_file_without_resume_note_is_overwritten(hub, config, workspace) -> None:
    server, url = hub
    part = target_of(workspace.root).with_name("big.bin.json.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY[:1000])
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges == [None]


async def test_a_body_without_Content_Length_is_downloaded_completely(hub, config, workspace) -> None:
    server, url = hub
    server.chunked = True
    seen: list[tuple[int, int | None]] = []
    outcome = await run(config(), workspace.root, url, progress=lambda done, total: seen.append((done, total)))
    assert outcome.size == len(BODY)
    assert seen[0] == (0, None) and seen[-1] == (len(BODY), None)


async def test_an_interrupted_body_without_Content_Length_is_downloaded_again(hub, config, workspace) -> None:
    server, url = hub
    server.chunked, server.break_after = True, 300_000
    assert (await run(config(sha=None), workspace.root, url)).size == len(BODY)


async def test_a_slow_server_is_not_requested_again(hub, config, workspace) -> None:
    server, url = hub
    server.pause_s = 0.01
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert len(server.requests) == 1


async def test_progress_continues_at_the_resumed_position(hub, config, workspace) -> None:
    server, url = hub
    server.break_after = 300_000
    seen: list[tuple[int, int | None]] = []
    await run(config(), workspace.root, url, progress=lambda done, total: seen.append((done, total)))
    done = [at for at, _ in seen]
    assert done == sorted(done)
    assert {total for _, total in seen} == {len(BODY)}
    assert (done[0], done[-1]) == (0, len(BODY))


async def test_an_empty_file_can_be_downloaded(hub, config, workspace) -> None:
    server, url = hub
    server.body = b""
    outcome = await run(config(sha=hashlib.sha256(b"").hexdigest()), workspace.root, url)
    assert (outcome.state, outcome.size) == ("downloaded", 0)


async def test_a_login_page_is_refused_and_saved_as_rejected(hub, config, workspace) -> None:
    server, url = hub
    server.body = b"<html>please log in</html>"
    with pytest.raises(DataError) as caught:
        await run(config(), workspace.root, url)
    rejected = target_of(workspace.root).with_name("big.bin.json.rejected")
    assert str(caught.value).startswith(f"{rejected}: the SHA-256 is ")
    assert rejected.read_bytes() == server.body
    assert left_beside(workspace.root) == [".lock", ".rejected"]
    server.body = BODY
    assert (await run(config(), workspace.root, url)).state == "downloaded"


class Short:
    """A transport whose first body ends early without an error."""

    validators = Validators(etag='"one"')
    total = len(BODY)

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.offset = 0

    @asynccontextmanager
    async def __call__(
        self, url: str, *, token: str | None, offset: int, validators: Validators | None
    ) -> AsyncIterator[Short]:
        self.offset = offset
        self.offsets.append(offset)
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        yield BODY[self.offset :] if self.offset else BODY[:300_000]


async def test_a_body_shorter_than_its_announced_length_is_resumed(config, workspace) -> None:
    fetch = Short()
    outcome = await module.download(config(sha=None), workspace.root, fetch=fetch, environment={}.get)
    assert (outcome.sha256, fetch.offsets) == (SHA, [0, 300_000])


# ------------------------------------------------------------------ disks, locks, interruptions


async def test_a_full_disk_is_not_retried_and_the_download_resumes_later(hub, config, workspace) -> None:
    server, url = hub
    with disk_of(400_000), pytest.raises(OSError) as caught:
        await run(config(), workspace.root, url)
    assert str(caught.value) == f"[Errno 27] File too large: '{target_of(workspace.root)}.part'"
    assert len(server.requests) == 1, "a full disk is not an error of the server, so there is no retry"
    assert left_beside(workspace.root) == [".lock", ".part", ".part.json"]
    part = target_of(workspace.root).with_name("big.bin.json.part").stat().st_size
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert server.requested_ranges == [None, f"bytes={part}-"]
    assert 0 < part <= 400_000


async def test_an_invalid_datasets_folder_is_named_in_the_error(hub, config, workspace) -> None:
    _, url = hub
    (workspace.root / "datasets").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="datasets"):
        await run(config(), workspace.root, url)


async def test_a_cancelled_download_resumes(hub, config, workspace) -> None:
    server, url = hub
    server.pause_s = 0.02

    def enough(done: int, total: int | None) -> None:
        if done >= 200_000:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await run(config(), workspace.root, url, progress=enough)
    assert scope.cancelled_caught
    assert not target_of(workspace.root).exists()
    server.pause_s = 0
    assert (await run(config(), workspace.root, url)).sha256 == SHA
    assert int(str(server.requested_ranges[1]).removeprefix("bytes=").rstrip("-")) >= 200_000


async def test_a_wrong_file_at_the_target_is_moved_aside_and_downloaded_again(hub, config, workspace) -> None:
    server, url = hub
    target = target_of(workspace.root)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"other")
    with pytest.raises(DataError, match=OTHER):
        await run(config(), workspace.root, url)
    assert server.requests == []
    assert left_beside(workspace.root) == [".checked", ".lock", ".rejected"]
    assert (await run(config(), workspace.root, url)).state == "downloaded"
    assert target.read_bytes() == BODY


async def test_the_checked_note_stores_the_digest_and_is_rewritten_if_invalid(hub, config, workspace) -> None:
    _, url = hub
    await run(config(), workspace.root, url)
    target = target_of(workspace.root)
    note = target.with_name("big.bin.json.checked")
    known = json.loads(note.read_text())
    assert known["sha256"] == SHA and known["size"] == len(BODY)
    for text in ("", "[]", "{}", json.dumps(known | {"size": 1}), json.dumps(known | {"sha256": None})):
        note.write_text(text)
        assert (await run(config(), workspace.root, url)).state == "up to date"
        assert json.loads(note.read_text()) == known, "an invalid note is written again"


async def test_a_download_waits_for_the_lock_of_another_process(hub, config, workspace) -> None:
    server, url = hub
    target = target_of(workspace.root)
    target.parent.mkdir(parents=True)
    script = (
        "import fcntl, os, sys; d = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
        "fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(target.with_name("big.bin.json.lock"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, config(), workspace.root, url)
            await anyio.sleep(0.15)
            assert server.requests == []
            holder.kill()
    assert target.read_bytes() == BODY


async def test_file_lock_is_released_after_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    with pytest.raises(RuntimeError, match="in the middle"):
        async with file_lock(lock):
            raise RuntimeError("in the middle")
    with anyio.fail_after(5):
        async with file_lock(lock):
            pass


# ------------------------------------------------------------------ where it comes from


@pytest.mark.parametrize(
    ("changes", "endpoint", "url"),
    [
        ({}, None, "https://huggingface.co/datasets/acme/set/resolve/main/big.bin.json"),
        ({}, "http://mirror:1/", "http://mirror:1/datasets/acme/set/resolve/main/big.bin.json"),
        (
            {"file": "data/a b#1.json"},
            None,
            "https://huggingface.co/datasets/acme/set/resolve/main/data/a%20b%231.json",
        ),
        (
            {"revision": "refs/pr/1"},
            None,
            "https://huggingface.co/datasets/acme/set/resolve/refs%2Fpr%2F1/big.bin.json",
        ),
        ({"revision": "ab" * 20}, None, f"https://huggingface.co/datasets/acme/set/resolve/{'ab' * 20}/big.bin.json"),
        ({"kind": "url", "path": "https://example.org/f.json"}, "http://mirror:1", "https://example.org/f.json"),
    ],
)
def test_origin_of_returns_the_URL_and_token_of_a_file(config, changes, endpoint, url) -> None:
    environment = {"HF_ENDPOINT": endpoint, "HF_TOKEN": "secret"}
    origin = origin_of(config(**changes), environment.get)
    assert origin is not None and origin.url == url
    assert origin.token == (None if changes.get("kind") == "url" else "secret")


async def test_downloading_local_data_names_the_expected_path(workspace, config) -> None:
    workspace.manifest("notes")
    local = workspace.config("notes")
    with pytest.raises(DataError) as caught:
        await run(local, workspace.root, "")
    assert "notes is local, so there is nothing to download" in str(caught.value)
    assert caught.value.hint == f"put the file at {workspace.root / 'data.jsonl'}, or use --from FILE"


async def test_existing_local_data_is_up_to_date_and_is_not_moved(workspace, config) -> None:
    workspace.manifest("notes", [{"content": "x", "question": "?", "answer": "!"}])
    found = await run(workspace.config("notes"), workspace.root, "")
    beside = workspace.root / "configs" / "benchmarks" / "notes" / "data.jsonl"
    assert (found.path, found.state) == (beside, "up to date")
    assert not list(workspace.root.rglob("*.lock"))
    shipped = Catalog.load(workspace.root).benchmark("demo")
    assert (await run(shipped, workspace.root, "")).state == "up to date"
    workspace.manifest("notes", sha256="0" * 64)
    with pytest.raises(DataError, match="the SHA-256 is"):
        await run(workspace.config("notes"), workspace.root, "")
    assert beside.is_file()


def test_a_replaced_file_of_equal_size_and_time_is_hashed_again(workspace) -> None:
    target = target_of(workspace.root)
    target.parent.mkdir(parents=True)
    target.write_bytes(BODY)
    assert cached_sha256(target) == SHA
    stamp = FileStamp.of(target)
    twin = target.with_name("twin")
    twin.write_bytes(b"x" * len(BODY))
    os.utime(twin, ns=(stamp.mtime_ns, stamp.mtime_ns))
    twin.replace(target)
    assert cached_sha256(target) == hashlib.sha256(b"x" * len(BODY)).hexdigest()
