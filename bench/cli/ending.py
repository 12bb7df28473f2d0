"""What a run's end brings: the tables, the ``done`` event, the signature, the user's own command.

How a run comes to its end is not here: see :mod:`bench.cli.running`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli import console
from bench.cli.global_flags import command, current

if TYPE_CHECKING:
    from bench.engine import Outcome
    from bench.plan import Plan
    from bench.report import Report


def show(outcome: Outcome, report: Report, folder: Path) -> None:
    from bench.cli.results import show_grids
    from bench.report.tables import matrix, overview

    if outcome.message:
        console.note(outcome.message if outcome.status == "complete" else f"{outcome.status}: {outcome.message}")
    show_grids([*overview(report, width=console.width()), *matrix(report, width=console.width())])
    if outcome.cost_usd != "0" or outcome.unknown_costs:
        unknown = f" (at least: {outcome.unknown_costs} calls without a known price)" if outcome.unknown_costs else ""
        console.note(f"cost USD {outcome.cost_usd}{unknown}")
    console.line(f"results: {folder}")
    console.note(_next_step(outcome))


def _next_step(outcome: Outcome) -> str:
    if outcome.resume is not None:
        return f"next: {command(outcome.resume)}"
    return f"next: {command(f'bench results {outcome.run_id}')}"


def done_event(outcome: Outcome, report: Report, code: int) -> dict[str, object]:
    from bench.report.wire import done_job

    return {
        "event": "done",
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "exit_code": code,
        "message": outcome.message,
        "jobs": [done_job(job) for job in report.jobs],
        "cost_usd": outcome.cost_usd,
        "cost_unknown_calls": outcome.unknown_costs,
        "resume": command(outcome.resume) if outcome.resume else None,
    }


def sign(plan: Plan, outcome: Outcome) -> int:
    """Sign in a child process: the process that runs providers never reads the signing key."""
    words = [sys.executable, "-m", "bench", "--workspace", str(plan.workspace), "sign", outcome.run_id]
    if plan.request.key:
        words += ["--key", plan.request.key]
    return subprocess.run(words, stdout=_spoken_by_others(), check=False).returncode  # noqa: S603  our own program


def _spoken_by_others() -> int | None:
    """Where a child process prints: with ``--json`` our stdout holds events only."""
    return sys.stderr.fileno() if current.get().json else None


def on_end(plan: Plan, outcome: Outcome, code: int) -> None:
    """Start ``--on-end`` with the run's id and exit code in its environment; its failure is told, no more."""
    import os

    if plan.request.on_end is None:
        return
    variables = {**os.environ, "BENCH_RUN_ID": outcome.run_id, "BENCH_EXIT_CODE": str(code)}
    words: Sequence[str] = shlex.split(plan.request.on_end)
    try:
        done = subprocess.run(words, env=variables, stdout=_spoken_by_others(), check=False)  # noqa: S603  the user's own
    except OSError as error:
        console.note(f"--on-end: {words[0]}: {error.strerror}")
        return
    if done.returncode:
        console.note(f"--on-end: {words[0]} ended with {done.returncode}")
