"""The words and numbers that are a verdict, and what may decorate them.

Example::

    value_of_word(bare_word("**[[Yes]]**"))        # 1.0
    value_of_number("9/10")                        # 0.9
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
ANY_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?(?:[ ]?(?:/|out of|of)[ ]?\d{1,9}(?:\.\d{1,9})?|[ ]?%)?"
"""a number, a share such as ``9/10`` or a percentage"""

_BOXED = re.compile(r"\\(?:boxed|text|textbf|mathrm)\b")
_AROUND = " \t\r\n*_`\"'“”‘’«»[](){}<>#~.,!;:$\\-–—"
_NUMBER = re.compile(
    r"(?P<count>-?[0-9.]+)(?:[ ]?(?:/|out of|of)[ ]?(?P<all>[0-9.]+)|[ ]?(?P<percent>%))?", re.IGNORECASE
)


def value_of_word(word: str) -> float | None:
    """1, 0.5 or 0; None when it is no verdict word."""
    return _VALUES.get(" ".join(word.lower().split()))


def value_of_number(text: str) -> float | None:
    """Return the share that a number is, which may lie outside 0..1; None for a text that is no number."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    try:
        whole = float(found["all"] or (100 if found["percent"] else 1))
        return float(found["count"]) / whole if whole else None
    except ValueError:
        return None


def bare_word(line: str) -> str:
    """A line without decoration, quotes, brackets and ``\\boxed``."""
    return _BOXED.sub("", line).strip(_AROUND)
