"""One bash for one page: commands share variables, folders and background processes, as in a reader's terminal.

Example::

    with Shell(workspace, environment) as shell:
        code, lines = shell.run("bench list")
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

MARK = "<<docs-step-ended>>"


class Shell:
    """stdout and stderr are merged, as a reader sees them."""

    def __init__(self, workspace: Path, environment: Mapping[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=workspace,
            env=environment,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, list[str]]:
        """Return the exit code and the printed lines of one command."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n%s %s\\n' '{MARK}' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(MARK):
                return int(line.split()[1]), "".join(lines).rstrip("\n").splitlines()
            lines.append(line)
        raise AssertionError(f"bash ended in: {command}\n{''.join(lines)}")

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End bash and all processes of its session."""
        os.killpg(self._bash.pid, signal.SIGTERM)
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        for stream in (self._bash.stdin, self._bash.stdout):
            assert stream is not None
            stream.close()
