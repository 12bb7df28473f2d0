"""Find the data file of a benchmark and make sure that it is the one the config means.

Paths are looked for beside the config, then in the workspace, then among what ships::

    found = find_file(config, Path("."))        # None: not on disk
    file = checked_file(config, Path("."))      # DataFile(path, sha256), or a DataError that says how to get it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.config.benchmark import BenchmarkConfig
from bench.config.benchmark.checks import SUFFIXES
from bench.config.catalog import builtin_root
from bench.config.source import show
from bench.datasets.digests import file_sha256, remembered_sha256
from bench.datasets.rows import Format
from bench.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file whose digest was compared."""

    path: Path
    sha256: str
    format: Format


def local_path(config: BenchmarkConfig) -> str:
    """The path as the config means it, relative to one of the places."""
    return config.data.path if config.data.type == "local" else config.data.local_path or config.data.path


def cache_path(config: BenchmarkConfig, workspace: Path) -> Path:
    """Where a download lands."""
    return workspace / local_path(config)


def candidates(config: BenchmarkConfig, workspace: Path) -> list[Path]:
    """Where the file may lie, in the order of looking."""
    name = local_path(config)
    beside = config.folder_of("data", "path")
    folders = [*([beside] if beside else []), workspace, builtin_root()]
    return list(dict.fromkeys(folder / name for folder in folders))


def find_file(config: BenchmarkConfig, workspace: Path) -> Path | None:
    """The first place that has the file."""
    return next((path for path in candidates(config, workspace) if path.is_file()), None)


def format_of(config: BenchmarkConfig, path: Path) -> Format:
    """The format the config names, else what the suffix says."""
    return config.data.format or cast("Format", SUFFIXES[path.suffix.lower()])


def checked_file(config: BenchmarkConfig, workspace: Path) -> DataFile:
    """Find the file and compare its digest; DataError when it is absent or another one."""
    path = find_file(config, workspace)
    if path is None:
        raise absent(config, workspace)
    try:
        sha256 = file_sha256(path) if config.data.type == "local" else remembered_sha256(path)
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", where=show(path)) from error
    if config.data.sha256 is not None and sha256 != config.data.sha256:
        raise mismatch(show(path), expected=config.data.sha256, found=sha256)
    return DataFile(path=path, sha256=sha256, format=format_of(config, path))


def mismatch(where: str, *, expected: str, found: str) -> DataError:
    """Both digests, side by side."""
    text = f"the SHA-256 is {found}, the config expects {expected}"
    return DataError(text, where=where, hint="this is another edition of the file; fetch the right one")


def ships(config: BenchmarkConfig) -> bool:
    """The data comes with its config: it is local, and no localPath says that the user brings it."""
    data = config.origin.tree().get("data") if config.origin else None
    brought = isinstance(data, dict) and bool(data.keys() & {"localPath", "local_path"})
    return config.data.type == "local" and not brought


def fetching(config: BenchmarkConfig) -> str:
    """How the data gets to its place."""
    command = f"bench download {config.name}"
    if config.data.type == "local":
        reason = f"; the licence ({config.license}) lets nobody else hand it out" if config.license else ""
        return f"{command} --from FILE{reason}"
    return f"{command}, or {command} --from FILE"


def absent(config: BenchmarkConfig, workspace: Path) -> DataError:
    """Say what is missing, what it should be, and how to get it."""
    where = config.place("data", "path")
    if ships(config):
        looked = " and ".join(show(path.parent) for path in candidates(config, workspace)[:2])
        return DataError(f'the data file "{config.data.path}" is not there', where=where, hint=f"looked in {looked}")
    digest = f", sha256 {config.data.sha256}" if config.data.sha256 else ""
    text = f"{config.name} needs its dataset {show(cache_path(config, workspace))}{digest}, which is not there"
    return DataError(text, where=where, hint=fetching(config))
