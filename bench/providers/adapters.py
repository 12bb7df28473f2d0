"""Find the class that implements a provider: a built-in class, a class in a Python file or module, or an installed
plug-in.

A config without ``adapter`` uses ``Declarative``, which makes the calls that the config describes. A plug-in that
cannot be loaded raises a ConfigError. Other providers are not affected.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.config.builtin_providers import BUILT_IN
from bench.config.file import did_you_mean
from bench.errors import ConfigError
from bench.metrics.plugins import import_path
from bench.providers.protocol import Capabilities, Provider, ProviderContext
from bench.version import plug_ins

if TYPE_CHECKING:
    from bench.config.file import ConfigModel
    from bench.config.provider.config import ProviderConfig

ProviderClass = Callable[["ProviderConfig", ProviderContext], Provider]

LocalModel = TypeVar("LocalModel", bound="ConfigModel")

ENTRY_POINT_GROUP = "bench.providers"

IMPORT_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError, LookupError, MemoryError,
    NameError, OSError, ReferenceError, RuntimeError, SyntaxError, SystemError, TypeError, ValueError,
)  # fmt: skip
"""exceptions that are expected while the code of a plug-in is imported"""

REQUIRED_METHODS = ("__aenter__", "__aexit__", "ingest", "ready", "search", "clear")
"""methods that every provider class must have; all other members of the Protocol have defaults"""

_BUILT_IN = {
    "bm25": "bench.providers.builtin.bm25:Bm25",
    "vector": "bench.providers.builtin.vector:Vector",
    "full-context": "bench.providers.builtin.full_context:FullContext",
    "random": "bench.providers.builtin.random:Random",
    "no-memory": "bench.providers.builtin.no_memory:NoMemory",
}
"""class of each built-in provider, by the provider's name; ``oracle`` is missing because it is part of the engine"""


def provider_class(config: ProviderConfig) -> ProviderClass:
    """Return the class that a config names by ``adapter``, or ``Declarative`` if it names none.

    Raises:
        ConfigError: the class cannot be imported, or is not a provider.
    """
    if config.adapter is None:
        from bench.providers.declarative import Declarative

        return Declarative
    module, _, name = config.adapter.rpartition(":")
    where = config.place("adapter")
    if module == "builtin":
        return _built_in(name, where)
    if module.endswith(".py"):
        return _require_provider(_from_file(config.folder / module, where), name, config.adapter, where)
    return _require_provider(_imported(module, where), name, config.adapter, where)


def _built_in(name: str, where: str | None) -> ProviderClass:
    if name == "oracle":
        raise ConfigError(
            "the oracle is part of the engine and cannot be an adapter",
            where=where,
            hint="use the oracle with --providers oracle",
        )
    if name not in _BUILT_IN:
        guess = did_you_mean(name, BUILT_IN)
        raise ConfigError(f'no built-in provider "{name}"{guess}', where=where, hint=f"known: {', '.join(BUILT_IN)}")
    module, _, class_name = _BUILT_IN[name].partition(":")
    return _require_provider(_imported(module, where), class_name, name, where)


def _imported(module: str, where: str | None) -> object:
    try:
        return importlib.import_module(module)
    except IMPORT_ERRORS as error:
        error_type = type(error).__name__
        raise ConfigError(
            f"cannot import {module}: {error_type}: {error}", where=where, hint=_install_hint(module, error)
        ) from error


def _install_hint(module: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and module.startswith("bench."):
        return f"its extra is not installed: pip install 'memorybench[{module.rpartition('.')[2].split('_')[0]}]'"
    return "install the package, or correct the adapter"


def _from_file(path: Path, where: str | None) -> object:
    if not path.is_file():
        raise ConfigError(
            f"no such adapter file: {path}", where=where, hint="correct the path, which is relative to the config"
        )
    # by its content too: a file that was edited is another module, as it is another plan
    digest = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    try:
        return import_path(path, f"bench_adapter_{digest}_{path.stem}")
    except IMPORT_ERRORS as error:
        raise ConfigError(
            f"adapter file {path.name} cannot be imported: {type(error).__name__}: {error}",
            where=where,
            hint="correct the file",
        ) from error


def _require_provider(module: object, name: str, adapter: str, where: str | None) -> ProviderClass:
    found = getattr(module, name, None)
    if not isinstance(found, type):
        known = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ConfigError(
            f'adapter "{adapter}" has no class {name}{did_you_mean(name, known)}',
            where=where,
            hint='correct the class name in the key "adapter", or in the file',
        )
    lacking = [method for method in REQUIRED_METHODS if not callable(getattr(found, method, None))]
    if lacking:
        raise ConfigError(
            f"the class {adapter} is not a provider: the class lacks {', '.join(lacking)}",
            where=where,
            hint="add what is missing: see bench.providers.protocol.Provider",
        )
    return found


def local_of(config: ProviderConfig, model: type[LocalModel]) -> LocalModel:
    """Read the ``local:`` section of a config as the adapter's own settings.

    Raises:
        ConfigError: the section is invalid; each problem is listed with its line.
    """
    from pydantic import ValidationError

    from bench.config.file import Source, explain

    try:
        return model.model_validate({key: value for key, value in config.local.items() if key != "durability"})
    except ValidationError as error:
        places = {path[1:]: at for path, at in (config.places or {}).items() if path[:1] == ("local",)}
        block = Source(path=config.path or Path(config.name), tree=config.local, places=places)
        raise ConfigError.of([explain(block, model, line) for line in error.errors()]) from None


def entry_point_names() -> frozenset[str]:
    """Return the names of all installed provider plug-ins without importing any."""
    return frozenset(point.name for point in plug_ins(ENTRY_POINT_GROUP))


def plugin_config(name: str) -> ProviderConfig | None:
    """Return a config for the installed plug-in of this name, or None if there is no such plug-in.

    Raises:
        ConfigError: two installed packages have a plug-in of this name.
    """
    from bench.config.provider.config import ProviderConfig
    from bench.metrics.plugins import entry_point_named

    point = entry_point_named(name, ENTRY_POINT_GROUP)
    if point is None:
        return None
    return ProviderConfig.model_validate({"name": name, "type": "local", "adapter": point.value})


def builtin_config(name: str) -> ProviderConfig:
    """Return the config of a built-in provider: bm25, full-context, oracle, random, no-memory or vector."""
    from bench.config.provider.config import ProviderConfig
    from bench.providers.builtin import description

    return ProviderConfig.model_validate(description(name))


def declared_capabilities(config: ProviderConfig) -> Capabilities:
    """Return the capabilities that a config declares.

    For a plug-in, the optional methods of its class (delete, update, list) are added.
    """
    declared = Capabilities.declared_in(config)
    if not is_plugin(config):
        return declared
    return replace(declared, operations=declared.operations | _operations_of(provider_class(config)))


def is_plugin(config: ProviderConfig) -> bool:
    """Return True if the config names an ``adapter`` that is not a built-in."""
    return config.adapter is not None and not config.adapter.startswith("builtin:")


def _operations_of(found: ProviderClass) -> set[str]:
    methods = {"delete": "delete_memory", "update": "update_memory", "list": "list_memories"}
    return {name for method, name in methods.items() if callable(getattr(found, method, None))}
