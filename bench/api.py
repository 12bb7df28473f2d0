"""The Python API: the same functions as the command line uses, with the flags of ``bench run`` as arguments.

Example::

    import bench

    plan = bench.plan(benchmarks="demo", providers=["bm25", "oracle"], k=5)
    outcome = await bench.run(plan)
    report = await bench.report(outcome.run_id)
    report.jobs[0].metrics["ndcg_at_10"].value

Everything is imported when it is first called, so ``import bench`` stays cheap.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.engine import Observer, Outcome
    from bench.plan import Plan
    from bench.report import Report


def plan(*, workspace: Path | str = ".", env_file: Path | None = None, **flags: object) -> Plan:
    """Plan a run; ``flags`` are those of ``bench run`` in snake_case.

    Raises:
        UsageError, ConfigError, DataError: as the command line would say before anything starts.
    """
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.plan.making import make_plan
    from bench.settings import Environment

    folder = Path(workspace)
    request = RunRequest.combine(None, flags)
    return make_plan(Catalog.load(folder), request, Environment.load(folder, env_file))


async def run(plan: Plan, *, observer: Observer | None = None, env_file: Path | None = None) -> Outcome:
    """Execute a plan from :func:`plan`; errors of single items are in the outcome, not raised."""
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
    """Go on with a run; ``flags`` may change how, never what.

    Raises:
        IdentityError: the experiment is not the one the run was started with.
    """
    from bench.config.catalog import Catalog
    from bench.engine import execute, resumed_plan
    from bench.settings import Environment

    folder = Path(workspace)
    environment = Environment.load(folder, env_file)
    path, rest = await resumed_plan(run_id, catalog=Catalog.load(folder), flags=flags, environment=environment)
    return await execute(rest, environment=environment, observer=observer, resume=path)


async def report(run_id: str, *, workspace: Path | str = ".") -> Report:
    """Fold a run's journal into its report; works on an unfinished run too."""
    from bench.journal import Reader
    from bench.journal.places import find_run
    from bench.report.fold import fold

    async with Reader.open(find_run(Path(workspace), run_id)) as reader:
        return await fold(reader)
