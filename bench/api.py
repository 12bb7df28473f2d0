"""The Python API of bench: functions to plan, run, report and compare.

The function arguments have the names of the flags of ``bench run``.

Example::

    import bench

    plan = bench.plan(benchmarks="demo", providers=["bm25", "oracle"], k=5)
    outcome = await bench.run(plan)
    bench.report(outcome.run_id).jobs[0].metrics["ndcg_at_10"].value
    bench.compare(f"{outcome.run_id}:bm25", f"{outcome.run_id}:oracle").comparisons[0].headlines[0].verdict

``import bench`` is fast, because each function imports its modules only when it is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from bench.engine import Observer, Outcome
    from bench.plan import Plan
    from bench.report import Report
    from bench.report.comparison.comparison_rows import Comparisons
    from bench.report.exports.frames import Frames

T = TypeVar("T")


def plan(*, workspace: Path | str = ".", env_file: Path | None = None, **flags: object) -> Plan:
    """Plan a run and return the plan.

    ``flags`` are the flags of ``bench run`` in snake_case. ``env_file`` is read instead of ``.env``.

    Raises:
        UsageError: a flag is invalid.
        ConfigError: a config is invalid, or a variable is not set.
        DataError: a data file is missing or invalid.
    """
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan.build import make_plan
    from bench.settings import Environment

    folder = Path(workspace)
    request = RunRequest.combine(None, flags)
    return make_plan(Catalog.load(folder), request, Environment.load(folder, env_file))


async def run(plan: Plan, *, observer: Observer | None = None, env_file: Path | None = None) -> Outcome:
    """Execute a plan from :func:`plan`. An error of a single item is part of the outcome, and is not raised."""
    from bench.engine import execute
    from bench.settings import Environment

    return await execute(plan, environment=Environment.load(plan.workspace, env_file), observer=observer)


async def resume(
    run_id: str,
    *,
    workspace: Path | str = ".",
    observer: Observer | None = None,
    env_file: Path | None = None,
    **flags: object,
) -> Outcome:
    """Resume a run. ``flags`` can change how the run is executed, but not its results.

    Raises:
        UsageError: there is no such run, or a flag is invalid.
        IdentityError: a flag, config, prompt or data file would change the results of the run.
    """
    from bench.config.catalog import Catalog
    from bench.engine import execute, resumed_plan
    from bench.settings import Environment

    folder = Path(workspace)
    environment = Environment.load(folder, env_file)
    path, rest = await resumed_plan(run_id, catalog=Catalog.load(folder), flags=flags, environment=environment)
    return await execute(rest, environment=environment, observer=observer, resume=path)


def report(run_id: str, *, workspace: Path | str = ".") -> Report:
    """Return the report of a finished or unfinished run.

    Raises:
        UsageError: there is no such run.
        JournalError: the journal of the run cannot be read.
    """
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.report.fold import fold

    async def read() -> Report:
        async with Reader.open(find_run(Path(workspace), run_id)) as reader:
            return await fold(reader)

    return _run_blocking(read)


def frames(run_id: str, *, workspace: Path | str = ".") -> Frames:
    """Return the data of a run as pandas data frames: ``items``, ``hits``, ``verdicts`` and ``calls``.

    Raises:
        UsageError: there is no such run, or pandas is not installed.
        JournalError: the journal of the run cannot be read.
    """
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.report.exports.frames import load_frames

    async def read() -> Frames:
        async with Reader.open(find_run(Path(workspace), run_id)) as reader:
            return await load_frames(reader)

    return _run_blocking(read)


def compare(
    *jobs: str,
    benchmark: str | None = None,
    providers: Sequence[str] = (),
    metric: str | Sequence[str] = (),
    force: bool = False,
    workspace: Path | str = ".",
) -> Comparisons:
    """Compare the results of jobs.

    A job is ``RUN_ID:PROVIDER[:MODEL]``. Instead of jobs, ``benchmark`` and ``providers`` choose the newest run of each
    provider.

    ``metric`` names the metrics to compare. Each of these metrics is a headline, which is a main result of the
    comparison. By default, all metrics are compared, and the first metric of the benchmark is the headline.

    Raises:
        UsageError: fewer than two jobs, an unknown job, or (without ``force``) jobs that are not comparable.
    """
    from bench.report.comparison.compare import compare_sides
    from bench.report.comparison.comparison_targets import parse_targets, sides_of

    folder, metrics = Path(workspace), [metric] if isinstance(metric, str) else list(metric)

    async def read() -> Comparisons:
        chosen = await parse_targets(folder, jobs, benchmark=benchmark, providers=providers)
        groups = await sides_of(folder, [target for target, _ in chosen], benchmark=benchmark)
        return compare_sides(groups, metrics=metrics, force=force)

    return _run_blocking(read)


def _run_blocking(read: Callable[[], Awaitable[T]]) -> T:
    """Call the coroutine function ``read``, wait until it ends, and return its result.

    If an event loop is already running, as in a notebook, use a separate thread.
    """
    import asyncio

    import anyio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(read)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, read).result()
