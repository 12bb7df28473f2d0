"""Find the version of bench and of its installed extras.

Example::

    version_text()     # "bench 0.1.0 (commit 3f2a91c, extras: pandas, parquet)"
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__version__ = "0.1.0"

REQUIRED = re.compile(r"^Requires-Dist: ([\w.-]+).*extra == ['\"]([\w-]+)['\"]", re.M)
SHORT = 7


def version_json() -> Mapping[str, object]:
    """Return the version of bench, its commit (None if it is unknown), and its installed extras."""
    return {"version": __version__, "commit": _commit() or None, "extras": _installed_extras()}


def _installed_extras() -> list[str]:
    about = next(_metadata("memorybench"), None)
    return sorted(_extras((about / "METADATA").read_text(encoding="utf-8"))) if about else []


def version_text() -> str:
    """Return the version of bench, its commit if it is known, and its installed extras."""
    commit, extras = _commit(), _installed_extras()
    known = [*([f"commit {commit[:SHORT]}"] if commit else []), *([f"extras: {', '.join(extras)}"] if extras else [])]
    return f"bench {__version__}" + (f" ({', '.join(known)})" if known else "")


def _metadata(name: str) -> Iterator[Path]:
    """Yield the ``.dist-info`` folders of a distribution. This is faster than `importlib.metadata`."""
    pattern = re.sub(r"[-_.]+", "[-_.]", name) + "-[0-9]*.dist-info"
    return (found for folder in sys.path for found in Path(folder).glob(pattern))


def _extras(metadata: str) -> set[str]:
    needed = REQUIRED.findall(metadata)
    absent = {extra for name, extra in needed if next(_metadata(name), None) is None}
    return {extra for _, extra in needed} - absent


def plug_ins(group: str) -> EntryPoints:
    """Return the entry points of one group in all installed distributions, without importing them."""
    return _group_entry_points(group, _distribution_folders())


def distribution_version(distribution: str) -> str:
    """Return the version of an installed distribution."""
    return _distribution_version(distribution, _distribution_folders())


def _distribution_folders() -> tuple[tuple[str, int], ...]:
    """Return (folder, mtime) of each folder in ``sys.path``.

    Installing or removing a distribution changes the mtime.
    """
    return tuple((folder, os.stat(folder).st_mtime_ns) for folder in sys.path if os.path.isdir(folder))  # noqa: PTH112, PTH116


@lru_cache(maxsize=8)
def _group_entry_points(group: str, folders: object) -> EntryPoints:
    found: EntryPoints = _entry_points(folders).select(group=group)
    return found


@lru_cache(maxsize=1)
def _entry_points(_distribution_folders: object) -> Any:
    """Return the entry points of all groups. The type differs between Python 3.11 and 3.12."""
    from importlib.metadata import entry_points

    return entry_points()


@lru_cache(maxsize=16)
def _distribution_version(distribution: str, _distribution_folders: object) -> str:
    from importlib.metadata import version

    return version(distribution)


def built_commit() -> str | None:
    """Return the commit from which the installed wheel was built; None in a checkout."""
    for about in _metadata("memorybench"):
        path = about / "extra_metadata" / "commit"
        return path.read_text(encoding="utf-8").strip() if path.is_file() else None
    return None


def _commit() -> str:
    """Return the commit of the container image, of the wheel or of the git checkout.

    Return an empty text if the commit is unknown.
    """
    if declared := os.environ.get("MEMORYBENCH_GIT_COMMIT") or built_commit():
        return declared
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    import subprocess

    try:
        completed = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
            ["git", "-C", str(root), "rev-parse", "HEAD"],  # noqa: S607 - the git of the user's PATH
            capture_output=True,
            text=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.strip()
