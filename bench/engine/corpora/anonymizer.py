"""Replace the ids of a dataset by hashed ids for providers, and map the hashed ids of hits back.

Ids of a dataset can reveal answers: the gold sessions of LongMemEval start with ``answer_``. So each memory, session,
corpus and item gets a hashed id, the same in every run.

Example::

    anonymized = AnonymizedCorpus.over("locomo", "conv-26", memories)
    anonymized.memories[0].id                             # "m3f1c09a2b7d4e5f6"
    anonymized.sources(["m3f1c09a2b7d4e5f6"])[0].turns    # ("D1:1", "D1:2")
    space_of(lane, journal=uuid, run_id="r1", corpus="conv-26", history=CorpusState()).namespace
    # "bench-demo-r1-3780d278..."

This module also chooses the namespace in which a corpus is stored at a provider.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from bench.datasets import Level, RenderedMemory, ids_at_level, memories
from bench.engine.corpora.corpus_state import CorpusState
from bench.model import Corpus, Memory, Space
from bench.plan import Lane
from bench.providers.batching import whole_id
from bench.providers.namespaces import namespace


def opaque_id(kind: str, *parts: str) -> str:
    """Return an opaque id: the letter ``kind`` and 16 hex digits of a hash of all arguments."""
    return kind + sha256("\x00".join((kind, *parts)).encode()).hexdigest()[:16]


def store_of(folder: Path, build: str) -> Path:
    """Return the folder in which the provider of a build stores its files; ``folder`` is the folder of the run."""
    return folder / "stores" / opaque_id("l", build)


@dataclass(frozen=True, kw_only=True)
class AnonymizedCorpus:
    """The memories of one corpus with opaque ids, as a provider gets them, and the map back to the dataset's ids."""

    memories: tuple[Memory, ...]
    _rendered: dict[str, RenderedMemory] = field(repr=False)
    _evidence: dict[Level, frozenset[str]] = field(default_factory=dict, repr=False)
    """level (session or turn) -> ids of the sessions or turns that the memories contain; filled on first use"""

    @classmethod
    def over(cls, benchmark: str, corpus: str, rendered: Iterable[RenderedMemory]) -> AnonymizedCorpus:
        """Return the memories of a corpus with opaque ids; ``rendered`` has the memories with the dataset's ids."""
        hidden = {opaque_id("m", benchmark, corpus, one.memory.id): one for one in rendered}
        memories = tuple(_anonymized_memory(name, benchmark, corpus, one.memory) for name, one in hidden.items())
        return cls(memories=memories, _rendered=hidden)

    def sources(self, memory_ids: Collection[str]) -> list[RenderedMemory]:
        """Return the dataset's memories for the opaque ids of a hit, in order; repeated and unknown ids are ignored."""
        if not memory_ids:
            return []
        wholes = dict.fromkeys(map(whole_id, memory_ids))
        return [self._rendered[name] for name in wholes if name in self._rendered]

    def knows(self, memory_ids: Collection[str]) -> bool:
        """Return True if at least one of the opaque ids belongs to a memory of this corpus."""
        return not self._rendered.keys().isdisjoint(map(whole_id, memory_ids))

    def holds_all(self, memory_ids: Collection[str]) -> bool:
        """Return True if all opaque ids belong to memories of this corpus."""
        return self._rendered.keys() >= set(map(whole_id, memory_ids))

    @property
    def sha256(self) -> str:
        """Return a SHA-256 of all memories in order, as the provider gets them."""
        hashed = sha256()
        for one in self.memories:
            turns = [[turn.role, turn.content, turn.speaker, turn.when] for turn in one.messages]
            parts = (one.id, one.content, one.when, one.role, one.speaker, one.session_id, turns, dict(one.metadata))
            hashed.update(json.dumps(parts, default=str, sort_keys=True).encode() + b"\n")
        return hashed.hexdigest()

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Map the dataset's id of each memory to its position in the ingest order, counted from 0."""
        return {one.memory.id: place for place, one in enumerate(self._rendered.values())}

    @cached_property
    def is_dated(self) -> bool:
        """Return True if any memory has a date."""
        return any(memory.when is not None for memory in self.memories)

    def missing(self, wanted: Iterable[str], level: Level) -> tuple[str, ...]:
        """Return the ``wanted`` sessions or turns that no memory of the corpus contains."""
        known = self._evidence.get(level)
        if known is None:
            known = self._evidence[level] = frozenset(ids_at_level(self._rendered.values(), level))
        return tuple(name for name in dict.fromkeys(wanted) if name not in known)

    def ids_of_session(self, session: str) -> tuple[str, ...]:
        """Return the opaque ids of all memories that contain a part of this session."""
        return tuple(name for name, one in self._rendered.items() if session in one.sessions)


def _anonymized_memory(name: str, benchmark: str, corpus: str, memory: Memory) -> Memory:
    session = opaque_id("s", benchmark, corpus, memory.session_id) if memory.session_id is not None else None
    return replace(memory, id=name, session_id=session)


def anonymize(lane: Lane, corpus: Corpus) -> AnonymizedCorpus:
    """Return the memories of a corpus as the provider of a lane gets them, with opaque ids."""
    benchmark = lane.benchmark
    return AnonymizedCorpus.over(
        benchmark.name, corpus.id, memories(benchmark.config, corpus, unit=lane.unit, text=lane.text)
    )


def space_of(lane: Lane, *, journal: str, run_id: str, corpus: str, history: CorpusState) -> Space:
    """Return the namespace of the last attempt to ingest a corpus.

    ``history`` is the state of the corpus in the journal. ``journal`` is the id of this journal; it makes the name of a
    new namespace unique.
    """
    hidden, run_id = opaque_id("c", lane.benchmark.name, corpus), history.reused_from or run_id
    name = history.namespace or namespace(
        lane.provider.config,
        journal="" if history.began else journal,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        lane=lane.build,
        corpus=hidden,
        attempt=history.attempt,
    )
    return Space(
        namespace=name,
        run_id=run_id,
        benchmark=lane.benchmark.name,
        corpus=hidden,
        attempt=history.attempt,
        captures=history.captures,
    )
