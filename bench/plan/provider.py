"""Choose the providers of a run: by name, as variants ``name@label``, and with changes by ``--set``.

Example::

    chosen = choose(catalog, names=("bm25", "chroma@big"), overrides={"chroma@big.ingest.batch.max_items": "200"}, ...)
    chosen[1].label, chosen[1].overrides        # "chroma@big", {"ingest.batch.max_items": 200}

If no provider is named, a run uses the built-ins that need no key.

An environment variable in a config can select a service, a model or a data folder. Its value, without secrets, is
therefore part of the plan's identity. ``filled_texts`` returns the config texts with these values, such as
``{"local.url": "postgresql://me:[redacted]@db:5432/bench"}``.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench import canonical
from bench.config.builtin_providers import BUILT_IN
from bench.config.catalog import Catalog
from bench.config.file import Source, did_you_mean, explain, fold_key, key_text
from bench.config.provider.config import ProviderConfig, identity
from bench.config.provider.file import load_provider
from bench.config.value_rules import find_variables, walk_texts
from bench.errors import CanonicalError, ConfigError, UsageError
from bench.events import HIDDEN, redact
from bench.models.names import resolve_name, with_vendor
from bench.plan.model import BUILT_IN_EMBEDDING, Lane, ProviderPlan
from bench.providers.description import required_variables
from bench.redaction import is_setting
from bench.settings import VARIABLE, Environment, hide_secrets, is_secret
from bench.untyped_values import Json

KEYLESS = ("bm25", "full-context", "no-memory", "oracle", "random")
BUILTIN_PREFIX = "builtin:"
VARIANT = re.compile(r"[A-Za-z0-9_-]{1,60}")
"""regular expression for the label of a variant

