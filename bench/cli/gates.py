"""``--min-score METRIC=V``: a quality gate for CI; a gate on a number that is not there is missed too.

Example::

    check_gates(plan)                   # UsageError before anything is called
    missed_gates(plan, report)          # a line for each job below its gate
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.plan import Plan
    from bench.report import Report


def check_gates(plan: Plan) -> None:
    """A gate on a metric that nobody computes, or without a number, is said before anything is called."""
    known = {_first_name(metric.name) for lane in plan.lanes for metric in lane.benchmark.scoring.metrics}
    for name, wanted in plan.request.min_score.items():
        if _first_name(name) not in known:
            raise UsageError(f"--min-score {name}: no benchmark of this run computes it", hint="add it with --metrics")
        if not _is_number(wanted):
            raise UsageError(f"--min-score {name}={wanted}: expected a number")


def _is_number(wanted: object) -> bool:
    """No value is below NaN: such a gate would hold whatever comes."""
    try:
        return isfinite(float(str(wanted)))
    except ValueError:
        return False


def _first_name(metric: str) -> str:
    """The name under which all spellings of a metric are one; a plug-in beside a config has only its own."""
    from bench.errors import UnknownMetric
    from bench.metrics import resolve

    try:
        return resolve(metric).name
    except UnknownMetric:
        return metric


def missed_gates(plan: Plan, report: Report) -> list[str]:
    """Which ``--min-score`` gates are missed; a gate on a number that is not there is missed too."""
    missed = []
    for name, wanted in plan.request.min_score.items():
        metric = _first_name(name)
        for job in report.jobs:
            named = {_first_name(one): measured for one, measured in job.metrics.items()}
            found = named.get(metric) if job.valid else None
            value = found.value if found is not None else None
            if value is None or value < float(str(wanted)):
                who = f"{job.record.benchmark} x {job.record.provider}"
                missed.append(f"gate missed: {who}: {metric} = {value}, at least {wanted} wanted")
    return missed
