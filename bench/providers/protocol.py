"""The provider protocol: what the engine calls, and what a provider may rely on.

Here too:

* ``within_limits`` reduces a query to what a provider accepts: at most ``max_k`` requested hits and ``max_query_chars``
  characters.

Example::

    async with open_provider(config, context) as provider:
        ingested = await provider.ingest(space, memories)     # one batch, in order
        while (await provider.ready(space, ingested)).state == "pending":
            await anyio.sleep(provider.wait.interval_s)
        found = await provider.search(space, Query(text="Where does Ana live?", k=10))
        await provider.clear(space)
    query, flags = within_limits(Query(text="Where did Ana go in May?", k=10), Capabilities(max_query_chars=12))
    query.text, flags                                       # "Where did", ("query_cut",)

Built-ins, the declarative interpreter and plug-ins are all the same Protocol, so the engine cannot tell them apart.

A class is built as ``Class(config, context)`` and used as ``async with``. No value handed in has a gold field.
Failures are raised as the classes of :mod:`bench.errors`; nothing else tells success from failure.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

from bench.model import QUERY_CUT, Embedder, Found, Hit, Ingested, Memory, Model, Query, Readiness, Space

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig
    from bench.http import Http
    from bench.settings import Environment


Durability = Literal["process", "file", "service"]
OnUnknown = Literal["repeat", "probe", "reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The way in which the engine waits for the index of this provider."""

    by: Literal["nothing", "status", "sentinel"] = "nothing"
    """status: ``ready`` asks the provider's own status calls; sentinel: it has none, only a read can tell"""
    interval_s: float = 0.5
    """first pause between two rounds; each later one is 1.5 times as long"""
    max_interval_s: float = 5.0
    timeout_s: float = 600.0
    settle_s: float = 0.0
    """waited once after ready"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The rules by which memories are cut into ``ingest`` calls; see :func:`bench.providers.batching.batches`."""

    max_items: int | None = None
    """None = as many as the benchmark asks for"""
    in_process: bool = False
    """no call is saved or spared by small batches: the benchmark's own size does not bind"""
    max_bytes: int | None = None
    max_chars: int | None = None
    split_chars: int | None = None
    """a longer memory is sent as pieces ``ID#0``, ``ID#1``"""
    split_overlap: int = 0
    order: Literal["serial", "parallel"] = "serial"
    """serial: one batch of a namespace in flight"""
    embeds: int = 0
    """memories' texts in one request to the embedding model, where we embed them for the service; 0 = we do not"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of a provider. Benchmarks require the names in ``operations``; the other fields are shown."""

    operations: frozenset[str] = frozenset({"add_memory", "retrieve_memory"})
    """of add_memory, retrieve_memory, delete_memory, update_memory, list_memories"""
    supports_chunks: bool = False
    supports_batch: bool = False
    supports_metadata: bool = False
    supports_rerank: bool = False
    ids: bool = True
    timestamps: bool = True
    scores: bool = True
    clear: bool = True
    metadata_values: Literal["any", "flat", "strings", "none"] = "flat"
    max_k: int | None = None
    max_query_chars: int | None = None
    max_tokens: int | None = None

    def shown(self) -> dict[str, object]:
        """The table of ``bench list providers --json``, in the spelling of the configs."""
        table = {name: getattr(self, name) for name in self.traits()}
        return {"operations": sorted(self.operations), **{_spelt(name): value for name, value in table.items()}}

    @classmethod
    def said_in(cls, config: ProviderConfig) -> Capabilities:
        """Return the capabilities in a config, without importing a class."""
        said, endpoints = config.capabilities, config.endpoints
        operations = {"add_memory", "retrieve_memory", *said.declared()}
        if endpoints is not None:
            given = {
                "delete_memory": endpoints.delete,
                "update_memory": endpoints.update,
                "list_memories": endpoints.list,
            }
            operations |= {name for name, call in given.items() if call is not None}
        return cls(operations=frozenset(operations), **{name: getattr(said, name) for name in cls.traits()})

    @classmethod
    def traits(cls) -> tuple[str, ...]:
        """The fields that a config's ``capabilities`` has under the same names."""
        return tuple(one.name for one in fields(cls) if one.name != "operations")


