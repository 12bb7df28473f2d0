"""No secret stands in a receipt: what is one, and a last look at the bytes before they are signed.

    learn_secrets(environment, catalog, ["mem0"])
    refuse_secrets(draft)                            # raises Refused secret_in_receipt

A secret is what a provider's config names as one, and every variable that is named like one, also in ``.env``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from bench.config.catalog import Catalog
from bench.errors import ConfigError, UsageError
from bench.events import redactor
from bench.providers.facts import secrets
from bench.receipt.build import Draft, Refused
from bench.receipt.wire import emit
from bench.settings import Environment

NAMED_LIKE_ONE = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS")
SHORTEST = 6


def learn_secrets(environment: Environment, catalog: Catalog | None, providers: Iterable[str]) -> None:
    """Teach the redactor every secret that a run of these providers can have known."""
    for name, value in environment.values.items():
        if name.upper().endswith(NAMED_LIKE_ONE) and len(value) >= SHORTEST:
            redactor.learn(value)
    if catalog is None:
        return
    for provider in sorted(set(providers)):
        for name in _named(catalog, provider.partition("@")[0]):
            environment.secret(name)


def _named(catalog: Catalog, provider: str) -> tuple[str, ...]:
    """The secrets of a config; none where the config is gone since the run."""
    try:
        return secrets(catalog.provider(provider))
    except (ConfigError, UsageError):
        return ()


def refuse_secrets(draft: Draft) -> None:
    """Look through everything that would be written."""
    for place, text in _texts(draft):
        if redactor.holds_secret(text):
            raise Refused("secret_in_receipt", f"the value of a configured secret occurs in {place}")


def _texts(draft: Draft) -> Iterator[tuple[str, str]]:
    yield "the receipt", json.dumps(emit(draft.body), ensure_ascii=False)
    with draft.items.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            yield f"line {number} of the items file", line
