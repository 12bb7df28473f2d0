"""An external plug-in: a provider, an evaluator and a metric, found by entry points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Row, ScoredItem, Space, Verdict
from bench.providers import ProviderContext


class Newest:
    """A provider that returns the newest memories."""

    version = "1.0"

    def __init__(self, config: object, context: ProviderContext) -> None:
        self._stored: dict[str, list[Memory]] = {}

    async def __aenter__(self) -> Newest:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stored.clear()

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        self._stored.setdefault(space.namespace, []).extend(memories)
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        return Readiness(state="ready")

    async def search(self, space: Space, query: Query) -> Found:
        stored = self._stored.get(space.namespace, [])
        named = [memory for memory in stored if query.text and query.text in memory.content]
        newest = [memory for memory in reversed(stored) if memory not in named]
        hits = tuple(
            Hit(id=memory.id, content=memory.content, source_ids=(memory.id,))
            for memory in [*named, *newest][: query.k]
        )
        return Found(hits=hits, requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int:
        return len(self._stored.pop(space.namespace, ()))


class Shouting:
    """Correct when the answer is in capitals."""

    name = "shouting"
    needs_judge = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: object) -> Verdict:
        loud = answer.isupper()
        return Verdict(evaluator=self.name, value=float(loud), correct=loud, reason="in capitals" if loud else "not")


class AnswerWords:
    """How many words an answer has."""

    name = "answer_words"
    definition = "answer_words/1"
    category = "custom"
    unit: str | None = "words"
    lower_is_better = True
    params: Mapping[str, object] = {}

    def score(self, row: Row) -> float | None:
        return None if row.prediction is None else float(len(row.prediction.split()))
