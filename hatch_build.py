"""What a wheel says of its source: the commit, beside its metadata."""

import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Write the commit that is checked out, or that MEMORYBENCH_GIT_COMMIT declares."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to a wheel; an editable install asks the checkout."""
        commit = os.environ.get("MEMORYBENCH_GIT_COMMIT") or self._head()
        if version != "editable" and commit:
            path = Path(mkdtemp()) / "commit"
            path.write_text(commit + "\n", encoding="utf-8")
            self.build_config.target_config.setdefault("extra-metadata", {})[str(path)] = "commit"

    def _head(self) -> str:
        if not Path(self.root, ".git").exists():
            return ""
        command = ["git", "-C", self.root, "rev-parse", "HEAD"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
        return asked.stdout.strip()
