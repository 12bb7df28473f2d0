"""What a running shard says of itself each second, and all of it together as the progress of one run.

Example::

    post.say(Word.of(order, worker, progress).text)             # on the worker
    gathered.hear(Word.read(text))                              # at the coordinator: a display polls ``gathered``
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache

from pydantic import TypeAdapter

from bench.engine.progress import Count, JobProgress, LaneProgress, Progress, Scores
from bench.model import Phase, State
from bench.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The counters of one attempt at one shard."""

    shard: int
    attempt: str
    """a shard that is run again begins anew, and what the lost attempt has spent stays spent"""
    worker: str
    phases: Mapping[str, Mapping[Phase, tuple[int, int, int]]] = field(default_factory=dict)
    """lane -> phase -> total, done, failed"""
    states: Mapping[str, Mapping[State, int]] = field(default_factory=dict)
    """by job"""
    scores: Mapping[str, Mapping[str, Scores]] = field(default_factory=dict)
    """job -> corpus -> count, sum, sum of squares"""
    cost_usd: Decimal = Decimal(0)
    earlier_usd: Decimal = Decimal(0)
    """the part of it that earlier attempts left in the journal that this one continues"""
    unknown_costs: int = 0
    rate_limited: int = 0
    calls: int = 0
    in_flight: int = 0
    oldest_s: float | None = None
    rate_per_s: float = 0.0

    @classmethod
    def of(cls, shard: int, attempt: str, worker: str, progress: Progress | None) -> Word:
        """Copy the counters; without them the word only says that the attempt lives."""
        if progress is None:
            return cls(shard=shard, attempt=attempt, worker=worker)
        lanes, jobs = progress.lanes, progress.jobs
        return cls(
            shard=shard,
            attempt=attempt,
            worker=worker,
            phases={
                key: {phase: (one.total, one.done, one.failed) for phase, one in lane.phases.items()}
                for key, lane in lanes.items()
            },
            states={key: dict(job.states) for key, job in jobs.items()},
            scores={key: dict(job.scores) for key, job in jobs.items()},
            cost_usd=progress.cost_usd,
            earlier_usd=progress.earlier_usd,
            unknown_costs=progress.unknown_costs,
            rate_limited=progress.rate_limited,
            calls=progress.calls,
            in_flight=progress.in_flight,
            oldest_s=progress.oldest_s,
            rate_per_s=progress.rate_per_s,
        )

    @property
    def text(self) -> str:
        """As JSON."""
        return _words().dump_json(self).decode()

    @staticmethod
    def read(text: str) -> Word:
        return _words().validate_json(text)


@cache
def _words() -> TypeAdapter[Word]:
    return TypeAdapter(Word)


class Gathered(Progress):
    """The progress of a run whose shards are elsewhere."""

    def __init__(self, plan: Plan, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self._attempts: dict[tuple[int, str], Word] = {}
        self._latest: dict[int, Word] = {}
        self._heard: dict[int, float] = {}
        for lane in plan.lanes:
            self.lanes[lane.key] = LaneProgress(lane.key)
            for job in lane.jobs:
                self.jobs[job.key] = JobProgress.of(lane, job)

    def hear(self, word: Word) -> None:
        """Take what a shard says now in place of what this attempt said before."""
        self._attempts[word.shard, word.attempt] = word
        self._latest[word.shard] = word
        self._heard[word.shard] = time.monotonic()
        self._add_up()

    def took_back(self, shard: int) -> None:
        """A shard is no longer out: nothing of it is in flight, and its silence means nothing."""
        self._heard.pop(shard, None)

    def silent_s(self, shard: int) -> float:
        """How long a shard that began to speak has said nothing; 0 for one that waits for its turn."""
        heard = self._heard.get(shard)
        return 0.0 if heard is None else time.monotonic() - heard

    def worker_of(self, shard: int) -> str:
        """Who had it last, as far as it said."""
        word = self._latest.get(shard)
        return "no worker yet" if word is None else word.worker

    @property
    def in_flight(self) -> int:
        return sum(word.in_flight for word in self._out)

    @property
    def oldest_s(self) -> float | None:
        return max((word.oldest_s for word in self._out if word.oldest_s is not None), default=None)

    @property
    def rate_per_s(self) -> float:
        return sum(word.rate_per_s for word in self._out)

    @property
    def _out(self) -> list[Word]:
        return [word for number, word in self._latest.items() if number in self._heard]

    def _add_up(self) -> None:
        latest, every = self._latest.values(), self._attempts.values()
        for key, lane in self.lanes.items():
            lane.phases = {phase: _summed(word.phases.get(key, {}).get(phase) for word in latest) for phase in Phase}
        for key, job in self.jobs.items():
            job.states = Counter()
            for word in latest:
                job.states.update(word.states.get(key, {}))
            job.scores = _joined([word.scores.get(key, {}) for word in latest])
        self.cost_usd = sum(map(self._cost_of, self._latest.values()), Decimal(0))
        self.unknown_costs = sum(word.unknown_costs for word in every)
        self.rate_limited = sum(word.rate_limited for word in every)
        self.calls = sum(word.calls for word in every)

    def _cost_of(self, latest: Word) -> Decimal:
        """Add up the attempts at a shard, each of which begins anew or continues the journal of an earlier one."""
        attempts = [word for word in self._attempts.values() if word.shard == latest.shard]
        return max(latest.cost_usd, sum((word.cost_usd - word.earlier_usd for word in attempts), Decimal(0)))


def _joined(parts: Iterable[Mapping[str, Scores]]) -> dict[str, Scores]:
    """Add up what the shards scored in each corpus."""
    found: dict[str, Scores] = {}
    for part in parts:
        for corpus, more in part.items():
            n, total, squares = found.get(corpus, (0, 0.0, 0.0))
            found[corpus] = (n + more[0], total + more[1], squares + more[2])
    return found


def _summed(counts: Iterable[tuple[int, int, int] | None]) -> Count:
    known = [one for one in counts if one is not None]
    total, done, failed = (sum(column) for column in zip(*known, strict=True)) if known else (0, 0, 0)
    return Count(total=total, done=done, failed=failed)
