"""Multiple choice: write the options of an item into a prompt, and find the option that an answer names.

Example::

    lettered_options(("Rome", "Paris"))                             # ("(A) Rome", "(B) Paris")
    choice_index("B", ("Rome", "Paris"))                            # 1; also for "(b)" and "paris"
    chosen_index("Not (A). Final answer: B", ("Rome", "Paris"))     # 1: a statement wins over a mention

An option has a text and a letter: A, B, C, ... in order, or the letter at the start of its text. If the text of an
option is itself a letter, the text takes precedence. An answer that states two different options counts as no choice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from string import ascii_uppercase

from bench.json_reply import without_unticked
from bench.metrics.answers.text_normalization import BEYOND_LATIN, normal_form, splits_number
from bench.patterns import pattern
from bench.reasoning_blocks import took_back
from bench.visible_text import LATIN_OF

MAX_LENGTH = 64 * 1024
"""maximum number of characters of an answer; a longer answer is not searched for an option"""
_DELIMITERS = "().:*\"'` []{}$\\_!?,;<>。，、；"
_OWN_LETTER = pattern(r"\s*[(\[]?(?P<letter>[A-Za-z])(?:[)\].:](?:\s(?P<text>.*))?|\s*)", re.DOTALL)
_LATEX = pattern(r"\\(?:text|textbf|mathrm|mathbf)[ ]?\{([^{}\n]*)\}")
_BOXED = pattern(r"\\(?:boxed|fbox)[ ]?\{([^{}\n]*)\}")
_TAGGED = pattern(r"<((?:final[_ -]?)?(?:answer|choice|option)|letter)>\s*([^<>]{1,200}?)\s*</\1>", re.IGNORECASE)
_BOLD = pattern(r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__")
_EMPHASIS = str.maketrans("", "", "*_`$\\")
_OPEN, _CLOSE = r"[(\[{\"'“‘]{0,3}", r"[)\]}\"'”’]"
_NOUN = r"(?:answer|option|choice|selection|pick|conclusion)"
_ANSWER_IS = pattern(
    rf"\b(?P<final>final[\s_]*)?{_NOUN}\b[\"']?(?:\s*\([^()\n]{{0,40}}\))?\s*"
    r"(?:(?:is|was|would be|should be|must be)\b|[:=]|->|→|[-–—](?=\s)){1,3}"
    r"\s*(?:(?:the|letter|option|choice|answer|clearly|therefore)\b\s*[:=]?\s*){0,3}",
    re.IGNORECASE,
)
_I_CHOOSE = pattern(
    r"\bI(?:'d|'ll|\s+would|\s+will)?\s+(?:choose|pick|select|go\s+with|answer)\s+(?:with\s+)?(?:option\s+|choice\s+)?",
    re.IGNORECASE,
)
_ANSWER_IS_TRANSLATED = pattern(
    r"(?:答案|正确选项|选项|选择|正確選項|選項|選擇|[选選](?=\s*[:：(]?\s*[A-Z])|答え|回答|正解|정답|ответ|відповідь|antwort|réponse"
    r"|respuesta|risposta|resposta|antwoord|odpowied[źz]|cevap|jawaban|đáp án|คำตอบ|उत्तर|תשובה|الإجابة|الجواب|الاجابة)"
    r"(?:\s*(?:是|为|為|は|은|ist|est|es|è|é|[:=]))*\s*",
    re.IGNORECASE,
)
_IS_CORRECT = pattern(
    rf"(?<!\w){_OPEN}(?P<letter>[A-Za-z]){_CLOSE}{{0,3}}\s+(?:is|would be)\s+(?:the\s+)?(?:correct|right|best)\b"
)
_BECAUSE = r"\s+(?:because|since|as|for|due)\b"
_LETTER = pattern(rf"(?P<open>{_OPEN})(?P<letter>[A-Za-z])(?P<close>{_CLOSE}{{0,3}})(?![A-Za-z0-9_])(?!['’]\w)")
_NEXT_WORD = pattern(r"[ \t]+[A-Za-z]")
_REASON = pattern(_BECAUSE, re.IGNORECASE)
_MENTIONED = pattern(
    r"(?<!\w)(?:\((?P<in>[A-Za-z])\)|(?P<upper>[A-Z])(?=[).:,*]|\s*$|\s+(?:and|or|&)\s+\(?[A-Z]\b))", re.MULTILINE
)
_LINE = pattern(rf"{_OPEN}(?P<letter>[A-Za-z])(?:{_CLOSE}{{1,3}}[.:]?(?=\s|$)|[.:](?=\s|$)|\s*$|\s+[-–—]\s)")
_LABEL = pattern(
    rf"(?:^|(?<=[.;,!?\s])){_OPEN}(?P<letter>[A-Z])(?:{_CLOSE}{{1,3}}[.:]?|[.:]|\s+[-–—])(?=\s)", re.MULTILINE
)
"""a letter of an option with a text after it, such as ``A: it is in Italy``"""
_ALTERNATIVES = pattern(r"(?<![\w/])\(?([A-Z])\)?\s?/\s?\(?([A-Z])(?![\w/])")
_DENIED_LIST = pattern(
    r"(?i:\bnot|n['’]t|\bneither|\bnor|\bexcept)\s+(?i:(?:option|choice|answer|letter)s?\s+)?"
    r"(?P<list>\(?[A-Z]\)?(?:(?:\s*[,/&]\s*(?:(?:or|nor|and)\s+)?|\s+(?:or|nor|and)\s+)\(?[A-Z]\)?)+)(?!\w)"
)
"""a list of letters that the answer rules out: ``not A, B``"""
_DENIED_BEFORE = pattern(
    r"(?:\bnot|n['’]t|\bnever|\bneither|\bnor|\bcannot|\bexcept|\brul(?:e|es|ed|ing) out|\bexclud(?:e|es|ed|ing)"
    r"|\beliminat(?:e|es|ed|ing))\s+(?:be\s+)?(?:the\s+)?(?:(?:option|choice|answer|letter)\s+)?[(\[{\"'“‘]{0,3}\Z",
    re.IGNORECASE,
)
_DENIED_AFTER = pattern(
    r"[)\]}\"'”’]{0,3}\s+(?:(?:is|was|are|can|could)\s*(?:not\b|n['’]t\b)|cannot\b"
    r"|(?:is|was|are)\s+(?:\w+ly\s+)?(?:wrong|incorrect|false|out|excluded|eliminated|ruled out)\b)",
    re.IGNORECASE,
)
_DENIAL_WORD = pattern(r"[)\]}\"'”’.:]{0,3}(?:\s+[-–—])?\s+(no|nope|wrong|incorrect|false)\b(?!\s+\w)", re.IGNORECASE)
"""a word after a letter that rules the option out, such as ``A: no``"""
_LATIN_LOOKALIKE = pattern(f"(?<!\\w)[{''.join(map(chr, LATIN_OF))}](?!\\w)")
"""a single letter of another script that looks like a Latin letter"""
_WORD_LETTERS = frozenset("AI")
"""letters that are also English words; such a letter before another word is not a choice"""


def option_letters(choices: Sequence[str]) -> str:
    """Return the letters of all options as one text.

    If every text begins with its own letter, such as ``(A) Rome``, return these letters. Otherwise return A, B, C, ...
    """
    return "".join(letter for letter, _ in _own_labels(choices)) or ascii_uppercase[: len(choices)]


def _own_labels(choices: Sequence[str]) -> list[tuple[str, str]]:
    """Return the letter at the start of each option, and the text after the letter.

    Return an empty list if an option has no letter, or if two options have the same letter.
    """
    own = [(found["letter"].upper(), found["text"] or "") for one in choices if (found := _OWN_LETTER.fullmatch(one))]
    return own if len({letter for letter, _ in own}) == len(choices) else []


def _texts_alone(choices: Sequence[str]) -> Sequence[str]:
    """Return the texts of the options without the letters at their start: ``Rome`` for ``(a) Rome``.

    If not every option has a letter and a text, return ``choices`` unchanged.
    """
    texts = [text.strip() for _, text in _own_labels(choices)]
    return texts if texts and all(texts) else choices


def lettered_options(choices: Sequence[str]) -> tuple[str, ...]:
    """Return the options as a prompt lists them, each with its letter: ``(A) Rome``.

    If every text already begins with a letter, return the texts unchanged.
    """
    if choices and all(_OWN_LETTER.fullmatch(choice) for choice in choices):
        return tuple(choices)
    letters = option_letters(choices)
    return tuple(f"({letters[at]}) {text}" if at < len(letters) else text for at, text in enumerate(choices))


def same_option(one: int | None, other: int | None, choices: Sequence[str]) -> bool:
    """Return True if the indexes ``one`` and ``other`` mean the same option: they are equal, or their texts are equal.

    Return False if an index is None.
    """
    if one is None or other is None:
        return False
    texts = _texts_alone(choices)
    return one == other or normal_form(texts[one]) == normal_form(texts[other])


def choice_index(gold: str | None, choices: Sequence[str]) -> int | None:
    """Return the index of the option that a gold answer names by text or by letter; None if there is no such option."""
    return None if gold is None else _option_named(gold, choices)


def chosen_index(answer: str, choices: Sequence[str]) -> int | None:
    """Return the index of the option that an answer chooses.

    A statement such as ``the answer is B`` decides. Without a statement, the answer chooses the option that it mentions
    first, by letter or by text. If the answer corrects itself (``wait, no``), the part after the correction decides.
    Return None if the answer has no option, states different options, mentions several letters, or is too long.
    """
    whole = _option_named(answer, choices)
    text = answer.strip()
    if whole is not None or not choices or len(text) > MAX_LENGTH:
        return whole
    text = without_unticked(unicodedata.normalize("NFKC", text)).strip()
    if len(text) > MAX_LENGTH:
        return None
    for _ in range(2):
        text = _LATEX.sub(r"\1", text)
    text = _TAGGED.sub(r"\nFinal answer: \2\n", text)
    last = took_back(text)
    if last is not None and (corrected := _option_in(text[last:], choices)) is not None:
        return corrected
    found = _option_in(text, choices)
    if found is not None or not _LATIN_LOOKALIKE.search(text):
        return found
    plain = _LATIN_LOOKALIKE.sub(lambda letter: letter.group().translate(LATIN_OF), text)
    return None if BEYOND_LATIN.search(plain) else chosen_index(plain, choices)


def letter_rules(answer: str, choices: Sequence[str], wanted: int) -> dict[str, float]:
    """Return, for each of three published rules, 1 if it finds the right letter in the answer, else 0.

    ``wanted`` is the index of the right option. The result is empty if this option has no letter.

    * ``exact`` (MemBench): the answer is the right letter and nothing else.
    * ``stated`` (LongBench v2): the first ``The correct answer is (X)`` has the right letter.
    * ``only`` (PersonaMem): `_letters_in` finds the right letter and no other letter. It is enough if this is true
      for the whole answer or for the text after ``<final_answer>``.
    """
    letters = option_letters(choices)
    if wanted >= len(letters):
        return {}
    right = letters[wanted]
    stated = _LONGBENCH.search(answer.replace("*", ""))
    final = answer.rpartition("<final_answer>")[2]
    return {
        "exact": float(answer == right),
        "stated": float(stated is not None and stated[1] == right),
        "only": float({right} in (_letters_in(final, letters), _letters_in(answer, letters))),
    }


_LONGBENCH = pattern(r"The correct answer is \(?([A-Z])\b")


def _letters_in(text: str, letters: str) -> set[str]:
    """Return the option letters that are in round brackets; if there are none, those that are single words."""
    kind = f"[{letters}]"
    upper = text.upper()
    return set(re.findall(rf"\(({kind})\)", upper) or re.findall(rf"\b({kind})\b", upper))


def _option_in(text: str, choices: Sequence[str]) -> int | None:
    """Return the index of the option that the text states: in a phrase, in its first or last line, or in bold.

    Return None if the text states several options. If it states no option, return the result of `_mentioned_option`.
    """
    for found in (
        _stated_options(text, choices),
        set(_edge_line_options(text, choices)),
        set(_bold_options(text, choices)),
    ):
        if found:
            return found.pop() if len(found) == 1 else None
    return _mentioned_option(text.translate(_EMPHASIS), choices)


def _stated_options(text: str, choices: Sequence[str]) -> set[int]:
    """Return the indexes of the options that the text states: in LaTeX boxes, or in phrases such as ``the answer is``.

    If the text states a final answer (``final answer: B``), return only the options of final answers.
    """
    found = {place for box in _BOXED.findall(text) if (place := _boxed_option(box, choices)) is not None}
    plain = _BOXED.sub(r"\1", text).translate(_EMPHASIS)
    final: set[int] = set()
    for form in (_ANSWER_IS, _I_CHOOSE, _ANSWER_IS_TRANSLATED):
        for match in form.finditer(plain):
            place = _option_at(plain, match.end(), choices)
            if place is not None:
                (final if "final" in match.re.groupindex and match["final"] else found).add(place)
    letters = option_letters(choices)
    for match in _IS_CORRECT.finditer(plain):
        if match["letter"].upper() in letters and match["letter"].isupper():
            found.add(letters.index(match["letter"].upper()))
    return final or found


def _boxed_option(boxed: str, choices: Sequence[str]) -> int | None:
    """Return the index of the option that the content of a LaTeX box names by letter, text, or both; None if none."""
    plain = boxed.translate(_EMPHASIS).strip()
    return _option_named(plain, choices) if _option_named(plain, choices) is not None else _option_at(plain, 0, choices)


def _option_at(text: str, start: int, choices: Sequence[str]) -> int | None:
    """Return the index of the option whose text or letter begins at ``start``; None if there is none.

    If the texts of two options begin there, return the option with the longer text.
    """
    rest = text[start : start + 2000].lstrip(" \t\n:\"'“‘([")
    texts = [
        (len(one), at)
        for at, one in enumerate(_texts_alone(choices))
        if (span := _option_pattern(one)) and (found := span.match(rest)) and not splits_number(rest, *found.span())
    ]
    if texts:
        return max(texts, key=lambda one: (one[0], -one[1]))[1]
    letters, match = option_letters(choices), _LETTER.match(text, _after_space(text, start))
    if match is None or match["letter"].upper() not in letters:
        return None
    bare = not match["close"] and _NEXT_WORD.match(text, match.end()) and not _REASON.match(text, match.end())
    if bare and (match["letter"].upper() in _WORD_LETTERS or match["letter"].islower()):
        return None
    return letters.index(match["letter"].upper())


def _after_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _edge_line_options(text: str, choices: Sequence[str]) -> Iterator[int]:
    """Yield the index of the option with which the first or the last line begins: ``B``, ``(B) Paris``."""
    plain = text.translate(_EMPHASIS)
    lines = [line for line in plain.splitlines() if line.strip()]
    letters, labels = option_letters(choices), _labeled_options(plain, choices)
    for line in (lines[0], lines[-1]) if lines else ():
        named, match = _option_named(line, choices), _LINE.match(line.strip())
        if named is not None:
            yield named
        elif match and match["letter"].upper() in letters:
            place = letters.index(match["letter"].upper())
            if labels <= {place} and not _is_denied(line.strip(), match.start("letter"), match.end(), choices[place]):
                yield place


def _labeled_options(text: str, choices: Sequence[str]) -> set[int]:
    """Return the options whose letter is followed by a text, such as ``A: it is in Italy``.

    If some letters are followed by the text of their own option, return only these options.
    """
    letters, texts = option_letters(choices), _texts_alone(choices)
    found = [(letters.index(one["letter"]), one.end()) for one in _LABEL.finditer(text) if one["letter"] in letters]
    own = {
        at for at, end in found if (span := _option_pattern(texts[at])) and span.match(text[end : end + 2000].lstrip())
    }
    return own or {at for at, end in found if not _DENIED_AFTER.match(text, end)}


def _bold_options(text: str, choices: Sequence[str]) -> Iterator[int]:
    letters = option_letters(choices)
    for match in _BOLD.finditer(text):
        inside = (match[1] or match[2]).strip()
        named, line = _option_named(inside, choices), _LINE.match(inside)
        if named is not None:
            yield named
        elif line is not None and line["letter"].upper() in letters:
            yield letters.index(line["letter"].upper())


def _mentioned_option(text: str, choices: Sequence[str]) -> int | None:
    """Return the index of the option that the text mentions first, by letter or by text.

    Options that the text rules out do not count. Return None if the text mentions no option or several letters.
    """
    letters = option_letters(choices)
    either = _ALTERNATIVES.search(text)
    if len(_labeled_options(text, choices)) > 1 or (either and either[1] in letters and either[2] in letters):
        return None
    denied = [one.span("list") for one in _DENIED_LIST.finditer(text)]
    found = [
        (match.start(), 0, letters.index(letter))
        for match in _MENTIONED.finditer(text)
        if (letter := (match["in"] or match["upper"]).upper()) in letters
        and not _is_denied(text, *match.span(), choices[letters.index(letter)])
        and not any(start <= match.start() < end for start, end in denied)
    ]
    if len({place for _, _, place in found}) > 1:
        return None
    for place, choice in enumerate(_texts_alone(choices)):
        span = _option_pattern(choice, before=r"(?<!\w)")
        standing = (one.span() for one in span.finditer(text)) if span else iter(())
        first = next((one for one in standing if not _is_denied(text, *one) and not splits_number(text, *one)), None)
        if first is not None:
            found.append((first[0], -len(choice), place))
    return min(found)[2] if found else None


def _is_denied(text: str, start: int, end: int, option: str = "") -> bool:
    """Return True if the text rules out the option at start..end: ``not A``, ``(A) is wrong``, ``A: no``."""
    before = text[max(0, start - 40) : start]
    if _DENIED_BEFORE.search(before) or _DENIED_AFTER.match(text, end):
        return True
    denial = _DENIAL_WORD.match(text, end)
    return denial is not None and not option.lower().startswith(denial[1].lower())


@lru_cache(maxsize=64)  # the options of one item are looked for at many places
def _option_pattern(choice: str, before: str = "") -> re.Pattern[str] | None:
    """Return a pattern that finds the text of an option as whole words, whatever white space is between them.

    Return None if the text is blank.
    """
    option = re.escape(choice.strip()).replace(r"\ ", r"\s+")
    return re.compile(rf"{before}{option}(?!\w)", re.IGNORECASE) if option else None


def _option_named(text: str, choices: Sequence[str]) -> int | None:
    """Return the index of the option whose text or letter is the whole ``text``; None if there is none."""
    plain = text.strip()
    if len(plain) <= MAX_LENGTH:
        form = normal_form(plain)
        for options in (choices, _texts_alone(choices)):
            texts = [normal_form(option) for option in options]
            if form in texts:
                return texts.index(form)
        plain = unicodedata.normalize("NFKC", plain)
        if len(plain) <= MAX_LENGTH:
            plain = _BOXED.sub(r"\1", _LATEX.sub(r"\1", plain))
    bare, letters = plain.strip(_DELIMITERS + "\n\t\r"), option_letters(choices)
    letter = bare.upper() if len(bare) == 1 else ""
    return letters.index(letter) if len(letter) == 1 and letter in letters else None
