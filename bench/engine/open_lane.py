"""The state that the workers of a lane share: its plan, provider, pending items and corpora.

Example::

    space = lane.space("conv-26", history)                  # history: the rows of the corpus, as a CorpusState
    lane.report_once("lent", "memories are kept")           # a second event of the kind "lent" is ignored
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from functools import partial

import anyio

from bench.datasets import ItemRef
from bench.engine.circuit_breaker import CircuitBreaker
from bench.engine.corpora.anonymizer import AnonymizedCorpus, anonymize, space_of
from bench.engine.corpora.corpus_state import CorpusState
from bench.engine.corpora.isolation import CorpusNamespace, FirstWriteOrder, Ownership, clear_provably
from bench.engine.models import OpenModels
from bench.engine.outcome import Failure
from bench.engine.pending_items import PendingItems
from bench.engine.run_context import CallOwner, RunContext
from bench.journal import CorpusKind, CorpusRow, Event, ProbeRow
from bench.journal.build_borrowers import borrowers
from bench.journal.rows import ProbeKind
from bench.model import Call, Corpus, Hit, Memory, Phase, Space
from bench.plan import Lane
from bench.plan.leftover_namespaces import NOT_CLEARED
from bench.plan.validity import probe_text
from bench.providers import Batching, Provider
from bench.providers.batching import with_split_rule
from bench.visible_text import counted

THOROUGH = 2
"""number of corpora of a lane that are checked thoroughly, as a sample of the others"""
REMEMBERED = 8
"""number of corpora whose sample memories are kept for the canary checks of other corpora"""


@dataclass(slots=True, kw_only=True)
class OpenLane:
    """The state that the workers of a lane share."""

    run: RunContext
    plan: Lane
    provider: Provider
    models: OpenModels
    pending: PendingItems
    ingest_slots: anyio.CapacityLimiter
    width: int
    last: Phase
    """the last phase of the run"""
    lists_stored: bool = False
    """True if an evaluator reads all stored memories"""
    add_price: str | None = None
    """price of an add in USD; None = unknown"""
    search_price: str | None = None
    """price of one search in USD; None = unknown"""
    deletions_begun: Set[tuple[str, int]] = frozenset()
    """deletions that an earlier process began, as (item, number of the attempt to ingest its corpus)"""
    breaker: CircuitBreaker
    ownership: Ownership
    first_write: FirstWriteOrder = field(default_factory=FirstWriteOrder)
    unfinished: set[str] = field(default_factory=set)
    """corpora that could not be prepared, or have an item that failed"""
    leaking: set[str] = field(default_factory=set)
    """namespaces in which a memory of another corpus was found"""
    namespace_free: anyio.Event = field(default_factory=anyio.Event)
    """set when the next corpus can be ingested into a service that has only one namespace"""
    reported_kinds: set[str] = field(default_factory=set)
    """kinds of events that were already reported"""
    followers: list[OpenLane] = field(default_factory=list)
    """the other lanes that search the memories which this lane ingests"""
    contexts: set[int] = field(default_factory=set)
    """hashes of the answer contexts so far, to detect prompts that share their context"""
    loses_memories: bool = False
    """True after a memory was acknowledged, but not found within the time to wait"""
    lost_corpus: bool = False
    """True after nothing of a corpus was found that was searchable before"""
    thorough_checks_left: int = THOROUGH
    """number of corpora whose memories are still to be checked one by one"""
    clear_checks_left: int = THOROUGH
    """number of clears whose effect is still to be checked"""
    samples: deque[tuple[str, tuple[Memory, ...]]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    # ---- stopping

    @property
    def is_stopped(self) -> bool:
        """Return True if the lane must not start anything new."""
        return self.breaker.all_stopped or self.run.stopping.requested

    @property
    def is_build_stopped(self) -> bool:
        """Return True if no further corpus is prepared: the run, or every lane that searches the build, is stopped."""
        return self.run.stopping.requested or (
            self.breaker.all_stopped and all(one.breaker.all_stopped for one in self.followers)
        )

    def count_search(self, *, empty: bool) -> None:
        """Report a search to the circuit breaker, unless the provider stores nothing."""
        if self.provider.keeps_store:
            self.breaker.count_search(empty=empty, provider=self.provider.name)

    # ---- what workers ask for

    @property
    def runs_items(self) -> bool:
        """Return True if this run searches items; False if it ends after ingest or index."""
        return self.last not in (Phase.INGEST, Phase.INDEX)

    @property
    def key(self) -> str:
        return self.plan.key

    @property
    def members(self) -> tuple[OpenLane, ...]:
        """Return this lane, and after it the other lanes that search its build."""
        return (self, *self.followers)

    @property
    def corpus_ids(self) -> list[str]:
        """Return the ids of all corpora that have a selected item."""
        benchmark = self.plan.benchmark
        return list(dict.fromkeys(ref.corpus for ref in benchmark.dataset.items(benchmark.selection)))

    def is_unsearched(self, corpus_id: str) -> bool:
        """Return True if a lane that uses this build still has to search an item of the corpus."""
        return any(corpus_id in one.pending.unsearched for one in self.members)

    @property
    def open_items(self) -> int:
        return sum(one.pending.count for one in self.members)

    @property
    def open_corpora(self) -> list[str]:
        """Return the corpora that have an open item in any lane that uses this build."""
        return list(dict.fromkeys(name for one in self.members for name in one.pending.corpora()))

    def items(self, corpus_id: str) -> Iterator[LaneItem]:
        """Yield the open items of a corpus in file order, each with the lane that runs it.

        If an item is open in several lanes, it is yielded once for each of these lanes.
        """
        if not self.followers:
            return ((self, ref) for ref in self.pending.items(corpus_id))
        wanted = [(one, set(one.pending.open_positions.get(corpus_id, ()))) for one in self.members]
        dataset = self.plan.benchmark.dataset
        return (
            (lane, dataset.ref(position))
            for position in sorted(set[int]().union(*(positions for _, positions in wanted)))
            for lane, positions in wanted
            if position in positions
        )

    @property
    def checks_isolation(self) -> bool:
        """Return True if isolation checks are run: they are not switched off, and the provider stores memories."""
        return self.run.plan.request.isolation != "off" and self.provider.keeps_store

    @property
    def single(self) -> bool:
        """Return True if the service has only one namespace, so that it must be cleared before the next corpus."""
        return self.plan.provider.config.scoping.single and self.provider.keeps_store

    @property
    def ingest_width(self) -> int:
        return int(self.ingest_slots.total_tokens)

    @property
    def batching(self) -> Batching:
        """Return the rules by which memories are split into pieces and sent in batches."""
        return with_split_rule(self.plan.provider.config.ingest, self.provider.batching)

    def corpus(self, corpus_id: str) -> Corpus:
        return self.plan.benchmark.dataset.corpus(corpus_id)

    def anonymize(self, corpus: Corpus) -> AnonymizedCorpus:
        """Return the memories of a corpus with opaque ids, as the provider gets them."""
        return anonymize(self.plan, corpus)

    def space(self, corpus_id: str, history: CorpusState) -> Space:
        """Return the namespace of the last attempt to ingest a corpus.

        It includes the values that were captured from the provider's responses.
        """
        journal = self.run.journal.uuid
        return space_of(self.plan, journal=journal, run_id=self.run.run_id, corpus=corpus_id, history=history)

    def corpus_namespace(self, space: Space, corpus_id: str) -> CorpusNamespace:
        return CorpusNamespace(benchmark=self.plan.benchmark.name, corpus=corpus_id, namespace=space.namespace)

    def check_leak(self, corpus_id: str, space: Space, anonymized: AnonymizedCorpus, hits: Iterable[Hit]) -> None:
        """Record a leak in the journal if a hit provably belongs to another corpus.

        Only the first leak of each namespace is recorded.
        """
        if not self.checks_isolation or space.namespace in self.leaking:
            return
        found = self.owner_among(corpus_id, space, anonymized, hits)
        if found:
            self.leaking.add(space.namespace)
            probe = self.append_probe("leak", corpus_id, space, passed=False, data=found)
            self.run.progress.events.append(f"{self.key}: {probe_text(probe)}")

    def owner_among(
        self, corpus_id: str, space: Space, anonymized: AnonymizedCorpus, hits: Iterable[Hit]
    ) -> dict[str, object]:
        """Find the first hit that provably belongs to another corpus.

        Return the id of the hit under ``hit``, and the namespace of the other corpus under ``of``. Return {} if there
        is no such hit.
        """
        corpus_namespace = self.corpus_namespace(space, corpus_id)
        owned = ((hit, self.ownership.owner_of(hit, corpus_namespace, anonymized)) for hit in hits)
        return next(({"hit": hit.id, "of": asdict(owner)} for hit, owner in owned if owner is not None), {})

    async def _report_borrowers(self, corpus_id: str) -> bool:
        """If another run still searches the memories of the corpus, report this as an event; return True if so."""
        borrower_ids = await borrowers(self.run.folder)
        if not borrower_ids or not CorpusState.of(await self.run.journal.corpus(self.key, corpus_id)).is_ready:
            return False
        names = ", ".join(borrower_ids)
        self.report_once(
            "lent",
            f"memories are kept, because run {names} searches them; when that run has ended, clear the "
            "memories with: bench clean",
        )
        return True

    def report_unselected_items(self, corpus_id: str) -> bool:
        """Report the number of the corpus's open items that this retry does not run; return True if there are any.

        The memories of such a corpus must be kept.
        """
        left = sum(one.pending.left_out.get(corpus_id, 0) for one in self.members)
        if left:
            self.report(
                Event(
                    kind="kept",
                    scope=self.key,
                    message=f"the memories of {corpus_id} are kept: "
                    f"{counted(left, 'of its items (was|were) not selected and (has|have) no result')}; "
                    f"run the rest without another ingest with: bench retry {self.run.run_id}",
                    data={"corpus": corpus_id, "items": left},
                )
            )
        return left > 0

    # ---- rows

    def report(self, event: Event) -> None:
        """Write an event to the journal, and show its message to the user."""
        self.run.journal.append(event)
        self.run.progress.events.append(f"{self.key}: {event.message}")

    def report_once(self, kind: str, message: str) -> None:
        """Write and show an event of this lane; further events of the same kind in this process are ignored."""
        if kind not in self.reported_kinds:
            self.reported_kinds.add(kind)
            self.report(Event(kind=kind, scope=self.key, message=message))

    def corpus_row(
        self,
        kind: CorpusKind,
        corpus_id: str,
        space: Space,
        *,
        failure: Failure | None = None,
        data: Mapping[str, object] | None = None,
        times_us: Mapping[str, int] | None = None,
        calls: tuple[Call, ...] = (),
    ) -> CorpusRow:
        """Return a journal row about the current attempt to prepare a corpus."""
        return CorpusRow(
            lane=self.plan.build,
            corpus=corpus_id,
            attempt=space.attempt,
            kind=kind,
            outcome="ok" if failure is None else failure.kind,
            message="" if failure is None else failure.message,
            data=data or {},
            times_us=times_us or {},
            calls=calls,
        )

    def append_probe(
        self, kind: ProbeKind, corpus_id: str, space: Space, *, passed: bool, data: Mapping[str, object]
    ) -> ProbeRow:
        """Write the outcome of an isolation check to the journal, and return its row."""
        data = {"namespace": space.namespace, **data}
        probe = ProbeRow(
            lane=self.plan.build, corpus=corpus_id, attempt=space.attempt, kind=kind, passed=passed, data=data
        )
        self.run.journal.append(probe)
        return probe

    async def clear(self, corpus_id: str, space: Space) -> None:
        """Clear a namespace, unless the provider cannot clear it or another run still uses its memories.

        A failure is recorded as an event and does not stop the run.
        """
        if not self.provider.capabilities.clear or await self._report_borrowers(corpus_id):
            return
        clear = partial(self.provider.clear, space)
        if proves := self.checks_isolation and self.clear_checks_left > 0 and self.plan.provider.built_in is None:
            anonymized = self.anonymize(self.corpus(corpus_id))
            clear = partial(clear_provably, self.provider, space, anonymized, self.run.stopping.pause_for)
        cleared = await self.run.attempt_and_journal(clear, CallOwner(self.key, corpus_id, space.attempt))
        self.clear_checks_left -= proves and cleared.failure is None
        if cleared.failure is not None:
            text = f"{cleared.message}; clear the namespace again with: bench clean {self.run.run_id} --orphans --yes"
            self.report(Event(kind=NOT_CLEARED, scope=self.key, message=text, data={"corpus": corpus_id}))
            return
        data = {"removed": cleared.value}
        row = self.corpus_row(CorpusKind.CLEARED, corpus_id, space, data=data, times_us=cleared.times_us)
        self.run.journal.append(row)


LaneItem = tuple[OpenLane, ItemRef]
"""the lane that runs an item, and the item"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusContent:
    """The content of a corpus.

    It has three parts: the corpus of the dataset, its memories with opaque ids, and the text of each turn by turn id.
    """

    corpus: Corpus
    anonymized: AnonymizedCorpus
    turn_texts: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class ReadyCorpus:
    """A corpus whose items can be run; all workers that run its items share this object.

    The content is read for the first item and released after the last item.
    """

    lane: OpenLane
    corpus_id: str
    space: Space
    open_items: int = 0
    """number of items that have not ended in this process"""
    all_good: bool = True
    """True while no item has failed; only then the namespace may be cleared"""
    held: bool = True
    """True if this run ingested the memories, so that it must also clear them"""
    prepared: bool = True
    """False if all searches are already in the journal, so that the memories were not prepared"""
    _content: CorpusContent | None = None

    def closed(self) -> ReadyCorpus:
        """Discard the content of the corpus, and return this object."""
        self._content = None
        return self

    @property
    def content(self) -> CorpusContent:
        """Return the corpus, its memories with opaque ids, and the texts of its turns by turn id."""
        if self._content is None:
            corpus = self.lane.corpus(self.corpus_id)
            texts = {turn.id: turn.text for session in corpus.sessions for turn in session.turns}
            self._content = CorpusContent(corpus=corpus, anonymized=self.lane.anonymize(corpus), turn_texts=texts)
        return self._content
