"""The interface of providers: the methods that the engine calls, and their arguments.

``within_limits`` reduces a query to the limits of a provider: ``max_k`` hits and ``max_query_chars`` characters.

Example::

    async with open_provider(config, context) as provider:
        ingested = await provider.ingest(space, memories)     # one batch, in order
        while (await provider.ready(space, ingested)).state == "pending":
            await anyio.sleep(provider.wait.interval_s)
        found = await provider.search(space, Query(text="Where does Ana live?", k=10))
        await provider.clear(space)
    query, flags = within_limits(Query(text="Where did Ana go in May?", k=10), Capabilities(max_query_chars=12))
    query.text, flags                                       # "Where did", ("query_cut",)

Built-in providers, providers in YAML files and plug-ins all implement this interface. A class is created as
``Class(config, context)`` and used with ``async with``. No argument has a field with gold data. A failure is raised as
a class of :mod:`bench.errors`.
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
    """The settings for how the engine waits until a provider has indexed the ingested memories."""

    by: Literal["nothing", "status", "sentinel"] = "nothing"
    """"status": call ``ready``, which makes the provider's own status calls. "sentinel": search for an ingested memory
    until it is found, for a provider without status calls."""
    interval_s: float = 0.5
    """first pause between two checks, in seconds; each further pause is 1.5 times as long, up to ``max_interval_s``"""
    max_interval_s: float = 5.0
    timeout_s: float = 600.0
    settle_s: float = 0.0
    """seconds to wait after the index is ready"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The rules for splitting memories into ``ingest`` calls; see :func:`bench.providers.batching.batches`."""

    max_items: int | None = None
    """maximum number of memories in a batch; None = use the benchmark's batch size"""
    in_process: bool = False
    """True if the batch size makes no difference to the provider; the benchmark's batch size is then ignored"""
    max_bytes: int | None = None
    max_chars: int | None = None
    split_chars: int | None = None
    """a memory with more characters is sent in pieces with the ids ``ID#0``, ``ID#1``, ..."""
    split_overlap: int = 0
    order: Literal["serial", "parallel"] = "serial"
    """"serial": send the batches of a namespace one after the other"""
    embeds: int = 0
    """number of memories per request to the embedding model; 0 = bench does not embed for the provider"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of a provider.

    A benchmark runs only if ``operations`` contains every operation that the benchmark needs. Other fields, such as
    ``max_k``, change how the provider is called, or are only shown to the user.
    """

    operations: frozenset[str] = frozenset({"add_memory", "retrieve_memory"})
    """a subset of add_memory, retrieve_memory, delete_memory, update_memory, list_memories"""
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
        """Return the capabilities as JSON for ``bench list providers --json``, with keys spelled as in configs."""
        table = {name: getattr(self, name) for name in self.config_fields()}
        return {
            "operations": sorted(self.operations),
            **{_config_spelling(name): value for name, value in table.items()},
        }

    @classmethod
    def declared_in(cls, config: ProviderConfig) -> Capabilities:
        """Return the capabilities that a config declares. The provider class is not imported."""
        capabilities, endpoints = config.capabilities, config.endpoints
        operations = {"add_memory", "retrieve_memory", *capabilities.declared()}
        if endpoints is not None:
            given = {
                "delete_memory": endpoints.delete,
                "update_memory": endpoints.update,
                "list_memories": endpoints.list,
            }
            operations |= {name for name, call in given.items() if call is not None}
        return cls(
            operations=frozenset(operations), **{name: getattr(capabilities, name) for name in cls.config_fields()}
        )

    @classmethod
    def config_fields(cls) -> tuple[str, ...]:
        """Return the names of all fields except ``operations``; a config has the same names under ``capabilities``."""
        return tuple(one.name for one in fields(cls) if one.name != "operations")


def _config_spelling(name: str) -> str:
    """Return a field name as configs spell it: ``supports_*`` in camelCase, any other name unchanged."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest)) if first == "supports" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """The objects that the engine gives to a provider. A provider must use this HTTP client and this clock."""

    http: Http
    environment: Environment
    run_dir: Path
    """folder of the run; a provider with durability "file" writes its files there"""
    seed: int = 0
    embedder: Embedder | None = None
    """the embedder that the caller opened for ``client_embeddings``; None if bench does not embed for the provider"""
    open_model: Callable[[str], Awaitable[Model]] | None = None
    """opens a language model by its full name, for adapters that let a model enrich stored texts"""
    note: Callable[[str, Mapping[str, object]], None] = field(default=lambda kind, data: None)
    """records an event of this provider for the run; the arguments are the kind and the data of the event"""
    services: frozenset[str] = frozenset()
    """compose projects that an earlier process of this run started; this process must stop them"""
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    clock: Callable[[], float] = time.monotonic


class Provider(Protocol):
    """A memory system that is tested."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Return the version of the adapter or config; for the memory system's version see :class:`Versioned`."""
        ...

    @property
    def durability(self) -> Durability:
        """Return where memories are stored: in the process, in files or in a service.

        If the memories are in the process, a resumed run ingests its corpora again.
        """
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def keeps_store(self) -> bool:
        """Return False if the provider stores nothing, such as no-memory. Such a provider needs no isolation checks."""
        ...

    @property
    def unbounded(self) -> bool:
        """Return True if a search may return more than k hits, such as for the provider full-context."""
        ...

    @property
    def on_unknown(self) -> OnUnknown:
        """Return what to do with a batch if it is unknown whether the batch was stored.

        ``repeat``: send the batch again. ``probe`` and ``reset``: find out by a count or by searches.
        """
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
        """Store one batch of memories in order. In the result, ``rejected`` has the memories that failed."""
        ...

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Check once whether everything ingested so far has been indexed."""
        ...

    async def search(self, space: Space, query: Query) -> Found:
        """Return at most ``query.k`` hits in the provider's order. No hits are a valid result."""
        ...

    async def clear(self, space: Space) -> int | None:
        """Remove all memories of the namespace; return their number, or None if it is unknown.

        A missing namespace is not an error.

        Raises:
            NotCleared: data was still found after the removal.
        """
        ...


