"""Whose prices a run names: refuse a name that nothing can have, and point out one that nothing of the run has.

Example::

    check_prices(catalog, request.prices, files)         # UsageError: "mem1" in prices; did you mean "mem0"?
    call_prices(request.prices, lane.provider).search    # Decimal, or None
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from bench.config.catalog import Catalog
from bench.config.prices import CallPrices, Prices
from bench.config.provider.adapters import BUILT_INS
from bench.errors import ConfigError, UsageError
from bench.models.names import named, prefixes
from bench.plan.providers import load_named
from bench.plan.shape import Lane, ProviderPlan


def call_prices(prices: Prices, provider: ProviderPlan) -> CallPrices:
    """Return what a provider's calls cost: what the run names wins, for the variant before all of its name."""
    found = provider.config.prices
    for name in (*provider.config.aliases, provider.config.name, provider.label):
        own = prices.get(name)
        if isinstance(own, CallPrices):
            found = found.model_copy(update=own.model_dump(exclude_none=True))
    return found


def check_prices(catalog: Catalog, prices: Prices, files: Iterable[str]) -> None:
    """Refuse a price for what cannot be; ``files`` are the prefixes that have a model file.

    Raises:
        UsageError: no provider has the name, or no model can have it.
    """
    for _, problem in unknown_names(catalog, prices, files):
        raise problem


def unknown_names(catalog: Catalog, prices: Prices, files: Iterable[str]) -> Iterator[tuple[str, UsageError]]:
    """Yield each name that nothing can have, and why."""
    for name in prices:
        prefix, slash, _ = name.partition("/")
        if slash:
            known = sorted({*prefixes(), *files, "builtin"})
            if prefix not in known:
                yield name, _unknown(name, prefix, known, "model")
        elif not _is_provider(catalog, name.partition("@")[0]):
            if (full := named(name)) != name:
                hint = f'write "{full}"'
                yield name, UsageError(f'"{name}" in prices is not the full name of a model', hint=hint)
                continue
            known = [*BUILT_INS, *(entry.name for entry in catalog.providers())]
            yield name, _unknown(name, name, known, "provider")


def unused_prices(prices: Prices, lanes: Sequence[Lane]) -> Iterator[str]:
    """Yield a note for each price of something that the run does not call."""
    models = {name for lane in lanes for name in lane.models}
    chosen = [lane.provider for lane in lanes]
    providers = {name for one in chosen for name in (one.label, one.config.name, *one.config.aliases)}
    for name in prices:
        if name not in models | providers:
            yield f'the price of "{name}" has no effect: nothing in this run has that name'


def _is_provider(catalog: Catalog, name: str) -> bool:
    try:
        load_named(catalog, name)
    except UsageError:
        return False
    except ConfigError:  # it is there; its own faults are reported where it is used
        return True
    return True


def _unknown(name: str, part: str, known: Sequence[str], what: str) -> UsageError:
    near = get_close_matches(part, known, n=1)
    owner, dot, kind = name.rpartition(".")
    hint = f'did you mean "{near[0]}"?' if near else f"bench list {what}s shows the known ones"
    if dot and owner in known and kind in CallPrices.model_fields:
        hint = f"write {owner}: {{{kind}: USD}}"
    return UsageError(f'no {what} has the name "{name}" in prices', hint=hint)
