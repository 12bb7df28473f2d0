"""The two digests that anybody can compute from a receipt alone.

``config_digest`` is equal where the same thing was measured the same way; ``result_digest`` is equal where two
such runs came to the same deterministic result, whether killed, resumed, sharded or merged::

    receipt.config_digest == config_digest(receipt)
"""

from __future__ import annotations

from bench.canonical import JSON, digest
from bench.receipt.schema import Body, Score
from bench.receipt.wire import emit


def config_digest(body: Body) -> str:
    """Hash what was measured and how (receipt fields copied, nothing measured)."""
    return digest(
        {
            "schema": "bench.config/1",
            "benchmark": {
                "name": body.benchmark.name,
                "version": body.benchmark.version,
                "split": body.benchmark.split,
                "configSha256": body.benchmark.config_sha256,
                "datasetSha256": body.benchmark.dataset.sha256,
            },
            "provider": {
                "name": body.provider.name,
                "version": body.provider.version,
                "configSha256": body.provider.config_sha256,
            },
            "models": [
                {
                    "role": model.role,
                    "provider": model.provider,
                    "requested": model.requested,
                    "params": dict(model.params),
                }
                for model in body.models
            ],
            "prompts": [{"role": prompt.role, "sha256": prompt.sha256} for prompt in body.prompts],
            "metrics": [emit(metric) for metric in body.metrics],
            "settings": {
                "seed": body.run.seed,
                "epochs": body.run.epochs,
                "k": body.run.k,
                "contextBudgetTokens": body.run.context_budget_tokens,
                "track": body.run.track,
            },
        }
    )


def result_digest(body: Body) -> str:
    """Hash the deterministic outcome under a configuration: no time, host, id or order of completion is in it."""
    return digest(
        {
            "schema": "bench.result/1",
            "configDigest": body.config_digest,
            "selection": emit(body.benchmark.selection),
            "planned": body.counts.planned,
            "pending": body.counts.pending,
            "byState": body.counts.by_state.of(),
            "scores": {name: _outcome(score) for name, score in body.scores.deterministic.items()},
            "deterministicRoot": body.per_query.deterministic_root,
        }
    )


def _outcome(score: Score) -> dict[str, JSON]:
    return {
        "value": score.value,
        "valueFailuresAsZero": score.value_failures_as_zero,
        "n": score.n,
        "nExcluded": score.n_excluded,
    }
