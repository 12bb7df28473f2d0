"""What a run would cost before it is started: calls, tokens, money, and the least time the rate limits allow.

Example::

    found = estimate(plan)
    found.calls, found.cost_usd, found.least_s          # 5958, Decimal("1.24") or None, 119.2

An upper estimate: every item is asked, every context is as full as k memories and the budget allow. A price nobody
knows makes the whole cost unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from bench.model import CHARS_PER_TOKEN, Usage
from bench.plan.shape import NONE, BenchmarkPlan, Lane, Plan

PROMPT_TOKENS = 200
"""the prompt around the context"""
ANSWER_TOKENS = 60
JUDGE_TOKENS = (500, 80)
SAMPLED_CORPORA = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEstimate:
    """One kind of traffic."""

    endpoint: str
    calls: int
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: Decimal | None = None
    """None = unknown"""
    rate_per_s: float | None = None

    @property
    def least_s(self) -> float:
        """Time that the rate limit alone takes."""
        return self.calls / self.rate_per_s if self.rate_per_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The whole run."""

    items: int
    corpora: int
    endpoints: tuple[EndpointEstimate, ...]

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.endpoints)

    @property
    def cost_usd(self) -> Decimal | None:
        """None when a part of it is unknown."""
        costs = [one.cost_usd for one in self.endpoints]
        return None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))

    @property
    def least_s(self) -> float:
        """No run can be faster: its slowest endpoint under its own limit."""
        return max((one.least_s for one in self.endpoints), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """What a benchmark sends, from its counts and a few of its corpora."""

    corpora: int
    memories: int
    memory_tokens: int
    """of one memory, on average"""


def estimate(plan: Plan) -> Estimate:
    """Add up every running lane."""
    endpoints: dict[str, EndpointEstimate] = {}
    corpora = 0
    for lane in plan.running:
        size = _size(lane)
        corpora += size.corpora
        for one in _of_lane(plan, lane, size):
            endpoints[one.endpoint] = _joined(endpoints.get(one.endpoint), one)
    for one in _calibrations(plan):
        endpoints[one.endpoint] = _joined(endpoints.get(one.endpoint), one)
    items = sum(lane.benchmark.n_selected * len(lane.jobs) for lane in plan.running)
    return Estimate(items=items, corpora=corpora, endpoints=tuple(endpoints.values()))


def _of_lane(plan: Plan, lane: Lane, size: _Size) -> list[EndpointEstimate]:
    asked = lane.benchmark.n_selected * lane.benchmark.epochs
    found = []
    if lane.provider.built_in is None:
        batch = min(lane.provider.config.ingest.batch.max_items, lane.benchmark.config.ingestion.batch_size)
        found += [
            _provider(plan, lane, "add", -(-size.memories // max(1, batch))),
            _provider(plan, lane, "search", asked),
        ]
    context = min(lane.benchmark.context_budget, lane.benchmark.k * size.memory_tokens)
    for model in lane.answering_models:
        if model != NONE:
            found.append(_model(plan, f"{model}.answering", model, asked, context + PROMPT_TOKENS, ANSWER_TOKENS))
    for job in lane.jobs:
        if job.judge != NONE:
            found.append(_model(plan, f"{job.judge}.judge", job.judge, asked, *JUDGE_TOKENS))
    return found


def _calibrations(plan: Plan) -> Iterator[EndpointEstimate]:
    """The probes of each judge with each benchmark's judge prompts, where the run asks for them."""
    from bench.evaluators.calibration import calls_needed

    if plan.request.judge_calibration or plan.request.publishable:
        pairs = {(lane.benchmark.name, job.judge): lane for lane in plan.running for job in lane.jobs}
        for (_, judge), lane in pairs.items():
            if judge != NONE and "llm-judge" in lane.benchmark.scoring.names:
                calls = calls_needed(lane.benchmark.prompts.judges)
                yield _model(plan, f"{judge}.judge", judge, calls, *JUDGE_TOKENS)


def _provider(plan: Plan, lane: Lane, role: str, calls: int) -> EndpointEstimate:
    config = lane.provider.config
    price = config.prices.add if role == "add" else config.prices.search
    own = plan.request.prices.get(config.name)
    if isinstance(own, Mapping) and role in own:
        price = float(str(own[role]))
    free = config.type != "hosted"
    cost = Decimal(str(price)) * calls if price is not None else Decimal(0) if free else None
    limit = config.limits.add if role == "add" else config.limits.search
    rates = plan.request.rates_per_s()
    declared = None if limit is None else limit.rps or (limit.rpm / 60 if limit.rpm else None)
    rate = rates.get(f"{config.name}.{role}") or rates.get(config.name) or declared
    return EndpointEstimate(endpoint=f"{config.name}.{role}", calls=calls, cost_usd=cost, rate_per_s=rate)


def _model(plan: Plan, endpoint: str, name: str, calls: int, tokens_in: int, tokens_out: int) -> EndpointEstimate:
    from bench.metrics import cost

    prefix, _, model = name.partition("/")
    usage = Usage(input_tokens=tokens_in * calls, output_tokens=tokens_out * calls)
    known: Decimal | None = Decimal(0)
    if prefix not in ("builtin", "ollama"):
        known = cost(usage, provider=prefix, model=model, at=datetime.now(UTC), prices=plan.request.prices)  # type: ignore[arg-type]
    file = plan.model_files.get(prefix)
    declared = None if file is None else file.limits.rps or (file.limits.rpm / 60 if file.limits.rpm else None)
    rates = plan.request.rates_per_s()
    return EndpointEstimate(
        endpoint=endpoint,
        calls=calls,
        tokens_in=tokens_in * calls,
        tokens_out=tokens_out * calls,
        cost_usd=known,
        rate_per_s=rates.get(endpoint) or rates.get(name) or declared,
    )


def _size(lane: Lane) -> _Size:
    """Render a few of the corpora that are asked and take the rest to be like them."""
    benchmark = lane.benchmark
    names = list(dict.fromkeys(ref.corpus for ref in benchmark.dataset.items(benchmark.selection)))
    sampled = names[:: max(1, len(names) // SAMPLED_CORPORA)][:SAMPLED_CORPORA]
    sent = [memory for name in sampled for memory in _rendered(benchmark, lane, name)]
    chars = sum(len(text) for text in sent)
    return _Size(
        corpora=len(names),
        memories=round(len(sent) / max(1, len(sampled)) * len(names)),
        memory_tokens=chars // CHARS_PER_TOKEN // max(1, len(sent)),
    )


def _rendered(benchmark: BenchmarkPlan, lane: Lane, corpus: str) -> list[str]:
    return [one.memory.content for one in benchmark.dataset.memories(corpus, unit=lane.unit, text=lane.text)]


def _joined(known: EndpointEstimate | None, one: EndpointEstimate) -> EndpointEstimate:
    if known is None:
        return one
    cost = None if known.cost_usd is None or one.cost_usd is None else known.cost_usd + one.cost_usd
    return EndpointEstimate(
        endpoint=one.endpoint,
        calls=known.calls + one.calls,
        tokens_in=known.tokens_in + one.tokens_in,
        tokens_out=known.tokens_out + one.tokens_out,
        cost_usd=cost,
        rate_per_s=one.rate_per_s,
    )
