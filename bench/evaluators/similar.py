"""Semantic similarity: the best cosine between the answer's embedding and those of the accepted answers.

Example::

    SimilarityEvaluator(embedder=embedder, threshold=0.8)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.evaluators.byrule import verdict
from bench.evaluators.protocol import Judge
from bench.evaluators.refusals import is_refusal
from bench.metrics.similarity import cosine
from bench.model import Embedder, Hit, ScoredItem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityEvaluator:
    """A value below 0 (opposite directions) counts as 0; model and dimension go with each verdict."""

    embedder: Embedder
    threshold: float = 0.8
    name: str = "semantic-similarity"
    needs_judge: bool = False

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        refused = is_refusal(answer, item.refusals)
        if item.abstention or not item.answers:
            value = float(refused) if item.abstention else None
            return verdict(self.name, value, self.threshold, refused=refused, reason="no_reference")
        mine, *golds = await self.embedder.embed([answer, *item.answers], kind="document")
        value = max(0.0, *(cosine(mine, gold) for gold in golds))
        found = verdict(self.name, value, self.threshold, refused=refused)
        return replace(found, judged=True, model=self.embedder.name, raw=f"{len(mine)} dimensions")
