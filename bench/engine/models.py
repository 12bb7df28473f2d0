"""Open each model of a run once: answering models, judges, embedders and evaluators.

Example::

    models = open_models(run)              # a missing key is a ConfigError here, before any call
    await models.model("openai/gpt-4o-mini").complete(prompt)
    models.judge("none")                     # None
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
    from bench.engine.run_context import RunContext
    from bench.models.call_cache import CallCache


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModels:
    """The open models of a run: models and judges by full name, embedders and evaluators by lane."""

    models: Mapping[str, Model]
    judges: Mapping[str, Judge]
    embedders: Mapping[str, Embedder]
    evaluators_by_lane: Mapping[str, tuple[Evaluator, ...]]
    cache: CallCache | None = None
    batches: JournaledBatches | None = None
    unbatched_judges: Mapping[str, Judge] = field(default_factory=dict)
    """the judges again, but each call is sent at once instead of in a batch"""

    def model(self, name: str) -> Model:
        return self.models[name]

    def judge(self, name: str) -> Judge | None:
        return self.judges.get(name)

    def unbatched_judge(self, name: str) -> Judge | None:
        return self.unbatched_judges.get(name) or self.judges.get(name)

    def evaluators(self, lane: Lane) -> tuple[Evaluator, ...]:
        return self.evaluators_by_lane[lane.key]

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()


@dataclass(frozen=True, slots=True)
class CallPricing:
    """A function that returns the cost of a model call, from the prices of the run file or the price table."""

    prices: Mapping[str, Mapping[str, Decimal]]
    _unknown: set[str] = field(default_factory=set)
    """models without a known price, kept because a lookup takes half a millisecond"""

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


def open_models(run: RunContext) -> OpenModels:
    """Open every model that a lane of the run uses.

    Raises:
        ConfigError: a model is unknown, or an environment variable that it needs is not set.
    """
    from bench.models.chat import SchemaJudge

    cache = open_cache(run)
    batches = JournaledBatches(run) if run.plan.request.batch else None
    opener = ModelOpener(run, CallPricing(run.plan.request.token_prices), cache, batches)
    unbatched = replace(opener, batches=None)
    jobs = [job for lane in run.plan.running for job in lane.jobs]
    names = dict.fromkeys(job.answering for job in jobs if job.answering != NONE)
    judges = dict.fromkeys(job.judge for job in jobs if job.judge != NONE)
    embedders = {lane.key: opener.embedder(lane) for lane in run.plan.running if lane.provider.embedding is not None}
    return OpenModels(
        models={name: opener.model(name, "answering") for name in names},
        judges={name: SchemaJudge(opener.model(name, "judge")) for name in judges},
        embedders=embedders,
        evaluators_by_lane={lane.key: lane.benchmark.scoring.open(opener.scorer(lane)) for lane in run.plan.running},
        cache=cache,
        batches=batches,
        unbatched_judges={}
        if batches is None
        else {name: SchemaJudge(unbatched.model(name, "judge")) for name in judges},
    )


def open_cache(run: RunContext) -> CallCache | None:
    """Open the cache of model calls in the workspace; None if the run does not use it."""
    mode = run.plan.request.cache
    if mode is None:
        return None
    from bench.models.call_cache import CACHE_FILE, CallCache

    cache = CallCache(run.plan.workspace / CHECKPOINTS / CACHE_FILE, mode=mode)
    cache.open()
    return cache


@dataclass(frozen=True, slots=True)
class ModelOpener:
    """Opens the models of a run, all with the same prices, cache and batches."""

    run: RunContext
    price: CallPricing
    cache: CallCache | None = None
    batches: JournaledBatches | None = None
    _embedders: dict[tuple[str, ClientEmbeddings | None], Embedder] = field(default_factory=dict)
    """one embedder for each model with its options, so that lanes share vectors"""

    def model(self, name: str, role: Literal["answering", "judge"]) -> Model:
        from bench.models import open_model

        run = self.run
        return open_model(
            name,
            http=run.http,
            environment=run.environment,
            role=role,
            files=run.plan.model_files,
            price=self.price,
            cache=self.cache,
            batches=self.batches,
        )

    def embedder(self, lane: Lane) -> Embedder:
        """Return the embedder for a provider that gets its vectors from bench."""
        name, options = lane.provider.embedding, lane.provider.config.client_embeddings
        assert options is not None and name is not None
        return self._embedder(name, options.model_copy(update={"model": name}))

    def scorer(self, lane: Lane) -> Embedder | None:
        """Return the embedder with which evaluators compare meanings; None if the benchmark has no such evaluator."""
        name = lane.benchmark.scoring.embedding
        return None if name is None else self._embedder(name, None)

    def _embedder(self, name: str, options: ClientEmbeddings | None) -> Embedder:
        from bench.models import open_embedder

        run, files = self.run, self.run.plan.model_files
        if (name, options) not in self._embedders:
            self._embedders[name, options] = open_embedder(
                name, http=run.http, environment=run.environment, files=files, options=options, price=self.price
            )
        return self._embedders[name, options]
