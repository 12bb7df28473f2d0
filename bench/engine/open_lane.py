"""Shared state of the workers of a lane: its plan, provider, place in the journal and corpora.

Example::

    lane.space("conv-26", history)      # where the corpus lies at this provider
    lane.tell_once("lent", "memories are kept")
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from functools import partial

import anyio

from bench.datasets import ItemRef
from bench.engine.anonymizer import Veil, space_of, veil_of
from bench.engine.corpus_state import CorpusState
from bench.engine.isolation import CorpusPlace, FirstWrite, Ownership, clear_provably
from bench.engine.models import Readers
from bench.engine.run_context import Halts, Ledger, Live
from bench.engine.work_queue import Todo
from bench.journal import CorpusKind, CorpusRow, Event, ProbeRow
from bench.journal.borrowers import borrowers
from bench.model import Corpus, Hit, Memory, Phase, Space
from bench.plan import Lane
from bench.plan.validity import in_words
from bench.providers import Batching, Provider
from bench.providers.batching import cut_as

CORPORA_A_SLOT = 8
"""corpora that may be under way for each ingest slot: most of them wait for an index"""
THOROUGH = 2
"""corpora of a lane in which more is looked for than in each: what a service does there it does everywhere"""
REMEMBERED = 8
"""corpora whose sample memories a canary may look for"""


@dataclass(slots=True, kw_only=True)
class OpenLane:
    """The state that the workers of a lane share."""

    live: Live
    plan: Lane
    provider: Provider
    readers: Readers
    todo: Todo
    ingest_slots: anyio.CapacityLimiter
    width: int
    last: Phase
    """the phase that the run stops after"""
    audits: bool = False
    """some evaluator looks at everything that is stored"""
    search_price: str | None = None
    """USD of one search, None = no one named a price"""
    deletions_begun: Set[tuple[str, int]] = frozenset()
    """deletions that an earlier process began: (item, corpus attempt)"""
    halts: Halts
    ownership: Ownership
    first_write: FirstWrite = field(default_factory=FirstWrite)
    unfinished: set[str] = field(default_factory=set)
    """corpora with an item that ended as error, or that could not be prepared"""
    leaking: set[str] = field(default_factory=set)
    """namespaces in which a memory of another corpus was found"""
    vacant: anyio.Event = field(default_factory=anyio.Event)
    """set once the corpus that is asked has left a service with one namespace"""
    told: set[str] = field(default_factory=set)
    """kinds of events that were reported once"""
    followers: list[OpenLane] = field(default_factory=list)
    """the lanes that search what this one ingests"""
    contexts: set[int] = field(default_factory=set)
    """digests of what answers rested on: a context that comes back begins further prompts"""
    loses: bool = False
    """a memory that the service acknowledged was waited for in vain"""
    thorough: int = THOROUGH
    """corpora whose memories are still to be looked for one by one"""
    unproven: int = THOROUGH
    """clears of a namespace whose effect is still to be looked at"""
    _samples: deque[tuple[str, tuple[Memory, ...]]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    # ---- stopping

    @property
    def halted(self) -> bool:
        """Start nothing new in this lane."""
        return self.halts.every or self.live.stopping.asked

    @property
    def build_halted(self) -> bool:
        """Prepare nothing more: none of the lanes that search the build takes any more work."""
        return self.live.stopping.asked or (self.halts.every and all(one.halts.every for one in self.followers))

    def count_search(self, *, empty: bool) -> None:
        """Tell the circuit breaker; a provider that keeps nothing finds nothing."""
        if self.provider.keeps_store:
            self.halts.count_search(empty=empty, provider=self.provider.name)

    # ---- what workers ask for

    @property
    def asks(self) -> bool:
        """Items are asked: the run does not stop after ingest or index."""
        return self.last not in (Phase.INGEST, Phase.INDEX)

    @property
    def keeps(self) -> bool:
        """The memories outlive the run."""
        return self.live.plan.request.cleanup == "never" or not self.asks

    @property
    def key(self) -> str:
        return self.plan.key

    @property
    def members(self) -> tuple[OpenLane, ...]:
        """The lanes of the build, itself first."""
        return (self, *self.followers)

    @property
    def corpus_ids(self) -> list[str]:
        """Every corpus of the selection."""
        benchmark = self.plan.benchmark
        return list(dict.fromkeys(ref.corpus for ref in benchmark.dataset.items(benchmark.selection)))

    def is_unsearched(self, corpus_id: str) -> bool:
        """Some lane of the build has an item of the corpus still to search."""
        return any(corpus_id in one.todo.unsearched for one in self.members)

    @property
    def open_items(self) -> int:
        return sum(one.todo.count for one in self.members)

    @property
    def open_corpora(self) -> list[str]:
        """The corpora with an item to ask in some lane of the build."""
        return list(dict.fromkeys(name for one in self.members for name in one.todo.corpora()))

    def items(self, corpus_id: str) -> Iterator[LaneItem]:
        """The open items of a corpus in file order, each for every lane of the build that has it to do."""
        if not self.followers:
            return ((self, ref) for ref in self.todo.items(corpus_id))
        wanted = [(one, set(one.todo.open_positions.get(corpus_id, ()))) for one in self.members]
        dataset = self.plan.benchmark.dataset
        return (
            (lane, dataset.ref(position))
            for position in sorted(set[int]().union(*(positions for _, positions in wanted)))
            for lane, positions in wanted
            if position in positions
        )

    @property
    def isolated(self) -> bool:
        """Emptiness probe and sentinel apply."""
        return self.live.plan.request.isolation != "off" and self.provider.keeps_store

    @property
    def single(self) -> bool:
        """The service has one namespace: one corpus at a time, cleared before the next."""
        return self.plan.provider.config.scoping.single and self.provider.keeps_store

    @property
    def canaries(self) -> bool:
        return self.live.plan.request.isolation == "full" and self.provider.keeps_store

    @property
    def ingest_width(self) -> int:
        return int(self.ingest_slots.total_tokens)

    @property
    def under_way(self) -> int:
        """Corpora that are prepared at once; more than the slots only where an index is waited for."""
        if self.single:
            return 1
        waits = self.provider.wait.by != "nothing"
        return self.ingest_width * CORPORA_A_SLOT if waits else self.ingest_width

    @property
    def max_retries(self) -> int:
        """The number of times that a batch in doubt is resolved before the corpus becomes an error."""
        return self.plan.provider.config.rate_limit.max_retries

    @property
    def batching(self) -> Batching:
        """The cutting of memories: as the provider does, and into pieces or chunks if its config states so."""
        return cut_as(self.plan.provider.config.ingest, self.provider.batching)

    def corpus(self, corpus_id: str) -> Corpus:
        return self.plan.benchmark.dataset.corpus(corpus_id)

    def veil(self, corpus: Corpus) -> Veil:
        """Render a corpus into memories and hide the dataset's ids."""
        return veil_of(self.plan, corpus)

    def space(self, corpus_id: str, history: CorpusState) -> Space:
        """Return the space (namespace and captures) of the last ingest attempt of a corpus."""
        journal = self.live.journal.uuid
        return space_of(self.plan, journal=journal, run_id=self.live.run_id, corpus=corpus_id, history=history)

    def place(self, space: Space, corpus_id: str) -> CorpusPlace:
        return CorpusPlace(benchmark=self.plan.benchmark.name, corpus=corpus_id, namespace=space.namespace)

    def watch(self, corpus_id: str, space: Space, veil: Veil, hits: Iterable[Hit]) -> None:
        """Journal the first hit of a corpus attempt that provably belongs to another corpus."""
        if not self.isolated or space.namespace in self.leaking:
            return
        found = self.owner_among(corpus_id, space, veil, hits)
        if found:
            self.leaking.add(space.namespace)
            data = {"namespace": space.namespace, **found}
            probe = ProbeRow(
                lane=self.plan.build, corpus=corpus_id, attempt=space.attempt, kind="leak", passed=False, data=data
            )
            self.live.journal.append(probe)
            self.live.progress.events.append(f"{self.key}: {in_words(probe)}")

    def owner_among(self, corpus_id: str, space: Space, veil: Veil, hits: Iterable[Hit]) -> dict[str, object]:
        """Return the first hit that provably belongs to another corpus, and that corpus; empty = none does."""
        place = self.place(space, corpus_id)
        owned = ((hit, self.ownership.owner_of(hit, place, veil)) for hit in hits)
        return next(({"hit": hit.id, "of": asdict(owner)} for hit, owner in owned if owner is not None), {})

    def remember_samples(self, corpus_id: str, found: tuple[Memory, ...]) -> None:
        self._samples.append((corpus_id, found))

    def samples_of_others(self, corpus_id: str) -> list[Memory]:
        """Return sample memories of the other corpora that are ingested by now."""
        return [memory for name, some in self._samples if name != corpus_id for memory in some]

    async def _is_lent(self, corpus_id: str) -> bool:
        """Another run searches what this one has ingested."""
        lent_to = await borrowers(self.live.folder)
        if not lent_to or not CorpusState.of(await self.live.journal.corpus(self.key, corpus_id)).is_ready:
            return False
        names = ", ".join(lent_to)
        self.tell_once("lent", f"memories are kept: run {names} searches them; bench clean clears them after that")
        return True

    def left_out(self, corpus_id: str) -> bool:
        """Say, also to people, whether items of a corpus wait for another retry: it is kept for them."""
        left = sum(one.todo.left_out.get(corpus_id, 0) for one in self.members)
        if left:
            self.tell(
                Event(
                    kind="kept",
                    scope=self.key,
                    message=f"the memories of {corpus_id} are kept: {left} of its items were not asked for and have no "
                    f"result; bench retry {self.live.run_id} asks them, without another ingest",
                    data={"corpus": corpus_id, "items": left},
                )
            )
        return left > 0

    # ---- rows

    def tell(self, event: Event) -> None:
        """Journal an event and show it to people."""
        self.live.journal.append(event)
        self.live.progress.events.append(f"{self.key}: {event.message}")

    def tell_once(self, kind: str, message: str) -> None:
        """The same, but one event of a kind is enough for this process."""
        if kind not in self.told:
            self.told.add(kind)
            self.tell(Event(kind=kind, scope=self.key, message=message))

    async def clear(self, corpus_id: str, space: Space) -> None:
        """Clear a namespace; that something was left is an event, never an error of the run."""
        if not self.provider.capabilities.clear or await self._is_lent(corpus_id):
            return
        ledger = Ledger(self.key, corpus_id, space.attempt)
        clear = partial(self.provider.clear, space)
        if proves := self.isolated and self.unproven > 0 and self.plan.provider.built_in is None:
            veil = self.veil(self.corpus(corpus_id))
            clear = partial(clear_provably, self.provider, space, veil, self.live.stopping.pause_for)
        cleared = await self.live.attempt(clear, ledger)
        self.unproven -= proves and cleared.failure is None
        if cleared.failure is not None:
            self.live.keep(cleared.calls, ledger)
            text = f"{cleared.message}; bench clean {self.live.run_id} --orphans --yes tries again"
            self.tell(Event(kind="not_cleared", scope=self.key, message=text, data={"corpus": corpus_id}))
            return
        self.live.journal.append(
            CorpusRow(
                lane=self.key,
                corpus=corpus_id,
                attempt=space.attempt,
                kind=CorpusKind.CLEARED,
                data={"removed": cleared.value},
                times_us=cleared.times_us,
                calls=cleared.calls,
            )
        )


LaneItem = tuple[OpenLane, ItemRef]
"""an item, and the lane that it is run for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A corpus in memory."""

    corpus: Corpus
    veil: Veil
    turn_texts: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class Ready:
    """A corpus whose items can be asked; shared by the workers that ask them.

    It is read when its first item is asked and goes with its last, so that corpora which wait cost no memory.
    """

    lane: OpenLane
    corpus_id: str
    space: Space
    open_items: int = 0
    """items that have not ended in this process"""
    all_good: bool = True
    """no item ended as error or not_ready: the namespace may be cleared"""
    held: bool = True
    """the provider holds it"""
    prepared: bool = True
    """False: every search is in the journal, so the provider was not asked whether it is ready"""
    _content: Content | None = None

    def closed(self) -> Ready:
        """The same, with its content let go."""
        self._content = None
        return self

    @property
    def content(self) -> Content:
        """The corpus, its memories as the provider knows them, and the texts of its turns."""
        if self._content is None:
            corpus = self.lane.corpus(self.corpus_id)
            texts = {turn.id: turn.text for session in corpus.sessions for turn in session.turns}
            self._content = Content(corpus=corpus, veil=self.lane.veil(corpus), turn_texts=texts)
        return self._content
