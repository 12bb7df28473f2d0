"""The plan: everything a run will do, as one frozen value with a digest. Files are read, nothing is called.

Example::

    from bench.plan import make_plan

    plan = make_plan(Catalog.load(Path(".")), RunRequest(benchmarks=("locomo",)), Environment.load(Path(".")))
    plan.digest, [lane.key for lane in plan.running], [job.key for job in plan.jobs]

Where things are: ``making`` the way from flags to plan, ``benchmarks`` and ``providers`` its two halves, ``prompts``
and ``scoring`` what an answer is asked and judged with, ``identity`` and ``identitytree`` what must be equal on
resume, ``estimate`` what a run would cost.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from bench.rooms import CallableRoom

if TYPE_CHECKING:
    from bench.plan.estimate import Estimate, estimate
    from bench.plan.identity import changes, digest
    from bench.plan.making import make_plan
    from bench.plan.shape import NONE, BenchmarkPlan, Job, Lane, Plan, ProviderPlan

__all__ = [
    "NONE",
    "BenchmarkPlan",
    "Estimate",
    "Job",
    "Lane",
    "Plan",
    "ProviderPlan",
    "changes",
    "digest",
    "estimate",
    "make_plan",
]

_HOME = {
    "Estimate": "estimate",
    "estimate": "estimate",
    "changes": "identity",
    "digest": "identity",
    "make_plan": "making",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(name)
    value: object = getattr(import_module(f"bench.plan.{_HOME.get(name, 'shape')}"), name)
    # the submodule ``estimate`` would shadow the function of the same name
    globals()[name] = value
    return value


sys.modules[__name__].__class__ = CallableRoom
