"""What of a plan one process does: everything that is missing, or less, or the scoring anew.

Example::

    Errand()                                          # run, resume
    Errand(only=await failed_items(folder))           # retry: failures and nothing else
    Errand(generation=2)                              # rescore: stored answers, new verdicts, no provider called
    Errand(first=copying(source, plan, Phase.ANSWER)) # fork: begin with another run's rows
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """The part of a plan that is done."""

    only: frozenset[str] | None = None
    """item ids; None = all"""
    generation: int = 0
    """above 0: every stored answer is scored again, as this generation"""
    first: Callable[[Journal], Awaitable[None]] | None = None
    """puts rows into the journal before anything is looked up in it"""

    @property
    def rescores(self) -> bool:
        return self.generation > 0