def _spelt(name: str) -> str:
    """``supports_*`` is camelCase in configs, newer keys are not."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest)) if first == "supports" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """Everything from outside that a provider may use: it opens no session and reads no clock of its own."""

    http: Http
    environment: Environment
    run_dir: Path
    """folder of the run; files of ``durability: file`` providers live below it"""
    seed: int = 0
    embedder: Embedder | None = None
    """opened by the caller as :func:`bench.providers.facts.embedding` states"""
    open_model: Callable[[str], Awaitable[Model]] | None = None
    """the language model of an adapter that enriches what it stores, by full name"""
    note: Callable[[str, Mapping[str, object]], None] = field(default=lambda kind, data: None)
    """writes an event of this provider into the journal: its kind and data"""
    services: frozenset[str] = frozenset()
    """compose projects that an earlier process of this run started and did not stop: they are still ours to stop"""
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    clock: Callable[[], float] = time.monotonic


class Provider(Protocol):
    """A memory system under test."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Version of this adapter or config; the upstream's own comes from :class:`Versioned`."""
        ...

    @property
    def durability(self) -> Durability:
        """process: lost with this object, so a resumed run ingests the corpus again."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def keeps_store(self) -> bool:
        """False (no-memory, random): emptiness probe, sentinel and canary do not apply."""
        ...

    @property
    def unbounded(self) -> bool:
        """True (full-context): returns everything, and the answer is not cut to k."""
        ...

    @property
    def on_unknown(self) -> OnUnknown:
        """The action for a batch that may or may not be stored."""
        ...

    @property
    def wait(self) -> Waiting: ...

    @property
    def batching(self) -> Batching: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Store one batch in order. Partial failure goes into ``rejected``, never silently."""
        ...

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Say how the index of everything ingested so far is, by one round of status calls."""
        ...

    async def search(self, space: Space, query: Query) -> Found:
        """Return at most ``query.k`` hits in the provider's order; an empty result is a result."""
        ...

    async def clear(self, space: Space) -> int | None:
        """Remove the namespace and return how much was removed, or None. Clearing nothing is success.

        Raises:
            NotCleared: something was still found afterwards.
        """
        ...


@runtime_checkable
class Prepares(Protocol):
    """Needs set-up calls once a namespace, before the emptiness probe."""

    async def prepare(self, space: Space) -> Mapping[str, object]:
        """Set the namespace up and return the captures that replace ``space.captures``."""
        ...


@runtime_checkable
class Finishes(Protocol):
    """Needs one more call after the last batch of a namespace (flush, start processing)."""

    async def finish(self, space: Space, ingested: Ingested) -> Ingested:
        """Close the ingest of a namespace; ids, jobs and captures are merged as those of a batch are."""
        ...


@runtime_checkable
class Assumes(Protocol):
    """Keeps something of its own about each batch (which ids were sent), also of one whose answer was lost."""

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """What is known of a batch that a probe found stored, and the ids it has by memory; no call is made."""
        ...


@runtime_checkable
class Counts(Protocol):
    """Can say how much a namespace holds (0 when it does not exist)."""

    async def count(self, space: Space) -> int: ...


@runtime_checkable
class Restores(Protocol):
    """Keeps its data below ``run_dir`` and can take a namespace from the one of another run, exactly."""

    async def restore(self, space: Space, run_dir: Path) -> None:
        """Replace the namespace by what it is in that folder; what is not there is empty."""
        ...

    async def digest(self, space: Space) -> str:
        """One text that differs where anything differs that a namespace holds."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """Can say which version of the memory system answers."""

    async def upstream_version(self) -> str: ...


@runtime_checkable
class Deletes(Protocol):
    """Can delete memories by our ids."""

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None: ...


@runtime_checkable
class Updates(Protocol):
    """Can replace memories by our ids."""

    async def update(self, space: Space, memories: Sequence[Memory]) -> None: ...


@runtime_checkable
class Lists(Protocol):
    """Can list what a namespace holds, or one session of it."""

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]: ...


def outlives(provider: Provider) -> bool:
    """Say whether another run can search what this one stored."""
    return provider.durability == "service" or isinstance(provider, Restores)


def merge_captures(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Add what a batch captured to what the namespace has: lists grow, maps merge, anything else is replaced."""
    merged = dict(old)
    for name, value in new.items():
        known = merged.get(name)
        if isinstance(known, list) and isinstance(value, list):
            merged[name] = [*known, *value]
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[name] = {**known, **value}
        else:
            merged[name] = value
    return merged


def merge_ingested(old: Ingested, new: Ingested) -> Ingested:
    """Everything ingested so far and one more batch as one value."""
    return Ingested(
        ids={**old.ids, **new.ids},
        jobs=(*old.jobs, *new.jobs),
        captures=merge_captures(old.captures, new.captures),
        rejected={**old.rejected, **new.rejected},
    )


def within_limits(query: Query, capabilities: Capabilities) -> tuple[Query, tuple[str, ...]]:
    """Return the query as it may be sent, and a flag where its text was cut."""
    k = min(query.k, capabilities.max_k or query.k)
    text, flags = query.text, ()
    if capabilities.max_query_chars is not None and len(text) > capabilities.max_query_chars:
        text, flags = cut_at_word(text, capabilities.max_query_chars), (QUERY_CUT,)  # type: ignore[assignment]
    if k == query.k and not flags:
        return query, flags
    return replace(query, text=text, k=k), flags


def cut_at_word(text: str, limit: int) -> str:
    """Return the start of a text, cut at the last space in its second half; without one there, inside a word."""
    head = text[:limit]
    if text[limit : limit + 1].isspace():
        return head.rstrip()
    at = max((head.rfind(space) for space in " \n\t"), default=-1)
    return head[:at].rstrip() if at > limit // 2 else head
