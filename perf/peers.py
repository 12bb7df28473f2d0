"""Compare ``bench`` with other programs: ``python perf/peers.py [--items 2000] [--rounds 3] [--json|--markdown]``.

All programs do the work of ``peer_tasks.py`` with one stub (50 ms per call), in turns: floor, bench, Inspect AI,
promptfoo, lm-eval, floor, bench, ... Each peer has a pinned version in its own environment below ``build/peers`` (or
MEMORYBENCH_PEERS), which is created if it is missing. In each round a program runs three times:

* 20 items, which shows the cost of its start;
* all items: wall and CPU time of the command with its children, peak memory of all its processes together;
* all items again: when the stub has received half of the calls, the whole process group is killed with signal 9. The
  finished samples that can be read from its files are counted, and the calls that the stub had answered.

A program that cannot be installed is a row with the reason; a round that fails is a line below the table.

``--only bench,inspect`` measures only these programs. SIGINT or SIGTERM ends the measurement; the table then has what
was measured so far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import machine, number
from peer_tasks import ENTRANTS, GOLD, HOME, Entrant, Work
from stub import stats, stub

Found = TypeVar("Found")
LATENCY_MS = 50.0
FEW = 20
LIMIT_S = 600.0
FAILURES = (OSError, RuntimeError, ValueError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The measurements of a run of all items, and of a run of few items before it."""

    wall_s: float
    calls_s: float
    """from the first call to the last answer"""
    cpu_s: float
    rss_mb: float
    start_cpu_s: float
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The number of calls answered by the stub when the process group was killed, and of samples that could be read."""

    answered: int
    kept: int


@dataclass(kw_only=True)
class PeerRow:
    """All measurements of one program."""

    name: str
    version: str
    durable: str = ""
    taken: list[Taken] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    skipped: str = ""
    failures: list[str] = field(default_factory=list)
    """messages of the rounds that failed; the other rounds count"""

    def cells(self, items: int, concurrency: int) -> tuple[str, ...]:
        if not self.taken:
            why = self.skipped or "; ".join(self.failures) or "no round"
            return (self.name, self.version, f"skipped: {why}", *[""] * (len(HEADER) - 3))
        ideal_s = items * LATENCY_MS / 1000 / concurrency
        worst = max(self.kills, key=lambda one: one.answered - one.kept, default=None)
        return (
            self.name,
            self.version,
            spread([one.wall_s for one in self.taken], 1),
            f"{statistics.median(one.wall_s for one in self.taken) / ideal_s:.1f}",
            f"{statistics.median(one.calls_s for one in self.taken) / ideal_s:.2f}",
            spread([(one.cpu_s - one.start_cpu_s) / (items - FEW) * 1000 for one in self.taken], 2),
            spread([one.start_cpu_s for one in self.taken], 1),
            spread([one.rss_mb for one in self.taken], 0),
            f"{worst.kept:,} of {worst.answered:,}" if worst else "-",
        )


HEADER = (
    "program",
    "version",
    "wall, s",
    "wall / ideal",
    "calls / ideal",
    "CPU per item, ms",
    "CPU of a start, s",
    "peak RSS, MB",
    "kept of answered, kill -9",
)


def spread(values: Sequence[float], digits: int) -> str:
    """Format the median, the smallest and the largest value."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


# ---------------------------------------------------------------------- install


def install(entrant: Entrant) -> None:
    """Create the environment of a peer, unless it exists with these versions."""
    folder = HOME / entrant.environment
    complete, wanted = folder / ".complete", "\n".join(entrant.packages)
    if not wanted or (complete.is_file() and complete.read_text(encoding="utf-8") == wanted):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"peers: installing {' '.join(entrant.packages)}", file=sys.stderr, flush=True)
    if entrant.npm:
        _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *entrant.packages])
    else:
        uv, python = shutil.which("uv"), str(folder / "bin" / "python")
        _run(
            [uv, "venv", "-q", "-p", sys.executable, str(folder)] if uv else [sys.executable, "-m", "venv", str(folder)]
        )
        pip = [uv, "pip", "install", "-q", "-p", python] if uv else [python, "-m", "pip", "install", "-q"]
        _run([*pip, *entrant.packages])
    complete.write_text(wanted, encoding="utf-8")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} gave {done.returncode}: {done.stderr.strip()[-300:]}")


# ---------------------------------------------------------------------- measure


