"""What a provider may know: opaque ids and namespaces. The way back to the dataset's ids stays here and in the journal.

The dataset's own ids give answers away (LongMemEval's gold sessions start with ``answer_``), so each memory, session,
corpus and item gets a name made by hashing. Names are the same in every run; namespaces never are::

    veil = Veil.over("locomo", "conv-26", memories)
    veil.memories[0].id              # "m3f1c09a2b7d4e5f6"
    veil.source(("m3f1c09a2b7d4e5f6",))     # -> sessions ("session_1",), turns ("D1:1", "D1:2")
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from bench.datasets import RenderedMemory
from bench.model import Hit, Memory

PREFIX_LENGTH = 32


def opaque(kind: str, *parts: str) -> str:
    """Name a thing by the hash of what it is: one letter and 16 hex digits."""
    return kind + sha256("\x00".join((kind, *parts)).encode()).hexdigest()[:16]


def namespace(run_id: str, lane: str, corpus: str, attempt: int) -> str:
    """Name one corpus attempt: a readable prefix, then the hash that keeps it apart from every other."""
    digest = sha256("\x00".join((run_id, lane, corpus, str(attempt))).encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-").lower()[:PREFIX_LENGTH]
    return f"bench-{readable}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a hit stands for, in the dataset's ids."""

    sessions: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Veil:
    """The memories of one corpus as a provider sees them, and the map back."""

    memories: tuple[Memory, ...]
    _sources: dict[str, Source] = field(repr=False)

    @classmethod
    def over(cls, benchmark: str, corpus: str, rendered: Iterable[RenderedMemory]) -> Veil:
        """Give every memory and session of a corpus its opaque id."""
        memories: list[Memory] = []
        sources: dict[str, Source] = {}
        for one in rendered:
            memory = _veiled(benchmark, corpus, one.memory)
            memories.append(memory)
            sources[memory.id] = Source(sessions=one.sessions, turns=one.turns)
        return cls(memories=tuple(memories), _sources=sources)

    def source(self, memory_ids: Sequence[str]) -> Source:
        """Join what several memories stand for, in order and without repeats; unknown ids stand for nothing."""
        found = [self._sources[name] for name in memory_ids if name in self._sources]
        if len(found) == 1:
            return found[0]
        sessions = dict.fromkeys(name for source in found for name in source.sessions)
        turns = dict.fromkeys(name for source in found for name in source.turns)
        return Source(sessions=tuple(sessions), turns=tuple(turns))

    def holds(self, hit: Hit, contents: frozenset[str] | None = None) -> bool:
        """Say whether a hit is a memory of this corpus: by id, or by content where the provider has no ids."""
        if hit.source_ids:
            return any(name in self._sources for name in hit.source_ids)
        return contents is not None and hit.content in contents

    def ids_of_session(self, session: str) -> tuple[str, ...]:
        """The memories that hold any part of a session."""
        return tuple(name for name, source in self._sources.items() if session in source.sessions)


def _veiled(benchmark: str, corpus: str, memory: Memory) -> Memory:
    session = opaque("s", benchmark, corpus, memory.session_id) if memory.session_id is not None else None
    return replace(memory, id=opaque("m", benchmark, corpus, memory.id), session_id=session)
