"""Code correctness: the item's tests run on the answer, in a process of their own with little to lose.

The child has no environment, a temporary folder, limits on time, memory, files and processes, and is
killed with its whole group when its time is up. It runs only when the user allowed it.

Example::

    CodeEvaluator(allowed=True, time_limit_s=10)        # metadata.tests holds Python that raises on failure
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from bench.errors import Unsupported
from bench.evaluators.byrule import verdict
from bench.evaluators.protocol import Judge
from bench.model import Hit, ScoredItem, Verdict

_FENCE = re.compile(r"```(?:python|py)?\s*\n(.*?)```", re.DOTALL)
_LIMITED = """\
import os, resource, sys, traceback, types
for kind, most in ((resource.RLIMIT_CPU, {cpu_s}), (resource.RLIMIT_AS, {memory}),
                   (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_NPROC, 16), (resource.RLIMIT_CORE, 0)):
    try:
        resource.setrlimit(kind, (most, most))
    except ValueError:
        pass
sys.modules["__main__"] = types.ModuleType("__main__")
names = vars(sys.modules["__main__"])
for name, role in (("candidate", "candidate"), ("tests", "__main__")):
    with open(name + ".py", encoding="utf-8") as file:
        source = file.read()
    names["__name__"] = role
    try:
        exec(compile(source, name + ".py", "exec"), names)
    except SystemExit as error:
        by_unittest = traceback.extract_tb(error.__traceback__)[-1].filename.endswith("unittest/main.py")
        if error.code or not by_unittest:
            raise
os._exit({passed})
"""
MEMORY = 512 << 20
PASSED = 93
"""exit code of a child that came to its end: an answer that ends the process by itself has not"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEvaluator:
    """1 when the answer's code and then the item's ``tests`` (metadata) run to the end without an error."""

    allowed: bool = False
    time_limit_s: float = 10.0
    name: str = "code-correctness"
    threshold: float = 1.0
    needs_judge: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not self.allowed:
            raise Unsupported("code-correctness runs code", hint="allow it with --allow-code-execution")
        tests = item.metadata.get("tests")
        if not isinstance(tests, str) or not tests.strip():
            return verdict(self.name, None, self.threshold, refused=False, reason="no_tests")
        passed = await passes(code_of(answer), tests, time_limit_s=self.time_limit_s)
        return verdict(self.name, float(passed), self.threshold, refused=False)


def code_of(answer: str) -> str:
    """The fenced code of an answer, or all of it."""
    blocks = _FENCE.findall(answer)
    return "\n".join(blocks) if blocks else answer


async def passes(code: str, tests: str, *, time_limit_s: float) -> bool:
    """Run code and then its tests, which see its names; True when both come to their end in time."""
    with tempfile.TemporaryDirectory(prefix="bench-code-") as folder:
        for name, source in (("candidate", code), ("tests", tests)):
            await anyio.Path(folder, f"{name}.py").write_text(source, encoding="utf-8", errors="surrogatepass")
        script = _LIMITED.format(cpu_s=max(1, round(time_limit_s)), memory=MEMORY, passed=PASSED)
        return await _run([sys.executable, "-I", "-B", "-c", script], Path(folder), time_limit_s) == PASSED


async def _run(command: list[str], folder: Path, time_limit_s: float) -> int | None:
    """The exit code, None when the time was up."""
    process = await anyio.open_process(
        command, cwd=folder, env={}, stdin=None, stdout=-3, stderr=-3, start_new_session=True
    )
    try:
        with anyio.move_on_after(time_limit_s):
            return await process.wait()
        return None
    finally:
        with anyio.CancelScope(shield=True):
            _kill_group(process.pid)
            await process.wait()
            await process.aclose()


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
