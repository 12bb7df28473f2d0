"""Split texts of any script into words, also of scripts without spaces between words.

The answer metrics use these functions to compare texts.

Example::

    spaced("我住在Berlin")             # " 我  住  在 Berlin"
    search_words("蓝色花盆")            # ["蓝", "色", "花", "盆", "蓝色", "色花", "花盆"]
    as_text(2022)                          # "2022"
    squad_tokens("The cat, a dog")         # ["cat", "dog"]

* ``spaced`` puts spaces around each character of a script that writes no spaces. The evaluation of MLQA (Lewis et al.
  2020), sacreBLEU's ``zh`` tokenizer and the evaluation of KorQuAD (Lim et al. 2019) do this too.
* ``comparable_form`` applies NFKC, and removes Unicode punctuation and optional vowel signs.
* ``loose_form`` removes markup, and makes quotes and digits plain. It is used for notes on results, and by no metric.
* ``search_words`` returns single characters and overlapping pairs of characters, as Lucene's CJK filter does with
  ``outputUnigrams``.
"""

from __future__ import annotations

import functools
import html
import itertools
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, cast

from bench.patterns import pattern
from bench.tokens import UNSPACED, UNSPACED_CHARACTER

_BEYOND_LATIN = (
    "\u0370-\u1cff\u1d00\u1f00-\u1fff\u2c00-\ua71f\ua800-\uab2f\uab70-\ud7ff"
    "\uf900-\ufaff\ufb07-\ufdff\ufe70-\ufefc\uff01-\uffef\U00010000-\U0001efff\U00020000-\U000323af"
)
OPTIONAL_MARKS = pattern("[\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]")
"""Hebrew vowel points and cantillation marks, Arabic vowel signs and the Arabic elongation stroke"""
_PLANE = 0x10000
_REMOVED_MARKS = frozenset(string.punctuation) | frozenset("’‘ʼ׳״")
"""punctuation that is removed, because it occurs inside words; other punctuation is replaced by a space"""

BEYOND_LATIN = pattern(f"[{_BEYOND_LATIN}]")


@functools.cache
def _marks() -> str:
    """Return all combining marks and variation selectors as ranges, to put them in a regular expression's ``[]``."""
    found = [code for code in range(0x300, _PLANE) if unicodedata.category(chr(code)).startswith("M")]
    ranges: list[list[int]] = []
    for code in found:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "\U000e0100-\U000e01ef"


@functools.cache
def _character_pattern() -> re.Pattern[str]:
    """Return a pattern that matches one character of a script without spaces, with the marks that follow it."""
    return re.compile(f"[{UNSPACED}][{_marks()}]*")


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(rf"\w[\w{_marks()}]*")


@functools.cache
def _piece_pattern() -> re.Pattern[str]:
    """Return a pattern that matches a stretch of a script without spaces, or one word of another script."""
    spaced = f"(?![{UNSPACED}])"
    return re.compile(rf"(?P<run>(?:[{UNSPACED}][{_marks()}]*)+)|(?:{spaced}\w)(?:{spaced}[\w{_marks()}])*")


def is_mark(character: str) -> bool:
    """Return True if the character is a combining mark, which belongs to the character before it."""
    return unicodedata.category(character).startswith("M")


_NUMBER = pattern(
    r"(?<![\d.,])(?:(?<!\w)[-−](?=\d))?"
    r"(?:\d{1,3}([,.'’])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d+)?|\d{1,3}(?: 000)+|\d+(?:\.\d+|,\d{1,2})|\d+)"
    r"(?!\d|[.,]\d)"
)
"""a number with sign, thousands separators and fraction; a date or a version does not match"""
_NO_FRACTION = pattern(r"[.,]0{1,2}\Z")


