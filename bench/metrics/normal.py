"""Text as the answer metrics read it: values to text, normal forms, tokens, stems.

Example::

    as_text(2022)                          # "2022"
    squad_tokens("The cat, a dog")         # ["cat", "dog"]
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections.abc import Iterable
from typing import Literal, cast

_WHITE = re.compile(r"[\s\ufeff]+")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ARTICLES_AND = re.compile(r"\b(a|an|the|and)\b")
_MEM0_MARKS = str.maketrans(dict.fromkeys(".,!?", " "))


def as_text(value: object) -> str:
    """A number is read as its text in the file, a boolean as true or false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def several(given: str | Iterable[object]) -> Iterable[object]:
    """Many ids or texts; one that stands alone is a list of one, not of its letters."""
    return (given,) if isinstance(given, str) else given


def normal_form(
    text: str, *, normalize_whitespace: bool = True, case_sensitive: bool = False, unicode: str = "none"
) -> str:
    """White-space runs (U+FEFF too) to one space, stripped, lower case; ``unicode``: none, nfc or nfkc."""
    if unicode != "none":
        text = unicodedata.normalize(cast("Literal['NFC', 'NFKC']", unicode.upper()), text)
    if normalize_whitespace:
        text = _WHITE.sub(" ", text).strip(" ")
    return text if case_sensitive else text.lower()


def squad_tokens(text: str) -> list[str]:
    """Lower case, no ASCII punctuation, no articles (SQuAD v1 evaluation script)."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def locomo_tokens(text: str) -> list[str]:
    """As SQuAD, with commas dropped first and ``and`` an article (LoCoMo evaluation script)."""
    return _ARTICLES_AND.sub(" ", text.replace(",", "").lower().translate(_PUNCTUATION)).split()


def locomo_stems(text: str) -> list[str]:
    """LoCoMo tokens, each stemmed."""
    return [stem(token) for token in locomo_tokens(text)]


def mem0_tokens(text: str) -> list[str]:
    """Lower case; only ``. , ! ?`` become spaces."""
    return text.lower().translate(_MEM0_MARKS).split()


@functools.lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Porter stem, NLTK's default mode."""
    return str(_stemmer().stem(word))


@functools.cache
def _stemmer():  # type: ignore[no-untyped-def]
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
