"""Messages between the coordinator of a cluster and a worker, such as the order to run a shard (a part of a run).

No message contains a secret. A worker returns the compressed run folder of the shard. While a shard runs, the worker
reports its progress each second.

Example::

    order = ShardOrder(shard=Shard(number=2, count=4, start=26, end=50), run_id="r1", ...)
    order.name          # "r1.2of4"
    parts = pack(folder, whole=False)   # on the worker: CompressedParts(journal=b"...", stores=b"...")
    parts.unpack_into(folder)           # on the next worker
    text = ShardCounters.of(2, attempt, worker, progress).text      # on the worker: progress of the engine
    total.update(ShardCounters.read(text))      # at the coordinator: total is a ClusterProgress
"""

from __future__ import annotations

import io
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import zstandard
from pydantic import TypeAdapter

from bench.config.run import RunRequest
from bench.engine.progress import Count, JobProgress, LaneProgress, Progress, Scores
from bench.errors import BenchError, JournalError
from bench.journal.paths import JOURNAL
from bench.journal.records import IndexWaiting
from bench.model import Phase, State
from bench.plan import Plan
from bench.settings import Environment
from bench.version import __version__

STORES = "stores"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedParts:
    """The journal of a run folder, and the memories that built-in providers store there, compressed with zstd."""

    journal: bytes
    stores: bytes | None = None
    """compressed tar file with the stores of the built-in providers; None if they are no longer needed"""

    def unpack_into(self, folder: Path) -> None:
        """Unpack the journal and the stored memories into a new run folder."""
        folder.mkdir(parents=True)
        if self.stores is not None:
            with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(self.stores))) as archive:
                archive.extractall(folder, filter="data")
        (folder / JOURNAL).write_bytes(zstandard.decompress(self.journal))


def pack(folder: Path, *, whole: bool) -> CompressedParts:
    """Compress the run folder of a shard.

    ``whole`` is True if the shard is complete. The result then has no memories, because no worker continues the shard.

    Raises:
        JournalError: a process still has the journal open.
    """
    path = folder / JOURNAL
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise JournalError(
            "the journal is still open in another program",
            where=str(path),
            hint="close that program, then resume the run",
        )
    return CompressedParts(
        journal=zstandard.compress(path.read_bytes()), stores=None if whole else _stores(folder / STORES)
    )


