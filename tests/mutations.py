"""Apply one-line mutations to a copy of the checkout, one at a time, and show which test fails for each.

``tests/mutations.toml`` lists them. A mutation is tried on the tests that it names, then on those of its package, then
on those of ``WIDER``, until one fails. It is caught if this test passes without the mutation::

    python -m tests.mutations                 # all of them: about an hour
    python -m tests.mutations --only 13..24   # some of them; --near leaves out the tests of WIDER
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
WIDER = ("reality", "scenarios", "engine", "receipt", "report", "cli", "cluster", "web")
PYTEST = ("-m", "pytest", "-q", "-x", "-n", "0", "--tb=no", "-rfE", "--timeout=120", "-p", "no:cacheprovider")
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One line of the program, and the line with a slip."""

    path: str
    old: str
    new: str
    wrong: str
    """what a user would see"""
    tests: list[str]

    def applied_to(self, text: str) -> str:
        """Return the text with the mutation; raise ValueError unless the line occurs exactly once."""
        lines = text.split("\n")
        if lines.count(self.old) != 1:
            raise ValueError(f"{self.path} has the line {lines.count(self.old)} times, expected once: {self.old}")
        lines[lines.index(self.old)] = self.new
        return "\n".join(lines)

    def steps(self, *, near: bool) -> Iterator[list[str]]:
        """Yield what pytest is given, the likeliest tests first."""
        package = f"tests/{self.path.split('/')[1]}"
        yield self.tests
        yield [package, *(f"--ignore={name}" for name in self.tests)]
        for name in () if near else WIDER:
            if f"tests/{name}" != package:
                yield [f"tests/{name}", *(f"--ignore={path}" for path in self.tests)]


def mutations() -> list[Mutation]:
    """Return the list in its order."""
    listed = tomllib.loads((ROOT / "tests/mutations.toml").read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**one) for one in listed]


class Copy:
    """A copy of the checkout with its uncommitted changes, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._passing: set[str] = set()
        self._changes = 0
        quiet = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--shared"]
        subprocess.run([*quiet, str(ROOT), str(folder)], check=True)
        asked = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
        for name in subprocess.run(asked, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)

    def try_on(self, mutation: Mutation, *, near: bool) -> str | None:
        """Return the name of a test that fails with the mutation and passes without it, or None."""
        path = self.folder / mutation.path
        plain = path.read_text(encoding="utf-8")
        mutated = mutation.applied_to(plain)
        for step in mutation.steps(near=near):
            self._write(path, mutated)
            failed = self.failing(step)
            self._write(path, plain)
            if failed is not None and (failed in self._passing or self.failing([failed]) is None):
                self._passing.add(failed)
                return failed
        return None

    def _write(self, path: Path, text: str) -> None:
        """Write a file with a time of its own, because Python compiles again only a file with another time or size."""
        path.write_text(text, encoding="utf-8")
        self._changes += 1
        at = time.time() - 1_000_000 + 10 * self._changes
        os.utime(path, (at, at))

    def failing(self, given: Sequence[str]) -> str | None:
        """Run tests until one fails, and return its name; the first of the given names if pytest itself fails."""
        shared = os.environ.get("MEMORYBENCH_SHARED", str(ROOT.parent / "shared"))
        variables = {**os.environ, "PYTHONPATH": str(self.folder), "MEMORYBENCH_SHARED": shared, "COLUMNS": "1000"}
        command = [sys.executable, *PYTEST, *given]
        done = subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True)
        if done.returncode in (0, 5):  # 5: no test was left
            return None
        found = FAILED.search(done.stdout)
        return found[1] if found else given[0]


def main() -> int:
    """Try the chosen mutations, print a table, and return 1 if one survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--only", default="", metavar="N..M", help="numbers in the list, from 1")
    parser.add_argument("--workers", type=int, default=1, help="mutations that are tried side by side")
    parser.add_argument("--near", action="store_true", help="run only the tests of the mutation and of its package")
    wanted = parser.parse_args()
    first, _, last = wanted.only.partition("..")
    listed = list(enumerate(mutations(), 1))
    chosen = listed[int(first or 1) - 1 : int(last or first or len(listed))]
    survived = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(wanted.workers) as pool:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(wanted.workers):
            free.put(Copy(Path(folder) / str(number)))

        def attempt(mutation: Mutation) -> str | None:
            copy = free.get()
            try:
                return copy.try_on(mutation, near=wanted.near)
            finally:
                free.put(copy)

        for (number, mutation), caught in zip(chosen, pool.map(attempt, [one for _, one in chosen]), strict=True):
            survived += caught is None
            print(f"{number:>2}  {mutation.path:<36}  {caught or 'SURVIVED: ' + mutation.wrong}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutations are caught")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
