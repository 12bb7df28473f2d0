"""The arguments of a command are assembled once for a process: that takes longer than many a command itself.

A user's process parses one command line, that of the tests thousands. Each gets arguments of its own that hold no
words yet. What validates the values of a type is made once too.
"""

from __future__ import annotations

import copy
from functools import cache
from types import FunctionType
from typing import Any

import pydantic
from cyclopts import App, Parameter, core
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
    core.create_bound_arguments = bound


bind = core.create_bound_arguments
validator = pydantic.TypeAdapter


def bound(*arguments: Any, **settings: Any) -> Any:
    """Bind a command line with validators that are kept."""
    pydantic.TypeAdapter = kept_validator  # type: ignore[assignment, misc]
    try:
        return bind(*arguments, **settings)
    finally:
        pydantic.TypeAdapter = validator  # type: ignore[misc]


@cache
def kept_validator(of: Any) -> Any:
    return validator(of)


def unused(arguments: ArgumentCollection) -> ArgumentCollection:
    """The same arguments without words."""
    copies = {id(one): copy.copy(one) for one in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())
