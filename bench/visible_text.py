"""Find invisible and misleading characters in texts, and write invisible characters as escapes.

Example::

    visible("a\\x1b[31m\\u202e")         # "a\\\\x1b[31m\\\\u202e"; tabs and newlines stay
    visible_json('{"a": "\\u202e"}')          # the same JSON value, with \\\\u202e written out
    is_blank(" \\u200b")                # True: nothing is visible
    has_misleading_characters("P\\u0430ris")                # True: its second letter is Cyrillic
    counted(1, "answer(|s) that (is|are) empty")        # "1 answer that is empty"
    shorten("a long text", 7)            # "a long…"
    money_text(Decimal("3.666E-7"))      # "0.00000037"
"""

from __future__ import annotations

import unicodedata
from decimal import Decimal

from bench.patterns import pattern

_HIDDEN = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e007f"
)
HIDDEN = pattern(f"[{_HIDDEN}]")
_SEEN = pattern(f"[^\\s\\u2800\\ufe00-\\ufe0f{_HIDDEN}]")
"""matches a visible character: no white space, empty braille cell, variation selector or hidden character"""

LATIN_OF = str.maketrans("АВСЕНКМОРТХІЅЈасеорхуіѕјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABCEHKMOPTXISJaceopxyisjABEZHIKMNOPTYXo")
"""translation table: a Cyrillic or Greek letter -> the Latin letter that looks like it"""
_ALIKE = "".join(map(chr, LATIN_OF))
_ODD = pattern(
    f"[{_HIDDEN}](?<![\u200c\u200d])|[A-Za-z0-9][\u200c\u200d]|[A-Za-z][{_ALIKE}]|[{_ALIKE}][A-Za-z]|[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
    f"|^\\W*[{_ALIKE}]\\W*$"
)


_NUMBERS = pattern(r"\(([^()|]*)\|([^()|]*)\)")


def counted(count: int, text: str) -> str:
    """Return ``count`` and ``text``, with ``(one|many)`` in ``text`` replaced by the form for this count."""
    return f"{count} {_NUMBERS.sub(lambda forms: forms[1 if count == 1 else 2], text)}"


def shorten(text: str, most: int) -> str:
    """Return the text; if it has more than ``most`` characters, its end is replaced by an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


LEAST_USD = 1e-12
"""a float below this bound is shown as 0, because it is the rounding error of a difference"""


def money_text(usd: Decimal | float | None) -> str:
    """Format an amount in USD with up to six decimals; "-" if it is unknown.

    A smaller amount has two significant digits, so that only a cost of zero is shown as 0.
    """
    if usd is None:
        return "-"
    if isinstance(usd, float) and abs(usd) < LEAST_USD:
        return "0"
    return f"{usd:.{max(6, 1 - Decimal(usd).adjusted())}f}".rstrip("0").rstrip(".")


def has_misleading_characters(text: str) -> bool:
    """Return True if a text has hidden characters, or letters that look like other letters.

    Examples are a Cyrillic letter in a Latin word, a full-width digit, and a text that is not in Unicode form NFC.
    """
    return not text.isascii() and (_ODD.search(text) is not None or not unicodedata.is_normalized("NFC", text))


def visible(text: str) -> str:
    """Return the text with hidden characters written as escapes. Tabs and newlines stay."""
    return HIDDEN.sub(lambda found: _escape(ord(found.group())), text)


def is_blank(text: str) -> bool:
    """Return True if a text is empty, or has only white space and hidden characters."""
    return not ("!" <= text[:1] <= "~") and _SEEN.search(text) is None


def visible_json(text: str) -> str:
    """Return the JSON text with hidden characters written as JSON escapes. Its parsed value does not change."""
    return HIDDEN.sub(lambda found: _json_escape(found.group()), text)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
