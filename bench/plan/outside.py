"""What the environment puts into a provider's config: part of what is measured, told without a secret.

A file mentions ``${NAME}``; another value may be another service, another model, another data folder::

    from_outside(config, environment)     # {"local.url": "postgresql://me:[redacted]@db:5432/bench"}

The base URL and ``vars`` have keys of their own in a plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from bench.config.findings import name_of
from bench.config.provider import ProviderConfig
from bench.config.provider.identity import identity
from bench.config.variables import find_variables, texts
from bench.events import HIDDEN, redact
from bench.redaction import is_setting
from bench.settings import VARIABLE, Environment
from bench.settings.showing import is_secret, shown


def from_outside(config: ProviderConfig, environment: Environment) -> dict[str, str]:
    """Every text of the config that mentions a variable, filled in, by its key.

    Raises:
        ConfigError: a variable without a default is not set.
    """
    return {
        name_of(path): _filled(text, environment, where=config.place(*path))
        for path, text in texts(identity(config))
        if path[0] != "vars" and text != config.base_url and find_variables(text)
    }


def told(variables: Mapping[str, str], environment: Environment) -> dict[str, str]:
    """What the environment puts into a file's ``vars`` (a model, a region)."""
    return {name: _filled(text, environment) for name, text in variables.items() if find_variables(text)}


def _filled(text: str, environment: Environment, *, where: str | None = None) -> str:
    environment.resolve(text, where=where)  # what is not set is told, whether it may be shown or not
    return filled(text, environment)


def filled(text: str, environment: Environment) -> str:
    """The text with its variables as a plan may show them: a secret by its name not at all, one by its value as a
    digest, which tells two of them apart."""

    def value_of(match: re.Match[str]) -> str:
        value = environment.resolve(match[0])
        if is_secret(match[1]):
            return HIDDEN
        if value == (match[2] or "") or is_setting(value) or shown(value) != value:
            return value
        return f"{HIDDEN[:-1]} {hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"

    return redact(shown("${".join(VARIABLE.sub(value_of, part) for part in text.split("$${"))))
