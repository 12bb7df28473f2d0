"""The models of a run, each opened once: answering models, judges, embedders; and each benchmark's evaluators.

Example::

    readers = open_readers(live)              # a missing key is a ConfigError here, before any call
    await readers.model("openai/gpt-4o-mini").complete(prompt)
    readers.judge("none")                     # None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from bench.engine.batches import JournaledBatches
from bench.evaluators import Evaluator, Judge
from bench.journal.paths import CHECKPOINTS
from bench.model import Embedder, Model, Usage
from bench.plan import NONE, Lane

if TYPE_CHECKING:
    from bench.config.provider.sections import ClientEmbeddings
    from bench.engine.run_context import Live
    from bench.models.call_cache import CallCache
    from bench.models.embedding import EmbeddingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The open models of a run by full name."""

    models: Mapping[str, Model]
    judges: Mapping[str, Judge]
    embedders: Mapping[str, Embedder]
    by_lane: Mapping[str, tuple[Evaluator, ...]]
    cache: CallCache | None = None
    batches: JournaledBatches | None = None
    alone: Mapping[str, Judge] = field(default_factory=dict)
    """the judges without batching, for use where a call must not wait for a batch"""

    def model(self, name: str) -> Model:
        return self.models[name]

    def judge(self, name: str) -> Judge | None:
        return self.judges.get(name)

    def judge_alone(self, name: str) -> Judge | None:
        return self.alone.get(name) or self.judges.get(name)

    def evaluators(self, lane: Lane) -> tuple[Evaluator, ...]:
        return self.by_lane[lane.key]

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """The price of a model call: from the run file, or else from the price table."""

    prices: Mapping[str, Mapping[str, Decimal]]
    _unknown: set[str] = field(default_factory=set)
    """names that are missing in the table, since a lookup costs half a millisecond per call"""

    def __call__(
        self, name: str, usage: Usage, *, returned: str | None, when: datetime, batch: bool = False
    ) -> str | None:
        from bench.metrics import cost

        if name in self._unknown:
            return None
        provider, _, model = name.partition("/")
        found = cost(usage, provider=provider, model=model, at=when, prices=self.prices, batch=batch)
        if found is None and usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens:
            self._unknown.add(name)
        return None if found is None else str(found)


def open_readers(live: Live) -> Readers:
    """Open every model that a lane of the run uses.

    Raises:
        ConfigError: an unknown name or an unset environment variable.
    """
    from bench.models.chat import SchemaJudge

    cache = open_cache(live)
    batches = JournaledBatches(live) if live.plan.request.batch else None
    opening = ModelOpening(live, OwnPrice(live.plan.request.token_prices), cache, batches)
    alone = replace(opening, batches=None)
    jobs = [job for lane in live.plan.running for job in lane.jobs]
    names = dict.fromkeys(job.answering for job in jobs if job.answering != NONE)
    judges = dict.fromkeys(job.judge for job in jobs if job.judge != NONE)
    embedders = {lane.key: opening.embedder(lane) for lane in live.plan.running if lane.provider.embedding is not None}
    return Readers(
        models={name: opening.model(name, "answering") for name in names},
        judges={name: SchemaJudge(opening.model(name, "judge")) for name in judges},
        embedders=embedders,
        by_lane={lane.key: lane.benchmark.scoring.open(opening.scorer(lane)) for lane in live.plan.running},
        cache=cache,
        batches=batches,
        alone={} if batches is None else {name: SchemaJudge(alone.model(name, "judge")) for name in judges},
    )


def open_cache(live: Live) -> CallCache | None:
    """Open the workspace's call cache, if the run uses it."""
    mode = live.plan.request.cache
    if mode is None:
        return None
    from bench.models.call_cache import CACHE_FILE, CallCache

    cache = CallCache(live.plan.workspace / CHECKPOINTS / CACHE_FILE, mode=mode)
    cache.open()
    return cache


@dataclass(frozen=True, slots=True)
class ModelOpening:
    """The settings with which a run opens its models: prices, call cache and batches."""

    live: Live
    price: OwnPrice
    cache: CallCache | None = None
    batches: JournaledBatches | None = None
    _embedders: dict[tuple[str, EmbeddingOptions | None], Embedder] = field(default_factory=dict)
    """one embedder per model and options, so that lanes share vectors"""

    def model(self, name: str, role: Literal["answering", "judge"]) -> Model:
        from bench.models import open_model

        live = self.live
        return open_model(
            name,
            http=live.http,
            environment=live.environment,
            role=role,
            files=live.plan.model_files,
            price=self.price,
            cache=self.cache,
            batches=self.batches,
        )

    def embedder(self, lane: Lane) -> Embedder:
        """Return the embedder of a provider that gets vectors from bench, with the options of its config."""
        rule = lane.provider.config.client_embeddings
        assert rule is not None and lane.provider.embedding is not None
        return self._embedder(lane.provider.embedding, embedding_options(rule))

    def scorer(self, lane: Lane) -> Embedder | None:
        """Return the embedder of evaluators that compare meanings, or None."""
        name = lane.benchmark.scoring.embedding
        return None if name is None else self._embedder(name, None)

    def _embedder(self, name: str, options: EmbeddingOptions | None) -> Embedder:
        from bench.models import open_embedder

        live, files = self.live, self.live.plan.model_files
        if (name, options) not in self._embedders:
            self._embedders[name, options] = open_embedder(
                name, http=live.http, environment=live.environment, files=files, options=options, price=self.price
            )
        return self._embedders[name, options]


def embedding_options(rule: ClientEmbeddings) -> EmbeddingOptions:
    """Return the embedding options of a provider's config."""
    from bench.models.embedding import EmbeddingOptions

    return EmbeddingOptions(
        dimensions=rule.dimensions,
        batch=rule.batch,
        normalize=rule.normalize,
        query_prefix=rule.query_prefix,
        document_prefix=rule.document_prefix,
    )
