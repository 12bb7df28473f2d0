"""Find the data files of a benchmark and check their digests.

A dataset has a digest of its bytes and a digest of its content. The content digest does not depend on white space and
the order of keys.

Example::

    found = find_file(config, Path("."))        # the path; None when the file is not on disk
    file = checked_file(config, Path("."))      # DataFile(path, sha256); a DataError when the file is missing
    digest = ContentDigest()
    digest.add({"id": "q1", "answer": 12})
    digest.hexdigest()

Paths are searched next to the config, then in the workspace, then in the files that ship with the package.

To compute ``content_sha256``, each row is written as canonical JSON (RFC 8785) and hashed with SHA-256. The digest is
the SHA-256 of all these 32-byte hashes, concatenated in file order.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import SUFFIXES, suffix_of
from bench.config.benchmark.terms import Format
from bench.config.catalog import builtin_root
from bench.config.file import display_path
from bench.errors import DataError

_CHUNK = 1 << 20
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_LARGEST_EXACT = 2**53


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ContentDigest:
    """The content digest ``content_sha256``, computed row by row."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, row: Mapping[str, object]) -> None:
        """Add the next row to the digest."""
        self._digest.update(hashlib.sha256(canonical(row)).digest())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def canonical(row: Mapping[str, object]) -> bytes:
    """Return a row as canonical JSON (RFC 8785).

    Raises:
        OutOfRange: a number is beyond the range of a double.
        ValueError: a text contains half of a surrogate pair.
    """
    text = _ENCODER.encode(row)
    if _has_number_risk(row) or (_BEYOND_BMP.search(text) and _has_astral_key(row)):
        return _by_rfc8785(row)
    return text.encode()


class OutOfRange(ValueError):
    """A number is too large for an IEEE double."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _has_number_risk(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return False
    if isinstance(value, dict):
        return any(map(_has_number_risk, value.values()))
    if isinstance(value, list):
        return any(map(_has_number_risk, value))
    return isinstance(value, float) or (kind is int and abs(value) >= _LARGEST_EXACT)  # type: ignore[arg-type]


def _has_astral_key(value: object) -> bool:
    if isinstance(value, dict):
        return any(_BEYOND_BMP.search(key) or _has_astral_key(child) for key, child in value.items())
    return isinstance(value, list) and any(map(_has_astral_key, value))


def _by_rfc8785(row: object) -> bytes:
    import rfc8785

    return rfc8785.dumps(_as_doubles(row))  # type: ignore[arg-type]


def _as_doubles(value: object) -> object:
    """Return a value with the numbers that RFC 8785 allows.

    Integers below 2**53 stay integers. Other numbers become IEEE doubles.
    """
    if isinstance(value, dict):
        return {key: _as_doubles(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_as_doubles(child) for child in value]
    if isinstance(value, float) or (type(value) is int and abs(value) >= _LARGEST_EXACT):
        return _double(value)
    return value


def _double(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OutOfRange("a number is beyond the range of a double")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStamp:
    """The size, modification time and inode of a file. If all three are equal later, the file has not changed."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> FileStamp:
        status = path.stat()
        return cls(size=status.st_size, mtime_ns=status.st_mtime_ns, inode=status.st_ino)


def cached_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a downloaded file.

    The digest is stored next to the file. It is computed again after the file's size, modification time or inode
    changes.
    """
    stamp = FileStamp.of(path)
    note = path.with_name(path.name + ".checked")
    if (known := _cached_digest(note, stamp)) is not None:
        return known
    sha256 = file_sha256(path)
    cache_digest(path, sha256)
    return sha256


def cache_digest(path: Path, sha256: str) -> None:
    """Store a file's digest next to the file. If this fails, the failure is ignored."""
    note = path.with_name(path.name + ".checked")
    try:
        note.write_text(json.dumps({**asdict(FileStamp.of(path)), "sha256": sha256}), encoding="utf-8")
    except OSError:
        return


