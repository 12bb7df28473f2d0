"""What of a provider file is identity: everything that can change what is asked or how answers are read.

Names for people, proof of verification, limits, time-outs and prices may change between a run and its resume;
the rest may not. Variables stay unresolved, so the digest is the same on every machine and holds no secret.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bench.canonical import digest as canonical_digest
from bench.config.provider.calls import Endpoints
from bench.config.variables import each_text
from bench.redaction import HIDDEN, KEY_LIKE
from bench.settings.showing import without_password

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

CALL = {"timeout": True, "steps": {"__all__": {"timeout"}}}
NOT_IDENTITY = {
    "display_name": True,
    "description": True,
    "docs": True,
    "tags": True,
    "aliases": True,
    "verified": True,
    "embeds_with": True,
    "limits": True,
    "rate_limit": True,
    "prices": True,
    "connection": {"timeout", "connect_timeout"},
    "endpoints": dict.fromkeys(Endpoints.model_fields, CALL),
    "setup": {"__all__": {"timeout"}},
    "teardown": {"__all__": {"timeout"}},
    "wait": {"request": {"timeout"}},
}


def identity(config: ProviderConfig) -> dict[str, object]:
    """The result-affecting part of a config as a JSON tree."""
    tree = config.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_defaults=True)  # type: ignore[arg-type]
    code = adapter_digest(config)
    return {key: each_text(value, _cleaned) for key, value in {**tree, **code}.items()}


def digest(config: ProviderConfig) -> str:
    """sha256 of the canonical form of :func:`identity`."""
    return canonical_digest(identity(config))


def adapter_digest(config: ProviderConfig) -> dict[str, object]:
    """The code of an adapter file beside the config is part of what is measured."""
    file = (config.adapter or "").partition(":")[0]
    path = config.folder / file
    if not file.endswith(".py") or not path.is_file():
        return {}
    return {"adapter_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _cleaned(text: str) -> str:
    return KEY_LIKE.sub(HIDDEN, without_password(text))