@runtime_checkable
class Prepares(Protocol):
    """A provider that must set up each namespace before the first ingest."""

    async def prepare(self, space: Space) -> Mapping[str, object]:
        """Set up the namespace; return the new ``captures`` of the space, which later calls read."""
        ...


@runtime_checkable
class Finishes(Protocol):
    """A provider that needs one more call after the last batch of a namespace, for example to start processing."""

    async def finish(self, space: Space, ingested: Ingested) -> Ingested:
        """Finish the ingest of a namespace. The engine merges the result with the results of the batches."""
        ...


@runtime_checkable
class Assumes(Protocol):
    """A provider that can rebuild the result of a batch if the batch was stored but its response was lost."""

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """Rebuild the result of a batch that was stored but whose response was lost. No request is sent.

        ``given`` maps the id of a memory to the service's ids for it, as a search found them.
        """
        ...


@runtime_checkable
class Counts(Protocol):
    """A provider that can count the memories of a namespace."""

    async def count(self, space: Space) -> int:
        """Return the number of memories; 0 if the namespace does not exist, and `AtLeast` if there may be more."""
        ...


class AtLeast(int):
    """A count that may be too low, because it may count only the first page of a list."""


@runtime_checkable
class Restores(Protocol):
    """A provider that stores its data in ``run_dir`` and can copy a namespace from another run's folder."""

    async def restore(self, space: Space, run_dir: Path) -> None:
        """Replace the namespace by its copy from ``run_dir``, the folder of another run.

        If this folder has no copy, the namespace becomes empty.
        """
        ...

    async def digest(self, space: Space) -> str:
        """Return a hash of the namespace's contents; different contents give different hashes."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """A provider that can report the version of the memory system itself. A plug-in can name the method ``version``."""

    async def upstream_version(self) -> str: ...


@runtime_checkable
class Deletes(Protocol):
    """A provider that can delete memories by the ids that bench gave them."""

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None: ...


@runtime_checkable
class Updates(Protocol):
    """A provider that can replace memories by the ids that bench gave them."""

    async def update(self, space: Space, memories: Sequence[Memory]) -> None: ...


@runtime_checkable
class Lists(Protocol):
    """A provider that can list all memories of a namespace, or only those of one session."""

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]: ...


def is_reusable(provider: Provider) -> bool:
    """Return True if another run can search the memories that this run stores."""
    return provider.durability == "service" or isinstance(provider, Restores)


def merge_captures(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Add the values of a new response to the earlier values.

    Lists are joined, mappings are merged, and other values are replaced.
    """
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
    """Merge the result of one more batch into the result of everything ingested so far."""
    return Ingested(
        ids={**old.ids, **new.ids},
        jobs=(*old.jobs, *new.jobs),
        captures=merge_captures(old.captures, new.captures),
        rejected={**old.rejected, **new.rejected},
    )


def within_limits(query: Query, capabilities: Capabilities) -> tuple[Query, tuple[str, ...]]:
    """Return a query within the provider's limits for k and text length, and a flag if the text was cut."""
    k = min(query.k, capabilities.max_k or query.k)
    text, flags = query.text, ()
    if capabilities.max_query_chars is not None and len(text) > capabilities.max_query_chars:
        text, flags = cut_at_word(text, capabilities.max_query_chars), (QUERY_CUT,)  # type: ignore[assignment]
    if k == query.k and not flags:
        return query, flags
    return replace(query, text=text, k=k), flags


def cut_at_word(text: str, limit: int) -> str:
    """Return the text, cut to at most ``limit`` characters.

    The cut is at the last space in the second half of these characters, or inside a word if there is no such space.
    """
    head = text[:limit]
    if text[limit : limit + 1].isspace():
        return head.rstrip()
    at = max((head.rfind(space) for space in " \n\t"), default=-1)
    return head[:at].rstrip() if at > limit // 2 else head