def splits_number(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] is only a part of a longer number.

    The 10 in ``$10,000`` is a part, but the 10 in ``10.00`` is the whole number.
    """
    around = text[max(0, start - 40) : end + 40]
    shift = start - max(0, start - 40)
    for found in _NUMBER.finditer(around):
        first, last = found.span()
        whole = last - (len(zeros[0]) if (zeros := _NO_FRACTION.search(found[0])) else 0)
        if any(first < edge < whole for edge in (shift, shift + end - start)):
            return True
    return False


def has_unspaced_script(text: str) -> bool:
    """Return True if the text has a character of a script without spaces between words, such as Chinese."""
    return not text.isascii() and UNSPACED_CHARACTER.search(text) is not None


def spaced(text: str) -> str:
    """Return the text with spaces around each character of a script without spaces."""
    if not has_unspaced_script(text):
        return text
    return _character_pattern().sub(lambda match: f" {match[0]} ", text)


def lowered(text: str) -> str:
    """Return the text in lower case and in Unicode form NFC. The Turkish capital İ becomes ``i``."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower().replace("i\u0307", "i"))


def is_beyond_latin(text: str) -> bool:
    """Return True if at least one letter of the text is not Latin."""
    return not text.isascii() and BEYOND_LATIN.search(text) is not None


def comparable_form(text: str) -> str:
    """Return the text in lower case, for comparison with another text.

    If the text has letters that are not Latin, also apply NFKC and remove punctuation, format characters and vowel
    points.
    """
    if not is_beyond_latin(text):
        return lowered(text)
    text = unicodedata.normalize("NFKC", text.translate(_punctuation()))
    return OPTIONAL_MARKS.sub("", lowered(text)).translate(_punctuation())


@functools.cache
def _punctuation() -> dict[int, str]:
    table = {}
    for code in range(_PLANE):
        kind = unicodedata.category(chr(code))
        if kind[0] == "P" or kind == "Cf":
            apart = chr(code) not in _REMOVED_MARKS and (kind != "Cf" or code == 0x200B)
            table[code] = " " if apart else ""
    return table | {ord(mark): "" for mark in _REMOVED_MARKS}


def words(text: str) -> list[str]:
    """Return the words of a text in lower case. In scripts without spaces, each character is a word."""
    text = _searchable(text)
    return _word_pattern().findall(spaced(text))


def search_words(text: str) -> list[str]:
    """Return the words of a text in lower case for a full-text index.

    In scripts without spaces, these are the single characters and all pairs of adjacent characters.
    """
    found: list[str] = []
    for match in _piece_pattern().finditer(_searchable(text)):
        if match["run"] is None:
            found.append(match[0])
            continue
        units = _character_pattern().findall(match[0])
        found += units
        found += [first + second for first, second in itertools.pairwise(units)]
    return found


def word_pairs(text: str) -> list[str]:
    """Return the words of a text in lower case.

    In a script without spaces, each pair of adjacent characters is a word. A single character between other scripts is
    also a word.
    """
    found: list[str] = []
    for match in _piece_pattern().finditer(_searchable(text)):
        units = _character_pattern().findall(match[0]) if match["run"] is not None else [match[0]]
        found += units if len(units) == 1 else [a + b for a, b in itertools.pairwise(units)]
    return found


def _searchable(text: str) -> str:
    if not is_beyond_latin(text):
        return lowered(text)
    return OPTIONAL_MARKS.sub("", lowered(unicodedata.normalize("NFKC", text)))


def indexed(text: str) -> str:
    """Return the text as it is stored in a full-text index that splits at spaces only.

    A text with only Latin letters is returned unchanged. Any other text becomes its `search_words` with spaces between
    them. In these words, each combining mark is replaced by a character of the private use area. FTS5 treats this
    character as a letter, but most marks as separators: a Hindi word would be split into its consonants.
    """
    if not is_beyond_latin(text):
        return text
    return " ".join(search_words(text)).translate(_letters_for_marks())


def index_terms(text: str) -> list[str]:
    """Return the distinct words of a query, in the form in which ``indexed`` stores words."""
    found = dict.fromkeys(search_words(text))
    if not is_beyond_latin(text):
        return list(found)
    return [word.translate(_letters_for_marks()) for word in found]


@functools.cache
def _letters_for_marks() -> dict[int, int]:
    marks = (code for code in range(0x370, _PLANE) if unicodedata.category(chr(code)).startswith("M"))
    return {mark: 0xE000 + place for place, mark in enumerate(marks)}


_WHITE = pattern(r"[\s\ufeff]+")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = pattern(r"\b(a|an|the)\b")
_ARTICLES_AND = pattern(r"\b(a|an|the|and)\b")
_MEM0_MARKS = str.maketrans(dict.fromkeys(".,!?", " "))


