"""Which providers a run compares: names, variants ``name@label``, ``--set``, and what each needs from outside.

Example::

    chosen = choose(catalog, names=("bm25", "chroma@big"), overrides={"chroma@big.ingest.batch.max_items": "200"}, ...)
    chosen[1].label, chosen[1].overrides        # "chroma@big", {"ingest.batch.max_items": 200}

Without names: the built-ins that need no key.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from bench.config.catalog import Catalog
from bench.config.findings import did_you_mean
from bench.config.provider import ProviderConfig, load_provider
from bench.config.provider.adapters import BUILT_INS
from bench.config.source import Source, fold
from bench.errors import UsageError
from bench.models.names import named, resolve_name
from bench.plan.shape import ProviderPlan
from bench.settings import Environment

KEYLESS = ("bm25", "full-context", "no-memory", "oracle", "random")
BUILTIN_PREFIX = "builtin:"


def choose(
    catalog: Catalog,
    *,
    names: Sequence[str],
    overrides: Mapping[str, object],
    embedding: str | None,
    environment: Environment,
) -> list[ProviderPlan]:
    """Load the providers of a run in the order named.

    Raises:
        UsageError: an unknown name, one name twice, or ``--set`` for a provider that is not in the run.
        ConfigError: a file that does not fit, also after ``--set``.
    """
    labels = tuple(names) or KEYLESS
    doubled = next((label for label in labels if labels.count(label) > 1), None)
    if doubled is not None:
        raise UsageError(f'provider "{doubled}" is named twice', hint=f"write {doubled}@a and {doubled}@b for variants")
    sets = _by_label(labels, overrides)
    return [_planned(catalog, label, sets[label], embedding, environment) for label in labels]


def load_named(catalog: Catalog, name: str) -> ProviderConfig:
    """Load a provider by name: workspace, shipped file, built-in, installed plug-in."""
    from bench.providers.adapters import builtin_config, plugged_config

    try:
        return catalog.provider(name)
    except UsageError:
        if name.lower() in BUILT_INS:
            return builtin_config(name.lower())
        plugged = plugged_config(name)
        if plugged is not None:
            return plugged
        aliased = next((one for one in map(builtin_config, BUILT_INS) if _answers(one, name)), None)
        if aliased is None:
            known = [*BUILT_INS, *(entry.name for entry in catalog.providers())]
            raise UsageError(
                f'there is no provider "{name}"{did_you_mean(name, known)}',
                hint="bench list providers shows the known ones",
            ) from None
        return aliased


def _answers(config: ProviderConfig, name: str) -> bool:
    return name.lower() in {alias.lower() for alias in config.aliases}


def _planned(
    catalog: Catalog, label: str, sets: Mapping[str, object], embedding: str | None, environment: Environment
) -> ProviderPlan:
    from bench.providers.facts import embedding_model, enriching, inner_embedding

    name = label.partition("@")[0]
    config = load_named(catalog, name)
    if sets:
        config = _changed(config, sets)
    adapter = config.adapter or ""
    built_in = adapter.removeprefix(BUILTIN_PREFIX) if adapter.startswith(BUILTIN_PREFIX) else None
    own, inner, enriched = embedding_model(config), inner_embedding(config), enriching(config)
    return ProviderPlan(
        label=config.name + label[len(name) :],
        config=config,
        built_in=built_in,
        overrides=sets,
        embedding=(embedding or named(own)) if own is not None else None,
        embeds_with=None if inner is None else named(environment.resolve(inner)),
        enriched_by=None if enriched is None else resolve_name(enriched.enhancement.model),
    )


def _by_label(labels: Sequence[str], overrides: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Sort ``--set`` by the variant it names; the plain name means each of its variants."""
    found: dict[str, dict[str, object]] = {label: {} for label in labels}
    for key, value in sorted(overrides.items(), key=lambda one: "@" in one[0]):
        owners = [label for label in labels if key.startswith((f"{label}.", f"{label.partition('@')[0]}."))]
        exact = [label for label in owners if key.startswith(f"{label}.")] or owners
        if not exact:
            raise UsageError(
                f"--set {key}: no provider of this run is called so{did_you_mean(key.partition('.')[0], labels)}",
                hint="write PROVIDER.path=VALUE with a provider of this run",
            )
        for label in exact:
            start = label if key.startswith(f"{label}.") else label.partition("@")[0]
            found[label][key[len(start) + 1 :]] = _value(value)
    return found


def _value(value: object) -> object:
    """A flag's text as a value: JSON where it is JSON, else the text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _changed(config: ProviderConfig, sets: Mapping[str, object]) -> ProviderConfig:
    if config.path is None:
        tree = config.model_dump(mode="json", exclude_unset=True)
        for path, value in sets.items():
            _put(tree, path, value)
        try:
            return ProviderConfig.model_validate(tree)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UsageError(
                f"--set {config.name}.{place}: {first['msg']}", hint=f"bench describe {config.name}"
            ) from error
    source = Source.read(config.path)
    tree = copy.deepcopy(dict(source.tree))
    for path, value in sets.items():
        _put(tree, path, value)
    return load_provider(Source(path=source.path, tree=tree, places=source.places))


def _put(tree: dict[str, object], path: str, value: object) -> None:
    """Set one value; a key is found in either spelling, missing maps are made."""
    *parents, last = path.split(".")
    node = tree
    for part in parents:
        key = _spelled(node, part)
        below = node.setdefault(key, {})
        if not isinstance(below, dict):
            raise UsageError(f"--set {path}: {key} is no map of keys", hint="see bench describe PROVIDER")
        node = below
    node[_spelled(node, last)] = value


def _spelled(node: Mapping[str, object], part: str) -> str:
    return next((key for key in node if fold(key) == fold(part)), part)
