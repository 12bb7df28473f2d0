"""The version of the program, for every room: importing the package's face from below would turn the layers around.

Example::

    described()     # "bench 0.1.0 (commit 3f2a91c, extras: pandas, parquet)"
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

__version__ = "0.1.0"

REQUIRED = re.compile(r"^Requires-Dist: ([\w.-]+).*extra == ['\"]([\w-]+)['\"]", re.M)
SHORT = 7


def described() -> str:
    """Name the version, the commit where it is known, and the extras whose packages are installed."""
    about = next(_metadata("memorybench"), None)
    commit = _commit()
    extras = sorted(_extras((about / "METADATA").read_text(encoding="utf-8"))) if about else []
    known = [*([f"commit {commit[:SHORT]}"] if commit else []), *([f"extras: {', '.join(extras)}"] if extras else [])]
    return f"bench {__version__}" + (f" ({', '.join(known)})" if known else "")


def _metadata(name: str) -> Iterator[Path]:
    """Find the folder of an installed distribution by its name; `importlib.metadata` takes longer than all the rest."""
    pattern = re.sub(r"[-_.]+", "[-_.]", name) + "-[0-9]*.dist-info"
    return (found for folder in sys.path for found in Path(folder).glob(pattern))


def _extras(metadata: str) -> set[str]:
    needed = REQUIRED.findall(metadata)
    absent = {extra for name, extra in needed if next(_metadata(name), None) is None}
    return {extra for _, extra in needed} - absent


def built_commit() -> str | None:
    """The commit that the wheel was built from, None in a checkout."""
    for about in _metadata("memorybench"):
        path = about / "extra_metadata" / "commit"
        return path.read_text(encoding="utf-8").strip() if path.is_file() else None
    return None


def _commit() -> str:
    """The commit as the image, the wheel or git itself says it."""
    if declared := os.environ.get("MEMORYBENCH_GIT_COMMIT") or built_commit():
        return declared
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    import subprocess

    try:
        asked = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
            ["git", "-C", str(root), "rev-parse", "HEAD"],  # noqa: S607 - the git of the user's PATH
            capture_output=True,
            text=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()
