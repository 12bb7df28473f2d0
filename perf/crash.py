"""P5: kill a run with SIGKILL repeatedly, and simulate a power cut: ``python perf/crash.py [--kills 20] [--json]``.

With ``--signals 50`` instead: runs that are ended by SIGINT or SIGTERM at random times exit with 130 or 143 and can be
resumed (C1); SIGINT during many commits loses no acknowledged row (J6); SIGKILL in the first second of a resume loses
nothing (R2).

A run prints the number of phases that it considers durable. It is killed at a random time, and all these phases must
be in the journal. Then the run is resumed, and its results must be byte-equal to those of an uninterrupted run.

The power cut needs root: the run writes to a small image that is mounted through a loop device. The process is stopped,
the image is copied as it is on the device, and the copy is mounted, so that data which was only in the page cache is
lost. If that is not possible, it is reported as skipped.
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
    """A run that prints the number of durable phases: ``first`` is the first number, ``last`` the current one."""

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
        """Wait until ``more`` further phases are durable, or the run has ended."""
        while (self.first is None or self.last < self.first + more) and self.process.poll() is None:
            time.sleep(0.005)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Kill the run and return the last number of durable phases; raise RuntimeError if it has ended by itself."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the run ended by itself with {self.process.returncode}")
        self.process.send_signal(number)
        self.process.wait()
        self._reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.last


def durable(folder: Path) -> int:
    """Return the number of phases in a journal."""

    async def count() -> int:
        async with Reader.open(folder) as reader:
            return sum((await reader.counts()).values())

    return anyio.run(count)


def bench(workspace: Path, *arguments: str) -> None:
    command = [*BENCH, *arguments, "--display", "none"]
    done = subprocess.run(command, cwd=workspace, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} gave {done.returncode}:\n{done.stderr[-4000:]}")


def results(workspace: Path, run_id: str) -> str:
    """Return the part of a report that is equal for interrupted and uninterrupted runs."""
    report = json.loads((workspace / "results" / run_id / "report.json").read_text(encoding="utf-8"))
    return json.dumps(report["results"], sort_keys=True)


def flags_of(run_id: str) -> list[str]:
    """Return the command line of a run over the workspace."""
    flags = [
        "run",
        "--benchmarks",
        "perf",
        "--providers",
        "stub",
        "--answering-model",
        "stub/reader",
        "--run-id",
        run_id,
    ]
    flags += ["--judge-model", "stub/first", "stub/second", "--isolation", "off", "--cleanup", "never"]
    return [*flags, "--no-circuit-breaker", "--concurrency", str(CONCURRENCY)]


def kills(count: int, number: signal.Signals = signal.SIGKILL) -> dict[str, object]:
    """Kill a run ``count`` times, then let it finish."""
    chance, items, lost, told = random.Random(5), 100 * count + 200, 0, []
    with prepared(items, latency_ms=5) as (workspace, url):
        calls = []
        bench(workspace, *flags_of("whole"))
        calls.append(int(str(stats(url, forget=True)["calls"])))
        before = 0
        for _ in range(count):
            run = Told(workspace, "killed")
            run.wait_for_work(20)
            time.sleep(chance.uniform(0, 0.2))
            last = run.kill(number)
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


# ------------------------------------------------------------------------- signals


def signalled(count: int) -> dict[str, object]:
    """C1: end ``count`` runs at random times; each exits with the signal's code, is paused, and can be resumed."""
    chance, good, wrong = random.Random(7), 0, []
    with prepared(300, latency_ms=20) as (workspace, _):
        for number in range(count):
            run_id, sent = f"s{number}", (signal.SIGINT, signal.SIGTERM)[number % 2]
            process = start(workspace, *flags_of(run_id))
            while not (workspace / "checkpoints" / run_id / "journal.sqlite").exists() and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 1))
            process.send_signal(sent)
            code, state = process.wait(), status(workspace, run_id)
            bench(workspace, "resume", run_id)
            after = status(workspace, run_id)
            if (code, state, after) == (128 + sent, "paused", "complete"):
                good += 1
            else:
                wrong.append(f"{run_id}: {sent.name} gave {code}, {state}, then {after}")
    return {"signals": count, "signals_right": good, "signals_wrong": wrong}


def killed_at_start(count: int) -> dict[str, object]:
    """R2: kill a resume in its first second, ``count`` times; the number of durable phases never decreases."""
    chance, fallen = random.Random(9), 0
    with prepared(3000, latency_ms=50) as (workspace, _):
        run = Told(workspace, "again")
        run.wait_for_work(200)
        run.kill()
        kept = durable(workspace / "checkpoints" / "again")
        for _ in range(count):
            process = start(workspace, "resume", "again")
            time.sleep(chance.uniform(0, 1))
            process.kill()
            process.wait()
            now = durable(workspace / "checkpoints" / "again")
            fallen, kept = fallen + (now < kept), now
    return {"starts": count, "starts_that_lost": fallen}


def start(workspace: Path, *arguments: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*BENCH, *arguments], cwd=workspace, env=environment(), stdout=quiet, stderr=quiet)


def status(workspace: Path, run_id: str) -> str:
    command = [*BENCH, "status", run_id, "--json"]
    done = subprocess.run(command, cwd=workspace, env=environment(), capture_output=True, check=True)
    return str(json.loads(done.stdout)["state"])


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
    """Copy the content of the device; repeat if the kernel wrote during the copy."""
    for _ in range(5):
        shutil.copyfile(image, copy)
        if subprocess.run(["cmp", "-s", str(image), str(copy)], check=False).returncode == 0:
            return
    raise RuntimeError("the image never stood still")


def power_cut() -> str | int:
    """Return the number of phases lost by a power cut, or the reason why it was not tried."""
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
    parser.add_argument("--signals", type=int, default=0, help="C1 that often, J6 and R2 two fifths of it")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.signals:
        share = given.signals * 2 // 5
        stopped = kills(share, signal.SIGINT)
        shown = {
            **signalled(given.signals),
            **killed_at_start(share),
            "sigints": share,
            "sigints_lost": stopped["lost"],
        }
        print(json.dumps(shown, indent=2))
        sys.exit(1 if shown["signals_wrong"] or shown["starts_that_lost"] or stopped["lost"] else 0)
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
