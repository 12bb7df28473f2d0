"""The page of commands, from the table behind ``bench --help`` and from the signature of each command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from cyclopts import App, Argument

from bench.cli import app as helptext
from bench.cli.app import COMMANDS, EXAMPLES, LOOK, PROVE, READ, RUN, build
from docs.site.markdown import code, page, prose, table

LEAD = """\
All commands with their flags. If a flag accepts several values, separate them with spaces or commas, or repeat the
flag. The flags in [Flags of every command](#flags-of-every-command) can be before or after any command."""


def text() -> str:
    """Return the page."""
    return page("Commands", LEAD, *_groups(), "## Flags of every command", _global_flags())


def _groups() -> Iterator[str]:
    app = build()
    for group in (LOOK, RUN, READ, PROVE):
        yield f"## {group.name}"
        for name in (name for name, where, *_ in COMMANDS if where is group):
            yield from _command(app[name], f"bench {name}")


def _command(app: App, title: str) -> Iterator[str]:
    inner = [name for name in app if not name.startswith("-")]
    if inner:
        for name in inner:
            yield from _command(app[name], f"{title} {name}")
        return
    yield f"### {title}"
    arguments = [one for one in app.assemble_argument_collection(parse_docstring=True) if one.show]
    own = [one for one in arguments if not _of_run(one) or title == "bench run"]
    places = [_place(one) for one in own if one.index is not None]
    yield code(" ".join([title, *places, *(["[flags]"] if len(arguments) > len(places) else [])]))
    yield from _described(inspect.getdoc(app.default_command) or "")
    if title.removeprefix("bench ") in EXAMPLES:
        yield f"Examples: {' and '.join(map(code, EXAMPLES[title.removeprefix('bench ')]))}"
    if own:
        yield table(["flag", "value", "default", "meaning"], map(_row, own))
    if len(own) < len(arguments):
        some = len(arguments) - len(own) < len(_run_flags())
        taken = "the flags from `--limit` to `--seed`" if some else "every flag"
        yield f"Also takes {taken} of [bench run](#bench-run)."


def _described(docstring: str) -> Iterator[str]:
    """Yield the paragraphs above the parameters; an indented paragraph is an example."""
    for paragraph in docstring.partition("\nParameters\n---")[0].strip().split("\n\n"):
        yield f"```text\n{inspect.cleandoc(paragraph)}\n```" if paragraph.startswith(" ") else prose(paragraph)


@cache
def _run_flags() -> frozenset[str]:
    from dataclasses import fields

    from bench.cli.flags import RunFlags

    return frozenset(field.name for field in fields(RunFlags))


def _of_run(argument: Argument) -> bool:
    """Return True for a flag that plan, eval, resume and others share with ``bench run``."""
    return argument.index is None and len(argument.keys) == 1 and argument.keys[0] in _run_flags()


def _place(argument: Argument) -> str:
    name = _names(argument)[-1].lstrip("-").upper().replace("-", "_")
    several = " ..." if get_origin(argument.hint) in (tuple, list) else ""
    return f"{name}{several}" if argument.field_info.required and not several else f"[{name}{several}]"


def _names(argument: Argument) -> tuple[str, ...]:
    return tuple(sorted(argument.names, key=len))


def _row(argument: Argument) -> list[str]:
    shown = _place(argument).strip("[]") if argument.index is not None else ", ".join(_names(argument))
    default = argument.field_info.default
    plain = "" if default in (None, False, (), inspect.Parameter.empty) else str(default)
    return [code(shown), _value(argument.hint), code(plain), prose(argument.parameter.help or "")]


def _value(hint: object) -> str:
    """Return the kind of value in words: ``number``, ``text ...``, or the allowed words."""
    if get_origin(hint) is Literal:
        return ", ".join(code(str(one)) for one in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_value(one) for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) in (list, tuple):
        return f"{_value(get_args(hint)[0])} ..."
    names = {"int": "whole number", "float": "number", "bool": "", "str": "text", "Path": "path"}
    return names[getattr(hint, "__name__", "str")]


def _global_flags() -> str:
    block = helptext.FOOT.partition("\n\n")[0].splitlines()[1:]
    return table(["flag", "meaning"], ([code(line[2:21].strip()), line[21:].strip()] for line in block))
