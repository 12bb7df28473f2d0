"""Let a package export names of its modules. Each module is imported only when one of its names is used.

Example, at the end of a package that imports its modules for type checkers only::

    __getattr__ = lazy_exports(__name__, reader="Reader", merging="MergeOutcome merge")

``bench.plan`` is a package that can also be called: ``bench.plan(...)``. To allow the call, the package sets
``sys.modules[__name__].__class__ = CallablePackage``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def lazy_exports(room: str, **homes: str) -> Callable[[str], object]:
    """Return a function that a package uses as its ``__getattr__``. ``room`` is the name of the package.

    Each keyword is the name of a module, and its value lists the exported names of this module, separated by spaces. An
    exported name must differ from the name of its module, because the imported module would replace the exported name.
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
    """A package that can be called: ``bench.plan(...)`` calls the function ``plan`` of :mod:`bench.api`."""

    def __call__(self, *arguments: object, **named: object) -> object:
        """Call the function of :mod:`bench.api` that has the name of this package."""
        function = getattr(import_module("bench.api"), self.__name__.rpartition(".")[2])
        return function(*arguments, **named)
