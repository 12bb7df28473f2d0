"""Load plug-in code: an entry point of an installed package, or ``./file.py:Class`` next to a config.

A plug-in is imported only if a config names it. A failed import is a ConfigError, and so is a name that two installed
packages register.

Example::

    load_file("./my_metric.py:Shouting", folder=Path("configs/benchmarks"), where="b.yaml:12:3")
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint
from pathlib import Path
from types import CodeType, ModuleType

from bench.errors import ConfigError
from bench.version import plug_ins

OWN_DISTRIBUTION = "memorybench"


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plug-in of an installed package, before the plug-in is imported."""

    name: str
    distribution: str
    point: EntryPoint


def installed_plugins(group: str, spelled: Callable[[str], str]) -> dict[str, InstalledPlugin]:
    """Return name -> plug-in for all entry points of the group.

    ``spelled`` converts a name to its canonical form. Raises ConfigError if two distributions register one name.
    """
    found: dict[str, InstalledPlugin] = {}
    for point in plug_ins(group):
        name = spelled(point.name)
        plugin = InstalledPlugin(name, _distribution_name(point), point)
        other = found.get(name)
        if other is not None and (other.distribution, other.point.value) != (plugin.distribution, point.value):
            raise duplicate_name_error(name, group, other.distribution, plugin.distribution)
        found[name] = plugin
    return found


def entry_point_named(name: str, group: str) -> EntryPoint | None:
    """Return the entry point called ``name``, or None if there is none.

    Raises ConfigError if two distributions register the name.
    """
    found: EntryPoint | None = None
    for point in plug_ins(group).select(name=name):
        if found is not None and (found.dist is None or point.dist is None or found.dist.name != point.dist.name):
            raise duplicate_name_error(name, group, _distribution_name(found), _distribution_name(point))
        found = point
    return found


def duplicate_name_error(name: str, group: str, first: str, second: str) -> ConfigError:
    """Return the error for a name that two distributions, ``first`` and ``second``, both register."""
    return ConfigError(
        f'{group}: "{name}" is registered by {first} and by {second}',
        hint="uninstall one of the two distributions",
    )


def _distribution_name(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "(unknown)"


def load_installed(plugin: InstalledPlugin, group: str) -> object:
    """Import an installed plug-in and return its object. Raises ConfigError if the import fails."""
    try:
        return plugin.point.load()
    except (ImportError, AttributeError, SyntaxError, ValueError, TypeError, OSError) as error:
        raise ConfigError(
            f'{group}: "{plugin.name}" of distribution {plugin.distribution} cannot be loaded: '
            f"{type(error).__name__}: {error}",
            hint=f"repair or uninstall {plugin.distribution}",
        ) from error


def load_file(reference: str, *, folder: Path, where: str | None = None) -> type:
    """Return the class that ``./file.py:Class`` names, from a file in ``folder``.

    Raises:
        ConfigError: there is no such file or class.
    """
    file_name, _, class_name = reference.rpartition(":")
    if Path(file_name or class_name).suffix in (".ts", ".js"):
        raise ConfigError(
            f"{reference}: evaluators and metrics are written in Python", where=where, hint="write ./file.py:Class"
        )
    if not file_name or not class_name.isidentifier():
        raise ConfigError(f"{reference}: expected ./file.py:Class", where=where, hint="write ./file.py:Class")
    path = (folder / file_name).resolve()
    if path.suffix != ".py":
        raise ConfigError(f"{reference}: {path.name} is not a Python file", where=where, hint="write ./file.py:Class")
    if not path.is_file():
        raise ConfigError(
            f"{reference}: no file {path.name} in {folder}",
            where=where,
            hint="correct the path, which is relative to the config",
        )
    loaded = getattr(_module(path, reference, where), class_name, None)
    if not isinstance(loaded, type):
        raise ConfigError(
            f"{reference}: {path.name} has no class {class_name}", where=where, hint="check the name of the class"
        )
    return loaded


def _module(path: Path, reference: str, where: str | None) -> ModuleType:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        return import_path(path, f"bench_plugin_{path.stem}_{digest[:12]}")
    except (ImportError, AttributeError, SyntaxError, NameError, ValueError, TypeError, OSError) as error:
        raise ConfigError(
            f"{reference} cannot be imported: {type(error).__name__}: {error}", where=where, hint="correct the file"
        ) from error


class _UncachedLoader(SourceFileLoader):
    """A loader that always compiles the current source and never uses cached bytecode.

    Python compares cached bytecode by file size and whole seconds only, so a quick edit could be missed.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_path(path: Path, name: str) -> ModuleType:
    """Import a Python file as the module ``name``, once per process. Errors in the file are raised unchanged."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=_UncachedLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
