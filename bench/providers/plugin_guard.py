"""Guard a plug-in class: add missing attributes, check return types, and report a blocked event loop.

Example::

    add_defaults(provider, config)       # adds missing attributes of the Protocol
    guard_methods(provider, config)      # a wrong result is a PluginFault with the expected type
    await provider.search(space, query)
    # PluginFault: own.py:Own: search returned None; expected bench.model.Found

If a plug-in computes or sleeps for a long time without awaiting, it blocks every other call. This time is measured and
reported.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError, ConfigError, PluginFault, raise_site
from bench.events import log, redact
from bench.model import Found, Hit, Ingested, Query, Readiness, Space
from bench.providers.adapters import declared_capabilities, is_plugin
from bench.providers.protocol import Batching, Provider, Waiting, within_limits

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

SLOW_STEP_S = 1.0
"""a step of a coroutine is reported if it takes more than this number of seconds"""
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

    A method ``version`` reports the version of the memory system, as ``upstream_version`` does.
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
    """Wrap the four main methods of a provider, to check their results and to find calls that block the event loop.

    If the provider limits k or the length of a question, each query is reduced to these limits.
    """
    for name, wanted in RESULT_TYPES.items():
        guarded = GuardedMethod(str(config.adapter), name, getattr(provider, name), wanted)
        setattr(provider, name, guarded)
    capabilities = provider.capabilities
    if capabilities.max_k is None and capabilities.max_query_chars is None:
        return
    search = provider.search

    async def limited(space: Space, query: Query) -> Found:
        sent, flags = within_limits(query, capabilities)
        found = await search(space, sent)
        return replace(found, requested=sent.k, flags=(*found.flags, *flags))

    setattr(provider, "search", limited)  # noqa: B010  a method of the Protocol


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
        text = f"{type(error).__name__}: {redact(str(error))}{raise_site(error)}"
        raise ConfigError(
            f"adapter {self.config.adapter} {self.fault}: {text}",
            where=self.config.place("adapter"),
            hint="fix the adapter; --traceback shows the full error",
        ) from error


@dataclass(slots=True)
class GuardedMethod:
    """A wrapped method of a plug-in. It checks the type of the result, and measures how long the loop is blocked."""

    adapter: str
    name: str
    method: Callable[..., object]
    wanted: tuple[type, ...]
    slowest_step_s: float = 0.0
    """duration in seconds of the longest step that was reported so far"""

    async def __call__(self, *arguments: object) -> object:
        work = self.method(*arguments)
        if not isinstance(work, Awaitable):
            raise PluginFault(f"{self.adapter}: {self.name} is not a coroutine", hint=f"write `async def {self.name}`")
        found = await TimedSteps(work.__await__(), self._report_slow_step)
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

    def _report_slow_step(self, step_s: float) -> None:
        if step_s < max(SLOW_STEP_S, 2 * self.slowest_step_s):  # again only when it is much worse
            return
        self.slowest_step_s = step_s
        log().warning(
            "adapter_holds_the_loop",
            adapter=self.adapter,
            method=self.name,
            seconds=round(step_s, 1),
            note="every other call of the run had to wait: await, or use anyio.to_thread.run_sync",
        )


class TimedSteps(Generator[Any, Any, Any]):
    """An awaitable that runs another awaitable, and measures how long it runs each time before it is suspended."""

    def __init__(self, inner: Generator[Any, Any, Any], report: Callable[[float], None]) -> None:
        self._inner = inner
        self._report = report

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: object) -> object:
        """Resume the wrapped awaitable with a value."""
        return self._timed(partial(self._inner.send, value))

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> object:
        """Resume the wrapped awaitable with an exception, such as a cancellation."""
        return self._timed(partial(self._inner.throw, error if isinstance(error, BaseException) else kind))

    def _timed(self, step: Callable[[], object]) -> object:
        started = time.perf_counter()
        try:
            return step()
        finally:
            self._report(time.perf_counter() - started)


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
