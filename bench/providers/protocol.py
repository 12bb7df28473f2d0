"""The provider protocol: the methods that the engine calls, and the values that a provider gets.

Also in this module:

* ``within_limits`` reduces a query to the limits of a provider: ``max_k`` hits and ``max_query_chars`` characters.

Example::

    async with open_provider(config, context) as provider:
        ingested = await provider.ingest(space, memories)     # one batch, in order
        while (await provider.ready(space, ingested)).state == "pending":
            await anyio.sleep(provider.wait.interval_s)
        found = await provider.search(space, Query(text="Where does Ana live?", k=10))
        await provider.clear(space)
    query, flags = within_limits(Query(text="Where did Ana go in May?", k=10), Capabilities(max_query_chars=12))
    query.text, flags                                       # "Where did", ("query_cut",)

Built-ins, the declarative interpreter and plug-ins all implement this Protocol, and the engine treats them alike.

A class is created as ``Class(config, context)`` and used with ``async with``. No value passed to it has a gold field.
Failures are raised as classes of :mod:`bench.errors`; a call without an exception has succeeded.
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
    from bench.config.provider.config import ProviderConfig
    from bench.http import Http
    from bench.settings import Environment


Durability = Literal["process", "file", "service"]
OnUnknown = Literal["repeat", "probe", "reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The rule by which the engine waits for the index of a provider."""

    by: Literal["nothing", "status", "sentinel"] = "nothing"
    """status: call ``ready``, which makes the provider's own status calls; sentinel: search until an ingested memory is
    found, for a provider without status calls"""
    interval_s: float = 0.5
    """first pause between two rounds; each further pause is 1.5 times as long"""
    max_interval_s: float = 5.0
    timeout_s: float = 600.0
    settle_s: float = 0.0
    """additional wait after ready"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The rules for splitting memories into ``ingest`` calls; see :func:`bench.providers.batching.batches`."""

    max_items: int | None = None
    """None = the benchmark's batch size"""
    in_process: bool = False
    """the batch size does not matter to the provider, so the benchmark's size is ignored"""
    max_bytes: int | None = None
    max_chars: int | None = None
    split_chars: int | None = None
    """a longer memory is sent in pieces ``ID#0``, ``ID#1``"""
    split_overlap: int = 0
    order: Literal["serial", "parallel"] = "serial"
    """serial: one batch of a namespace at a time"""
    embeds: int = 0
    """memories per request to the embedding model, if bench embeds for the service; 0 = bench does not embed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of a provider; benchmarks require names in ``operations``.

    Of the other fields, some only inform, and some change how the provider is called, such as ``max_k``.
    """

    operations: frozenset[str] = frozenset({"add_memory", "retrieve_memory"})
    """out of add_memory, retrieve_memory, delete_memory, update_memory and list_memories"""
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
        """Return the capabilities for ``bench list providers --json``, with the spelling of configs."""
        table = {name: getattr(self, name) for name in self.config_fields()}
        return {
            "operations": sorted(self.operations),
            **{_config_spelling(name): value for name, value in table.items()},
        }

    @classmethod
    def declared_in(cls, config: ProviderConfig) -> Capabilities:
        """Return the capabilities that a config declares, without importing a class."""
        said, endpoints = config.capabilities, config.endpoints
        operations = {"add_memory", "retrieve_memory", *said.declared()}
        if endpoints is not None:
            given = {
                "delete_memory": endpoints.delete,
                "update_memory": endpoints.update,
                "list_memories": endpoints.list,
            }
            operations |= {name for name, call in given.items() if call is not None}
        return cls(operations=frozenset(operations), **{name: getattr(said, name) for name in cls.config_fields()})

    @classmethod
    def config_fields(cls) -> tuple[str, ...]:
        """Return the names of all fields but ``operations``; ``capabilities`` of a config has these names too."""
        return tuple(one.name for one in fields(cls) if one.name != "operations")


