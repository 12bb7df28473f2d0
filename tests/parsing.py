"""Cache the arguments of commands in the test process, because creating them takes longer than many commands.

The process of a user parses one command line, that of the tests thousands. Each command line gets its own copy of the
arguments without values. Validators and fields of types, the names of arguments, and that their defaults are valid, are
cached too.
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
from cyclopts.utils import UNSET

assemble = App.assemble_argument_collection


def register() -> None:
    """Let every parser of this process use the cached arguments."""
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
    for name in ("negatives", "_negatives_hint"):
        setattr(Argument, name, property(cached(getattr(Argument, name).fget)))
    Argument.convert_and_validate = once_without_tokens(Argument.convert_and_validate)  # type: ignore[method-assign]
    Parameter.get_negatives = cache_of_parameters(Parameter.get_negatives)  # type: ignore[method-assign]
    for module in (_convert, _argument, _collection, field_info, parameter):
        for name in ("get_field_infos", "signature_parameters", "parse_version"):
            if hasattr(module, name):
                setattr(module, name, cache(getattr(module, name)))


bind = core.create_bound_arguments
validator = pydantic.TypeAdapter


def bound(*arguments: Any, **settings: Any) -> Any:
    """Bind a command line with cached validators."""
    pydantic.TypeAdapter = cached_validator  # type: ignore[assignment, misc]
    try:
        return bind(*arguments, **settings)
    finally:
        pydantic.TypeAdapter = validator  # type: ignore[misc]


@cache
def cached_validator(of: Any) -> Any:
    return validator(of)


def cached(read: Callable[[Argument], Any]) -> Callable[[Argument], Any]:
    """Return a function that caches what is read of an argument by its field and parameter."""
    known: dict[tuple[int, int], tuple[object, object, Any]] = {}

    def once(of: Argument) -> Any:
        key = (id(of.field_info), id(of.parameter))
        if key not in known:  # what it holds keeps its id
            known[key] = (of.field_info, of.parameter, read(of))
        return known[key][2]

    return once


def once_without_tokens(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that validates the default of an argument that is not in the command line only once."""
    known: dict[tuple[int, int], tuple[object, object]] = {}

    def convert_and_validate(of: Argument, converter: Callable[..., Any] | None = None) -> Any:
        key = (id(of.field_info), id(of.parameter))
        absent = not (of.tokens or of.children or of.required or of.parameter.count)
        if absent and key in known:
            return UNSET
        value = convert(of, converter)
        if absent and value is UNSET:
            known[key] = (of.field_info, of.parameter)
        return value

    return convert_and_validate


def cache_of_parameters(read: Callable[[Parameter, Any], tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    """Return a function that caches what is read of a parameter for a type."""
    known: dict[tuple[int, object], tuple[object, tuple[str, ...]]] = {}

    def once(of: Parameter, type_: Any) -> tuple[str, ...]:
        key = (id(of), type_)
        if key not in known:
            known[key] = (of, read(of, type_))
        return known[key][1]

    return once


def unused(arguments: ArgumentCollection) -> ArgumentCollection:
    """Return copies of the arguments without values."""
    copies = {id(one): copy.copy(one) for one in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())
