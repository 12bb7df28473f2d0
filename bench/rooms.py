"""A room whose name is also a function of the Python API: ``bench.plan`` the package and ``bench.plan(...)``.

A package says so with ``sys.modules[__name__].__class__ = CallableRoom``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class CallableRoom(ModuleType):
    """A package that can be called as the function of its name in :mod:`bench.api`."""

    def __call__(self, *arguments: object, **named: object) -> object:
        """Call the function of this room's name."""
        function = getattr(import_module("bench.api"), self.__name__.rpartition(".")[2])
        return function(*arguments, **named)
