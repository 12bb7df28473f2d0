"""Download the data files of a benchmark. Downloads can be resumed, and each file's digest is checked before use.

Example::

    async with aiohttp.ClientSession(trust_env=True) as session:
        outcome = await download(config, workspace, fetch=aiohttp_fetch(session), environment=os.environ.get)
    outcome.path, outcome.state          # the state is "downloaded", "copied" or "up to date"

``PATH.part`` is the partial file, ``PATH.rejected`` is a file with a wrong digest, ``PATH.lock`` is the lock file.

A download is resumed only if the ETag or Last-Modified date of the remote file has not changed. If it has changed, the
download restarts at byte 0.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn
from urllib.parse import quote

import anyio

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.file import display_path
from bench.datasets.rows.data_file import (
    cache_digest,
    cache_path,
    cached_sha256,
    checked_file,
    digest_error,
    file_sha256,
    find_file,
    needed_paths,
    sha256_of_all,
)
from bench.datasets.rows.file_transport import DownloadInterrupted, Fetch, FetchError, RangeRefused, Remote, Validators
from bench.errors import DataError

_LOCK_POLL_S = 0.1


@asynccontextmanager
async def file_lock(path: Path) -> AsyncIterator[None]:
    """Wait until the file lock is free, and hold the lock inside the `with` block.

    The operating system also releases the lock when the process ends.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _try_lock(descriptor):  # noqa: ASYNC110 - another process tells no one when it is done
            await anyio.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


Environment = Callable[[str], str | None]
Progress = Callable[[int, int | None], None]
"""function that receives the bytes downloaded so far and the total bytes, or None if the total is unknown"""

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
PUBLIC_HUB = "https://huggingface.co"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadResult:
    """The file after a download, and how it was obtained. ``size`` is in bytes."""

    path: Path
    state: Literal["downloaded", "copied", "up to date"]
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadOrigin:
    """The URL of a file to download. The token is sent only to the host in this URL."""

    url: str
    token: str | None = None


def origin_of(config: BenchmarkConfig, environment: Environment) -> DownloadOrigin | None:
    """Return the URL of the config's data file, or None for local data.

    For data of type ``huggingface``, the environment variables ``HF_ENDPOINT`` and ``HF_TOKEN`` are used.
    """
    data = config.data
    match data.type:
        case "local":
            return None
        case "url":
            return DownloadOrigin(url=data.path)
        case "huggingface":
            hub = (environment("HF_ENDPOINT") or PUBLIC_HUB).rstrip("/")
            file = data.file or Path(data.local_path or data.path).name
            url = f"{hub}/datasets/{data.path}/resolve/{quote(data.revision or 'main', safe='')}/{quote(file)}"
            return DownloadOrigin(url=url, token=environment("HF_TOKEN"))


