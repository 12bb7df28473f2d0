"""The evidence level: whether ranks are turns or sessions, and what a hit stands for at it.

Turn level only when memories are turns and the benchmark has turn evidence; a turn is never claimed found because
its session was::

    level = evidence_level(config, unit="session", turn_evidence=True)     # "session"
    gold_ids(item, level), stands_for([rendered], level)
    ranks([[rendered_a], [rendered_b]], level=level, unit="turn", k=10)     # ids a slot, ready for metrics
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from bench.config.benchmark import BenchmarkConfig
from bench.config.benchmark.terms import Unit
from bench.datasets.memories import RenderedMemory
from bench.model import Item

Level = Literal["turn", "session"]


def evidence_level(config: BenchmarkConfig, *, unit: Unit, turn_evidence: bool) -> Level:
    """The level of a job whose memories are ``unit``."""
    wanted = config.evaluation.granularity
    return "turn" if unit == "turn" and turn_evidence and wanted != "session" else "session"


def gold_ids(item: Item, level: Level, *, score_retrieval: bool = False) -> tuple[str, ...]:
    """The ids to be found; none for an abstention item unless its retrieval is scored: then it is excluded."""
    if item.abstention and not score_retrieval:
        return ()
    return item.evidence.turns if level == "turn" else item.evidence.sessions


def stands_for(memories: Iterable[RenderedMemory], level: Level) -> tuple[str, ...]:
    """The ids of the level that the source memories of one hit stand for, each once."""
    ids = (name for memory in memories for name in (memory.turns if level == "turn" else memory.sessions))
    return tuple(dict.fromkeys(ids))


def ranks(
    hits: Iterable[Sequence[RenderedMemory]], *, level: Level, unit: Unit, k: int | None = None
) -> list[tuple[str, ...]]:
    """One entry a slot, in the provider's order.

    Turns that fold up to sessions: the first hit of a session keeps its rank, later ones are dropped, then cut at k.
    Unmapped hits keep their slot.
    """
    slots = [stands_for(sources, level) for sources in hits]
    if unit == "turn" and level == "session":
        slots = list(_first_of_each(slots))
    return slots if k is None else slots[:k]


def _first_of_each(slots: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    seen: set[str] = set()
    for ids in slots:
        fresh = tuple(name for name in ids if name not in seen)
        seen.update(fresh)
        if fresh or not ids:
            yield fresh
