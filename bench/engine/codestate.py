"""The state of the code that makes the numbers: git commit, tag, dirty flag. Read before a run's first write.

Example::

    CodeState.read(Path("."))      # CodeState(commit="3f2a...", tag=None, dirty=False, source="git")

``dirty`` ignores what runs themselves write (results/, checkpoints/, datasets/) and is None without a checkout;
an image then says its commit by ``MEMORYBENCH_GIT_COMMIT``.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.settings import Environment

OWN_OUTPUT = ("results", "checkpoints", "datasets")
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeState:
    """Which code ran; everything None where nobody knows."""

    commit: str | None = None
    tag: str | None = None
    dirty: bool | None = None
    source: Literal["git", "declared", "unknown"] = "unknown"

    @classmethod
    def read(cls, environment: Environment) -> CodeState:
        """Ask git about the checkout this package lies in, else take what the image build declared."""
        root = Path(__file__).resolve().parents[2]
        git = shutil.which("git")
        if git is not None and (root / ".git").exists():
            commit = _ask(git, root, "rev-parse", "HEAD")
            if commit:
                changed = _ask(git, root, "status", "--porcelain", "--", ".", *(f":!{name}" for name in OWN_OUTPUT))
                tag = _ask(git, root, "describe", "--tags", "--exact-match")
                return cls(
                    commit=commit, tag=tag or None, dirty=None if changed is None else bool(changed), source="git"
                )
        commit = environment.get("MEMORYBENCH_GIT_COMMIT")
        if commit is None:
            return cls()
        return cls(commit=commit, tag=environment.get("MEMORYBENCH_GIT_TAG"), source="declared")


def _ask(git: str, root: Path, *arguments: str) -> str | None:
    """Run one git command; None when it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
            [git, "-C", str(root), *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