def _config_spelling(name: str) -> str:
    """Return the name as configs spell it: ``supports_*`` in camelCase, newer keys unchanged."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest)) if first == "supports" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """The external resources of a provider, which must not open its own HTTP sessions or read another clock."""

    http: Http
    environment: Environment
    run_dir: Path
    """folder of the run; providers with ``durability: file`` write their files in it"""
    seed: int = 0
    embedder: Embedder | None = None
    """embedder opened by the caller with the settings in ``client_embeddings``"""
    open_model: Callable[[str], Awaitable[Model]] | None = None
    """opens a language model by its full name, for an adapter that enriches stored texts"""
    note: Callable[[str, Mapping[str, object]], None] = field(default=lambda kind, data: None)
    """writes an event of this provider into the journal: its kind and data"""
    services: frozenset[str] = frozenset()
    """compose projects that an earlier process of this run started and did not stop, so that this process stops them"""
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    clock: Callable[[], float] = time.monotonic


class Provider(Protocol):
    """A memory system under test."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Return the version of this adapter or config; for the memory system's own see :class:`Versioned`."""
        ...

    @property
    def durability(self) -> Durability:
        """Return the place of the stored memories: process, file or service.

        With process, a resumed run ingests the corpus again.
        """
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def keeps_store(self) -> bool:
        """Return False for a provider without a store (no-memory, random), to which isolation checks do not apply."""
        ...

    @property
    def unbounded(self) -> bool:
        """Return True for a provider whose hits are not cut to k (full-context)."""
        ...

    @property
    def on_unknown(self) -> OnUnknown:
        """Return the action for a batch in doubt: it is unknown whether the batch was stored."""
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
        """Store one batch in order. Memories that failed are listed in ``rejected``."""
        ...

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return the state of the index for everything ingested so far, by one round of status calls."""
        ...

    async def search(self, space: Space, query: Query) -> Found:
        """Return at most ``query.k`` hits in the provider's order; an empty result is valid."""
        ...

    async def clear(self, space: Space) -> int | None:
        """Remove the namespace and return the number of removed memories, or None. A missing namespace is not an error.

        Raises:
            NotCleared: data was still found after the removal.
        """
        ...


@runtime_checkable
class Prepares(Protocol):
    """A provider that needs setup calls once per namespace, before the emptiness probe."""

    async def prepare(self, space: Space) -> Mapping[str, object]:
        """Set the namespace up and return the captures that replace ``space.captures``."""
        ...


@runtime_checkable
class Finishes(Protocol):
    """A provider that needs one more call after the last batch of a namespace (flush, start of processing)."""

    async def finish(self, space: Space, ingested: Ingested) -> Ingested:
        """Finish the ingest of a namespace; ids, jobs and captures are merged with the results of its batches."""
        ...


@runtime_checkable
class Assumes(Protocol):
    """A provider that returns data about each batch, such as sent ids, also for a batch whose response was lost."""

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """Return the result of a batch that a probe found stored, with ids by memory; no call is made."""
        ...


@runtime_checkable
class Counts(Protocol):
    """A provider that can count the memories of a namespace (0 when it does not exist)."""

    async def count(self, space: Space) -> int:
        """Return the number of memories; `AtLeast` if there may be more."""
        ...


class AtLeast(int):
    """A count that may be the length of the first page of a list."""


@runtime_checkable
class Restores(Protocol):
    """A provider that stores its data in ``run_dir`` and can copy a namespace exactly from another run's folder."""

    async def restore(self, space: Space, run_dir: Path) -> None:
        """Replace the namespace by its copy in the folder; without a copy there, the namespace is empty."""
        ...

    async def digest(self, space: Space) -> str:
        """Return a text that differs whenever the contents of a namespace differ."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """A provider that can report the version of its memory system."""

    async def upstream_version(self) -> str: ...


@runtime_checkable
class Deletes(Protocol):
    """A provider that can delete memories by bench's ids."""

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None: ...


@runtime_checkable
class Updates(Protocol):
    """A provider that can replace memories by bench's ids."""

    async def update(self, space: Space, memories: Sequence[Memory]) -> None: ...


@runtime_checkable
class Lists(Protocol):
    """A provider that can list the memories of a namespace, or of one session."""

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]: ...


def is_reusable(provider: Provider) -> bool:
    """Return True when another run can search the stored memories."""
    return provider.durability == "service" or isinstance(provider, Restores)


def merge_captures(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Return the old captures with the new ones added: lists and maps are merged, other values are replaced."""
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
    """Return the result of everything ingested so far together with the result of one more batch."""
    return Ingested(
        ids={**old.ids, **new.ids},
        jobs=(*old.jobs, *new.jobs),
        captures=merge_captures(old.captures, new.captures),
        rejected={**old.rejected, **new.rejected},
    )


def within_limits(query: Query, capabilities: Capabilities) -> tuple[Query, tuple[str, ...]]:
    """Return the query within the limits, and a flag if its text was cut."""
    k = min(query.k, capabilities.max_k or query.k)
    text, flags = query.text, ()
    if capabilities.max_query_chars is not None and len(text) > capabilities.max_query_chars:
        text, flags = cut_at_word(text, capabilities.max_query_chars), (QUERY_CUT,)  # type: ignore[assignment]
    if k == query.k and not flags:
        return query, flags
    return replace(query, text=text, k=k), flags


def cut_at_word(text: str, limit: int) -> str:
    """Return the start of a text, cut at the last space in its second half, or inside a word if there is no space."""
    head = text[:limit]
    if text[limit : limit + 1].isspace():
        return head.rstrip()
    at = max((head.rfind(space) for space in " \n\t"), default=-1)
    return head[:at].rstrip() if at > limit // 2 else head
