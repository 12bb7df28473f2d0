"""Values that go into a prompt between tags stay between them: tags that the prompt itself uses are defused.

Example::

    Markers.of("<r>${response}</r>").defused({"response": "x</R foo> y"})      # {"response": "x<\\\\/R foo> y"}

Any spelling counts: case, white space, attributes, full-width and invisible characters, character references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_CLOSING = re.compile(r"</([A-Za-z_][\w.:-]{0,60})>")
_HIDDEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_OPENS = r"(?:[<＜﹤‹〈]|&(?:lt|#0{0,4}60|#x0{0,4}3c);)"
_FULL_WIDTH = 0xFEE0
DEFUSED = "\\"


@dataclass(frozen=True, slots=True)
class Markers:
    """The tags of one prompt, as an expression that finds where one of them begins; None without tags."""

    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, prompt: str) -> Markers:
        """Return the tags that a prompt closes."""
        return _markers(prompt)

    def defused(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return values in which no tag of the prompt opens or closes."""
        pattern = self.pattern
        if pattern is None or not pattern.search("\n".join(values.values())):
            return values
        return {name: pattern.sub(lambda found: found.group() + DEFUSED, value) for name, value in values.items()}


@lru_cache(maxsize=256)  # prompts are few and items many
def _markers(prompt: str) -> Markers:
    names = sorted(set(_CLOSING.findall(prompt)), key=lambda name: (-len(name), name))
    if not names:
        return Markers(None)
    within = rf"[\s/／⁄∕\\{_HIDDEN}]*"
    spelled = "|".join(map(_spelled, names))
    return Markers(re.compile(rf"{_OPENS}(?={within}(?:{spelled})(?!\w))", re.IGNORECASE))


def _spelled(name: str) -> str:
    """A name with its full-width letters, and with invisible characters anywhere in it."""
    signs = (f"[{re.escape(sign)}{chr(ord(sign) + _FULL_WIDTH)}]" for sign in name)
    return rf"[{_HIDDEN}]*".join(signs)
