"""P5: kill -9 in mid-run, again and again; and a power cut. ``python perf/crash.py [--kills 20] [--json]``.

A run prints how many phases are durable, as it believes; it is killed at a random moment, and every phase it had told
of must be in the journal. At the end the run is resumed and its results must be equal, byte for byte, to those of a run
that nobody disturbed. The power cut needs root: the run lives on a small image that is mounted through a loop device;
the process is stopped, the image is copied as the device has it, and the copy is mounted: what was only in the page
cache is gone. Where that cannot be had, it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import anyio
from engine_measures import BENCH, prepared
from figures import HERE, environment
from stub import stats
from workspace import write

from bench.journal import Reader

CONCURRENCY = 20
ROWS_IN_FLIGHT = 10 * CONCURRENCY
IMAGE_MB = 192


class Told:
    """A run that tells how many phases are durable: ``first`` when it began its work, ``last`` by now."""

    def __init__(self, workspace: Path, run_id: str) -> None:
        command = [sys.executable, str(HERE / "child.py"), "told", str(workspace), "--concurrency", str(CONCURRENCY)]
        command += ["--flags", json.dumps({"run_id": run_id})]
        self.first: int | None = None
        self.last = 0
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n") and line.strip().isdigit():
                self.last = int(line)
                self.first = self.last if self.first is None else self.first

    def wait_for_work(self, more: int) -> None:
        """Wait until that many phases became durable since it began, or the run has ended."""
        while (self.first is None or self.last < self.first + more) and self.process.poll() is None:
            time.sleep(0.005)

    def kill(self) -> int:
        """End it at once; gives what it had told by then. A run that ended by itself proves nothing."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the run ended by itself with {self.process.returncode}")
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.last


def durable(folder: Path) -> int:
    """Count the phases that are in a journal."""

    async def count() -> int:
        async with Reader.open(folder) as reader:
            return sum((await reader.counts()).values())

    return anyio.run(count)


def bench(workspace: Path, *arguments: str) -> None:
    subprocess.run(
        [*BENCH, *arguments, "--display", "none"], cwd=workspace, env=environment(), capture_output=True, check=True
    )


def results(workspace: Path, run_id: str) -> str:
    """The part of a report that must not depend on how the run went."""
    report = json.loads((workspace / "results" / run_id / "report.json").read_text(encoding="utf-8"))
    return json.dumps(report["results"], sort_keys=True)


def kills(count: int) -> dict[str, object]:
    """Kill a run that often, then let it end."""
    chance, items, lost, told = random.Random(5), 100 * count + 200, 0, []
    with prepared(items, latency_ms=5) as (workspace, url):
        calls = []
        flags = ["--benchmarks", "perf", "--providers", "stub", "--answering-model", "stub/reader"]
        flags += ["--judge-model", "stub/first", "stub/second", "--isolation", "off", "--cleanup", "never"]
        bench(workspace, "run", *flags, "--no-circuit-breaker", "--concurrency", str(CONCURRENCY), "--run-id", "whole")
        calls.append(int(str(stats(url, forget=True)["calls"])))
        before = 0
        for _ in range(count):
            run = Told(workspace, "killed")
            run.wait_for_work(20)
            time.sleep(chance.uniform(0, 0.2))
            last = run.kill()
            told.append(last - (run.first or 0))
            kept = durable(workspace / "checkpoints" / "killed")
            lost += max(0, before + told[-1] - kept)
            before = kept
        bench(workspace, "resume", "killed")
        calls.append(int(str(stats(url)["calls"])))
        equal = results(workspace, "whole") == results(workspace, "killed")
    redone = calls[1] - calls[0]
    allowed = count * (CONCURRENCY + ROWS_IN_FLIGHT)
    return {
        "kills": count,
        "told": told,
        "lost": lost,
        "redone_calls": redone,
        "allowed_calls": allowed,
        "equal": equal,
    }


# ---------------------------------------------------------------------- power cut


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[None]:
    """Mount an image through a loop device."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)


def frozen_copy(image: Path, copy: Path) -> None:
    """Copy what the device has by now; again when the kernel wrote meanwhile."""
    for _ in range(5):
        shutil.copyfile(image, copy)
        if subprocess.run(["cmp", "-s", str(image), str(copy)], check=False).returncode == 0:
            return
    raise RuntimeError("the image never stood still")


def power_cut() -> str | int:
    """Give the phases lost by a power cut, or why none was tried."""
    if os.geteuid() != 0:
        return "the power cut needs root (loop device)"
    if missing := [tool for tool in ("mkfs.ext4", "mount", "cmp") if shutil.which(tool) is None]:
        return f"the power cut needs {', '.join(missing)}"
    with tempfile.TemporaryDirectory(prefix="bench-cut-") as folder, prepared(10) as (_, url):
        image, copy = Path(folder) / "disk", Path(folder) / "copy"
        with image.open("wb") as opened:
            opened.truncate(IMAGE_MB * 2**20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, capture_output=True)
        try:
            with mounted(image, Path(folder) / "before"):
                workspace = Path(folder) / "before" / "work"
                write(workspace, items=3000, url=url)
                os.sync()
                run = Told(workspace, "cut")
                run.wait_for_work(1500)
                run.process.send_signal(signal.SIGSTOP)
                told = run.last
                frozen_copy(image, copy)
                run.kill()
        except subprocess.CalledProcessError as error:
            return f"the power cut needs a loop device: {error.stderr.decode().strip()}"
        with mounted(copy, Path(folder) / "after"):
            return max(0, told - durable(Path(folder) / "after" / "work" / "checkpoints" / "cut"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = kills(given.kills)
    cut = power_cut()
    found["power_cut"] = cut if isinstance(cut, str) else None
    if isinstance(cut, int):
        found["lost_by_power_cut"] = cut
        found["lost"] = int(str(found["lost"])) + cut
    else:
        print(f"SKIPPED: {cut}", file=sys.stderr)
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    sys.exit(1 if found["lost"] or not found["equal"] else 0)


if __name__ == "__main__":
    main()
