"""Multiple choice: which option a gold means, and which one an answer names first.

Example::

    choice_index("B", ("Rome", "Paris"))                        # 1; also for "(b)" and "paris"
    chosen_index("I think it is Paris, not Rome.", ("Rome", "Paris"))        # 1

An option has a letter, A to Z by its place, and a text; where an option's text is a letter, the text counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from bench.metrics.normal import normal_form

_AROUND = "().:*\"' "


def choice_index(gold: str | None, choices: Sequence[str]) -> int | None:
    """Which option a gold names: its text, its letter, or nothing."""
    return None if gold is None else _named(gold, choices)


def chosen_index(answer: str, choices: Sequence[str]) -> int | None:
    """The option that an answer names first; of two texts that begin together the longer one."""
    whole = _named(answer, choices)
    if whole is not None or not choices:
        return whole
    text = answer.strip()
    letters = ascii_uppercase[: len(choices)]
    found: list[tuple[int, int, int]] = []
    for match in re.finditer(rf"(?<!\w)(?:\(([{letters}])\)|([{letters}])(?=[).:,*]|\s*$|\s*\n))", text):
        found.append((match.start(), 0, letters.index(match[1] or match[2])))
    for place, choice in enumerate(choices):
        option = re.escape(choice.strip()).replace(r"\ ", r"\s+")
        standing = re.search(rf"(?<!\w){option}(?!\w)", text, re.IGNORECASE) if choice.strip() else None
        if standing:
            found.append((standing.start(), -len(choice), place))
    return min(found)[2] if found else None


def _named(text: str, choices: Sequence[str]) -> int | None:
    """The option that a text is, and nothing else."""
    texts = [normal_form(choice) for choice in choices]
    if normal_form(text) in texts:
        return texts.index(normal_form(text))
    letter = text.strip(_AROUND).upper()
    place = ascii_uppercase.find(letter) if len(letter) == 1 else -1
    return place if 0 <= place < len(choices) else None
