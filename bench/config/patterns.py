"""Regular expressions that a config holds and that are matched against texts from outside: quick on any text.

Two rules keep them so: the ways in which an expression can match are counted, and a text has a bounded length.

Example::

    problem_of(r"^doc-(.*)\\.txt$")            # None
    problem_of(r"(a+)+$")                     # "repeats a part that can match in more than one way"
    problem_of(r"_abs$", groups=None)         # None: no group is asked for
"""

from __future__ import annotations

import math
import re
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

LONGEST_TEXT = 512
"""characters of a text that a pattern is matched against; a longer one does not match"""
MOST_WAYS = LONGEST_TEXT**2
"""two repeats without a bound"""
MOST_ANCHORED_WAYS = 16 * MOST_WAYS
"""after ^ also a few alternatives: the expression is tried at one place only"""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})


class _Nested(ValueError):
    """A repeat of something that is itself a choice."""


def problem_of(pattern: str, *, groups: int | None = 1) -> str | None:
    """Return what keeps a pattern from being used, None when it may be; ``groups`` = None: as many as it likes."""
    try:
        compiled = re.compile(pattern)
        tree = _parser.parse(pattern)
        ways = _ways(tree)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    except _Nested:
        return "repeats a part that can match in more than one way, such as (a+)+ or (ab|a)*"
    if groups is not None and compiled.groups != groups:
        return f"needs one group in parentheses around the id, and has {compiled.groups}"
    anchored = not compiled.flags & re.MULTILINE and str(list(tree)[:1]).startswith("[(AT, AT_BEGINNING")
    if ways > (MOST_ANCHORED_WAYS if anchored else MOST_WAYS):
        return "can match in too many ways: use at most two repeats such as .* and +, and begin with ^"
    return None


def _ways(tree: Any) -> int:
    """In how many ways an expression can match at one place of the longest text."""
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
        raise _Nested
    return LONGEST_TEXT if most is _constants.MAXREPEAT else min(int(most) - int(least) + 1, LONGEST_TEXT)
