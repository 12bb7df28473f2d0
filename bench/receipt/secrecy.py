"""No secret stands in a receipt: what is one, and a last look at the bytes before they are signed.

    learn_secrets(environment, workspace, ["mem0"])
    refuse_secrets(draft)                            # raises Refused secret_in_receipt

A secret is what a provider's config names as one, and every variable that is named like one, also in ``.env``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.errors import ConfigError, UsageError
from bench.events import redactor
from bench.providers.names import BUILT_IN
from bench.receipt.build import Draft, Refused
from bench.receipt.wire import emit
from bench.settings import Environment

NAMED_LIKE_ONE = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS")
SHORTEST = 6


def learn_secrets(environment: Environment, workspace: Path | None, providers: Iterable[str]) -> None:
    """Teach the redactor every secret that a run of these providers can have known."""
    for name, value in environment.values.items():
        if name.upper().endswith(NAMED_LIKE_ONE) and len(value) >= SHORTEST:
            redactor.learn(value)
    foreign = {provider.partition("@")[0] for provider in providers} - BUILT_IN.keys()  # those have no config
    if workspace is not None and foreign:
        for name in _named(workspace, foreign):
            environment.secret(name)


def _named(workspace: Path, providers: Iterable[str]) -> Iterator[str]:
    """The secrets of some configs; none where a config is gone since the run."""
    from bench.config.catalog import Catalog  # the models of a config take longer to load than a small run to sign
    from bench.providers.facts import secrets

    catalog = Catalog.load(workspace)
    for provider in sorted(providers):
        try:
            yield from secrets(catalog.provider(provider))
        except (ConfigError, UsageError):
            continue


def refuse_secrets(draft: Draft) -> None:
    """Look through everything that would be written."""
    for place, text in _texts(draft):
        plain = text.replace('\\"', '"').replace("\\\\", "\\")  # a secret may hold what JSON escapes
        if redactor.holds_secret(text) or redactor.holds_secret(plain):
            raise Refused("secret_in_receipt", f"the value of a configured secret occurs in {place}")


def _texts(draft: Draft) -> Iterator[tuple[str, str]]:
    yield "the receipt", json.dumps(emit(draft.body), ensure_ascii=False)
    with draft.items.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            yield f"line {number} of the items file", line
