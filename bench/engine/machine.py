"""What the code runs on: machine, interpreter, packages, the installed code. Journaled before a run's first call.

Example::

    describe("20261127-4f9c0a1b")["cpuCount"]          # 16

Nothing here names the machine: the host name goes in only as a hash salted with the run id.
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LOCK = "requirements.lock"


def describe(run_id: str, environ: Mapping[str, str] = os.environ) -> dict[str, object]:
    """Describe this machine and this installation; image and digest are what the image build declared."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{sys.platform}/{platform.machine()}",
        "cpu": cpu_name(),
        "cpuCount": os.cpu_count() or 0,
        "memoryBytes": memory_bytes(),
        "containerImage": environ.get("MEMORYBENCH_IMAGE") or None,
        "containerDigest": environ.get("MEMORYBENCH_IMAGE_DIGEST") or None,
        "lockSha256": lock_sha256(),
        "packages": packages(),
        "codeTreeSha256": code_tree_sha256(),
        "hostHash": sha256((platform.node() + run_id).encode()).hexdigest()[:16],
    }


def cpu_name() -> str:
    """The processor's own name, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Physical memory, 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


@lru_cache(maxsize=1)
def packages() -> dict[str, str]:
    """Every installed distribution by its normalised name and its version, and SQLite, which ranks for ``bm25``.

    The names of the ``NAME-VERSION.dist-info`` folders say both; reading each folder's metadata takes 50 times as long.
    """
    found = {"sqlite": sqlite3.sqlite_version}
    for folder in map(Path, sys.path):
        for entry in folder.glob("*.dist-info"):
            name, _, version = entry.name.removesuffix(entry.suffix).partition("-")
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return dict(sorted(found.items()))


def lock_sha256() -> str | None:
    """The hash of the checkout's lock file, None in an installation without one."""
    path = PACKAGE.parent / LOCK
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else None


@lru_cache(maxsize=1)
def code_tree_sha256() -> str:
    """One hash of the package's files: over sorted ``path NUL sha256 LF``."""
    tree = sha256()
    for name, path in sorted(_files()):
        tree.update(f"{name}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return tree.hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    for path in PACKAGE.rglob("*"):
        inside = path.relative_to(PACKAGE)
        if path.is_file() and "__pycache__" not in inside.parts and path.suffix != ".pyc":
            yield inside.as_posix(), path
