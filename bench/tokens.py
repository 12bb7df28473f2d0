"""Estimate token counts for endpoints that do not report them. The name of the method is ``chars/4``.

A character counts as a quarter of a token. In Hangul and in scripts without spaces between words, a character counts as
one token. ``fewest_tokens`` counts half a token for such a character, because tokenizers differ: Cohere's card of
multilingual-22-12 gives 4.8 characters per token for English, 1.1 for Chinese, 1.3 for Japanese and 2.0 for Korean, and
DeepSeek's documentation gives 0.6 tokens per Chinese character::

    count_tokens("abcde")               # 2
    count_tokens("蓝色花盆")             # 4
    fewest_tokens("蓝色花盆")            # 2
    cut_to_quarters("蓝色花盆", 8)                # "蓝色"
"""

from __future__ import annotations

from bench.patterns import pattern

TOKEN_METHOD = "chars/4"  # noqa: S105 - a counting rule, no secret
"""name of this counting method; it is stored with counts that no service reported"""
CHARS_PER_TOKEN = 4

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese and its neighbors
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df\uaa00-\uaa5f\uaa80-\uaadf"  # Tai, Balinese, Javanese, Cham
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff"  # Han
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3105-\u312f\u31a0-\u31bf\ua000-\ua4cf"  # Bopomofo, Yi
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7fb\uffa0-\uffdc"  # Hangul
    "\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U000323af"
)
"""the characters of Hangul and of scripts without spaces between words, as the inside of a regular-expression class"""
UNSPACED_CHARACTER = pattern(f"[{UNSPACED}]")


def token_quarters(text: str, *, each: int = CHARS_PER_TOKEN) -> int:
    """Return the estimated number of quarter tokens of a text.

    A character counts as 1. In scripts without spaces between words, a character counts as ``each``.
    """
    dense = 0 if text.isascii() else len(UNSPACED_CHARACTER.findall(text))
    return len(text) + (each - 1) * dense


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text, rounded up."""
    return -(-token_quarters(text) // CHARS_PER_TOKEN)


def fewest_tokens(text: str) -> int:
    """Return a low estimate of the number of tokens of a text, rounded up.

    In scripts without spaces between words, a character counts as half a token.
    """
    return -(-token_quarters(text, each=2) // CHARS_PER_TOKEN)


def chars_for_tokens(tokens: int, text: str) -> int:
    """Return the number of characters that make ``tokens`` tokens, in a text like ``text``."""
    return max(1, tokens * CHARS_PER_TOKEN * len(text) // token_quarters(text)) if text else tokens * CHARS_PER_TOKEN


def cut_to_quarters(text: str, room: int) -> str:
    """Return the longest beginning of a text that has at most ``room`` quarter tokens."""
    if text.isascii():
        return text[: max(0, room)]
    for at, char in enumerate(text):
        room -= CHARS_PER_TOKEN if UNSPACED_CHARACTER.match(char) else 1
        if room < 0:
            return text[:at]
    return text
