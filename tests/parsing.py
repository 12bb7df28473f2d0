"""The arguments of a command are assembled once for a process: that takes longer than many a command itself.

A user's process parses one command line, that of the tests thousands. Each gets arguments of its own that hold no
words yet. What validates the values of a type is made once too, and so are the fields of a type and the names of an
argument.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import pydantic
from cyclopts import App, Parameter, _convert, core, field_info, parameter
from cyclopts.argument import Argument, ArgumentCollection, _argument, _collection

assemble = App.assemble_argument_collection
names_of = Argument.negatives.fget


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
    Argument.negatives = property(kept_names())  # type: ignore[method-assign]
    for module in (_convert, _argument, _collection, field_info, parameter):
        for name in ("get_field_infos", "signature_parameters"):
            if hasattr(module, name):
                setattr(module, name, cache(getattr(module, name)))


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


def kept_names() -> Callable[[Argument], tuple[str, ...]]:
    """The negative names of an argument, which its field and its parameter decide."""
    known: dict[tuple[int, int], tuple[object, object, tuple[str, ...]]] = {}

    def negatives(of: Argument) -> tuple[str, ...]:
        key = (id(of.field_info), id(of.parameter))
        if key not in known:  # what it holds keeps its id
            known[key] = (of.field_info, of.parameter, names_of(of))
        return known[key][2]

    return negatives


def unused(arguments: ArgumentCollection) -> ArgumentCollection:
    """The same arguments without words."""
    copies = {id(one): copy.copy(one) for one in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())
