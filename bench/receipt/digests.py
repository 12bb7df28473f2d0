"""Compute the two digests of a receipt.

Two receipts have the same ``config_digest`` if their dataset, provider, models, prompts, metrics and settings are
equal. They have the same ``result_digest`` if their deterministic results are equal too. Resuming or merging a run
does not change its digests.

Example::

    receipt.config_digest == config_digest(receipt)      # True if the stored digest is right
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.canonical import JSON, digest
from bench.receipt.base_model import json_of
from bench.receipt.schema import Body
from bench.receipt.schema_results import ReceiptScore
from bench.receipt.schema_run import Benchmark, MetricUse, ModelUse, PromptUse, ReceiptProvider, Run


def config_digest(body: Body) -> str:
    """Return the hash of the configuration that is stated in a receipt, as hex."""
    return digest(config_of(body))


def config_of(body: Body) -> dict[str, JSON]:
    """Return the JSON value whose hash is the config digest of a receipt."""
    return config_tree(body.benchmark, body.provider, body.models, body.prompts, body.metrics, body.run)


def config_tree(
    benchmark: Benchmark,
    provider: ReceiptProvider,
    models: Sequence[ModelUse],
    prompts: Sequence[PromptUse],
    metrics: Sequence[MetricUse],
    run: Run,
) -> dict[str, JSON]:
    """Return the JSON value whose hash is a config digest, from the sections of a receipt or of a plan."""
    return {
        "schema": "bench.config/1",
        "benchmark": {
            "name": benchmark.name,
            "version": benchmark.version,
            "split": benchmark.split,
            "configSha256": benchmark.config_sha256,
            "datasetSha256": benchmark.dataset.sha256,
        },
        "provider": {
            "name": provider.name,
            "version": provider.version,
            "configSha256": provider.config_sha256,
        },
        "models": [
            {name: json_of(model)[name] for name in ("role", "provider", "requested", "params")} for model in models
        ],
        "prompts": [{"role": prompt.role, "sha256": prompt.sha256} for prompt in prompts],
        "metrics": [{"name": metric.name, "definition": metric.definition} for metric in metrics],
        "settings": {
            "seed": run.seed,
            "epochs": run.epochs,
            "k": run.k,
            "contextBudgetTokens": run.context_budget_tokens,
            "track": run.track,
        },
    }


def result_digest(body: Body) -> str:
    """Return the hash of the deterministic results of a receipt, as hex.

    Times, hosts, receipt ids and the order in which items ended do not change this hash.
    """
    return digest(
        {
            "schema": "bench.result/1",
            "configDigest": body.config_digest,
            "selection": json_of(body.benchmark.selection),
            "planned": body.counts.planned,
            "pending": body.counts.pending,
            "byState": body.counts.by_state.of(),
            "scores": {name: _outcome(score) for name, score in body.scores.deterministic.items()},
            "deterministicRoot": body.per_query.deterministic_root,
        }
    )


def _outcome(score: ReceiptScore) -> dict[str, JSON]:
    return {
        "value": score.value,
        "valueFailuresAsZero": score.value_failures_as_zero,
        "n": score.n,
        "nExcluded": score.n_excluded,
    }
