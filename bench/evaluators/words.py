"""The words that are a verdict, and what may decorate them.

Example::

    value_of_word(bare_word("**[[Yes]]**"))        # 1.0
"""

from __future__ import annotations

import re

_VALUES = {
    **dict.fromkeys(("yes", "correct", "right", "true", "pass", "passed"), 1.0),
    **dict.fromkeys(("no", "incorrect", "wrong", "false", "fail", "failed", "not correct"), 0.0),
    **dict.fromkeys(("partial", "partially correct", "partly correct"), 0.5),
}

ANY_WORD = "|".join(rf"\b{word.replace(' ', r'[ ]+')}\b" for word in sorted(_VALUES, key=lambda w: (-len(w), w)))
"""a regular expression of every verdict word, longest first, whole words only"""

_BOXED = re.compile(r"\\(?:boxed|text|textbf|mathrm)\b")
_AROUND = " \t\r\n*_`\"'“”‘’«»[](){}<>#~.,!;:$\\-–—"


def value_of_word(word: str) -> float | None:
    """1, 0.5 or 0; None when it is no verdict word."""
    return _VALUES.get(" ".join(word.lower().split()))


def bare_word(line: str) -> str:
    """A line without decoration, quotes, brackets and ``\\boxed``."""
    return _BOXED.sub("", line).strip(_AROUND)
