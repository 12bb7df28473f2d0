"""The engine: who does what next. Knows phases, corpora and items; knows no HTTP, no SQL, no metric.

Example::

    from bench.engine import execute

    outcome = await execute(plan, environment=environment, observer=display)
    outcome.status, outcome.exit_code, outcome.resume

Read it in this order: ``run`` opens and closes a run, ``lane`` sets workers to work, ``corpus`` brings a corpus to
ready (``ingesting``, ``indexing``, ``isolation``), ``asking`` takes an item through ``searching``, ``answering`` and
``evaluating``. ``live`` has the one broad ``except``, ``stopping`` every reason to end early.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.engine.errand import Errand
    from bench.engine.outcome import JobOutcome, Outcome
    from bench.engine.progress import Observer, Progress, Silent
    from bench.engine.resuming import resumed_plan
    from bench.engine.reusing import failed_items, forked_plan, rescored_plan
    from bench.engine.run import execute
    from bench.engine.stopping import Stop

__all__ = [
    "Errand",
    "JobOutcome",
    "Observer",
    "Outcome",
    "Progress",
    "Silent",
    "Stop",
    "execute",
    "failed_items",
    "forked_plan",
    "rescored_plan",
    "resumed_plan",
]

_HOME = {
    "Errand": "errand",
    "failed_items": "reusing",
    "forked_plan": "reusing",
    "rescored_plan": "reusing",
    "JobOutcome": "outcome",
    "Outcome": "outcome",
    "Observer": "progress",
    "Progress": "progress",
    "Silent": "progress",
    "Stop": "stopping",
    "execute": "run",
    "resumed_plan": "resuming",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(name)
    return getattr(import_module(f"bench.engine.{_HOME[name]}"), name)
