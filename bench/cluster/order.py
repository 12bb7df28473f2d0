"""What travels between the coordinator and a worker: an order out, what came of it back. Never a secret.

Example::

    order = Order(shard=Shard(number=2, count=4, start=26, end=50), run_id="r1", ...)
    order.name          # "r1.2of4"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.cluster.packing import Pack
from bench.cluster.saying import Word
from bench.errors import BenchError
from bench.plan import Plan
from bench.settings import Environment
from bench.version import __version__

ONLY_HERE = frozenset(
    {
        "cluster", "shards", "shard", "run_id", "output", "on_end", "sign", "key", "download", "publishable",
        "min_score", "max_time", "judge_calibration",
    }
)  # fmt: skip
"""flags that are the coordinator's business"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One range of the run's items."""

    number: int
    """from 1"""
    count: int
    start: int
    """1-based position"""
    end: int
    """inclusive"""

    def __str__(self) -> str:
        return f"{self.number}of{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One shard to carry out."""

    shard: Shard
    run_id: str
    """of the whole run"""
    version: str
    """of bench: the worker's must be the same"""
    request: Mapping[str, object]
    """the flags of the shard, as plain data"""
    digest: str
    """of the plan"""
    identity: Mapping[str, object]
    """the tree under the digest, so that a worker can say in what it differs"""
    workspace: str
    """the coordinator's; a worker that has no such folder uses its own"""
    env_file: str | None
    """only the path: used where there is such a file"""
    share: float
    """of every rate limit"""
    token: str
    """names the stop event and the topic of this coordinator"""
    pack: Pack | None = None
    """what an earlier worker left half done"""
    phases: int = 0
    """rows in its journal"""

    @classmethod
    def of(
        cls,
        plan: Plan,
        shard: Shard,
        *,
        environment: Environment,
        share: float,
        left_usd: float | None,
        token: str,
    ) -> Order:
        """Order one shard of a plan; ``left_usd`` = what of the run's budget is left."""
        request, run_id = plan.request, plan.request.run_id
        assert run_id is not None
        flags = request.model_dump(mode="json", exclude_unset=True, exclude=set(ONLY_HERE))
        calibrates = shard.number == 1 and (request.judge_calibration or request.publishable)
        flags |= {"start": shard.start, "end": shard.end, "judge_calibration": calibrates, "max_cost": left_usd}
        named = environment.dotenv
        return cls(
            shard=shard,
            run_id=run_id,
            version=__version__,
            request=flags,
            digest=plan.digest,
            identity=plan.identity,
            workspace=str(plan.workspace.resolve()),
            # a worker's own workspace has its own .env; only a file that was named goes with the order
            env_file=None if named is None or named == plan.workspace / ".env" else str(named.resolve()),
            share=share,
            token=token,
        )

    @property
    def name(self) -> str:
        """A shard is a run of its own; each fresh start of it has this name and something random."""
        return f"{self.run_id}.{self.shard}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a worker does not carry out an order."""

    kind: str
    message: str
    hint: str
    worker: str
    exit_code: int

    @classmethod
    def of(cls, error: BenchError, worker: str) -> Refusal:
        """An error as plain data, since not every exception survives the way."""
        return cls(kind=error.kind, message=str(error), hint=error.hint, worker=worker, exit_code=error.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What came of an order."""

    pack: Pack | None
    """None when nothing was begun"""
    word: Word | None = None
    """the counters at the end"""
    whole: bool = False
    """the shard came to its end"""
    stop: str | None = None
    """why the engine was stopped, if it was"""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """job key -> why it takes no more work"""
    message: str = ""
    refusal: Refusal | None = None
