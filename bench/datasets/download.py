"""Fetch a benchmark's data file: resumable, checked while it is written, moved into place only when it is right.

``PATH.part`` grows, ``PATH.rejected`` keeps a file with another digest, ``PATH.lock`` makes a second process wait::

    async with aiohttp.ClientSession(trust_env=True) as session:
        outcome = await download(config, workspace, fetch=aiohttp_fetch(session), environment=os.environ.get)
    outcome.path, outcome.state          # "downloaded", "copied" or "up to date"
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn
from urllib.parse import quote

from bench.config.benchmark import BenchmarkConfig
from bench.config.source import show
from bench.datasets.digests import file_sha256, remembered_sha256, write_note
from bench.datasets.fetching import Fetch, FetchError, Interrupted, RangeRefused, Remote, Validators
from bench.datasets.files import cache_path, checked_file, find_file, mismatch
from bench.datasets.locks import locked
from bench.errors import DataError

Environment = Callable[[str], str | None]
Progress = Callable[[int, int | None], None]
"""bytes so far, bytes in all"""

ATTEMPTS = 4
FIRST_PAUSE_S = 0.5
PUBLIC_HUB = "https://huggingface.co"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """How a download ended."""

    path: Path
    state: Literal["downloaded", "copied", "up to date"]
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a file is fetched from; the token is sent to that host only."""

    url: str
    token: str | None = None


def origin_of(config: BenchmarkConfig, environment: Environment) -> Origin | None:
    """The address that a config means; None for local data. ``HF_ENDPOINT`` and ``HF_TOKEN`` are honoured."""
    data = config.data
    match data.type:
        case "local":
            return None
        case "url":
            return Origin(url=data.path)
        case "huggingface":
            hub = (environment("HF_ENDPOINT") or PUBLIC_HUB).rstrip("/")
            file = data.file or Path(data.local_path or data.path).name
            url = f"{hub}/datasets/{data.path}/resolve/{quote(data.revision or 'main', safe='')}/{quote(file)}"
            return Origin(url=url, token=environment("HF_TOKEN"))


async def download(
    config: BenchmarkConfig,
    workspace: Path,
    *,
    fetch: Fetch,
    environment: Environment,
    source: str | None = None,
    progress: Progress | None = None,
) -> Downloaded:
    """Bring the file to its cache place; ``source`` is a file or URL given by the user, always checked first.

    Raises DataError for another digest, for local data without ``source``, and when the host cannot be reached.
    """
    if source is None and config.data.type == "local" and find_file(config, workspace) is not None:
        there = checked_file(config, workspace)
        return Downloaded(path=there.path, state="up to date", sha256=there.sha256, size=there.path.stat().st_size)
    target = cache_path(config, workspace)
    origin = Origin(url=source) if source and _is_url(source) else origin_of(config, environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    async with locked(target.with_name(target.name + ".lock")):
        if source and not _is_url(source):
            return _copy(config, Path(source), target)
        if source is None and (known := _up_to_date(config, target)) is not None:
            return known
        if origin is None:
            raise DataError(
                f"{config.name} is local data, there is nothing to download",
                where=config.place("data", "type"),
                hint=f"put the file at {show(target)}, or give --from FILE",
            )
        return await _persistently(config, origin, target, fetch, progress or _silent)


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _silent(done: int, total: int | None) -> None:
    return


def _up_to_date(config: BenchmarkConfig, target: Path) -> Downloaded | None:
    """The cached file, when it is the right one."""
    if not target.is_file():
        return None
    sha256 = remembered_sha256(target)
    if config.data.sha256 not in (None, sha256):
        _reject(target, target, config.data.sha256 or "", sha256)
    return Downloaded(path=target, state="up to date", sha256=sha256, size=target.stat().st_size)


def _copy(config: BenchmarkConfig, source: Path, target: Path) -> Downloaded:
    """Copy a given file and check the copy, which is what is kept; the source is never altered."""
    if not source.is_file():
        raise DataError("the file is not there", where=show(source), hint="check --from")
    expected = config.data.sha256
    if target.exists() and target.samefile(source):
        sha256 = file_sha256(source)
        if expected not in (None, sha256):
            raise mismatch(show(source), expected=expected or "", found=sha256)
        return Downloaded(path=target, state="up to date", sha256=sha256, size=target.stat().st_size)
    part, notes = _unfinished(target)
    notes.unlink(missing_ok=True)  # what is copied over is no longer the part of a download
    with _named(part), source.open("rb") as given, part.open("wb") as written:
        shutil.copyfileobj(given, written, _CHUNK)
        _settle(written)
    sha256 = file_sha256(part)
    if expected not in (None, sha256):
        _reject(part, target, expected or "", sha256, given=source)
    return _move(part, target, sha256, "copied")


def _unfinished(target: Path) -> tuple[Path, Path]:
    """The part of a file, and the note of which file it is a part of."""
    return target.with_name(target.name + ".part"), target.with_name(target.name + ".part.json")


async def _persistently(
    config: BenchmarkConfig, origin: Origin, target: Path, fetch: Fetch, progress: Progress
) -> Downloaded:
    """Fetch, and go on where a lost connection stopped."""
    from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Interrupted),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE_S, max=10),
        reraise=True,
    )
    try:
        return await retrying(_fetch, config, origin, target, fetch, progress)
    except FetchError as error:
        raise _unreachable(config, target, error) from error


async def _fetch(config: BenchmarkConfig, origin: Origin, target: Path, fetch: Fetch, progress: Progress) -> Downloaded:
    """Write the body behind ``.part``, hashing it; an interruption leaves both for the next time."""
    part, notes = _unfinished(target)
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
    """Append the body from the offset the server agreed to; give the digest of the whole file."""
    digest = hashlib.sha256()
    done = remote.offset
    with _named(part), part.open("r+b" if done else "wb") as file:
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
        _settle(file)
    if remote.total is not None and done != remote.total:
        raise Interrupted(f"the connection ended after {done:,} of {remote.total:,} bytes")
    return digest.hexdigest()


def _rehash(update: Callable[[bytes], None], part: Path, length: int) -> None:
    """Take what an earlier attempt wrote into the digest."""
    left = length
    with part.open("rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            update(chunk)
            left -= len(chunk)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A write that fails tells no name by itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _settle(file: BinaryIO) -> None:
    """Have the bytes on the disk before the file gets its name."""
    file.flush()
    os.fsync(file.fileno())


def _move(part: Path, target: Path, sha256: str, state: Literal["downloaded", "copied"]) -> Downloaded:
    part.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    write_note(target, sha256)
    return Downloaded(path=target, state=state, sha256=sha256, size=target.stat().st_size)


def _reject(file: Path, target: Path, expected: str, found: str, *, given: Path | None = None) -> NoReturn:
    """Keep a wrong file aside and say both digests; a file that was given is named, its copy is kept."""
    rejected = target.with_name(target.name + ".rejected")
    file.replace(rejected)
    problem = mismatch(show(given or rejected), expected=expected, found=found)
    if given is not None:
        problem.hint = f"{problem.hint}; a copy is kept as {show(rejected)}"
    raise problem


def _unreachable(config: BenchmarkConfig, target: Path, error: DataError) -> DataError:
    """Name the file, what it should be, and the way without a network."""
    digest = f", expected sha256 {config.data.sha256}" if config.data.sha256 else ""
    text = f"{error.message} ({show(target)}{digest})"
    way = f"bench download {config.name} --from FILE takes a copy from elsewhere"
    return DataError(text, where=error.where, hint=f"{error.hint}; {way}")
