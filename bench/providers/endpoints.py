"""Read the rate limits, retries and time limits of a provider's requests from its config."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, get_args

from bench.http import Endpoint, Feedback, Limits, Retry, Timeouts
from bench.http.message import SAFE_TO_REPEAT

if TYPE_CHECKING:
    from bench.config.provider.calls import RequestSection
    from bench.config.provider.config import ProviderConfig

Traffic = Literal["add", "search", "status", "manage"]
"""kind of request; "manage" means setup, clear and delete, which have the limits of "add" but are counted separately"""


def endpoints_of(config: ProviderConfig) -> Mapping[Traffic, Endpoint]:
    """Return the endpoint of each kind of request: its limits, retries, timeouts and price."""
    return {traffic: endpoint_of(config, traffic) for traffic in get_args(Traffic)}


def endpoint_of(config: ProviderConfig, traffic: Traffic) -> Endpoint:
    """Return the endpoint for one kind of request; its name is ``NAME.TRAFFIC``.

    If the config has pauses in its older section ``rate_limit``, they become the minimum interval between two requests.
    """
    limits, connection, rate = config.limits, config.connection, config.rate_limit
    pauses = {"add": max(rate.add_delay_ms, rate.batch_delay_ms), "search": rate.search_delay_ms}
    limit = {"add": limits.add, "search": limits.search, "status": limits.status, "manage": limits.add}[traffic]
    price = {"add": config.prices.add, "search": config.prices.search}.get(traffic)
    if price is None and not (config.bills and traffic in ("add", "search")):
        price = Decimal(0)
    feedback = limits.feedback
    return Endpoint(
        name=f"{config.name}.{traffic}",
        role="provider",
        limits=Limits(
            **limit.model_dump(),
            min_interval_s=pauses.get(traffic, 0) / 1000,
            feedback=Feedback(**feedback.model_dump()) if feedback else None,
        ),
        retry=Retry(max_retries=rate.max_retries, delay_s=rate.retry_delay_ms / 1000),
        timeouts=Timeouts(attempt_s=connection.timeout / 1000, connect_s=connection.connect_timeout / 1000),
        key_variable=next((auth.env_var for auth in config.auth if auth.env_var), None),
        statuses=dict(config.errors.status),
        max_response_bytes=connection.max_response_bytes,
        price_usd=None if price is None else str(price),
    )


def is_repeatable(call: RequestSection, traffic: Traffic) -> bool:
    """Return True if sending the call twice has the same effect as sending it once."""
    if call.idempotent is not None:
        return call.idempotent
    return call.idempotency is not None or traffic in ("search", "status") or call.method in SAFE_TO_REPEAT
