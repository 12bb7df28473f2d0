"""The engine of bench: it runs the phases of all corpora and items of a plan.

Example::

    from bench.engine import execute

    outcome = await execute(plan, environment=environment, observer=display)
    outcome.status, outcome.exit_code, outcome.resume

Read ``run`` first: it opens and closes a run. Then read ``lane``: it starts the workers. ``corpora.corpus`` prepares a
corpus, and ``items.item_pipeline`` runs the phases of an item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from bench.engine.outcome import JobOutcome, Outcome
    from bench.engine.progress import Observer, Progress, SilentObserver
    from bench.engine.resume import failed_items, forked_plan, rescored_plan, resumed_plan
    from bench.engine.run import execute
    from bench.engine.run_context import RunScope
    from bench.engine.stopping import Stop

__all__ = [
    "JobOutcome",
    "Observer",
    "Outcome",
    "Progress",
    "RunScope",
    "SilentObserver",
    "Stop",
    "execute",
    "failed_items",
    "forked_plan",
    "rescored_plan",
    "resumed_plan",
]

__getattr__ = lazy_exports(
    __name__,
    outcome="JobOutcome Outcome",
    progress="Observer Progress SilentObserver",
    resume="failed_items forked_plan rescored_plan resumed_plan",
    run="execute",
    run_context="RunScope",
    stopping="Stop",
)
