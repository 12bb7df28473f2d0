"""What the runs of a workspace have ingested: the identity of each build, and what it cost.

Example::

    async with Reader.open(folder) as reader:
        for build in await builds_of(reader):
            build.fingerprint, build.n_memories, build.cost_usd

Two builds with one fingerprint hold the same memories in the same order, ingested with the same settings by the same
version of the same provider and embedding model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal

from bench.canonical import digest
from bench.journal import CorpusKind, Reader
from bench.journal.borrowers import borrowers
from bench.metrics.latency import attempt_us
from bench.plan.job_record import JobRecord, read
from bench.plan.shared_builds import BUILD, version_of

SHORT = 12
"""digits of a fingerprint in a table"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What one lane of a run ingested."""

    run_id: str
    build: str
    """key of the lane that ingested"""
    benchmark: str
    provider: str
    searched_by: tuple[str, ...]
    """providers of the jobs that search it, as results name them"""
    lent_to: tuple[str, ...]
    """other runs that are not complete and search it"""
    fingerprint: str | None
    """None = a corpus is missing, or the journal of an older version lacks the parts"""
    version: str | None
    upstream_version: str | None
    embedding: str | None
    n_corpora: int
    """that were ingested whole"""
    n_memories: int
    n_held: int
    """corpora that the provider still holds"""
    calls: int
    tokens: int
    cost_usd: str
    cost_unknown_calls: int
    ingest_us: int
    """the times of all batches together, without queue and limiter: waiting for other jobs is not ingest"""

    @property
    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "searched_by": list(self.searched_by), "lent_to": list(self.lent_to)}


async def builds_of(reader: Reader) -> list[Build]:
    """Fold every build of a run, in the order of its jobs."""
    records = [record for record in read(reader.meta.extra) if record.skipped is None]
    events = [event for _, event in await reader.events() if event.kind == BUILD]
    identities = {event.scope: event.data for event in events}  # the newest of each build
    owners = {record.build: record for record in reversed(records)}
    found = []
    for key in dict.fromkeys(record.build for record in records):
        searched_by = tuple(dict.fromkeys(one.provider for one in records if one.build == key))
        found.append(await _build(reader, owners[key], searched_by, identities.get(key, {})))
    return found


async def _build(
    reader: Reader, record: JobRecord, searched_by: tuple[str, ...], identity: Mapping[str, object]
) -> Build:
    texts: dict[str, object] = {}
    n_memories = n_held = calls = tokens = unknown = ingest_us = 0
    n_begun, cost = 0, Decimal(0)
    async for one in reader.corpora(record.build):
        if not one.last or one.is_reused:
            continue
        n_begun += 1
        n_held += one.row(CorpusKind.CLEARED) is None
        ingest_us += sum(attempt_us(row.times_us) or 0 for row in one.last if row.kind == CorpusKind.BATCH)
        for spent in one.spent.values():
            calls, tokens = calls + spent.calls, tokens + spent.usage.input_tokens
            cost, unknown = cost + Decimal(spent.cost_usd), unknown + spent.unknown_costs
        ingested = one.row(CorpusKind.INGESTED)
        if ingested is not None:
            texts[one.corpus] = ingested.data.get("sha256")
            memories = ingested.data.get("memories")
            n_memories += memories if isinstance(memories, int) else 0
    whole = bool(texts) and len(texts) == n_begun and None not in texts.values() and bool(identity)
    version, upstream = identity.get("version"), identity.get("upstream")
    return Build(
        run_id=reader.meta.run_id,
        build=record.build,
        benchmark=record.benchmark,
        provider=record.provider,
        searched_by=searched_by,
        lent_to=await borrowers(reader.path.parent),
        fingerprint=digest({**identity, "version": version_of(identity), "corpora": texts}) if whole else None,
        version=version if isinstance(version, str) else None,
        upstream_version=upstream if isinstance(upstream, str) else None,
        embedding=record.models.embedding,
        n_corpora=len(texts),
        n_memories=n_memories,
        n_held=n_held,
        calls=calls,
        tokens=tokens,
        cost_usd=str(cost),
        cost_unknown_calls=unknown,
        ingest_us=ingest_us,
    )