def _cached_digest(note: Path, stamp: FileStamp) -> str | None:
    try:
        values = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(values, dict) or {**asdict(stamp)} != {key: values.get(key) for key in asdict(stamp)}:
        return None
    sha256 = values.get("sha256")
    return sha256 if isinstance(sha256, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file on disk with its hex SHA-256."""

    path: Path
    sha256: str
    format: Format
    name: str = ""
    """the file's name as written in the config"""
    folder: Path = Path()
    """the folder that contains the file under ``name``"""
    parts: Mapping[str, str] = field(default_factory=dict)
    """if a dataset has several files: name of each file -> its SHA-256; ``sha256`` is then the digest of this map"""


def local_path(config: BenchmarkConfig) -> str:
    """Return the name of the first data file: a path relative to a folder of `lookup_folders`."""
    return config.data.names[0]


def cache_path(config: BenchmarkConfig, workspace: Path) -> Path:
    """Return the path in the workspace at which the downloaded data is stored."""
    return workspace / local_path(config)


def needed_paths(config: BenchmarkConfig, workspace: Path) -> list[Path]:
    """Return the path in the workspace of each data file that the user must provide.

    Joined files are included, except those that the config names with a template.
    """
    names = config.data.files or (local_path(config),)
    top = names[0].partition("/")[0]
    joined = [step.file for step in config.data.with_.values() if step.file and "${" not in step.file]
    beside = [name if name.startswith(f"{top}/") else str(Path(names[0]).parent / name) for name in joined]
    return [workspace / name for name in dict.fromkeys([*names, *beside])]


def lookup_folders(config: BenchmarkConfig, workspace: Path) -> list[Path]:
    """Return the folders in which data files are searched, in order.

    The config's folder comes first, then the workspace, then the folder of the files that ship with the package.
    """
    beside = config.folder_of("data", "files" if config.data.files else "path")
    return list(dict.fromkeys([*([beside] if beside else []), workspace, builtin_root()]))


def candidates(config: BenchmarkConfig, workspace: Path) -> list[Path]:
    """Return the paths at which the first data file is searched, in order."""
    return [folder / local_path(config) for folder in lookup_folders(config, workspace)]


def find_file(config: BenchmarkConfig, workspace: Path) -> Path | None:
    """Return the path of the first data file. If one of the config's data files is missing, return None."""
    found = [_matching_files(config, name, workspace) for name in config.data.names]
    return found[0][0][2] if all(found) else None


FoundFile = tuple[Path, str, Path]
"""the folder in which a file was found, the file's name in this folder, and the full path"""


def _matching_files(config: BenchmarkConfig, name: str, workspace: Path) -> list[FoundFile]:
    """Return the files that match a name from the config. A ``*`` in the name can match several files.

    All files come from the first folder that has a match. Return an empty list if no folder has a match.
    """
    for folder in lookup_folders(config, workspace):
        if "*" not in name:
            paths = [folder / name] if (folder / name).is_file() else []
        else:
            paths = sorted(path for path in folder.glob(name) if path.is_file())
        if paths:
            return [(folder, name if "*" not in name else path.relative_to(folder).as_posix(), path) for path in paths]
    return []


def format_of(config: BenchmarkConfig, path: Path) -> Format:
    """Return the data format from the config, or from the file's suffix if the config sets no format."""
    return config.data.format or SUFFIXES[suffix_of(path.name)]


def checked_file(config: BenchmarkConfig, workspace: Path) -> DataFile:
    """Find the first data file and check its digest. See `checked_files`."""
    return checked_files(config, workspace)[0]


def checked_files(config: BenchmarkConfig, workspace: Path) -> list[DataFile]:
    """Find all data files and compute the digest of each file.

    The digest of a single data file is compared with the config. It is not compared if ``data.with`` joins other files.

    Raises:
        DataError: a file is missing or cannot be read, or the digest differs.
    """
    found = []
    for name in config.data.names:
        named = _matching_files(config, name, workspace)
        if not named:
            raise missing_file_error(config, workspace, name)
        found += [_checked_data_file(config, *one) for one in named]
    whole = config.data.sha256
    if whole is not None and len(found) == 1 and not config.data.joins and found[0].sha256 != whole:
        raise digest_error(display_path(found[0].path), expected=whole, found=found[0].sha256)
    return found


def _checked_data_file(config: BenchmarkConfig, folder: Path, name: str, path: Path) -> DataFile:
    try:
        sha256 = file_sha256(path) if config.data.type == "local" else cached_sha256(path)
    except OSError as error:
        raise DataError(
            f"cannot read the file: {error.strerror}", where=display_path(path), hint="check the path"
        ) from error
    return DataFile(path=path, sha256=sha256, format=format_of(config, path), name=name, folder=folder)


def sha256_of_all(digests: Mapping[str, str]) -> str:
    """Return one hex SHA-256 for several files: the hash of the canonical JSON of ``digests``.

    ``digests`` maps each file name to the SHA-256 of the file.
    """
    return hashlib.sha256(canonical(digests)).hexdigest()


def digest_error(where: str, *, expected: str, found: str) -> DataError:
    """Create the error for a wrong digest. The message shows both digests."""
    text = f"the SHA-256 is {found}, but the config expects {expected}"
    return DataError(
        text, where=where, hint="this is another version of the file: download the version that the config expects"
    )


def is_shipped(config: BenchmarkConfig) -> bool:
    """Return True when the data ships with the config: ``data.type`` is ``local`` and ``localPath`` is not set."""
    data = config.origin.tree().get("data") if config.origin else None
    has_own_path = isinstance(data, dict) and bool(data.keys() & {"localPath", "local_path"})
    return config.data.type == "local" and not has_own_path


def download_hint(config: BenchmarkConfig) -> str:
    """Return a hint on how to get the data, usually a command."""
    command = f"bench download {config.name}"
    if config.data.fetch:
        return f"{command}, or put the files at these paths"
    if config.data.type == "local":
        reason = f"; the license ({config.license}) does not allow redistribution" if config.license else ""
        return f"{command} --from FILE{reason}"
    return f"{command}, or {command} --from FILE"


def missing_file_error(config: BenchmarkConfig, workspace: Path, name: str | None = None) -> DataError:
    """Create the error for a missing data file. It shows the path, the expected digest, and how to get the file."""
    files, name = config.data.files, name or local_path(config)
    where = config.place("data", "files", files.index(name)) if name in files else config.place("data", "path")
    if is_shipped(config):
        folders_text = " or ".join(
            display_path((folder / name).parent) for folder in lookup_folders(config, workspace)[:2]
        )
        return DataError(f'the data file "{name}" is not there', where=where, hint=f"put the file into {folders_text}")
    digest = f", sha256 {config.data.sha256}" if config.data.sha256 else ""
    text = f"the dataset of {config.name} is missing: {display_path(cache_path(config, workspace))}{digest}"
    return DataError(text, where=where, hint=download_hint(config))
