"""Check values of configs: run ids and other file names, regular expressions, and environment variables.

A run id must be a valid file name on every operating system.

Example::

    require_portable("run.2")            # "run.2"
    require_portable("CON")              # ValueError, as for "nul.txt" and "end."
    check_run_id("nightly")      # "nightly"
    check_run_id("published")    # ValueError: the public log is results/published

A regular expression in a config must be fast on any text. So the text is cut to a maximum length, and the expression
may match only in a limited number of ways.

Example::

    pattern_problem(r"^doc-(.*)\\.txt$")            # None
    pattern_problem(r"(a+)+$")                     # "repeats a part that can match in more than one way"
    pattern_problem(r"_abs$", groups=None)         # None: any number of groups is allowed

An environment variable in a config is written ``${UPPER_CASE}`` or ``${UPPER_CASE:-default}``. ``$${`` is a literal
``${``::

    [variable.name for variable in find_variables({"url": "${HOST:-localhost}/${PATH_ID}"})]   # HOST, PATH_ID
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from bench.config.jsontext import TreePath
from bench.settings import VARIABLE

SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""a name that is safe as one part of a file path: it cannot lead to another folder"""
_NOT_PORTABLE = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|.*\.")
_RESERVED = re.compile(
    r"(?i:published|readme\.md|results\.sqlite.*|journal\.sqlite.*|shards|pause"
    r"|receipts|run\.log.*|report\.(?:json|md)|items\.jsonl)"
)
"""names of files that bench itself creates next to run folders"""


def require_portable(name: str) -> str:
    """Return the name unchanged.

    Windows does not allow device names such as ``CON``, and names with a dot at their end. Raises ValueError for such a
    name.
    """
    if _NOT_PORTABLE.fullmatch(name):
        raise ValueError(f'"{name}" cannot be a file name on every system: it is a device name, or it ends with a dot')
    return name


def check_run_id(text: str) -> str:
    """Return the run id unchanged.

    Raises ValueError if the run id is invalid, or is the name of a file or folder that bench itself creates.
    """
    if not SEGMENT.fullmatch(text) or text.startswith("-"):
        raise ValueError(
            "a run id has 1 to 100 characters of A-Z a-z 0-9 . _ - and does not begin with a dot or hyphen"
        )
    return require_unreserved(require_portable(text))


def require_unreserved(name: str) -> str:
    """Return the name of a run folder unchanged. Raises ValueError if bench uses this name for its own files."""
    if _RESERVED.fullmatch(name):
        raise ValueError(f'"{name}" is reserved: bench keeps files of its own under this name; choose another run id')
    return name


LOWER_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


def _lower_name(value: str) -> str:
    if re.fullmatch(LOWER_NAME, value) is None:
        raise ValueError(
            f'"{value}" is not a valid name: expected at most 64 lower case letters, digits, ".", "_" and "-", '
            "with a letter or digit at the beginning"
        )
    return require_portable(value)


LowerName = Annotated[str, AfterValidator(_lower_name), Field(json_schema_extra={"pattern": LOWER_NAME})]
"""the name of a provider or of a model endpoint"""


LONGEST_TEXT = 512
"""maximum number of characters of a text that a pattern of a config is matched against"""
MOST_WAYS = LONGEST_TEXT**2
"""maximum number of ways in which a pattern may match a text; it allows two unlimited repeats such as ``.*``"""
MOST_ANCHORED_WAYS = 16 * MOST_WAYS
"""maximum for a pattern that begins with ``^``. It is higher, because such a pattern is tried at one position only"""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})


class _NestedRepeat(ValueError):
    """The error for a repeated part that can match in several ways, such as ``(a+)+``."""


def pattern_problem(pattern: str, *, groups: int | None = 1) -> str | None:
    """Return the reason why a config must not use a regular expression; None if it is allowed.

    ``groups`` is the required number of groups; None allows any number.
    """
    try:
        compiled = re.compile(pattern)
        tree = _parser.parse(pattern)
        ways = _ways(tree)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}"
    except _NestedRepeat:
        return "repeats a part that can match in more than one way, such as (a+)+ or (ab|a)*"
    if groups is not None and compiled.groups != groups:
        return f"needs exactly one group in parentheses, around the id, but has {compiled.groups}"
    anchored = not compiled.flags & re.MULTILINE and str(list(tree)[:1]).startswith("[(AT, AT_BEGINNING")
    if ways > (MOST_ANCHORED_WAYS if anchored else MOST_WAYS):
        return "can match in too many ways: use at most two repeats such as .* and +, and begin with ^"
    return None


def _ways(tree: Any) -> int:
    """Return the number of ways in which an expression can match at one position of the longest allowed text.

    Raises:
        _NestedRepeat: a repeated part can match in several ways.
    """
    return math.prod(_ways_of(str(code), argument) for code, argument in tree)


def _ways_of(code: str, argument: Any) -> int:
    if code in _REPEATS:
        return _ways_of_repeat(*argument)
    if code == "BRANCH":
        return sum(_ways(part) for part in argument[1])
    if code == "GROUPREF_EXISTS":
        return sum(_ways(part) for part in argument[1:] if part is not None)
    if code in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        return _ways(argument[-1])
    return _ways(argument) if code == "ATOMIC_GROUP" else 1


def _ways_of_repeat(least: int, most: int, body: Any) -> int:
    inner = _ways(body)
    if most <= 1:
        return inner if least else inner + 1
    if inner > 1:
        raise _NestedRepeat
    return LONGEST_TEXT if most is _constants.MAXREPEAT else min(int(most) - int(least) + 1, LONGEST_TEXT)


_MENTION = re.compile(rf"(?<!\$){VARIABLE.pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One use of an environment variable in a config, at the key path ``path``.

    If ``default`` is None, the variable must be set.
    """

    name: str
    default: str | None
    path: TreePath


def find_variables(tree: object) -> list[Variable]:
    """Return every use of an environment variable in the texts of ``tree``, in order."""
    return [
        Variable(name=match[1], default=match[2], path=path)
        for path, text in walk_texts(tree)
        for match in _MENTION.finditer(text)
    ]


def walk_texts(tree: object, path: TreePath = ()) -> Iterator[tuple[TreePath, str]]:
    """Yield (key path, text) for every text in ``tree``."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from walk_texts(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from walk_texts(value, (*path, index))


def map_texts(tree: object, change: Callable[[str], str]) -> object:
    """Return a copy of ``tree`` with ``change`` applied to every text. Keys are not changed."""
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, Mapping):
        return {str(key): map_texts(value, change) for key, value in tree.items()}
    return [map_texts(value, change) for value in tree] if isinstance(tree, list | tuple) else tree
