"""Record what a provider's namespace contains after the ingest, so that a later run detects changes before it reuses
the namespace.

Example::

    kept = await steady(provider, config, space, memories)       # {"count": 4, "found": {"m3f1...": "9c0e..."}, ...}
    changed_contents("corpora.c0", kept, await contents(...))    # [("corpora.c0.count", "4", "5")]

The record contains the number of memories, if the provider can count them, and digests of the hits of three searches.
If the provider can restore a namespace, the record contains a digest of the whole namespace instead of searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.canonical import digest
from bench.config.provider.config import ProviderConfig, identity
from bench.engine.corpora.isolation import DEEP_K, look, samples
from bench.engine.run_context import retry_unreadable
from bench.model import Memory, Space
from bench.providers import Counts, Provider, Restores
from bench.untyped_values import object_or_empty

COUNT, FOUND, CONFIG, DIGEST = "count", "found", "searched_with", "sha256"
VARIES = "varies"
SHORT = 12


async def contents(
    provider: Provider,
    config: ProviderConfig,
    space: Space,
    memories: Sequence[Memory],
    is_stopped: Callable[[], bool] = lambda: False,
) -> dict[str, object]:
    """Return the current record of a namespace.

    It contains the number of memories, and digests of search results or one digest of the whole namespace. The digest
    of a search without hits is None. When ``is_stopped`` returns True, no further search is sent, and the record is
    incomplete.
    """
    whole, found = await _whole(provider, space), dict[str, object]()
    for memory in samples(memories) if DIGEST not in whole else ():
        if is_stopped():
            break
        hits = (await retry_unreadable(partial(look, provider, space, memory.content, k=DEEP_K))).hits
        found[memory.id] = digest(sorted([hit.id, hit.content] for hit in hits)) if hits else None
    return {**whole, FOUND: found, CONFIG: digest(identity(config))}


async def unsearched(
    provider: Provider, config: ProviderConfig, space: Space, memories: Sequence[Memory]
) -> dict[str, object]:
    """Return a record of a namespace that contains no search results.

    A later comparison with this record sends the searches, but can check only that each search has hits. If the
    provider can restore namespaces, the digest of the whole namespace is compared instead.
    """
    whole = await _whole(provider, space)
    found = {memory.id: VARIES for memory in samples(memories)} if DIGEST not in whole else {}
    return {**whole, FOUND: found, CONFIG: digest(identity(config))}


def is_unsearched(kept: Mapping[str, object]) -> bool:
    """Return True if the record ``kept`` has no search results, because the function `unsearched` made it."""
    found = _found(kept)
    return bool(found) and all(value == VARIES for value in found.values())


async def _whole(provider: Provider, space: Space) -> dict[str, object]:
    """Return the number of memories and the digest of the namespace, each only if the provider supports it."""
    counted = {COUNT: await retry_unreadable(partial(provider.count, space))} if isinstance(provider, Counts) else {}
    return {**counted, DIGEST: await provider.digest(space)} if isinstance(provider, Restores) else {**counted}


async def steady(
    provider: Provider,
    config: ProviderConfig,
    space: Space,
    memories: Sequence[Memory],
    is_stopped: Callable[[], bool] = lambda: False,
) -> dict[str, object]:
    """Return the record of a namespace after reading its contents twice.

    If a search result differs between the two readings, it is marked as varying. If the count differs, it is left out.
    If the record has a digest of the whole namespace, the contents are read only once.
    """
    first = await contents(provider, config, space, memories, is_stopped)
    if DIGEST in first or is_stopped():
        return first
    again = await contents(provider, config, space, memories, is_stopped)
    before = _found(first)
    found = {name: value if value == before[name] else VARIES for name, value in _found(again).items()}
    counted = {COUNT: again[COUNT]} if COUNT in again and again[COUNT] == first[COUNT] else {}
    return {**counted, FOUND: found, CONFIG: again[CONFIG]}


def changed_contents(path: str, before: Mapping[str, object], now: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Return the differences between a stored and the current record of a namespace, each as (path, before, now)."""
    changed = []
    for name in (COUNT, DIGEST):
        if name in before and before[name] != now.get(name):
            changed.append((f"{path}.{name}", str(before[name]), str(now.get(name))))
    found, alike = _found(now), before[CONFIG] == now[CONFIG]
    for memory, value in _found(before).items():
        known = found.get(memory)
        is_same = value == known if alike and value != VARIES else (value is None) == (known is None)
        if not is_same:
            changed.append((f"{path}.search.{memory}", _shown(value), _shown(known)))
    return changed


def _found(kept: Mapping[str, object]) -> Mapping[str, object]:
    return object_or_empty(kept[FOUND])


def _shown(value: object) -> str:
    return "nothing" if value is None else f"hits {str(value)[:SHORT]}"
