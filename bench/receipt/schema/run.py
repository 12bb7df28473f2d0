"""The settings of the run, and how it began, was resumed and was cut.

Example::

    receipt.run.isolation_proof.failed
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bench.receipt.wire import Hex40, Hex64, Instant, Integer, Name, Natural, Positive, Wire


class IsolationProof(Wire):
    """How many namespaces were probed, and how the probes ended."""

    probed: Natural
    """probes for content that does not belong to a namespace"""
    passed: Natural
    """probes that found nothing"""
    failed: Natural
    """probes that found something foreign"""


class Preregistration(Wire):
    """The log entry that announced the run before its first call."""

    log_index: Natural
    """place of that entry in the log, from 0"""
    entry_sha256: Hex64
    """SHA-256 of the entry's line"""


class LogHead(Wire):
    """The public log as it was seen when the run started."""

    origin: Name
    """name of the log"""
    size: Natural
    """entries it had"""
    root_hash: Hex64
    """Merkle root over them"""


class Resume(Wire):
    """One continuation of the run."""

    at: Instant
    """when it went on, UTC"""
    code_commit: Hex40 | None
    """commit that it went on with; null where nobody knows it"""
    bench_version: Name
    """version that it went on with"""


class Shard(Wire):
    """A part that ran on its own: item positions, 1-based, inclusive."""

    index: Positive
    """which part, from 1"""
    of: Positive
    """how many parts there are"""
    from_: Annotated[int, Field(strict=True, ge=1, alias="from")]
    """position of its first item"""
    to: Positive
    """position of its last item"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.index > self.of or self.from_ > self.to:
            raise ValueError("not index <= of and from <= to")
        return self


class Run(Wire):
    """The settings of the run."""

    run_id: Name
    """name of the run in its workspace"""
    plan_digest: Hex64
    """SHA-256 of the plan that was agreed before the first call"""
    seed: Integer
    """of everything drawn by chance"""
    epochs: Positive
    """how often each item was asked"""
    concurrency: Positive
    """items in flight at most; for auto its ceiling"""
    k: Positive | None
    """hits asked for; null where the protocol asks for none"""
    context_budget_tokens: Positive | None
    """tokens of hits that the answering model may see; null is no limit"""
    track: Literal["uniform", "vendor"]
    """uniform: the same answer prompt for every provider; vendor: the provider's own"""
    isolation: Literal["off", "probe", "full"]
    """off; probe: each namespace is looked at before use; full: also for content of other corpora"""
    isolation_proof: IsolationProof
    """how these probes ended"""
    preregistration: Preregistration | None
    """the public announcement before the first call; null without one"""
    log: LogHead | None
    """null where there was no log"""
    resumes: tuple[Resume, ...]
    """each time the run went on after a stop, in order"""
    shards: tuple[Shard, ...]
    """the ranges it was run in; empty when run whole"""
