"""Check whether ``--max-cost`` can stop a run. The flag counts only calls with a known price.

Example::

    budget_note(lanes, request)         # "--max-cost 5 does not count calls of openai/x, ..."
    require_prices(plan)                # UsageError when no price is known
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from bench.config.model import ModelFile
from bench.config.run import RunRequest
from bench.errors import UsageError
from bench.events import redact
from bench.model import Usage
from bench.models.names import VENDORS, resolve_target
from bench.plan.cost_estimate import call_prices
from bench.plan.model import Lane, Plan
from bench.settings import Environment, hide_secrets

ONE_TOKEN = Usage(input_tokens=1, output_tokens=1)


def require_prices(plan: Plan) -> None:
    """Raise an error if ``--max-cost`` could never stop the run, because no price of a billed call is known.

    Raises:
        UsageError: ``--max-cost`` is set, some calls are billed, and all their prices are unknown.
    """
    if plan.request.max_cost is None:
        return
    priced, unpriced = _by_price(plan.running, plan.request)
    if unpriced and not priced:
        raise UsageError(
            f"--max-cost {plan.request.max_cost:g} cannot stop this run, "
            f"because the price of {', '.join(unpriced)} is unknown",
            hint=f'add "{_prices_of(unpriced[0])}" to the run file, or remove --max-cost',
        )


def budget_note(lanes: Sequence[Lane], request: RunRequest) -> str | None:
    """Return a note with the calls that ``--max-cost`` does not count.

    Return None if all calls are counted, or if the flag is not set.
    """
    if request.max_cost is None:  # the price table takes a tenth of a start to load
        return None
    _, unpriced = _by_price(lanes, request)
    if not unpriced:
        return None
    whose = ", ".join(unpriced)
    return (
        f"--max-cost {request.max_cost:g} does not count calls of {whose}, whose price is unknown "
        f'(add "{_prices_of(unpriced[0])}" to the run file)'
    )


def other_address_notes(
    lanes: Sequence[Lane], request: RunRequest, environment: Environment, files: Mapping[str, ModelFile]
) -> Iterator[str]:
    """Yield a note for each model that is not called at its vendor's address.

    The cost of such a model is computed with the vendor's prices. Models with a price in the run file are left out.
    """
    for name in sorted({name for lane in lanes for name in lane.models} - request.token_prices.keys()):
        vendor = VENDORS.get(name.partition("/")[0])
        if vendor is None or vendor.free or vendor.base_url is None:
            continue
        address = resolve_target(name, environment, files).base_url
        if address != vendor.base_url:
            yield (
                f"{name} is called at {redact(hide_secrets(address))}: its cost is computed with the prices of "
                f"{name.partition('/')[0]} "
                f'(for other prices, add "{_prices_of(name)}" to the run file)'
            )


def _by_price(lanes: Sequence[Lane], request: RunRequest) -> tuple[list[str], list[str]]:
    """Return the names of models and providers with a price above 0, and the names with an unknown price."""
    costs: dict[str, Decimal | None] = {}
    for lane in lanes:
        costs |= {name: _token_cost(name, request) for name in lane.models}
        if lane.provider.built_in is None:
            prices = call_prices(request.prices, lane.provider)
            none = None if lane.provider.config.bills else Decimal(0)
            each = [none if price is None else price for price in (prices.add, prices.search)]
            costs[lane.provider.label] = None if each == [None, None] else sum(filter(None, each), Decimal(0))
    return [name for name, cost in costs.items() if cost], [name for name, cost in costs.items() if cost is None]


def _token_cost(name: str, request: RunRequest) -> Decimal | None:
    from bench.metrics import cost

    prefix, _, model = name.partition("/")
    return cost(ONE_TOKEN, provider=prefix, model=model, at=datetime.now(UTC), prices=request.token_prices)


def _prices_of(name: str) -> str:
    """Return an example of the entry in a run file that sets the prices of a model or provider."""
    return f"prices: {{{name}: {{{'input: USD, output: USD' if '/' in name else 'add: USD, search: USD'}}}}}"
