"""Guard a plug-in class: add missing attributes, and check return types.

Example::

    add_defaults(provider, config)       # adds missing attributes of the Protocol
    guard_methods(provider, config)      # a wrong result is a PluginFault with the expected type
    await provider.search(space, query)
    # PluginFault: own.py:Own: search returned None; expected bench.model.Found
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType, TracebackType
from typing import TYPE_CHECKING

from bench.errors import BenchError, ConfigError, PluginFault, raise_site
from bench.events import redact
from bench.model import Found, Hit, Ingested, Query, Readiness, Space
from bench.providers.adapters import declared_capabilities, is_plugin
from bench.providers.protocol import Batching, Provider, Waiting, within_limits

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

RESULT_TYPES: dict[str, tuple[type, ...]] = {
    "ingest": (Ingested,),
    "ready": (Readiness,),
    "search": (Found,),
    "clear": (int, NoneType),
}


def add_defaults(provider: Provider, config: ProviderConfig) -> None:
    """Add the attributes that the Protocol requires but the provider lacks.

    If the config sets ``local.durability``, its value replaces the value in the provider. If neither sets a durability,
    it becomes ``process``, so a resumed run ingests its corpora again.

    If ``version`` is a method, it becomes the method ``upstream_version``, which returns the version of the memory
    system. The attribute ``version`` is then the digest of the config.
    """
    defaults: dict[str, object] = {
        "name": config.name,
        "version": f"config:{config.sha256[:12]}",
        "durability": "process",
        "capabilities": declared_capabilities(config),
        "keeps_store": True,
        "unbounded": False,
        "on_unknown": config.ingest.on_unknown,
        "wait": Waiting(by="status"),
        "batching": Batching(max_items=config.ingest.batch.max_items),
    }
    reporter = getattr(provider, "version", None)
    if callable(reporter):
        setattr(provider, "upstream_version", partial(_reported_version, reporter))  # noqa: B010  an optional Protocol
        setattr(provider, "version", defaults["version"])  # noqa: B010  a read-only property of the Protocol
    declared = config.local.get("durability")
    if declared is not None:
        setattr(provider, "durability", declared)  # noqa: B010  a read-only property of the Protocol
    for name, value in defaults.items():
        if not hasattr(provider, name):
            setattr(provider, name, value)


async def _reported_version(reporter: Callable[[], object]) -> str:
    version = reporter()
    return str(await version if isinstance(version, Awaitable) else version)


def guard_methods(provider: Provider, config: ProviderConfig) -> None:
    """Wrap the four main methods of a provider, to check their results.

    If the provider limits k or the length of a question, each query is reduced to these limits. If a result lacks
    ``requested`` or ``returned``, it gets the k of the query and the number of its hits.
    """
    for name, wanted in RESULT_TYPES.items():
        guarded = GuardedMethod(str(config.adapter), name, getattr(provider, name), wanted)
        setattr(provider, name, guarded)
    capabilities, search = provider.capabilities, provider.search

    async def limited(space: Space, query: Query) -> Found:
        sent, flags = within_limits(query, capabilities)
        found = await search(space, sent)
        requested = min(found.requested or sent.k, sent.k)
        returned = max(found.returned, len(found.hits))
        return replace(found, requested=requested, returned=returned, flags=(*found.flags, *flags))

    setattr(provider, "search", limited)  # noqa: B010  a method of the Protocol


def error_text(error: Exception) -> str:
    """Return the type and message of an error that plug-in code raised, and the line that raised it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {redact(str(error))}{raise_site(error)}"


@dataclass(frozen=True, slots=True)
class AdapterErrors:
    """A context manager that converts an error of a plug-in to a ConfigError.

    The message names the line of the plug-in that raised the error.
    """

    config: ProviderConfig
    fault: str

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, BenchError) or not is_plugin(self.config):
            return
        raise ConfigError(
            f"adapter {self.config.adapter} {self.fault}: {error_text(error)}",
            where=self.config.place("adapter"),
            hint="fix the adapter; --traceback shows the full error",
        ) from error


@dataclass(frozen=True, slots=True)
class GuardedMethod:
    """A wrapped method of a plug-in, which checks the type of the result."""

    adapter: str
    name: str
    method: Callable[..., object]
    wanted: tuple[type, ...]

    async def __call__(self, *arguments: object) -> object:
        work = self.method(*arguments)
        if not isinstance(work, Awaitable):
            raise PluginFault(f"{self.adapter}: {self.name} is not a coroutine", hint=f"write `async def {self.name}`")
        found = await work
        self._check(found)
        return found

    def _check(self, found: object) -> None:
        if not isinstance(found, self.wanted):
            raise PluginFault(f"{self.adapter}: {self.name} returned {_shown(found)}; expected {self._names()}")
        odd = next((hit for hit in found.hits if not isinstance(hit, Hit)), None) if isinstance(found, Found) else None
        if odd is not None:
            raise PluginFault(
                f"{self.adapter}: {self.name} returned a hit that is {_shown(odd)}; expected a bench.model.Hit"
            )

    def _names(self) -> str:
        return " or ".join("None" if one is NoneType else f"{one.__module__}.{one.__name__}" for one in self.wanted)


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
