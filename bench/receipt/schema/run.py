"""The settings of the run, and how it began, was resumed and was cut.

Example::

    receipt.run.isolation_proof.failed
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.receipt.wire import Hex40, Hex64, Instant, Integer, Name, Natural, Positive, Wire


class IsolationProof(Wire):
    """How many namespaces were probed, and how the probes ended."""

    probed: Natural
    passed: Natural
    failed: Natural


class Preregistration(Wire):
    """The log entry that announced the run before its first call."""

    log_index: Natural
    entry_sha256: Hex64


class LogHead(Wire):
    """The public log as it was seen when the run started."""

    origin: Name
    size: Natural
    root_hash: Hex64


class Resume(Wire):
    """One continuation of the run."""

    at: Instant
    code_commit: Hex40 | None
    bench_version: Name


class Shard(Wire):
    """A part that ran on its own: item positions, 1-based, inclusive."""

    index: Positive
    of: Positive
    from_: Annotated[int, Field(strict=True, ge=1, alias="from")]
    to: Positive


class Run(Wire):
    """The settings of the run."""

    run_id: Name
    plan_digest: Hex64
    seed: Integer
    epochs: Positive
    concurrency: Positive
    k: Positive | None
    context_budget_tokens: Positive | None
    track: Literal["uniform", "vendor"]
    isolation: Literal["off", "probe", "full"]
    isolation_proof: IsolationProof
    preregistration: Preregistration | None
    log: LogHead | None
    resumes: tuple[Resume, ...]
    shards: tuple[Shard, ...]
