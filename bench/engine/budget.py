"""Money as it is spent: adds up the ledger, and stops the run at ``--max-cost``.

Example::

    budget = Budget(max_usd=Decimal("5"), stopping=stopping, progress=progress)
    budget.resume(*await journal.spending())     # what earlier processes of this run spent
    budget.spend(calls)                          # a call of unknown price counts as 0 and is counted apart

The budget is that of the run: resume, retry and rescore continue with what is left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bench.engine.progress import Progress
from bench.engine.stopping import Stop, Stopping
from bench.model import Call

TOO_MANY = 429


class Budget:
    """The run's spending."""

    def __init__(self, *, max_usd: Decimal | None, stopping: Stopping, progress: Progress) -> None:
        self._max_usd = max_usd
        self._stopping = stopping
        self._progress = progress

    def resume(self, spent_usd: Decimal, unknown: int) -> None:
        """Begin with what the journal holds, and ask to stop when nothing is left."""
        self._progress.cost_usd += spent_usd
        self._progress.earlier_usd += spent_usd
        self._progress.unknown_costs += unknown
        self._stop_when_spent()

    def spend(self, calls: Sequence[Call]) -> None:
        """Add what these calls cost, and ask to stop once nothing is left."""
        progress = self._progress
        for call in calls:
            progress.calls += 1
            progress.rate_limited += call.status == TOO_MANY
            if call.cost_usd is not None:
                progress.cost_usd += Decimal(call.cost_usd)
            elif call.outcome == "ok":
                progress.unknown_costs += 1
        self._stop_when_spent()

    def _stop_when_spent(self) -> None:
        if self._max_usd is not None and self._progress.cost_usd >= self._max_usd:
            self._stopping.ask(Stop.MAX_COST)