A label contains no dot, because it ends at the first dot in ``--set p@label.path``.
"""


def choose(
    catalog: Catalog,
    *,
    names: Sequence[str],
    overrides: Mapping[str, object],
    embedding: str | None,
    environment: Environment,
) -> list[ProviderPlan]:
    """Load the providers of a run in the order of ``names``, and apply the overrides of ``--set``.

    Raises:
        UsageError: a name is unknown, a label is invalid, a provider is named twice, or an override is for a provider
            that is not in the run.
        ConfigError: a file is invalid, or becomes invalid by an override.
    """
    chosen: dict[str, _ProviderChoice] = {}
    for given in names or KEYLESS:
        one = _ProviderChoice.of(catalog, given)
        if one.label in chosen:
            hint = (
                (f"name the provider once, or write {one.label}@a and {one.label}@b for variants")
                if "@" not in one.label
                else "remove one of the two"
            )
            raise UsageError(f'provider "{one.label}" is named twice', hint=hint)
        chosen[one.label] = one
    sets = _by_label(list(chosen.values()), overrides)
    return [_planned(one, sets[label], embedding, environment) for label, one in chosen.items()]


@dataclass(frozen=True, slots=True)
class _ProviderChoice:
    """A provider as the user named it: a name or an alias, and for a variant also ``@label``."""

    given: str
    config: ProviderConfig

    @classmethod
    def of(cls, catalog: Catalog, given: str) -> _ProviderChoice:
        name, at, variant = given.partition("@")
        if at and not VARIANT.fullmatch(variant):
            raise UsageError(
                f'"{variant}" in "{given}" is not a valid label of a provider variant',
                hint="after the @, use letters, digits, - and _, for example chroma@big",
            )
        return cls(given, load_named(catalog, name))

    @property
    def label(self) -> str:
        return self.config.name + self.given[len(self.given.partition("@")[0]) :]

    @property
    def variant_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of ``--set`` keys that change only this variant."""
        return f"{self.given}.", f"{self.label}."

    @property
    def provider_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes of ``--set`` keys that change every variant of the provider."""
        return f"{self.given.partition('@')[0]}.", f"{self.config.name}."


def load_named(catalog: Catalog, name: str) -> ProviderConfig:
    """Load a provider by name or alias.

    The provider can be a file of the workspace, a shipped file, a built-in or an installed plug-in.

    Raises:
        UsageError: there is no provider with this name.
        ConfigError: the file is invalid.
    """
    from bench.providers.adapters import builtin_config, plugin_config

    if name.lower() in BUILT_IN and all(entry.name.lower() != name.lower() for entry in catalog.providers()):
        return builtin_config(name.lower())
    try:
        return catalog.provider(name)
    except UsageError:
        plugged = plugin_config(name)
        if plugged is not None:
            return plugged
        aliased = next((one for one in map(builtin_config, BUILT_IN) if _has_alias(one, name)), None)
        if aliased is None:
            known = [*BUILT_IN, *(entry.name for entry in catalog.providers())]
            raise UsageError(
                f'there is no provider "{name}"{did_you_mean(name, known)}',
                hint="list the known providers with: bench list providers",
            ) from None
        return aliased


def require_variables(lanes: Iterable[Lane], environment: Environment) -> None:
    """Check that every variable that a provider of these lanes requires is set.

    Raises:
        ConfigError: a variable is not set, or its ``NAME_FILE`` cannot be read.
    """
    for lane in lanes:
        for name in required_variables(lane.provider.config):
            environment.ensure(name, user=lane.provider.label)


def _has_alias(config: ProviderConfig, name: str) -> bool:
    return name.lower() in {alias.lower() for alias in config.aliases}


def embedded_by(config: ProviderConfig, environment: Environment, *, own: str | None = None) -> str | None:
    """Return the name of the embedding model for lists, plans, results and receipts.

    If bench embeds the texts, this is ``own``, or the config's model if ``own`` is None. If the service embeds the
    texts, this is the service's model, or ``(builtin)`` if that model is unknown. Return None if no texts are embedded,
    or if it is unknown whether the service embeds texts.
    """
    from bench.providers.description import EMBEDS_ITSELF, embedding_model, service_embedding_model

    ours, inner = embedding_model(config), service_embedding_model(config)
    if ours is not None:
        return own or with_vendor(ours)
    if inner is None or inner == EMBEDS_ITSELF:
        return inner and BUILT_IN_EMBEDDING
    return with_vendor(environment.resolve(inner))


def _planned(
    chosen: _ProviderChoice, sets: Mapping[str, object], embedding: str | None, environment: Environment
) -> ProviderPlan:
    from bench.providers.description import embedding_model, enrichment_settings

    config = _with_overrides(chosen.config, sets) if sets else chosen.config
    adapter = config.adapter or ""
    built_in = adapter.removeprefix(BUILTIN_PREFIX) if adapter.startswith(BUILTIN_PREFIX) else None
    enriched, embedding_text = enrichment_settings(config), embedded_by(config, environment, own=embedding)
    return ProviderPlan(
        label=chosen.label,
        variant=chosen.label,
        config=config,
        built_in=built_in,
        overrides=sets,
        embedding=None if embedding_model(config) is None else embedding_text,
        embedded_by=embedding_text,
        enriched_by=None if enriched is None else resolve_name(enriched.enhancement.model),
    )


def label_at_cutoff(label: str, k: int) -> str:
    """Return the label of a provider in a run with several k: ``chroma@k5``, or ``chroma@big-k5`` for a variant."""
    return f"{label}{'-' if '@' in label else '@'}k{k}"


def _by_label(chosen: Sequence[_ProviderChoice], overrides: Mapping[str, object]) -> dict[str, Json]:
    """Return a map from the label of each chosen provider to its overrides from ``--set``.

    An override with the exact name of a chosen provider changes only this provider. Any other override changes every
    variant of the named provider.
    """
    found: dict[str, Json] = {one.label: {} for one in chosen}
    for key, value in sorted(overrides.items(), key=lambda one: "@" in one[0]):
        owners = [(one, one.variant_prefixes) for one in chosen if key.startswith(one.variant_prefixes)]
        owners = owners or [(one, one.provider_prefixes) for one in chosen if key.startswith(one.provider_prefixes)]
        for one, starts in owners:
            start = max((start for start in starts if key.startswith(start)), key=len)
            found[one.label][key[len(start) :]] = _value(key, value)
        if not owners:
            raise _unknown_provider(key, [one.label for one in chosen])
    return found


def _unknown_provider(key: str, labels: Sequence[str]) -> UsageError:
    name = key.partition(".")[0]
    if name in labels:
        text = "the key of the config is missing"
    else:
        text = f"this run has no provider {name}{did_you_mean(name, labels)}"
    return UsageError(
        f"--set {key}: {text}", hint="write PROVIDER.KEY=VALUE, for example chroma.ingest.batch.max_items=200"
    )


def _value(key: str, value: object) -> object:
    """Parse the value of ``--set`` as JSON. If it is not valid JSON, return it as text."""
    read = value
    if isinstance(value, str):
        try:
            read = json.loads(value)
        except ValueError:
            return value
    try:
        canonical.dumps(read)
    except CanonicalError as error:
        hint = f"put a text in quotes: '\"{value}\"'"
        raise UsageError(f"--set {key}={value}: {error.message}", hint=hint) from error
    return read


def _with_overrides(config: ProviderConfig, sets: Mapping[str, object]) -> ProviderConfig:
    if config.path is None:
        if "name" in sets:
            raise UsageError(
                f"--set {config.name}.name: the name of a provider cannot be set", hint="write a variant as NAME@LABEL"
            )
        tree = config.model_dump(mode="json", exclude_unset=True)
        for path, value in sets.items():
            _put(tree, config.name, path, value)
        try:
            return ProviderConfig.model_validate(tree)
        except ValidationError as error:
            problem = explain(Source(path=Path(config.name), tree=tree, places={}), ProviderConfig, error.errors()[0])
            raise UsageError(f"--set {config.name}: {problem.message}", hint=problem.hint) from error
    source = Source.read(config.path)
    tree = copy.deepcopy(dict(source.tree))
    for path, value in sets.items():
        _put(tree, config.name, path, value)
    try:
        return load_provider(Source(path=source.path, tree=tree, places=source.places))
    except ConfigError as error:  # the file alone has no problem: the places in it would mislead
        problems = error.problems or (error,)
        named = [ConfigError(f"--set {config.name}: {one.message}", hint=one.hint) for one in problems]
        raise ConfigError.of(named) from error


def _put(tree: Json, provider: str, path: str, value: object) -> None:
    """Set the value at a path of a provider's config tree, and create missing maps.

    A key matches in camelCase and in snake_case.
    """
    *parents, last = path.split(".")
    node = tree
    for part in parents:
        key = _spelled(node, part)
        below = node.setdefault(key, {})
        if not isinstance(below, dict):
            raise UsageError(
                f"--set {provider}.{path}: {key} is not a map of keys",
                hint=f"show the keys with: bench describe {provider}",
            )
        node = below
    node[_spelled(node, last)] = value


def _spelled(node: Mapping[str, object], part: str) -> str:
    return next((key for key in node if fold_key(key) == fold_key(part)), part)


def filled_texts(config: ProviderConfig, environment: Environment) -> dict[str, str]:
    """Return the texts of a config that use environment variables, with the values of the variables.

    The keys are the places of the texts in the config. The base URL and ``vars`` are left out. Secrets are hidden as in
    `fill_visibly`.

    Raises:
        ConfigError: a variable without a default is not set.
    """
    return {
        key_text(path): _checked_fill(text, environment, where=config.place(*path))
        for path, text in walk_texts(identity(config))
        if path[0] != "vars" and text != config.base_url and find_variables(text)
    }


def filled_vars(variables: Mapping[str, str], environment: Environment) -> dict[str, str]:
    """Return the entries of ``vars`` that use environment variables, with the values of the variables."""
    return {name: _checked_fill(text, environment) for name, text in variables.items() if find_variables(text)}


def _checked_fill(text: str, environment: Environment, *, where: str | None = None) -> str:
    environment.resolve(text, where=where)  # what is not set is reported, whether it may be shown or not
    return fill_visibly(text, environment)


def fill_visibly(text: str, environment: Environment) -> str:
    """Replace the environment variables in a text by their values, and hide secrets.

    A value is hidden if the name of its variable is the name of a secret. Any other value that looks like a secret is
    replaced by a short digest, so that different values stay different.
    """

    def value_of(match: re.Match[str]) -> str:
        value = environment.resolve(match[0])
        if is_secret(match[1]):
            return HIDDEN
        if value == (match[2] or "") or is_setting(value) or hide_secrets(value) != value:
            return value
        return f"{HIDDEN[:-1]} {hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"

    return redact(hide_secrets("${".join(VARIABLE.sub(value_of, part) for part in text.split("$${"))))