def _stores(folder: Path) -> bytes | None:
    if not folder.is_dir():
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=STORES)
    return zstandard.compress(buffer.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCounters:
    """The progress of one attempt to run a shard."""

    shard: int
    attempt: str
    """random id of the attempt, so that the cost of a lost attempt still counts"""
    worker: str
    lanes: Mapping[str, LaneProgress] = field(default_factory=dict)
    states: Mapping[str, Mapping[State, int]] = field(default_factory=dict)
    """job -> state -> number of items"""
    scores: Mapping[str, Mapping[str, Scores]] = field(default_factory=dict)
    """job -> corpus -> (number of scores, their sum, the sum of their squares)"""
    cost_usd: Decimal = Decimal(0)
    earlier_usd: Decimal = Decimal(0)
    """part of ``cost_usd`` that earlier attempts spent, according to the journal that this attempt continues"""
    unknown_costs: int = 0
    rate_limited: int = 0
    calls: int = 0
    in_flight: int = 0
    oldest_s: float | None = None
    index_wait: IndexWaiting | None = None
    rate_per_s: float = 0.0

    @classmethod
    def of(cls, shard: int, attempt: str, worker: str, progress: Progress | None) -> ShardCounters:
        """Return the counters of an attempt. If ``progress`` is None, all counters are 0."""
        if progress is None:
            return cls(shard=shard, attempt=attempt, worker=worker)
        jobs = progress.jobs
        return cls(
            shard=shard,
            attempt=attempt,
            worker=worker,
            lanes=progress.lanes,
            states={key: dict(job.states) for key, job in jobs.items()},
            scores={key: dict(job.scores) for key, job in jobs.items()},
            cost_usd=progress.cost_usd,
            earlier_usd=progress.earlier_usd,
            unknown_costs=progress.unknown_costs,
            rate_limited=progress.rate_limited,
            calls=progress.calls,
            in_flight=progress.in_flight,
            oldest_s=progress.oldest_s,
            index_wait=progress.index_wait(),
            rate_per_s=progress.rate_per_s,
        )

    @property
    def text(self) -> str:
        """Return the counters as JSON."""
        return _counters_adapter().dump_json(self).decode()

    @staticmethod
    def read(text: str) -> ShardCounters:
        return _counters_adapter().validate_json(text)


@cache
def _counters_adapter() -> TypeAdapter[ShardCounters]:
    return TypeAdapter(ShardCounters)


class ClusterProgress(Progress):
    """The progress of a run, added up over all its shards."""

    def __init__(self, plan: Plan, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self._attempts: dict[tuple[int, str], ShardCounters] = {}
        self._latest: dict[int, ShardCounters] = {}
        self._updated_at: dict[int, float] = {}
        for lane in plan.lanes:
            self.lanes[lane.key] = LaneProgress(lane.key)
            for job in lane.jobs:
                self.jobs[job.key] = JobProgress.of(lane, job)

    def update(self, counters: ShardCounters) -> None:
        """Replace the counters of an attempt by newer counters, and compute the sums of the run again."""
        self._attempts[counters.shard, counters.attempt] = counters
        self._latest[counters.shard] = counters
        self._updated_at[counters.shard] = time.monotonic()
        self._add_up()

    def shard_returned(self, shard: int) -> None:
        """Mark a shard as not running.

        Its requests in flight no longer count, and `silent_s` returns 0 for it.
        """
        self._updated_at.pop(shard, None)

    def silent_s(self, shard: int) -> float:
        """Return the seconds since the last message of a running shard; 0 if it is not running."""
        last_update = self._updated_at.get(shard)
        return 0.0 if last_update is None else time.monotonic() - last_update

    def worker_of(self, shard: int) -> str:
        """Return the address of the worker that last reported on the shard, or "no worker yet"."""
        counters = self._latest.get(shard)
        return "no worker yet" if counters is None else counters.worker

    @property
    def in_flight(self) -> int:
        return sum(counters.in_flight for counters in self._running)

    @property
    def oldest_s(self) -> float | None:
        return max((counters.oldest_s for counters in self._running if counters.oldest_s is not None), default=None)

    def index_wait(self) -> IndexWaiting | None:
        waits = [counters.index_wait for counters in self._running if counters.index_wait is not None]
        if not waits:
            return None
        longest = max(waits, key=lambda wait: wait.waited_s)
        return replace(longest, corpora=sum(wait.corpora for wait in waits))

    @property
    def rate_per_s(self) -> float:
        return sum(counters.rate_per_s for counters in self._running)

    @property
    def _running(self) -> list[ShardCounters]:
        return [counters for number, counters in self._latest.items() if number in self._updated_at]

    def _add_up(self) -> None:
        latest, every = self._latest.values(), self._attempts.values()
        for key, lane in self.lanes.items():
            parts = [counters.lanes[key].phases for counters in latest if key in counters.lanes]
            lane.phases = {phase: sum((part[phase] for part in parts), Count()) for phase in Phase}
            lane.memories = sum(counters.lanes[key].memories for counters in every if key in counters.lanes)
        for key, job in self.jobs.items():
            job.states = Counter()
            for counters in latest:
                job.states.update(counters.states.get(key, {}))
            job.scores = _joined([counters.scores.get(key, {}) for counters in latest])
        self.cost_usd = sum(map(self._cost_of, self._latest.values()), Decimal(0))
        self.unknown_costs = sum(counters.unknown_costs for counters in every)
        self.rate_limited = sum(counters.rate_limited for counters in every)
        self.calls = sum(counters.calls for counters in every)

    def _cost_of(self, latest: ShardCounters) -> Decimal:
        """Return the total cost of all attempts of a shard; a cost that several attempts report counts once."""
        attempts = [counters for counters in self._attempts.values() if counters.shard == latest.shard]
        return max(
            latest.cost_usd, sum((counters.cost_usd - counters.earlier_usd for counters in attempts), Decimal(0))
        )


def _joined(parts: Iterable[Mapping[str, Scores]]) -> dict[str, Scores]:
    """Add up the scores of all shards, separately for each corpus."""
    found: dict[str, Scores] = {}
    for part in parts:
        for corpus, more in part.items():
            n, total, squares = found.get(corpus, (0, 0.0, 0.0))
            found[corpus] = (n + more[0], total + more[1], squares + more[2])
    return found


ONLY_HERE = frozenset(
    {
        "cluster", "shards", "workers", "shard", "run_id", "output", "on_end", "sign", "key", "download", "publishable",
        "min_score", "max_time", "judge_calibration",
    }
)  # fmt: skip
"""flags of the run that a worker does not get"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One part of a run: a range of its items."""

    number: int
    """from 1 to ``count``"""
    count: int
    start: int
    """1-based position of the first item"""
    end: int
    """1-based position of the last item"""

    def __str__(self) -> str:
        return f"{self.number}of{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOrder:
    """The order to run one shard, sent to a worker."""

    shard: Shard
    run_id: str
    """id of the whole run"""
    version: str
    """version of bench, which the worker must have too"""
    request: Mapping[str, object]
    """the flags with which the worker runs the shard, as plain data"""
    digest: str
    """digest of the plan"""
    identity: Mapping[str, object]
    """the values from which the digest was computed, so that a worker can report which of them differ"""
    workspace: str
    """workspace of the coordinator; see `bench.cluster.worker.workspace_of`"""
    env_file: str | None
    """path of the env file that was named on the command line; used if this path exists at the worker"""
    share: float
    """fraction of every rate limit that the shard may use, from 0 to 1"""
    token: str
    """random text in the dask names by which this run's workers and coordinator find each other"""
    pack: CompressedParts | None = None
    """journal and stores of the shard from an earlier worker, to continue; None for a new shard"""
    phases: int = 0
    """number of phase rows in the journal in ``pack``"""

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
    ) -> ShardOrder:
        """Return the order for one shard of a plan; ``left_usd`` is the rest of the budget (None = no limit)."""
        request, run_id = plan.request, plan.request.run_id
        assert run_id is not None
        flags = request.model_dump(mode="json", exclude_unset=True, exclude=set(ONLY_HERE))
        calibrates = shard.number == 1 and (request.judge_calibration or request.publishable)
        flags |= {"start": shard.start, "end": shard.end, "judge_calibration": calibrates, "max_cost": left_usd}
        if plan.workers > 1:
            flags |= _worker_concurrency(request, share)
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
        """Return the name of the shard. On a worker, the run folder of the shard has this name with a random suffix."""
        return f"{self.run_id}.{self.shard}"


def _worker_concurrency(request: RunRequest, share: float) -> dict[str, int]:
    """Return the concurrency flags of one worker process: ``share`` of the run's concurrency, but at least 1."""
    whole = {"concurrency": request.concurrency, "ingest_concurrency": request.ingest_concurrency}
    return {name: max(1, round(one * share)) for name, one in whole.items() if isinstance(one, int)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a worker did not run or finish a shard: an error as plain data."""

    kind: str
    message: str
    hint: str
    worker: str
    exit_code: int

    @classmethod
    def of(cls, error: BenchError, worker: str) -> Refusal:
        """Convert an error to plain data, because not every exception can be pickled."""
        return cls(kind=error.kind, message=str(error), hint=error.hint, worker=worker, exit_code=error.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """The result of a shard, sent to the coordinator."""

    pack: CompressedParts | None
    """the journal and stores; None if the shard was not started or ended with an error"""
    counters: ShardCounters | None = None
    """the progress at the end"""
    whole: bool = False
    """the shard is complete"""
    stop: str | None = None
    """the reason why the shard stopped early; None if it did not"""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """job key -> reason why it was stopped"""
    message: str = ""
    refusal: Refusal | None = None
