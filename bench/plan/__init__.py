"""Plan a run: collect everything that the run will do in one frozen value. Planning reads files and makes no call.

Example::

    from bench.plan import make_plan

    plan = make_plan(Catalog.load(Path(".")), RunRequest(benchmarks=("locomo",)), Environment.load(Path(".")))
    plan.digest, [lane.key for lane in plan.running], [job.key for job in plan.jobs]

``build`` makes a plan from flags and configs. ``identity`` collects the settings that must be equal when a run is
resumed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bench.lazy_exports import CallablePackage, lazy_exports

if TYPE_CHECKING:
    from bench.plan.build import make_plan
    from bench.plan.cost_estimate import Estimate, estimate
    from bench.plan.identity import changes, digest
    from bench.plan.model import NONE, BenchmarkPlan, Job, Lane, Plan, ProviderPlan

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

__getattr__ = lazy_exports(
    __name__,
    build="make_plan",
    cost_estimate="Estimate estimate",
    identity="changes digest",
    model="BenchmarkPlan Job Lane NONE Plan ProviderPlan",
)
sys.modules[__name__].__class__ = CallablePackage
