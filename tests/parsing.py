"""The arguments of a command are assembled once for a process: that takes longer than many a command itself.

A user's process parses one command line, that of the tests thousands. Each gets arguments of its own that hold no
words yet. What validates the values of a type is made once too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import pydantic
from cyclopts import App, Parameter
from cyclopts.argument import ArgumentCollection

assemble = App.assemble_argument_collection


def register() -> None:
    """Have every parser of this process assemble so."""
    known: dict[object, ArgumentCollection] = {}

    def assembled(
        self: App, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        key = (self.default_command, repr(default_parameter), parse_docstring)
        if not isinstance(self.default_command, FunctionType):
            return assemble(self, default_parameter=default_parameter, parse_docstring=parse_docstring)
        if key not in known:
            known[key] = assemble(self, default_parameter=default_parameter, parse_docstring=parse_docstring)
        return unused(known[key])

    App.assemble_argument_collection = assembled  # type: ignore[method-assign]
    pydantic.TypeAdapter = once(pydantic.TypeAdapter)  # type: ignore[assignment, misc]


def once(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make a thing once for each type that can be a key and says all of it."""
    kept = cache(make)

    def made(of: Any, **settings: Any) -> Any:
        if settings:
            return make(of, **settings)
        try:
            return kept(of)
        except TypeError:
            return make(of)

    return made


def unused(arguments: ArgumentCollection) -> ArgumentCollection:
    """The same arguments without words."""
    copies = {id(one): copy.copy(one) for one in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())
