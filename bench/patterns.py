"""Regular expressions that are compiled when they are first used: a command uses a few of some hundred.

Example::

    MARK = pattern(r"(?i)final answer:")
    MARK.search("Final answer: B")       # compiled here
"""

import re
from typing import Any, cast

METHODS = ("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")


class _Uncompiled:
    """Has the methods of a compiled pattern from the first use on, as attributes of its own."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({method: getattr(compiled, method) for method in METHODS})
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Make what ``re.compile`` makes, later; not to be handed to a function of ``re``."""
    return cast("re.Pattern[str]", _Uncompiled(text, flags))
