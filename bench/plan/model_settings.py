"""Settings of a job's models besides their prompts: temperature, token limit, seed, vector size.

Example::

    asked_with(plan, lane, job)
    # {"answering": {"max_tokens": 1024, "temperature": 0.0, "seed": 7}, "judge": {...}}

Only settings that are sent are listed: no seed for an API without one, no temperature for a model with a fixed one,
nothing for a built-in model. A setting that an endpoint rejects during the run is recorded in the rows only. A
reasoning effort is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from bench.config.run import RunRequest
from bench.model import Usage
from bench.plan.model import BenchmarkPlan, Job, Lane, Plan
from bench.plan.scoring import Settings
from bench.scalars import tree

MAX_ANSWER_TOKENS = 1024
"""an answer with reasoning steps, or of a reasoning model, needs more than a few hundred tokens"""
BUILT_IN = "builtin/"
UNSEEDED = "anthropic"
"""the dialect without a seed"""


def asked_with(plan: Plan, lane: Lane, job: Job) -> dict[str, Settings]:
    """Return the settings of each role whose model is called."""
    benchmark, rule = lane.benchmark, lane.provider.config.client_embeddings
    answering = {
        "max_tokens": answer_tokens(benchmark, plan.request),
        "temperature": benchmark.config.evaluation.answering_model.temperature,
        "seed": plan.request.seed,
    }
    size = {"dimensions": rule.dimensions} if rule is not None and rule.dimensions is not None else {}
    wanted = (
        ("embedding", lane.provider.embedding, size),
        ("answering", job.answering, answering),
        ("judge", job.judge, limited(benchmark.scoring.judge_settings, judge_tokens(benchmark, plan.request))),
    )
    found = {role: _sent(plan, model, settings) for role, model, settings in wanted if model is not None}
    return {role: settings for role, settings in found.items() if settings}


def input_price(request: RunRequest, model: str) -> str | None:
    """Return the price in USD of a million input tokens of a model, without cache discounts; None = unknown."""
    from bench.metrics import cost

    prefix, _, name = model.partition("/")
    usage = Usage(input_tokens=1_000_000)
    found = cost(
        usage, provider=prefix, model=name, at=datetime.now(UTC), prices=request.token_prices, batch=request.batch
    )
    return None if found is None else f"{found:f}"


def answer_tokens(benchmark: BenchmarkPlan, request: RunRequest) -> int:
    """Return the token limit of an answer: the flag's, else the benchmark's, else the default."""
    return request.max_answer_tokens or benchmark.config.evaluation.answering_model.max_tokens or MAX_ANSWER_TOKENS


def judge_tokens(benchmark: BenchmarkPlan, request: RunRequest) -> int | None:
    """Return the token limit of a verdict from the flag or the benchmark; None: the evaluator's limit."""
    return request.max_judge_tokens or benchmark.config.evaluation.judge.max_tokens


def limited(settings: Settings, limit: int | None) -> Settings:
    """Return the settings with the evaluators' limits replaced."""
    if limit is None or not settings:
        return settings
    if "max_tokens" in settings:
        return {**settings, "max_tokens": limit}
    return {name: {**tree(one), "max_tokens": limit} for name, one in settings.items()}


def _sent(plan: Plan, model: str, settings: Settings) -> Settings:
    """Return the settings without those that the model does not receive."""
    models = plan.identity["models"]
    if model.startswith(BUILT_IN) or model not in models:
        return {}
    own = models[model].get("settings")
    fixed = isinstance(own, Mapping) and own.get("fixed_temperature") is True
    unsent = {*(("temperature",) if fixed else ()), *(("seed",) if models[model].get("dialect") == UNSEEDED else ())}
    return {name: value for name, value in settings.items() if name not in unsent}