async def download(
    config: BenchmarkConfig,
    workspace: Path,
    *,
    fetch: Fetch,
    environment: Environment,
    source: str | None = None,
    progress: Progress | None = None,
) -> DownloadResult:
    """Download or copy the data files into the workspace.

    ``source`` is a file or URL to use instead of the URL in the config. Without ``source``, files that are already in
    the workspace are kept. Every digest is checked.

    Raises:
        DataError: the digest is wrong, the host cannot be reached, or ``source`` is missing for local data.
    """
    if source is None and config.data.fetch:
        return await _download_each(config, workspace, fetch=fetch, environment=environment, progress=progress)
    if source is None and config.data.type == "local" and find_file(config, workspace) is not None:
        there = checked_file(config, workspace)
        return DownloadResult(path=there.path, state="up to date", sha256=there.sha256, size=there.path.stat().st_size)
    target = cache_path(config, workspace)
    if "*" in str(target):
        raise _local_data_error(config, workspace)
    origin = DownloadOrigin(url=source) if source and _is_url(source) else origin_of(config, environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    async with file_lock(target.with_name(target.name + ".lock")):
        if source and not _is_url(source):
            return _copy(config, Path(source), target)
        if source is None and (known := _up_to_date(config, target)) is not None:
            return known
        if origin is None:
            raise _local_data_error(config, workspace)
        return await _download_with_retries(config, origin, target, fetch, progress or _no_progress)


def _local_data_error(config: BenchmarkConfig, workspace: Path) -> DataError:
    """Create the error for local data, which cannot be downloaded.

    The hint names each file that the user must provide.
    """
    needed = [display_path(path) for path in needed_paths(config, workspace)]
    one = len(needed) == 1 and "*" not in needed[0]
    way = f"put the file at {needed[0]}, or use --from FILE" if one else f"put the files at {', '.join(needed)}"
    text = f"the data of {config.name} is local, so there is nothing to download"
    return DataError(text, where=config.place("data", "type"), hint=way)


async def _download_each(
    config: BenchmarkConfig, workspace: Path, *, fetch: Fetch, environment: Environment, progress: Progress | None
) -> DownloadResult:
    """Download every file that ``data.fetch`` lists, and return one result for all files together."""
    found: dict[str, DownloadResult] = {}
    for name, address in config.data.fetch.items():
        owner, repository, file = [*address.removeprefix("hf:").split("/", 2), "", ""][:3]
        origin = (
            {"type": "huggingface", "path": f"{owner}/{repository}", "file": file}
            if address.startswith("hf:")
            else {"type": "url", "path": address}
        )
        one: dict[str, object] = {**origin, "local_path": name, "files": (), "fetch": {}, "sha256": None}
        part = config.model_copy(update={"data": config.data.model_copy(update=one)})
        try:
            found[name] = await download(part, workspace, fetch=fetch, environment=environment, progress=progress)
        except DataError as error:
            path = display_path(workspace / name)
            hint = f"correct the address in data.fetch ({address}), or put a copy of the file at {path}"
            raise DataError(error.message, where=error.where, hint=hint) from error
    first = next(iter(found.values()))
    if len(found) == 1:
        return first
    state = next((one.state for one in found.values() if one.state == "downloaded"), first.state)
    digest = sha256_of_all({name: one.sha256 for name, one in found.items()})
    return DownloadResult(path=first.path, state=state, sha256=digest, size=sum(one.size for one in found.values()))


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _no_progress(done: int, total: int | None) -> None:
    return


def _up_to_date(config: BenchmarkConfig, target: Path) -> DownloadResult | None:
    """Return the file from an earlier download; None if there is no file. A wrong digest raises an error."""
    if not target.is_file():
        return None
    sha256 = cached_sha256(target)
    if config.data.sha256 not in (None, sha256):
        _reject(target, target, config.data.sha256 or "", sha256)
    return DownloadResult(path=target, state="up to date", sha256=sha256, size=target.stat().st_size)


def _copy(config: BenchmarkConfig, source: Path, target: Path) -> DownloadResult:
    """Copy the user's file into the workspace, and check the digest of the copy."""
    if not source.is_file():
        raise DataError("the file is not there", where=display_path(source), hint="correct the path after --from")
    expected = config.data.sha256
    if target.exists() and target.samefile(source):
        sha256 = file_sha256(source)
        if expected not in (None, sha256):
            raise digest_error(display_path(source), expected=expected or "", found=sha256)
        return DownloadResult(path=target, state="up to date", sha256=sha256, size=target.stat().st_size)
    part, notes = _partial_paths(target)
    notes.unlink(missing_ok=True)  # what is copied over is no longer the part of a download
    with _with_file_name(part), source.open("rb") as given, part.open("wb") as written:
        shutil.copyfileobj(given, written, _CHUNK)
        _flush_to_disk(written)
    sha256 = file_sha256(part)
    if expected not in (None, sha256):
        _reject(part, target, expected or "", sha256, given=source)
    return _move(part, target, sha256, "copied")


def _partial_paths(target: Path) -> tuple[Path, Path]:
    """Return the path of the partial file, and the path of the stored ETag and Last-Modified headers."""
    return target.with_name(target.name + ".part"), target.with_name(target.name + ".part.json")


async def _download_with_retries(
    config: BenchmarkConfig, origin: DownloadOrigin, target: Path, fetch: Fetch, progress: Progress
) -> DownloadResult:
    """Download a file, in up to four attempts if the connection is interrupted."""
    from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(DownloadInterrupted),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE_S, max=10),
        reraise=True,
    )
    try:
        return await retrying(_fetch, config, origin, target, fetch, progress)
    except FetchError as error:
        raise _download_error(config, origin, target, error) from error


