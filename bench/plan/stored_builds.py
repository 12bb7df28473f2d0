"""Read the builds of a run from its journal. A build is one ingest of all corpora.

Example::

    async with Reader.open(folder) as reader:
        for build in await builds_of(reader):
            build.fingerprint, build.n_memories, build.cost_usd

Two builds with equal fingerprints have the same memories in the same order. They were also ingested with the same
settings, and by the same version of the same provider and embedding model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from bench.canonical import digest
from bench.journal import CorpusKind, Reader
from bench.journal.build_borrowers import borrowers
from bench.journal.records import CorpusRecord
from bench.metrics.latency import attempt_us
from bench.plan.job_record import JobRecord, read_jobs
from bench.plan.shared_builds import BUILD, version_of
from bench.untyped_values import Json

SHORT = 12
"""number of hex digits of a fingerprint in a table"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The memories that one lane of a run ingested."""

    run_id: str
    build: str
    """key of the lane that ingested the memories"""
    benchmark: str
    provider: str
    searched_by: tuple[str, ...]
    """labels of the providers whose jobs search these memories"""
    lent_to: tuple[str, ...]
    """ids of other, incomplete runs that search these memories"""
    fingerprint: str | None
    """digest of the ingested memories and the settings

    None if a corpus is missing or was ingested by another run, or if the journal of an older version has no digests.
    """
    version: str | None
    upstream_version: str | None
    embedding: str | None
    n_corpora: int
    """number of completely ingested corpora"""
    n_memories: int
    n_held: int
    """number of corpora that still exist at the provider"""
    calls: int
    tokens: int
    cost_usd: str
    cost_unknown_calls: int
    """number of billed calls whose cost is unknown"""
    ingest_us: int
    """total time of all add calls in microseconds, without time in the queue and in the rate limiter"""


async def builds_of(reader: Reader) -> list[Build]:
    """Return every build of a run, in the order of its jobs."""
    records = [record for record in read_jobs(reader.meta.extra) if record.skipped is None]
    events = await reader.events(BUILD)
    identities = {event.scope: event.data for event in events}  # the newest of each build
    owners = {record.build: record for record in reversed(records)}
    found = []
    for key in dict.fromkeys(record.build for record in records):
        searched_by = tuple(dict.fromkeys(one.provider for one in records if one.build == key))
        found.append(await _build(reader, owners[key], searched_by, identities.get(key, {})))
    return found


@dataclass(slots=True)
class BuildTotals:
    """The totals of one build over all its corpora and ingest attempts."""

    identity: Mapping[str, object]
    """the settings of the ingest"""
    texts: Json = field(default_factory=dict)
    """corpus -> digest of its memories; only for corpora that were ingested completely"""
    sizes: dict[str, int | None] = field(default_factory=dict)
    """corpus -> number of tokens of all its memories, or None if unknown; includes corpora that another run ingested"""
    n_reused: int = 0
    """number of corpora that another run ingested"""
    n_begun: int = 0
    n_held: int = 0
    n_ingests: int = 0
    """number of complete ingests; a merged run can have several ingests of one corpus"""
    n_memories: int = 0
    calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unknown_costs: int = 0
    ingest_us: int = 0

    def add(self, one: CorpusRecord) -> None:
        """Add the calls, times and counts of one corpus to the totals."""
        ingested = one.row(CorpusKind.INGESTED)
        if ingested is not None:
            self.sizes[one.corpus] = _count(ingested.data.get("tokens"))
        self.n_reused += one.is_reused
        if not one.last or one.is_reused:
            return
        self.n_begun += 1
        self.n_held += one.row(CorpusKind.CLEARED) is None
        self.ingest_us += attempt_us(one.sending_us) or 0
        for spent in one.spent.values():
            self.calls += spent.calls
            self.tokens += spent.usage.input_tokens + spent.usage.output_tokens
            self.cost += Decimal(spent.cost_usd)
            self.unknown_costs += spent.unknown_costs
        if ingested is not None:
            self.n_ingests += 1
            self.texts[one.corpus] = ingested.data.get("sha256")
            self.n_memories += _count(ingested.data.get("memories")) or 0

    @property
    def fingerprint(self) -> str | None:
        """Return the digest of all memories and settings, or None if it cannot be computed.

        It cannot be computed if a corpus is missing or was ingested by another run, or if the journal of an older
        version lacks the digests of memories.
        """
        texts, identity = self.texts, self.identity
        if not texts or self.n_reused or len(texts) != self.n_begun or None in texts.values() or not identity:
            return None
        return digest({**identity, "version": version_of(identity), "corpora": texts})


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


async def _build(
    reader: Reader, record: JobRecord, searched_by: tuple[str, ...], identity: Mapping[str, object]
) -> Build:
    totals = BuildTotals(identity)
    async for one in reader.corpora(record.build):
        totals.add(one)
    version, upstream = identity.get("version"), identity.get("upstream")
    return Build(
        run_id=reader.meta.run_id,
        build=record.build,
        benchmark=record.benchmark,
        provider=record.provider,
        searched_by=searched_by,
        lent_to=await borrowers(reader.path.parent),
        fingerprint=totals.fingerprint,
        version=version if isinstance(version, str) else None,
        upstream_version=upstream if isinstance(upstream, str) else None,
        embedding=record.models.embedding,
        n_corpora=len(totals.texts),
        n_memories=totals.n_memories,
        n_held=totals.n_held,
        calls=totals.calls,
        tokens=totals.tokens,
        cost_usd=f"{totals.cost:f}",
        cost_unknown_calls=totals.unknown_costs,
        ingest_us=totals.ingest_us,
    )