@contextmanager
def started(entrant: Entrant, work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in its own process group; kill the group at the end if it is still running."""
    command, variables = entrant.command(work), {**work.variables(), **entrant.variables}
    with (work.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=work.folder, env=variables, stdout=log, stderr=log, start_new_session=True
        )
        timer = threading.Timer(LIMIT_S, os.killpg, [process.pid, signal.SIGKILL])
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole process group, unless its first process has ended and was waited for."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tree_mb(pid: int) -> float:
    """Return the current memory of a process and its descendants in MB; 0 if the system does not report it."""
    pages, left = 0, [pid]
    while left:
        place = Path("/proc") / str(left.pop())
        try:
            pages += int((place / "statm").read_text().split()[1])
            left += [int(one) for path in place.glob("task/*/children") for one in path.read_text().split()]
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def whole(entrant: Entrant, work: Work) -> tuple[dict[str, float], float]:
    """Run a program to its end; return (wall, CPU and peak memory, seconds from the first call to the last answer)."""
    stats(work.url, forget=True)
    ended, peaks = threading.Event(), [0.0]
    began = time.monotonic()
    with started(entrant, work) as process:

        def watch() -> None:
            while not ended.wait(0.05):
                peaks.append(tree_mb(process.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            ended.set()
            watching.join()
        process.returncode = os.waitstatus_to_exitcode(status)
    found = {"wall_s": time.monotonic() - began, "cpu_s": used.ru_utime + used.ru_stime, "rss_mb": max(peaks)}
    seen = stats(work.url)
    starts = seen["starts"]
    assert isinstance(starts, list)
    kept = work.items if entrant.kept is None else 0 if process.returncode else entrant.kept(work)
    if process.returncode or len(starts) < work.items or kept != work.items:
        log = (work.folder / "log").read_text(errors="replace").strip()[-300:]
        raise RuntimeError(f"exit {process.returncode}, {len(starts)} calls, {kept} of {work.items} samples: {log}")
    return found, starts[-1] - starts[0] + LATENCY_MS / 1000


def killed(entrant: Entrant, work: Work) -> Kill:
    """Kill a program when the stub has received half of the calls; count its finished samples."""
    stats(work.url, forget=True)
    with started(entrant, work) as process:
        while number(stats(work.url), "calls") < work.items / 2:
            if process.poll() is not None:
                raise RuntimeError(f"ended with {process.returncode} before half of the calls")
            time.sleep(0.02)
        kill(process)
        answered = int(number(stats(work.url), "answered"))
    time.sleep(2 * LATENCY_MS / 1000)
    assert entrant.kept is not None
    return Kill(answered=answered, kept=entrant.kept(work))


def within(act: Callable[[Work], Found], url: str, items: int, concurrency: int) -> Found:
    """Call ``act`` with an empty folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-peers-", ignore_cleanup_errors=True) as folder:
        return act(Work(folder=Path(folder), url=url, items=items, concurrency=concurrency))


def take(entrant: Entrant, row: PeerRow, url: str, items: int, concurrency: int) -> None:
    """Measure one round, and add it to a row."""
    load = os.getloadavg()[0]
    few, _ = within(lambda work: whole(entrant, work), url, FEW, concurrency)
    found, calls_s = within(lambda work: whole(entrant, work), url, items, concurrency)
    row.taken.append(Taken(**found, calls_s=calls_s, start_cpu_s=few["cpu_s"], load=load))
    if entrant.kept:
        row.kills.append(within(lambda work: killed(entrant, work), url, items, concurrency))


def measure(entrants: Sequence[Entrant], *, items: int, rounds: int, concurrency: int) -> list[PeerRow]:
    """Install the programs, run each once, then measure in turns; after a signal, return what was measured so far."""
    rows = [PeerRow(name=one.name, version=one.version, durable=one.durable) for one in entrants]

    def each(what: str, act: Callable[[Entrant, PeerRow], object]) -> None:
        for entrant, row in zip(entrants, rows, strict=True):
            if not row.skipped:
                print(f"peers: {what}: {entrant.name}", file=sys.stderr, flush=True)
                try:
                    act(entrant, row)
                except FAILURES as error:
                    row.failures.append(" ".join(f"{what}: {error}".split()))
                    print(f"peers: {row.failures[-1]}", file=sys.stderr, flush=True)

    def ready(entrant: Entrant, row: PeerRow) -> None:
        try:
            install(entrant)
            within(lambda work: whole(entrant, work), url, FEW, concurrency)
        except FAILURES as error:
            row.skipped = " ".join(str(error).split())

    with stub(latency_ms=LATENCY_MS, chat=GOLD) as url, contextlib.suppress(KeyboardInterrupt):
        each("install and first run", ready)
        for at in range(rounds):
            each(f"round {at + 1}", lambda one, row: take(one, row, url, items, concurrency))
    return rows


# ------------------------------------------------------------------------ table


def table(rows: Sequence[PeerRow], *, items: int, concurrency: int, markdown: bool = False) -> str:
    """Return a table with one line per program."""
    lines = [HEADER, *(row.cells(items, concurrency) for row in rows)]
    if markdown:
        shown = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
        return "\n".join([shown[0], "|---" * len(HEADER) + "|", *shown[1:]])
    widths = [max(len(line[at]) for line in lines if len(line[at]) < 60) for at in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def facts(rows: Sequence[PeerRow], *, items: int, rounds: int, concurrency: int) -> dict[str, object]:
    """Return the machine, the settings and the load of the measurement."""
    loads = [one.load for row in rows for one in row.taken]
    taken = {"items": items, "rounds": rounds, "concurrency": concurrency, "latency_ms": LATENCY_MS}
    return {**machine(), **taken, "load": f"{min(loads):.1f}-{max(loads):.1f}" if loads else "-"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=100)
    names = [one.name for one in ENTRANTS]
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true")
    shape.add_argument("--markdown", action="store_true", help="the table of docs/performance.md")
    given = parser.parse_args()
    if unknown := [name for name in given.only if name not in names]:
        parser.error(f"unknown program {', '.join(unknown)}; known: {', '.join(names)}")
    if given.items <= FEW:
        parser.error(f"--items is {given.items}; expected more than {FEW}")
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.default_int_handler)
    wanted = [one for one in ENTRANTS if one.name in given.only]
    scale = {"items": given.items, "concurrency": given.concurrency}
    rows = measure(wanted, rounds=given.rounds, **scale)
    where = facts(rows, rounds=given.rounds, **scale)
    if given.json:
        print(json.dumps({"machine": where, "programs": [asdict(row) for row in rows]}, indent=2))
    else:
        print(table(rows, markdown=given.markdown, **scale))
        print("".join(f"\n{row.name}: {failure}" for row in rows for failure in row.failures))
        print("Taken on: " + ", ".join(f"{name} {value}" for name, value in where.items()) + ".")
    sys.exit(int(any(row.skipped or row.failures for row in rows)))


if __name__ == "__main__":
    main()
