"""What the environment puts into a provider's config: part of what is measured, told without a secret.

A file mentions ``${NAME}``; another value may be another service, another model, another data folder::

    from_outside(config, environment)     # {"local.url": "postgresql://me:[redacted]@db:5432/bench"}

The base URL and ``vars`` have keys of their own in a plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.config.findings import name_of
from bench.config.provider import ProviderConfig
from bench.config.provider.identity import identity
from bench.config.variables import find_variables, texts
from bench.events import HIDDEN, redact
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
    open_text = VARIABLE.sub(lambda match: HIDDEN if is_secret(match[1]) else match[0], text)
    return redact(shown(environment.resolve(open_text)))