def as_text(value: object) -> str:
    """Return a value as a text; a boolean becomes ``true`` or ``false``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def as_iterable(given: str | Iterable[object]) -> Iterable[object]:
    """Return ids or texts as an iterable. A single text is returned as one element."""
    return (given,) if isinstance(given, str) else given


def normal_form(
    text: str, *, normalize_whitespace: bool = True, case_sensitive: bool = False, unicode: str = "none"
) -> str:
    """Return a text in a normal form for comparisons.

    By default, white space (U+FEFF too) becomes single spaces, the ends are stripped, and letters become lower case.
    ``unicode`` is the Unicode form to apply: none, nfc or nfkc.
    """
    if unicode != "none":
        text = unicodedata.normalize(cast("Literal['NFC', 'NFKC']", unicode.upper()), text)
    if normalize_whitespace:
        text = _WHITE.sub(" ", text).strip(" ")
    return text if case_sensitive else text.lower()


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]}|t)?" if name[3:] else name for name in _MONTHS)
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SPELLING_SIGN = pattern(
    r"[^\x00-\x7f]|[*`_<&\\$;|]| / |\d[.,' /]+\d|\d[a-z]|[\d$] (?=[%\dap])|\d{4}-\d|^\s*\w+(?: \w+)?:"
    rf"|\b(?:{'|'.join((*_SMALL[1:], *_TENS))}|{_MONTH})\b"
)
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("’‘ʼ′`´", "'"),
        **dict.fromkeys("“”„″", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **{"⁄": "/", "٫": ".", "٬": ",", "،": ","},
    }
)
"""translation table: typographic quotes, dashes and Arabic separators -> their plain ASCII signs"""
_MARKUP_SIGN = pattern(r"[^\x00-\x7f]|[*`_<$\\]")
_MARKUP: Sequence[tuple[re.Pattern[str], str]] = (
    (pattern(r"</?[a-zA-Z][^<>@]{0,200}>"), " "),
    (pattern(r"\\(?:text\w{0,2}|math\w{1,3}|boxed|emph)\s*\{([^{}]*)\}"), r"\1"),
    (pattern(r"\\(?:[()\[\]]|(?=[%$&#_{}]))"), ""),
    (pattern(r"(\*\*|__)(?=\S)(.{1,200}?)(?<=\S)\1|(?<!\w)([*_`])(?=\S)([^*_`]{1,200})(?<=\S)\3(?!\w)"), r"\2\4"),
    (pattern(r"(?<!\w)\$(?=\S)([^$\n]{1,80})(?<=\S)\$(?!\w)"), r"\1"),
    (pattern(r"(?<=[A-Za-z])_\{?(\d{1,3})\}?"), r"\1"),
    (pattern(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215e])"), " "),
)
"""patterns of markup and their replacements, in the order in which they are applied"""
_GROUPED = pattern(
    r"(?<![\w.,])(?P<whole>\d{1,3}(?:([.,' ])\d{3}(?:\2\d{3})*|(?:,\d\d)+,\d{3}))"
    r"(?P<rest>(?:(?!\2)[.,]\d+)?)(?!\d|[.,]\d)"
)
_SEPARATORS = str.maketrans("", "", ".,' ")
_NUMBER_FORMS: Sequence[tuple[re.Pattern[str], str]] = (
    (pattern(r"(?<![\d,])(\d+),(\d{1,2})(?![\d,])"), r"\1.\2"),
    (pattern(r"(?<![\d.])(\d+)\.0+(?![\d.])"), r"\1"),
    (pattern(r"(?<!version )(?<!release )(?<!section )(?<!chapter )(?<![\w.])(\d+\.\d*[1-9])0+(?![\d.])"), r"\1"),
    (pattern(r"(?<=\d) (?=[%°])|(?<=[$€£¥]) (?=\d)"), ""),
    (pattern(r"\b([ap])\.m\b\.?"), r"\1m"),
    (pattern(r"(?<![a-z\d])(\d{1,15}(?:\.\d{1,9})?)(?=(?!(?:st|nd|rd|th)\b)[a-z])"), r"\1 "),
)
"""patterns of spellings of numbers (decimal comma, last zeros of a fraction, units) and their replacements"""
_DATE = pattern(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?(?: of)? (?P<month>{_MONTH})\b\.?(?:,? (?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH})\.? (?:the )?(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d|[:.]\d)(?:,? ?(?P<year2>\d{{4}}))?"
    rf"|(?P<month3>{_MONTH})\.?,? (?P<year3>\d{{4}})"
    r"|(?P<year4>\d{4})(?P<mark>[-/.])(?P<month4>\d{1,2})(?P=mark)(?P<day4>\d{1,2})"
    r"|(?P<day5>\d{1,2})\.(?P<month5>\d{1,2})\.(?P<year5>\d{4}))(?![\w.]?\d)"
)
_NUMBER_WORD = pattern(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_SMALL[1:10])}))?"
    rf"|(?P<small>(?<!\bthe )(?<!\bthis )(?<!\bthat )(?<!\bno )(?<!\bany )(?<!\bevery )one|zero"
    rf"|{'|'.join(_SMALL[2:])}))\b"
)
_OTHER_DIGIT = pattern(r"(?![0-9])\d")
ANSWER_LABEL = pattern(r"\s*(?:(?:the )?(?:final |short |correct |gold )?answer(?: is)?|a):\s*", re.IGNORECASE)


def has_spelling(text: str) -> bool:
    """Return True if the text has a sign that ``loose_form`` could change, or that separates several answers."""
    return _SPELLING_SIGN.search(text) is not None


def loose_form(text: str) -> str:
    """Return a form of the text that is equal for all spellings of one answer.

    Markup (HTML, Markdown, LaTeX) and a label such as ``Answer:`` are removed. Numbers, number words, dates, digits of
    other scripts, quotes and units are written in one way. The text must be in lower case.
    """
    if not has_spelling(text):
        return text
    label = ANSWER_LABEL.match(text)
    text = html.unescape(text[label.end() :] if label else text)
    if _MARKUP_SIGN.search(text):
        for form, plain in _MARKUP:
            text = form.sub(plain, text)
    text = text.translate(_PLAIN)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
        text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _NUMBER_WORD.sub(_in_digits, _DATE.sub(_as_iso, text))
    text = _GROUPED.sub(lambda number: number["whole"].translate(_SEPARATORS) + number["rest"], text)
    for form, plain in _NUMBER_FORMS:
        text = form.sub(plain, text)
    return " ".join(text.split())


def _as_iso(date: re.Match[str]) -> str:
    """Return a date as ``YYYY-MM-DD``. A year or day that the text does not have is left out."""
    found = {name.rstrip("2345"): text for name, text in date.groupdict().items() if text}
    month = found["month"]
    number = int(month) if month.isdigit() else 1 + [name[:3] for name in _MONTHS].index(month[:3])
    return "-".join(
        [
            *([found["year"]] if "year" in found else []),
            f"{number:02}",
            *([found["day"].zfill(2)] if "day" in found else []),
        ]
    )


def _in_digits(word: re.Match[str]) -> str:
    if word["small"]:
        return str(_SMALL.index(word["small"]))
    return str(20 + 10 * _TENS.index(word["tens"]) + (_SMALL.index(word["ones"]) if word["ones"] else 0))


def squad_tokens(text: str) -> list[str]:
    """Return the tokens of SQuAD v1's evaluation script: lower case, without ASCII punctuation and English articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def locomo_tokens(text: str) -> list[str]:
    """Return the tokens of LoCoMo's evaluation script.

    They are the tokens of SQuAD, but commas are removed first, and ``and`` is removed like an article.
    """
    return _ARTICLES_AND.sub(" ", text.replace(",", "").lower().translate(_PUNCTUATION)).split()


def locomo_stems(text: str) -> list[str]:
    """Return the stem of each token of `locomo_tokens`."""
    return [stem(token) for token in locomo_tokens(text)]


def mem0_tokens(text: str) -> list[str]:
    """Return the tokens of mem0's evaluation: lower case, split at white space and at ``. , ! ?``."""
    return text.lower().translate(_MEM0_MARKS).split()


@functools.lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a word by the Porter algorithm in NLTK's default mode."""
    return str(_stemmer().stem(word))


@functools.cache
def _stemmer():  # type: ignore[no-untyped-def]
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
