"""Collect the settings of a job's models other than prompts: temperature, token limit, seed and length of vectors.

Example::

    call_settings(plan, lane, job)
    # {"answering": {"max_tokens": 1024, "temperature": 0.0, "seed": 7}, "judge": {...}}

Only settings that are sent are listed. A model that does not accept a seed or a temperature has no such entry, and a
built-in model has no settings. A setting that an endpoint rejects during the run is still listed here; the journal
rows record the rejection, and results and receipts report it. A reasoning effort is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from bench.config.run import RunRequest
from bench.model import Usage
from bench.plan.model import BenchmarkPlan, Job, Lane, Plan
from bench.plan.scoring import Settings
from bench.untyped_values import object_or_empty

MAX_ANSWER_TOKENS = 1024
"""default token limit of an answer, large enough for a model that reasons before it answers"""
BUILT_IN = "builtin/"
UNSEEDED = "anthropic"
"""name of the API format that does not accept a seed"""


def call_settings(plan: Plan, lane: Lane, job: Job) -> dict[str, Settings]:
    """Return a map from role to the settings of its model calls. Roles without settings are left out."""
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
        ("judge", job.judge, with_token_limit(benchmark.scoring.judge_settings, judge_tokens(benchmark, plan.request))),
    )
    found = {role: _sent_settings(plan, model, settings) for role, model, settings in wanted if model is not None}
    return {role: settings for role, settings in found.items() if settings}


def input_price(request: RunRequest, model: str) -> str | None:
    """Return the price in USD of a million uncached input tokens of a model, or None if the price is unknown."""
    from bench.metrics import cost

    prefix, _, name = model.partition("/")
    usage = Usage(input_tokens=1_000_000)
    found = cost(
        usage, provider=prefix, model=name, at=datetime.now(UTC), prices=request.token_prices, batch=request.batch
    )
    return None if found is None else f"{found:f}"


def answer_tokens(benchmark: BenchmarkPlan, request: RunRequest) -> int:
    """Return the token limit of an answer: from the flag, from the benchmark or the default, in this order."""
    return request.max_answer_tokens or benchmark.config.evaluation.answering_model.max_tokens or MAX_ANSWER_TOKENS


def judge_tokens(benchmark: BenchmarkPlan, request: RunRequest) -> int | None:
    """Return the token limit of a verdict, from the flag or else from the benchmark.

    Return None if neither sets a limit. The evaluator's own limit then applies.
    """
    return request.max_judge_tokens or benchmark.config.evaluation.judge.max_tokens


def with_token_limit(settings: Settings, limit: int | None) -> Settings:
    """Replace each token limit in the settings of judges by ``limit``.

    If ``limit`` is None, the settings do not change.
    """
    if limit is None or not settings:
        return settings
    if "max_tokens" in settings:
        return {**settings, "max_tokens": limit}
    return {name: {**object_or_empty(one), "max_tokens": limit} for name, one in settings.items()}


def _sent_settings(plan: Plan, model: str, settings: Settings) -> Settings:
    """Return only the settings that the model accepts. A built-in model accepts no settings."""
    models = plan.identity["models"]
    if model.startswith(BUILT_IN) or model not in models:
        return {}
    own = models[model].get("settings")
    fixed = isinstance(own, Mapping) and own.get("fixed_temperature") is True
    unsent = {*(("temperature",) if fixed else ()), *(("seed",) if models[model].get("dialect") == UNSEEDED else ())}
    return {name: value for name, value in settings.items() if name not in unsent}
