"""Regular expressions that are compiled when they are first used.

Bench has several hundred of them, and one command uses only a few.

Example::

    MARK = pattern(r"(?i)final answer:")
    MARK.search("Final answer: B")       # compiled here
"""

import re
from typing import Any, cast

METHODS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


class _LazyPattern:
    """A regular expression that is compiled when one of its methods is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({method: getattr(compiled, method) for method in METHODS})
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on first use. Call its methods, not functions of ``re``."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))
