"""Count the function calls that each part of the program makes per item, and compare them with a budget.

``python perf/hot_path.py [--items 400] [--json]`` runs items of ``perf/workspace.py`` (four durable calls: search,
answer, two verdicts) under cProfile at two sizes. The cost of an item is the difference, which excludes start and end.
Calls of Python and C functions in the event loop's thread are counted. Unlike times, counts do not depend on the load
of the machine, except for iterations of the event loop: responses that arrive together need only one. The exit code is
1 if a part exceeds its budget.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent))
from stub import stub
from workspace import FLAGS, write

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.journal import Journal
from bench.plan import make_plan
from bench.settings import Environment

CONCURRENCY = 10
Place = tuple[str, int, str]
"""(file, line, name) of a function as in pstats; the file of C functions is ``~``"""
PARTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "HTTP client": (
        ("aiohttp", "yarl", "multidict", "anyio", "bench/http/client", "bench/http/transport", "bench/http/errors",
         "bench/http/retry", "urllib"), 1040),
    "event loop": (("asyncio", "selectors", "_weakrefset"), 430),
    "limiter and slots": (("bench/http/rate_limiter", "bench/http/adaptive_concurrency"), 45),
    "request encoding": (
        ("json/encoder", "bench/config/template", "bench/config/provider/body", "bench/config/model",
         "bench/providers/declarative/request", "bench/providers/declarative/variables",
         "bench/providers/declarative/http_channel", "bench/models/chat", "bench/evaluators/judge_prompts"), 234),
    "response decoding": (
        ("json/decoder", "json/__init__", "json/scanner", "bench/http/message", "bench/config/jsonpath",
         "bench/untyped_values", "bench/providers", "bench/models", "bench/reasoning_blocks", "bench/redaction",
         "bench/visible_text"), 790),
    "verdicts and metrics": (
        ("bench/evaluators", "bench/json_reply", "bench/metrics", "bench/stats", "bench/engine/items/evaluate"), 225),
    "progress": (
        ("bench/engine/progress", "bench/engine/pending_items", "bench/engine/work_queue", "bench/engine/stopping"),
        75),
    "journal hand-over": (("bench/journal",), 68),
    "phase records": (
        ("bench/engine", "bench/http/call_log", "bench/events", "bench/model", "bench/datasets", "bench/plan",
         "dataclasses", "functools", "<string>"), 718),
}  # fmt: skip
"""part -> (paths of its modules, the first match counts; maximum number of calls per item)"""
REST = "the rest"
REST_BUDGET = 94


@contextmanager
def untimed_commits() -> Iterator[None]:
    """Let journals collect rows until they are flushed.

    With the usual time limit, the number of commits, and so the number of calls, would depend on the load.
    """
    defaults = Journal.create.__kwdefaults__
    usual = defaults["linger_s"]
    defaults["linger_s"] = 3600.0
    try:
        yield
    finally:
        defaults["linger_s"] = usual


def profiled(items: int, url: str) -> dict[Place, tuple[int, Mapping[Place, int]]]:
    """Run ``items`` items; return for each function its number of calls, in total and by caller."""
    with tempfile.TemporaryDirectory(prefix="bench-perf-") as folder:
        workspace = Path(folder)
        write(workspace, items=items, url=url)
        environment = Environment.load(workspace)
        request = RunRequest.combine(None, {**FLAGS, "concurrency": CONCURRENCY})
        plan = make_plan(Catalog.load(workspace), request, environment)
        profile = cProfile.Profile()

        async def run() -> None:
            with untimed_commits():
                profile.enable()
                outcome = await execute(plan, environment=environment)
                profile.disable()
            assert outcome.exit_code == 0, outcome

        anyio.run(run)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return {
        place: (calls, {caller: found[1] for caller, found in callers.items()})
        for place, (_, calls, _, _, callers) in stats.items()
    }


def part_of(place: Place) -> str:
    """Return the part of the program that a function belongs to."""
    path = place[0].replace("\\", "/")
    return next((name for name, (files, _) in PARTS.items() if any(f"/{file}" in f"/{path}" for file in files)), REST)


def calls_by_part(items: int, url: str) -> Counter[str]:
    """Return the calls of one run by part; calls of C functions count for their callers."""
    found: Counter[str] = Counter()
    for place, (calls, callers) in profiled(items, url).items():
        if place[0] != "~":
            found[part_of(place)] += calls
        for caller, made in callers.items() if place[0] == "~" else ():
            found[part_of(caller)] += made
    return found


def per_item(few: int, many: int) -> dict[str, float]:
    """Return the calls per item by part."""
    with stub() as url:
        calls_by_part(2 * CONCURRENCY, url)  # what is imported and remembered at the first use
        small, large = calls_by_part(few, url), calls_by_part(many, url)
    return {name: (large[name] - small[name]) / (many - few) for name in (*PARTS, REST)}


def budget_of(part: str) -> int:
    """Return the maximum number of calls per item of a part."""
    return PARTS[part][1] if part in PARTS else REST_BUDGET


def over_budget(found: Mapping[str, float]) -> dict[str, float]:
    """Return the parts that exceed their budget, with their number of calls."""
    return {part: calls for part, calls in found.items() if calls > budget_of(part)}


def table(found: Mapping[str, float]) -> str:
    """Return the budget as lines of text."""
    lines = [f"{'part':<24}{'calls per item':>16}{'budget':>10}"]
    for part, calls in found.items():
        mark = "  EXCEEDED" if calls > budget_of(part) else ""
        lines.append(f"{part:<24}{calls:>16.1f}{budget_of(part):>10}{mark}")
    total, allowed = sum(found.values()), sum(map(budget_of, found))
    return "\n".join([*lines, f"{'all':<24}{total:>16.1f}{allowed:>10}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    found = per_item(given.items // 4, given.items)
    over = over_budget(found)
    if given.json:
        print(json.dumps({"calls_per_item": found, "over": over}))
    else:
        print(table(found))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
