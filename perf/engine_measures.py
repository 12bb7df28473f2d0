"""Measurements of whole runs: wall time, CPU, memory, start, limits, faults and crashes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import limiter
from figures import Figure, Skipped, child, environment, number
from stub import stats, stub
from usage import used_by
from workspace import CALLS_AN_ITEM, write

ROUNDS = 3
LOCOMO = Path("datasets/locomo/locomo10.json")
BENCH = [sys.executable, "-m", "bench"]


@contextmanager
def prepared(
    items: int, *, latency_ms: float = 0.0, faults: float = 0.0, corpora: int = 4
) -> Iterator[tuple[Path, str]]:
    """Start a stub server, and create a workspace that uses it."""
    with stub(latency_ms=latency_ms, faults=faults) as url, tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        workspace = Path(folder)
        write(workspace, items=items, url=url, corpora=corpora)
        (workspace / "url").write_text(url, encoding="utf-8")
        yield workspace, url


def run(kind: str, workspace: Path, url: str, *, concurrency: int, items: int, **flags: object) -> dict[str, object]:
    """Run one child process; return its measurements with the counts of the server."""
    before = number(stats(url, forget=True), "cpu_s")
    arguments = ["--concurrency", str(concurrency), "--items", str(items), "--flags", json.dumps(flags)]
    found = child("child.py", kind, str(workspace), *arguments)
    seen = stats(url)
    assert found["status"] == "complete", found
    return {**found, "calls": seen["calls"], "stub_cpu_s": number(seen, "cpu_s") - before, "early": seen["early"]}


Run = dict[str, object]


def pairs(items: int, *, concurrency: int, latency_ms: float, rounds: int) -> tuple[list[Run], list[Run]]:
    """Run floor and ours alternately; return the measurements of both."""
    floor: list[Run] = []
    ours: list[Run] = []
    with prepared(items, latency_ms=latency_ms) as (workspace, url):
        for _ in range(rounds):
            floor.append(run("floor", workspace, url, concurrency=concurrency, items=items))
            ours.append(run("ours", workspace, url, concurrency=concurrency, items=items))
    return floor, ours


def median(found: list[Run], name: str) -> float:
    return statistics.median(number(one, name) for one in found)


def busy_stub(found: list[Run]) -> bool:
    """Return True if the server used over half of the wall time, so that the wall time does not measure the client."""
    return any(number(one, "stub_cpu_s") > 0.5 * number(one, "wall_s") for one in found)


P1_LATENCY_S = 0.05
P1_WAYS: dict[str, tuple[str, int, dict[str, object]]] = {
    "floor": ("floor", 100, {}),
    "ours": ("ours", 100, {}),
    "two workers": ("ours", 200, {"workers": 2}),
}
"""kind of child, calls in flight and flags; two workers make twice the calls per second"""


def p1_wall(*, full: bool) -> list[Figure]:
    """Measure wall time with four durable calls per item at 50 ms and concurrency 100, against ideal and floor.

    Two sizes determine a line: wall = fixed cost + items x slope. The slope is the cost per item of a long run, and the
    fixed cost is that of its start and end. Each is compared with that of the floor.
    """
    sizes = small, large = (2000, 6000) if full else (500, 1500)
    found: dict[tuple[str, int], list[Run]] = {(way, items): [] for way in P1_WAYS for items in sizes}
    latency_ms = P1_LATENCY_S * 1000
    with prepared(small, latency_ms=latency_ms) as few, prepared(large, latency_ms=latency_ms) as many:
        for _ in range(ROUNDS if full else 1):
            for items, place in zip(sizes, (few, many), strict=True):
                for way, (kind, concurrency, flags) in P1_WAYS.items():
                    found[way, items].append(run(kind, *place, concurrency=concurrency, items=items, **flags))
    wall = {key: median(runs, "wall_s") for key, runs in found.items()}
    ideal = {key: median(runs, "calls") * P1_LATENCY_S / P1_WAYS[key[0]][1] for key, runs in found.items()}
    slope = {way: (wall[way, large] - wall[way, small]) / (large - small) for way in P1_WAYS}
    fixed_s = {way: wall[way, small] - small * slope[way] for way in P1_WAYS}
    busy = {way: any(busy_stub(found[way, items]) for items in sizes) for way in P1_WAYS}

    def figure(what: str, value: float, limit: float, *ways: str, unit: str = "") -> Figure:
        meaningful = full and not any(busy[way] for way in ways)
        detail = {f"{way}, {items}": {"wall_s": wall[way, items], "ideal_s": ideal[way, items]}
                  for way in ways for items in sizes}  # fmt: skip
        return Figure(id="P1", what=what, value=value, goal=f"<= {limit:g}{unit}",
                      ok=value <= limit if meaningful else None, detail={**detail, "stub_busy": busy})  # fmt: skip

    figures = []
    for items, of_ideal, of_floor in ((small, 1.06, 1.05), (large, 1.04, 1.02)):
        ours = wall["ours", items]
        figures += [
            figure(f"wall of {items:,} items against ideal", ours / ideal["ours", items], of_ideal, "ours"),
            figure(f"wall of {items:,} items against floor", ours / wall["floor", items], of_floor, "ours", "floor"),
        ]
    double = ideal["two workers", large] - ideal["two workers", small]
    return [
        *figures,
        figure("steady slope against floor", slope["ours"] / slope["floor"], 1.02, "ours", "floor"),
        figure("fixed cost of a run beyond that of the floor, s", fixed_s["ours"] - fixed_s["floor"], 0.2,
               "ours", "floor", unit=" s"),
        figure(f"two workers with 200 calls in flight: wall of {large:,} items against ideal",
               wall["two workers", large] / ideal["two workers", large], 1.04, "two workers"),
        figure("two workers with 200 calls in flight: steady slope against ideal",
               slope["two workers"] * (large - small) / double, 1.04, "two workers"),
    ]  # fmt: skip


def p2_cpu(*, full: bool) -> list[Figure]:
    """Measure CPU per item as the slope between two sizes, which excludes start and end of a run."""
    small, large = (500, 3000) if full else (300, 1500)
    with prepared(small) as (few, few_url), prepared(large) as (many, many_url):
        per_item: dict[str, list[float]] = {"floor": [], "ours": []}
        for _ in range(ROUNDS):
            for kind, values in per_item.items():
                low = number(run(kind, few, few_url, concurrency=50, items=small), "cpu_s")
                high = number(run(kind, many, many_url, concurrency=50, items=large), "cpu_s")
                values.append((high - low) / (large - small) * 1e3)
    ours, floor = statistics.median(per_item["ours"]), statistics.median(per_item["floor"])
    return [
        Figure(id="P2", what="CPU per item against floor", value=ours / floor,
               goal="<= 2.5 x", ok=ours / floor <= 2.5, gated=True, detail={"ours_ms": ours, "floor_ms": floor})
    ]  # fmt: skip


def p3_throughput(*, full: bool) -> list[Figure]:
    """Measure items per second at latency 0 and concurrency 200, against the floor."""
    floor, ours = pairs(4000 if full else 1500, concurrency=200, latency_ms=0, rounds=ROUNDS if full else 1)
    share = median(floor, "wall_s") / median(ours, "wall_s")
    meaningful = full and not busy_stub(ours)
    return [
        Figure(id="P3", what="items per second against floor, latency 0", value=share, goal=">= 0.40 x",
               ok=share >= 0.40 if meaningful else None, detail={"stub_busy": busy_stub(ours)})
    ]  # fmt: skip


def p4_memory(*, full: bool) -> list[Figure]:
    """Measure peak memory of a large run against a small one: stub provider, built-in reader."""
    small, large = (1000, 100_000) if full else (1000, 10_000)
    peaks: dict[int, float] = {}
    for items in (small, large):
        with prepared(items, corpora=100) as (workspace, url):
            flags = {"answering_model": ["none"], "judge_model": ["none"]}
            peaks[items] = number(run("ours", workspace, url, concurrency=100, items=items, **flags), "rss_mb")
    growth = peaks[large] / peaks[small]
    return [
        Figure(id="P4", what=f"peak memory of {large:,} items, MB", value=peaks[large], goal="<= 80 MB",
               ok=peaks[large] <= 80, gated=True),
        Figure(id="P4", what=f"peak memory of {large:,} items against {small:,} items", value=growth, goal="<= 1.10 x",
               ok=growth <= 1.10, gated=True),
    ]  # fmt: skip


def p5_crash(*, full: bool) -> list[Figure | Skipped]:
    """Measure losses by repeated SIGKILL, and by a power cut if possible: see crash.py."""
    found = child("crash.py", "--kills", "20" if full else "4", "--json")
    lost, redone, allowed = number(found, "lost"), number(found, "redone_calls"), number(found, "allowed_calls")
    figures: list[Figure | Skipped] = [
        Figure(id="P5", what=f"phases lost in {found['kills']} kill -9", value=lost, goal="0", ok=lost == 0, gated=True,
               detail=found),
        Figure(id="P5", what="calls made again over all kills", value=redone, goal=f"<= {allowed:.0f}",
               ok=redone <= allowed, gated=True),
        Figure(id="P5", what="results equal to an uninterrupted run (1 = yes)", value=float(bool(found["equal"])),
               goal="1", ok=bool(found["equal"]), gated=True),
    ]  # fmt: skip
    if found["power_cut"] is not None:
        figures.append(Skipped(id="P5", why=str(found["power_cut"])))
    return figures


def p8_start(*, full: bool) -> list[Figure]:
    """Measure CPU of two cheap commands, and the time from the shell to the first call of a run."""
    rounds = 9 if full else 5
    figures = [
        Figure(id="P8", what=f"bench {name}, CPU ms", value=used, goal="<= 150 ms", ok=used <= 150, gated=True)
        for name in ("--help", "list")
        if (used := statistics.median(_cpu_ms(name) for _ in range(rounds)))
    ]
    with prepared(20, corpora=1) as (workspace, url):
        first = statistics.median(_first_call_s(workspace, url) for _ in range(3))
    return [*figures, Figure(id="P8", what="start to first call, s", value=first, goal="<= 0.6 s", ok=first <= 0.6)]


def _cpu_ms(command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*BENCH, command], cwd=folder, env=environment(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def _first_call_s(workspace: Path, url: str) -> float:
    stats(url, forget=True)
    started = time.monotonic()
    command = [
        *BENCH,
        "run",
        "--benchmarks",
        "perf",
        "--providers",
        "stub",
        "--answering-model",
        "none",
        "--display",
        "none",
    ]
    subprocess.run(command, cwd=workspace, env=environment(), capture_output=True, check=False)
    starts = stats(url)["starts"]
    assert isinstance(starts, list)
    return float(min(starts)) - started


def p9_limiter(*, full: bool) -> list[Figure]:
    """Measure the rates that the limiter allows, as the server counts them."""
    figures = []
    for rate in (1.0, 50.0, 200.0):
        found = limiter.measure(rate, 10.0 if full else 4.0, 40)
        most, allowed, share = found["max_in_1s"], found["allowed_in_1s"], found["share"]
        assert isinstance(most, int)
        assert isinstance(allowed, int)
        assert isinstance(share, float)
        figures += [
            Figure(id="P9", what=f"rate limit {rate:g}/s: most calls in any second", value=most, goal=f"<= {allowed}",
                   ok=most <= allowed),
            Figure(id="P9", what=f"rate limit {rate:g}/s: share of the limit that is reached", value=share,
                   goal=">= 0.97", ok=share >= 0.97),
        ]  # fmt: skip
    return figures


def p10_faults(*, full: bool) -> list[Figure]:
    """Measure a run in which 5% of the calls fail: every item ends, with few additional calls and none too early."""
    items = 500 if full else 200
    with prepared(items, faults=0.05) as (workspace, url):
        found = run("ours", workspace, url, concurrency=40, items=items)
    needed = items * CALLS_AN_ITEM
    share, early = number(found, "calls") / needed, number(found, "early")
    return [
        Figure(id="P10", what="calls against calls needed, 5% faults", value=share, goal="<= 1.10 x", ok=share <= 1.10,
               gated=True, detail=found),
        Figure(id="P10", what="calls earlier than Retry-After allows", value=early, goal="0", ok=early == 0,
               gated=True),
        Figure(id="P10", what="exit code (0 = every item resolved)", value=number(found, "exit_code"), goal="0",
               ok=found["exit_code"] == 0, gated=True),
    ]  # fmt: skip


def p12_locomo(*, full: bool) -> list[Figure | Skipped]:
    """Measure the built-in bm25 over LoCoMo10, retrieval only, end to end."""
    data = _locomo()
    if data is None:
        return [Skipped(id="P12", why=f"{LOCOMO} is not there (bench download locomo)")]
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        place = Path(folder) / LOCOMO
        place.parent.mkdir(parents=True)
        shutil.copy(data, place)
        command = [*BENCH, "run", "--benchmarks", "locomo-turns", "--providers", "bm25", "--answering-model", "none"]
        found = used_by([*command, "--display", "none"], folder=Path(folder), variables=environment())
    wall, peak = number(found, "wall_s"), number(found, "rss_mb")
    return [
        Figure(id="P12", what="bm25 over LoCoMo10, s", value=wall, goal="<= 10 s", ok=wall <= 10, detail=found),
        Figure(id="P12", what="bm25 over LoCoMo10, peak memory, MB", value=peak, goal="<= 150 MB", ok=peak <= 150,
               gated=True),
    ]  # fmt: skip


def _locomo() -> Path | None:
    root = Path(__file__).resolve().parent.parent
    shared = Path(os.environ.get("MEMORYBENCH_SHARED", root.parent / "shared"))
    places = [root / LOCOMO, shared / "data" / "locomo10" / "locomo10.json"]
    return next((place for place in places if place.is_file()), None)
