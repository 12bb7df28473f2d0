"""Count the calls of a run and their cost, and stop the run when ``--max-cost`` is used up.

Example::

    budget = Budget(max_usd=Decimal(5), stopping=stopping, progress=progress)
    budget.resume(Decimal("1.20"), unknown=0)       # spent by earlier processes of this run
    budget.spend(call)                              # after each call, also a failed one
"""

from __future__ import annotations

from decimal import Decimal

from bench.engine.progress import Progress
from bench.engine.stopping import Stop, StopControl
from bench.model import Call

TOO_MANY = 429


class Budget:
    """The budget of a run in USD. When the budget is used up, the run is asked to stop."""

    def __init__(self, *, max_usd: Decimal | None, stopping: StopControl, progress: Progress) -> None:
        self._max_usd = max_usd
        self._stopping = stopping
        self._progress = progress

    def resume(self, spent_usd: Decimal, unknown: int) -> None:
        """Add the money that earlier processes spent; ``unknown`` is their number of calls with unknown cost."""
        self._progress.cost_usd += spent_usd
        self._progress.earlier_usd += spent_usd
        self._progress.unknown_costs += unknown
        self._stop_when_spent()

    def spend(self, call: Call) -> None:
        """Add the cost of a call that has just ended, and ask the run to stop if the budget is used up."""
        progress = self._progress
        progress.calls += 1
        progress.rate_limited += call.status == TOO_MANY
        if call.cost_usd is not None:
            progress.cost_usd += Decimal(call.cost_usd)
        elif call.outcome == "ok" or call.reports_usage:
            progress.unknown_costs += 1
        self._stop_when_spent()

    def _stop_when_spent(self) -> None:
        if self._max_usd is not None and self._progress.cost_usd >= self._max_usd:
            self._stopping.request(Stop.MAX_COST)
