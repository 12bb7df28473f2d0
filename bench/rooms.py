"""Lazy re-exports of a package: a module is imported when one of its names is first used.

Example, at the end of a package that imports its modules for type checkers only::

    __getattr__ = lazy_exports(__name__, reader="Reader", merging="MergeOutcome merge")

``bench.plan`` is both a package and a function of the Python API: ``bench.plan(...)``. Such a package sets
``sys.modules[__name__].__class__ = CallablePackage``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def lazy_exports(room: str, **homes: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package. Each keyword is a module, and its value lists names in that module.

    Spaces separate the names. A module and a name in it must differ, because importing the module would hide the name.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def named(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{room}.{home_of[name]}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return named


class CallablePackage(ModuleType):
    """A package that can be called. The call goes to the function in :mod:`bench.api` with the package's name."""

    def __call__(self, *arguments: object, **named: object) -> object:
        """Call the function in :mod:`bench.api` with the package's name."""
        function = getattr(import_module("bench.api"), self.__name__.rpartition(".")[2])
        return function(*arguments, **named)