async def _fetch(
    config: BenchmarkConfig, origin: DownloadOrigin, target: Path, fetch: Fetch, progress: Progress
) -> DownloadResult:
    """Download to the partial file, check the digest, and rename the file to ``target``.

    After an interruption, the partial file is kept and the next attempt continues it.
    """
    part, notes = _partial_paths(target)
    known = Validators.read(notes) if part.exists() else None
    offset = part.stat().st_size if known is not None else 0
    try:
        async with fetch(origin.url, token=origin.token, offset=offset, validators=known) as remote:
            sha256 = await _receive(remote, part, notes, progress)
    except RangeRefused:
        part.unlink(missing_ok=True)
        raise
    notes.unlink(missing_ok=True)
    expected = config.data.sha256
    if expected not in (None, sha256):
        _reject(part, target, expected or "", sha256)
    return _move(part, target, sha256, "downloaded")


async def _receive(remote: Remote, part: Path, notes: Path, progress: Progress) -> str:
    """Append the downloaded bytes to the partial file, and return the hex SHA-256 of the whole file."""
    digest = hashlib.sha256()
    done = remote.offset
    with _with_file_name(part), part.open("r+b" if done else "wb") as file:
        _rehash(digest.update, part, done)
        file.seek(done)
        file.truncate()
        remote.validators.write(notes)
        progress(done, remote.total)
        async for chunk in remote.chunks():
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, remote.total)
        _flush_to_disk(file)
    if remote.total is not None and done != remote.total:
        raise DownloadInterrupted(f"the connection ended after {done:,} of {remote.total:,} bytes")
    return digest.hexdigest()


def _rehash(update: Callable[[bytes], None], part: Path, length: int) -> None:
    """Pass the first ``length`` bytes of the partial file to ``update``. An earlier attempt wrote these bytes."""
    left = length
    with part.open("rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            update(chunk)
            left -= len(chunk)


@contextmanager
def _with_file_name(path: Path) -> Iterator[None]:
    """Add the file name to an OSError that has no file name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _flush_to_disk(file: BinaryIO) -> None:
    """Write all bytes of the file to the disk, so that a crash after the rename cannot lose them."""
    file.flush()
    os.fsync(file.fileno())


def _move(part: Path, target: Path, sha256: str, state: Literal["downloaded", "copied"]) -> DownloadResult:
    part.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    cache_digest(target, sha256)
    return DownloadResult(path=target, state=state, sha256=sha256, size=target.stat().st_size)


def _reject(file: Path, target: Path, expected: str, found: str, *, given: Path | None = None) -> NoReturn:
    """Rename a file with a wrong digest to ``PATH.rejected``, and raise an error with both digests.

    If ``file`` is a copy of a user's file, ``given`` is the path of that file.
    """
    rejected = target.with_name(target.name + ".rejected")
    file.replace(rejected)
    problem = digest_error(display_path(given or rejected), expected=expected, found=found)
    if given is not None:
        problem.hint = f"{problem.hint}; a copy is kept as {display_path(rejected)}"
    raise problem


def _download_error(config: BenchmarkConfig, origin: DownloadOrigin, target: Path, error: DataError) -> DataError:
    """Create the error for a failed download. The hint explains how to provide the file without a network."""
    digest = f", expected sha256 {config.data.sha256}" if config.data.sha256 else ""
    text = f"{error.message} ({display_path(target)}{digest})"
    way = f"or download {origin.url} on another machine and use bench download {config.name} --from FILE"
    return DataError(text, where=error.where, hint=f"{error.hint}; {way}")
