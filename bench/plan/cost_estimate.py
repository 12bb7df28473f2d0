"""Estimate the calls, tokens, cost and shortest possible time of a run, and check its prices.

Example::

    found = estimate(plan)
    found.calls, found.cost_usd, found.least_s          # 5958, Decimal("1.24") or None, 119.2 or None
    check_prices(catalog, request.prices, files)         # UsageError: prices contains "mem1", ...
    call_prices(request.prices, lane.provider).search    # Decimal, or None

The estimate assumes that every item is run, and that every prompt contains as much context as its limits allow. The
lengths of questions, answers and verdicts are assumed values. The size of a memory is the mean over a few corpora.

If a price is unknown, the whole cost is unknown, never 0. The shortest time follows from the rate limits. Without rate
limits, it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from bench.config.builtin_providers import BUILT_IN
from bench.config.catalog import Catalog
from bench.config.traffic import CallPrices, Prices, TokenPrices
from bench.errors import ConfigError, UsageError
from bench.evaluators.graded import AUDIT, SEVERAL_CALLS
from bench.model import Usage
from bench.models.names import prefixes, with_vendor
from bench.plan.model import NONE, BenchmarkPlan, Lane, Plan, ProviderPlan
from bench.plan.provider import load_named
from bench.providers.builtin.base import BATCH_ITEMS
from bench.providers.endpoints import endpoint_of
from bench.tokens import CHARS_PER_TOKEN, token_quarters
from bench.visible_text import money_text

LOWEST = Decimal("0.005")
"""token price in USD per million tokens that is lower than every list price"""


def call_prices(prices: Prices, provider: ProviderPlan) -> CallPrices:
    """Return the prices of a provider's calls.

    The run can set prices under the name of the variant, of the provider, or of an alias of the provider. For each kind
    of call, the first of these names with a price counts. If no name has a price, the provider's config is used.
    """
    found = provider.config.prices
    for name in (*provider.config.aliases, provider.config.name, provider.variant or provider.label):
        own = prices.get(name)
        if isinstance(own, CallPrices):
            found = found.model_copy(update=own.model_dump(exclude_none=True))
    return found


def check_prices(catalog: Catalog, prices: Prices, files: Iterable[str]) -> None:
    """Raise an error if a price is set for an unknown name. ``files`` contains the prefixes of the model files.

    Raises:
        UsageError: a name is neither a provider nor a model.
    """
    for _, problem in unknown_names(catalog, prices, files):
        raise problem


def unknown_names(catalog: Catalog, prices: Prices, files: Iterable[str]) -> Iterator[tuple[str, UsageError]]:
    """Yield each name in the prices that is neither a provider nor a model, and the error for this name."""
    for name in prices:
        prefix, slash, _ = name.partition("/")
        if slash:
            known = sorted({*prefixes(), *files, "builtin"})
            if prefix not in known:
                yield name, _unknown(name, prefix, known, "model")
        elif not _is_provider(catalog, name.partition("@")[0]):
            if (full := with_vendor(name)) != name:
                hint = f'write "{full}"'
                yield name, UsageError(f'"prices" contains "{name}", which is not a full model name', hint=hint)
                continue
            known = [*BUILT_IN, *(entry.name for entry in catalog.providers())]
            yield name, _unknown(name, name, known, "provider")


def unused_prices(prices: Prices, lanes: Sequence[Lane]) -> Iterator[str]:
    """Yield a note for each price whose provider or model the run does not use."""
    models = {name for lane in lanes for name in lane.models}
    chosen = [lane.provider for lane in lanes]
    providers = {name for one in chosen for name in (one.variant or one.label, one.config.name, *one.config.aliases)}
    for name in prices:
        if name not in models | providers:
            yield f'the price of "{name}" has no effect: no model or provider of this run has this name'


def tiny_prices(prices: Prices) -> Iterator[str]:
    """Yield a note for each token price that is lower than every list price.

    Prices are per million tokens. The user may have set a price per token or per thousand tokens.
    """
    for name, price in prices.items():
        known = price.known if isinstance(price, TokenPrices) else {}
        tiny = {kind: usd for kind, usd in known.items() if kind in ("input", "output") and 0 < usd < LOWEST}
        for kind, usd in tiny.items():
            yield (
                f'the {kind} price of "{name}" is USD {usd} per million tokens, lower than any list price: '
                f"if it is a price per thousand tokens, write {(usd * 1000).normalize():f}; "
                f"if it is a price per token, write {(usd * 1_000_000).normalize():f}"
            )


def page_notes(lanes: Sequence[Lane]) -> Iterator[str]:
    """Yield a note for each provider whose searches can need several calls. The estimate counts one call per search."""
    for lane in lanes:
        endpoints = lane.provider.config.endpoints
        page = None if endpoints is None else endpoints.search.page
        if page is not None and page.max_pages > 1:
            yield (
                f"{lane.provider.label}: a search reads up to {page.max_pages} pages with one call each, but calls, "
                "cost and time of a plan count one call per search"
            )


def _is_provider(catalog: Catalog, name: str) -> bool:
    try:
        load_named(catalog, name)
    except UsageError:
        return False
    except ConfigError:  # it is there; its own faults are reported where it is used
        return True
    return True


def _unknown(name: str, part: str, known: Sequence[str], kind_of_name: str) -> UsageError:
    near = get_close_matches(part, known, n=1)
    owner, dot, kind = name.rpartition(".")
    hint = f'did you mean "{near[0]}"?' if near else f"list the known {kind_of_name}s with: bench list {kind_of_name}s"
    if dot and owner in known and kind in CallPrices.model_fields:
        hint = f"write {owner}: {{{kind}: USD}}"
    return UsageError(f'"prices" contains "{name}", but there is no {kind_of_name} with this name', hint=hint)


PROMPT_TOKENS = 200
"""assumed number of tokens of an answer prompt without its context"""
ANSWER_TOKENS = 60
QUESTION_TOKENS = 30
JUDGE_TOKENS = (500, 80)
ENRICHED_TOKENS = 480
"""maximum number of tokens that a language model writes to enrich one chunk"""
SAMPLED_CORPORA, SAMPLED_ITEMS = 5, 50
SENTINEL_SEARCHES = 4
"""number of searches that check if a corpus is ready: two memories are searched once, and one memory twice"""
THOROUGH, THOROUGH_SEARCHES = 2, 6
"""number of corpora of a lane that are checked thoroughly, and number of additional searches per such corpus"""
CONTENT_SEARCHES = 6
"""number of searches that check a corpus before it is kept after the run: two for each of three memories"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEstimate:
    """The estimated calls, tokens and cost at one endpoint."""

    endpoint: str
    calls: int
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: Decimal | None = None
    """estimated cost in USD; None if a price is unknown"""
    rate_per_s: float | None = None

    @property
    def least_s(self) -> float | None:
        """Return the shortest time in seconds that the rate limit allows, or None without a rate limit."""
        return self.calls / self.rate_per_s if self.rate_per_s else None

    def __add__(self, other: EndpointEstimate) -> EndpointEstimate:
        """Add the calls, tokens and cost of another lane at this endpoint. The lanes share one rate limit."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return replace(
            self,
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            cost_usd=(self.cost_usd or 0) + (other.cost_usd or Decimal(0)) if known else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of a whole run."""

    items: int
    corpora: int
    builds: int
    """number of ingests; lanes that differ only in their search share one ingest"""
    searches: int
    """number of searches for questions, over all lanes and epochs, without searches that only check a corpus"""
    endpoints: tuple[EndpointEstimate, ...]

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.endpoints)

    @property
    def cost_usd(self) -> Decimal | None:
        """Return the estimated cost in USD, or None if a price is unknown."""
        costs = [one.cost_usd for one in self.endpoints]
        return None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))

    @property
    def cost_text(self) -> str:
        """Describe the known cost, the assumptions, and the endpoints whose prices are unknown."""
        known = sum((one.cost_usd for one in self.endpoints if one.cost_usd is not None), Decimal(0))
        unknown = [one.endpoint for one in self.endpoints if one.cost_usd is None]
        if unknown:
            return (
                f"cost unknown: about USD {money_text(known)}, plus calls without a known price: {', '.join(unknown)}"
            )
        if not known:
            return "cost USD 0"
        paid = {one.endpoint.rpartition(".")[2] for one in self.endpoints if one.cost_usd}
        lengths = {"answering": f"an answer of {ANSWER_TOKENS}", "judge": f"a verdict of {JUDGE_TOKENS[1]}"}
        assumed = [f"{text} tokens" for role, text in lengths.items() if role in paid]
        return f"cost about USD {money_text(known)}" + (
            f", for {' and '.join(assumed)}; --max-cost is a limit" if assumed else ""
        )

    @property
    def least_s(self) -> float | None:
        """Return the shortest possible time of the run in seconds, or None without rate limits.

        This is the time of the endpoint that needs longest at its rate limit.
        """
        return max((one.least_s for one in self.endpoints if one.least_s is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneSize:
    """The amount of text that a lane sends, estimated from a few of its corpora."""

    corpora: int
    per_corpus: float
    """mean number of memories of a corpus"""
    memory_tokens: int
    """mean number of tokens of a memory"""

    @property
    def memories(self) -> int:
        return math.ceil(self.per_corpus * self.corpora)

    def batches(self, most: int) -> int:
        """Return the number of batches for all corpora. A batch has at most ``most`` memories, all of one corpus."""
        return self.corpora * math.ceil(self.per_corpus / most)


def estimate(plan: Plan) -> Estimate:
    """Estimate all lanes that are not skipped, and the calibrations of judges."""
    endpoints: dict[str, EndpointEstimate] = {}
    corpora = 0
    for lane in plan.running:
        size = _size(lane)
        corpora += 0 if lane.shares else size.corpora
        for one in _lane_estimates(plan, lane, size):
            endpoints[one.endpoint] = endpoints[one.endpoint] + one if one.endpoint in endpoints else one
    for one in _calibration_estimates(plan):
        endpoints[one.endpoint] = endpoints[one.endpoint] + one
    items = sum(lane.benchmark.n_selected * len(lane.jobs) for lane in plan.running)
    return Estimate(
        items=items,
        corpora=corpora,
        builds=len(plan.building),
        searches=sum(lane.benchmark.n_selected * lane.benchmark.epochs for lane in plan.running),
        endpoints=tuple(endpoints.values()),
    )


def _lane_estimates(plan: Plan, lane: Lane, size: _LaneSize) -> Iterator[EndpointEstimate]:
    questions = lane.benchmark.n_selected * lane.benchmark.epochs
    yield from _provider_estimates(plan, lane, size, questions)
    context = min(lane.benchmark.context_budget, lane.benchmark.k * size.memory_tokens)
    answering = [model for model in lane.answering_models if model != NONE]
    for model in answering:
        yield _model_estimate(plan, model, "answering", questions, context + PROMPT_TOKENS, ANSWER_TOKENS)
    for job in lane.jobs:
        if job.judge != NONE:
            calls = math.ceil(questions * _judge_calls(lane, size))
            yield _model_estimate(plan, job.judge, "judge", calls, *JUDGE_TOKENS)
    comparing = lane.benchmark.scoring.embedding
    if comparing is not None and answering:
        yield _model_estimate(plan, comparing, "embedding", questions * len(answering), 2 * ANSWER_TOKENS, 0)


def _judge_calls(lane: Lane, size: _LaneSize) -> float:
    """Estimate the number of judge calls per item.

    An evaluator that judges each point of an answer needs one call per point. An audit of the stored memories needs one
    call per memory.
    """
    scoring, dataset = lane.benchmark.scoring, lane.benchmark.dataset
    several = [name for name in SEVERAL_CALLS if name in scoring.judging]
    if not several:
        return scoring.judge_calls
    refs = list(islice(dataset.items(lane.benchmark.selection), SAMPLED_ITEMS))
    points = sum(len(dataset.item(ref).rubric) for ref in refs) / max(1, len(refs))
    memories = size.per_corpus if AUDIT in several else 0
    return scoring.judge_calls - 1 + max(1.0, points) + memories


def _provider_estimates(plan: Plan, lane: Lane, size: _LaneSize, questions: int) -> Iterator[EndpointEstimate]:
    """Estimate the calls to the memory system, to its embedding model, and to a model that enriches stored texts."""
    provider = lane.provider
    batch, searches = BATCH_ITEMS, questions
    if provider.built_in is None:
        checks = 0 if lane.shares else size.corpora * _check_searches(plan, lane)
        searches = questions + checks + (THOROUGH_SEARCHES * min(THOROUGH, size.corpora) if checks else 0)
        batch = batch_of(lane)
        if not lane.shares:
            yield _provider_estimate(plan, lane, "add", size.batches(batch))
        yield _provider_estimate(plan, lane, "search", searches)
    rule = provider.config.client_embeddings
    if provider.embedding is not None and rule is not None:
        most = batch if provider.config.endpoints is None else rule.batch  # a declared one is embedded ahead
        texts = max(1, min(most, rule.batch, math.ceil(size.per_corpus)))
        query_estimate = _model_estimate(plan, provider.embedding, "embedding", searches, QUESTION_TOKENS, 0)
        stored = _model_estimate(
            plan, provider.embedding, "embedding", size.batches(texts), texts * size.memory_tokens, 0
        )
        yield query_estimate if lane.shares else stored + query_estimate
    if provider.enriched_by is not None and not lane.shares:
        from bench.providers.description import enrichment_settings

        local = enrichment_settings(provider.config)
        assert local is not None, "its model was read from there"
        chunks = size.memories * math.ceil(size.memory_tokens / local.chunking.size)
        shown = size.memory_tokens + local.chunking.size + PROMPT_TOKENS
        yield _model_estimate(plan, provider.enriched_by, "provider", chunks, shown, ENRICHED_TOKENS)


def _check_searches(plan: Plan, lane: Lane) -> int:
    """Return the number of searches per corpus that only check the corpus.

    They check that the namespace is empty before the ingest, and that the corpus is ready and isolated. If the memories
    are kept after the run, further searches check what the provider stored.
    """
    if plan.request.isolation == "off":
        return 0
    kept = CONTENT_SEARCHES if plan.request.cleanup == "never" and lane.provider.built_in is None else 0
    endpoints = lane.provider.config.endpoints
    counts = endpoints is not None and endpoints.count is not None
    return SENTINEL_SEARCHES + kept + (not counts) + (plan.request.isolation == "full")


def batch_of(lane: Lane) -> int:
    """Return the number of memories per add call of a lane."""
    from bench.providers.batching import batch_size

    return batch_size(lane.benchmark.config.ingestion.batch_size, lane.provider.config.ingest.batch.max_items)


def _calibration_estimates(plan: Plan) -> Iterator[EndpointEstimate]:
    """Estimate the calibration of each judge with the judge prompts of each benchmark.

    Yield nothing if the run does not calibrate judges.
    """
    from bench.evaluators.calibration import calls_needed

    if plan.request.judge_calibration or plan.request.publishable:
        pairs = {(lane.benchmark.name, job.judge): lane for lane in plan.running for job in lane.jobs}
        for (_, judge), lane in pairs.items():
            if judge != NONE and "llm-judge" in lane.benchmark.scoring.names:
                calls = calls_needed(lane.benchmark.prompts.judges)
                yield _model_estimate(plan, judge, "judge", calls, *JUDGE_TOKENS)


def _provider_estimate(plan: Plan, lane: Lane, role: Literal["add", "search"], calls: int) -> EndpointEstimate:
    config = lane.provider.config
    prices = call_prices(plan.request.prices, lane.provider)
    price = prices.add if role == "add" else prices.search
    free = not config.bills
    cost = price * calls if price is not None else Decimal(0) if free else None
    endpoint = endpoint_of(config, role)
    pause_s = endpoint.limits.min_interval_s
    declared = min(endpoint.limits.rate or math.inf, 1 / pause_s if pause_s else math.inf)
    rate = _rate(plan, endpoint.name, declared if declared < math.inf else None)
    return EndpointEstimate(endpoint=endpoint.name, calls=calls, cost_usd=cost, rate_per_s=rate)


def _model_estimate(plan: Plan, name: str, role: str, calls: int, tokens_in: int, tokens_out: int) -> EndpointEstimate:
    """Estimate the calls of a model. ``tokens_in`` and ``tokens_out`` are the tokens of one call."""
    from bench.metrics import cost
    from bench.models.names import is_local

    prefix, _, model = name.partition("/")
    usage = Usage(input_tokens=tokens_in * calls, output_tokens=tokens_out * calls)
    file = plan.model_files.get(prefix)
    endpoint, batch = f"{name}.{role}", plan.request.batch and role in ("answering", "judge")
    prices = plan.request.token_prices
    return EndpointEstimate(
        endpoint=endpoint,
        calls=calls,
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        cost_usd=Decimal(0)
        if is_local(name, plan.model_files)
        else cost(usage, provider=prefix, model=model, at=datetime.now(UTC), prices=prices, batch=batch),
        rate_per_s=_rate(plan, endpoint, None if file is None else file.limits.rps or (file.limits.rpm or 0) / 60),
    )


def _rate(plan: Plan, endpoint: str, declared: float | None) -> float | None:
    """Return the rate limit of an endpoint in calls per second, or None if no limit is known.

    The run's limit for the endpoint is preferred, then the run's limit for the endpoint's owner, then ``declared``.
    """
    given = plan.request.rates_per_s()
    return given.get(endpoint) or given.get(endpoint.rpartition(".")[0]) or declared or None


def _size(lane: Lane) -> _LaneSize:
    """Estimate the size of all selected corpora from the memories of a few corpora."""
    benchmark = lane.benchmark
    names = list(dict.fromkeys(ref.corpus for ref in benchmark.dataset.items(benchmark.selection)))
    sampled = names[:: max(1, len(names) // SAMPLED_CORPORA)][:SAMPLED_CORPORA]
    sent = [memory for name in sampled for memory in _rendered(benchmark, lane, name)]
    size = sum(token_quarters(text) for text in sent)
    return _LaneSize(
        corpora=len(names),
        per_corpus=len(sent) / max(1, len(sampled)),
        memory_tokens=math.ceil(size / CHARS_PER_TOKEN / max(1, len(sent))),
    )


def _rendered(benchmark: BenchmarkPlan, lane: Lane, corpus: str) -> list[str]:
    return [one.memory.content for one in benchmark.dataset.memories(corpus, unit=lane.unit, text=lane.text)]
