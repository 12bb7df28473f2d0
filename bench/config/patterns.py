"""Regular expressions that a config holds and that are matched against texts of a server: short, and quick to match.

Example::

    problem_of(r"^doc-(.*)\\.txt$")            # None
    problem_of(r"(a+)+$")                     # "repeats a part that repeats itself"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]

LONGEST_TEXT = 512
"""characters of a text that a pattern is matched against; a longer one does not match"""
MOST_REPEATS = 2
"""unbounded repeats: with two, matching takes at most the square of the length"""
LARGEST_COUNT = 64
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})


def problem_of(pattern: str) -> str | None:
    """Return what keeps a pattern from being used, None when it may be."""
    try:
        compiled = re.compile(pattern)
        tree = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    if compiled.groups != 1:
        return f"needs one group in parentheses around the id, and has {compiled.groups}"
    repeats = list(_repeats(tree, 0))
    if any(depth > 1 for depth in repeats):
        return "repeats a part that repeats itself"
    if len(repeats) > MOST_REPEATS:
        return f"has {len(repeats)} repeats such as .* and +, more than {MOST_REPEATS}"
    return None


def _repeats(tree: object, depth: int) -> Iterator[int]:
    """The depth of each repeat that can match many lengths."""
    for code, argument in tree:  # type: ignore[attr-defined]
        if str(code) in _REPEATS:
            least, most, inner = argument
            wide = most is _constants.MAXREPEAT or int(most) - int(least) > LARGEST_COUNT
            if wide or int(most) > 1:
                yield from ([depth + 1] if wide or depth else [])
                yield from _repeats(inner, depth + 1)
            else:
                yield from _repeats(inner, depth)
        elif str(code) == "SUBPATTERN":
            yield from _repeats(argument[-1], depth)
        elif str(code) == "BRANCH":
            for branch in argument[1]:
                yield from _repeats(branch, depth)
        elif str(code) in ("ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            yield from _repeats(argument[1] if isinstance(argument, tuple) else argument, depth)
