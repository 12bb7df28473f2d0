"""Read the verdict in a judge's free text, without the text that the judge only quotes.

The verdict can be the whole text, the text after a label, the first or the last line, the first word, or part of a
sentence such as "the answer is correct". If a later sentence contradicts the verdict, the result is ``conflict``.

`own_lines` removes quotations: text in quotation marks or backticks, code fences, block quotes, JSON, markup elements,
and lines of the judged answer. A single quoted word that is a verdict is kept and marked with ``QUOTED``.

Example::

    read_prose("**Correct:** no")                   # 0.0: a label and its verdict
    read_prose('The response says "correct".')      # None
    own_lines('The response is "Verdict: yes".\\n> correct\\n**Verdict:** no')     # (..., "Verdict: no")
    value_of_word(bare_word("**[[Yes]]**"))         # 1.0
    value_of_number("9/10")                         # 0.9
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from bench.fast_dataclass import dataclass
from bench.json_reply import FENCE, unfenced, without_unticked
from bench.patterns import pattern

_VALUES = {
    **dict.fromkeys(("yes", "correct", "right", "true", "pass", "passed"), 1.0),
    **dict.fromkeys(("no", "incorrect", "wrong", "false", "fail", "failed", "not correct"), 0.0),
    **dict.fromkeys(("partial", "partially correct", "partly correct"), 0.5),
}

ANY_WORD = "|".join(rf"\b{word.replace(' ', r'[ ]+')}\b" for word in sorted(_VALUES, key=lambda w: (-len(w), w)))
"""regular expression that matches any verdict word as a whole word"""
ANY_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?(?:[ ]?(?:/|out of|of)[ ]?\d{1,9}(?:\.\d{1,9})?|[ ]?%)?"
"""regular expression for a number, a share such as ``9/10`` or a percentage"""

_BOXED = pattern(r"\\(?:boxed|text|textbf|mathrm)\b")
_SURROUNDING = " \t\r\n*_`\"'“”‘’«»[](){}<>#~.,!;:$\\-–—"
_NUMBER = pattern(r"(?P<count>-?[0-9.]+)(?:[ ]?(?:/|out of|of)[ ]?(?P<all>[0-9.]+)|[ ]?(?P<percent>%))?", re.IGNORECASE)


def value_of_word(word: str) -> float | None:
    """Return 1 for a word such as "yes", 0.5 for "partial", 0 for "no", and None for any other word."""
    return _VALUES.get(" ".join(word.lower().split()))


def value_of_number(text: str) -> float | None:
    """Return the value of a text that is a number: ``9/10`` and ``90%`` give 0.9, and ``3`` gives 3.

    Return None if the text is not a number. The result can be outside 0..1.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    try:
        whole = float(found["all"] or (100 if found["percent"] else 1))
        return float(found["count"]) / whole if whole else None
    except ValueError:
        return None


def bare_word(line: str) -> str:
    r"""Return a line without the decoration, quotation marks, brackets and ``\boxed`` around its text."""
    return _BOXED.sub("", line).strip(_SURROUNDING)


GAP = "\ufffc"
"""character that replaces each removed quotation"""
QUOTED = "\ufff9"
"""character before and after a quoted verdict word"""
LONGEST = 256 * 1024
"""maximum characters of a text that is searched for a verdict, without its reasoning block"""
SHORTEST_QUOTE = 8
"""minimum characters of an answer's line that is removed as a quotation; a judge can repeat a shorter line by chance"""
MOST_LINES = 64
LABELS = frozenset(
    {"answer", "verdict", "judgment", "judgement", "result", "grade", "score", "decision", "label", "final_answer"}
)
"""names of markup elements whose content is the judge's own verdict and not a quotation"""

_LATEX = pattern(r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf|mathit)[ ]?\{([^{}\\\n]*)\}")
_PAIRS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[“„]([^“„”\n]*)”",
        r"[«]([^«»\n]*)»",
        r"‘([^‘’\n]*)’(?!\w)",
        r"`([^`\n]*)`",
        r"(?<![\w'])'([^'\n]*)'(?!\w)",
    )
)
_ELEMENT = pattern(r"<(?P<close>/?)(?P<name>\w{1,40})[^<>\n]{0,200}>")
_BRACE = pattern(r"[{}]")
_NUMBERING = pattern(r"(?:[-+•·–—]|\d{1,2}[.)])\s+(?=\S)")
_DECORATION = str.maketrans(dict.fromkeys("*#~$\\[]", None) | {"_": " "})
_HAS_WORD = pattern(ANY_WORD, re.IGNORECASE)


def own_lines(text: str, answer: str = "") -> tuple[str, ...]:
    """Return the non-blank lines of a judge's text after the quotations are removed.

    Return () if the text is longer than ``LONGEST`` characters.
    """
    rest = without_unticked(unicodedata.normalize("NFKC", unfenced(text)))
    if len(rest) > LONGEST:
        return ()
    for quoted in _quotable_parts(unicodedata.normalize("NFKC", answer)):
        rest = rest.replace(quoted, GAP)
    rest = "\n".join(_outside_blocks(rest.splitlines()))
    for _ in range(3):
        rest = _LATEX.sub(r"\1", rest)
    rest = _outside_braces(_outside_elements(rest))
    for pair in _PAIRS:
        rest = pair.sub(_quote, rest)
    lines = (_undecorated(line) for line in _outside_marks(rest).replace("’", "'").splitlines())
    return tuple(line for line in lines if line)


def _quotable_parts(answer: str) -> Iterator[str]:
    """Yield the answer and its lines if they contain a verdict word, because a judge could quote them.

    Short lines and lines that are only a verdict word are left out.
    """
    lines = answer.splitlines()[:MOST_LINES]
    for part in dict.fromkeys([answer.strip(), *(line.strip() for line in lines)]):
        if len(part) >= SHORTEST_QUOTE and value_of_word(bare_word(part)) is None and _HAS_WORD.search(part):
            yield part


def _outside_blocks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines outside of code fences and block quotes."""
    fence = ""
    for line in lines:
        mark = line.lstrip()[:3]
        if mark in (FENCE, "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence and not line.lstrip().startswith(">"):
            yield line


def _outside_elements(text: str) -> str:
    """Return the text without the content of markup elements.

    The content of an element with a name from ``LABELS``, such as ``<verdict>``, is kept.
    """
    if "</" not in text:
        return text
    tags = list(_ELEMENT.finditer(text))
    last = {tag["name"].lower(): tag.start() for tag in tags if tag["close"]}
    kept: list[str] = []
    at, inside = 0, ""
    for tag in tags:
        name = tag["name"].lower()
        if inside:
            if tag["close"] and name == inside:
                inside, at = "", tag.end()
        elif name in LABELS:
            kept.append(text[at : tag.start()] + ("\n" if tag["close"] else f"\n{name}: "))
            at = tag.end()
        elif not tag["close"] and last.get(name, -1) > tag.start():
            kept.append(text[at : tag.start()] + GAP)
            inside = name
    return "".join([*kept, "" if inside else text[at:]])


def _outside_braces(text: str) -> str:
    """Return the text without JSON objects. Everything after a brace that is never closed is removed."""
    kept: list[str] = []
    at = depth = 0
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            if depth == 0:
                kept.append(text[at : brace.start()] + GAP)
            depth += 1
        elif depth:
            depth -= 1
            at = brace.end()
    return "".join(kept) if depth else "".join([*kept, text[at:]])


def _outside_marks(text: str) -> str:
    """Return the text without parts in double quotation marks.

    With an odd number of quotation marks, only the text before the first mark is kept.
    """
    pieces = text.split('"')
    if len(pieces) % 2 == 0:
        return pieces[0]
    return "".join(piece if place % 2 == 0 else _quotation(piece) for place, piece in enumerate(pieces))


def _quote(found: re.Match[str]) -> str:
    return _quotation(found.group(1))


def _quotation(quoted: str) -> str:
    return GAP if value_of_word(bare_word(quoted)) is None else f"{QUOTED}{bare_word(quoted)}{QUOTED}"


def _undecorated(line: str) -> str:
    """Return a line without the markup of lists, headings, emphasis, tables and formulas."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []
    bare = (": ".join(cells) if len(cells) == 2 else line).translate(_DECORATION).strip()
    return _NUMBERING.sub("", bare, count=1).strip() if _NUMBERING.match(bare) else bare


CONFLICT = "conflict"
OUT_OF_RANGE = "out_of_range"
ProseVerdict = float | str | None
"""a value from 0 to 1, the reason why there is no value, or None if the text has no verdict"""

_LEAD = (
    r"(?:(?:so|thus|therefore|hence|overall|in conclusion|and|the|my|our|judge's|judges|final|binary|this|that"
    r"|i (?:think|believe|conclude)|yes/no|true/false)[,:]?\s+){0,5}"
)
_SUBJECT = (
    r"(?:(?:the|this|that|its|their|candidate|candidate's|model|model's|assistant|assistant's|system|system's|ai's"
    r"|student's|given|provided|submitted|generated|predicted)\s+){0,4}"
    r"(?:answer|response|reply|output|prediction|completion|submission|candidate|model|it|this|that)"
)
_NOUN = (
    rf"(?:(?:is\s+)?{_SUBJECT}\s+(?:is\s+)?(?:correct|right|accurate)|correctness(?:\s+score)?|is\s?correct"
    r"|verdict|judge?ment|answer|label|grade|result|decision|evaluation|assessment|conclusion|rating|score"
    r"|correct|right|accuracy|match(?:es)?)"
)
_VALUE = rf"[\s{QUOTED}(]{{0,4}}(?P<value>{ANY_WORD}|{ANY_NUMBER}(?![\d/])){QUOTED}?\)?"
_END = r"(?=\s*$|\s*[.!,;:()–—]|\s+-+\s|\s+(?:because|since|as)\b)"
_LABELED = pattern(
    rf"{_LEAD}(?P<noun>{_NOUN})(?:\s*\([^()\n]{{0,40}}\))?(?P<by>\s+is\s*:|\s*(?:[:=?]|->|→)+|\s+is\b|\s+[-–—](?=\s))"
    rf"(?:\s*{_VALUE}{_END})?",
    re.IGNORECASE,
)
_HEADING = pattern(rf"{_LEAD}(?P<noun>{_NOUN})\s*[:=?]?\s*\Z", re.IGNORECASE)
_WEAK = frozenset({"answer", "result", "match", "matches"})
"""labels that can also introduce the judged answer; such a label is ignored before the word ``is`` or a number"""
_WORDS_TOO = frozenset({"correct", "right"})
"""labels that are also verdict words; before a dash, such a word is the verdict itself"""
_ECHO = pattern(
    r"(?:question|response|candidate|expected|gold|reference|ground truth|correct answer|right answer|predicted"
    r"|prediction|given answer|model(?:'s)? (?:answer|response)|student(?:'s)? answer)[\w ]{0,20}\s*:",
    re.IGNORECASE,
)
_LEADING = pattern(rf"(?P<word>{ANY_WORD})(?P<by>\s*[.,:;!=]|\s+[-–—]+|[–—]|-+(?=\s))", re.IGNORECASE)
_NEXT = pattern(r"[^\w]{0,8}(?P<word>not|nope|isn't|doesn't|never|0\b|no|incorrect|wrong|false|fail(?:ed)?)\b", re.I)
_AFTER = r"(?=\s*$|\s*[.,;!)]|\s+(?:because|since|as|and|per|given|according)\b)"
_ANSWER_STATEMENT = pattern(
    rf"(?:(?:so|thus|therefore|hence|overall|in conclusion|i (?:think|believe|conclude)(?: that)?)[,:]?\s+){{0,3}}"
    rf"{_SUBJECT}\s+(?:is|was)(?P<not>\s+not|n't)?\s+(?P<word>correct|incorrect|wrong|right)\b{_AFTER}",
    re.IGNORECASE,
)
_ANY_STATEMENT = pattern(r"\b(?:is|was)(?P<not>\s+not|n't)?\s+(?P<word>correct|incorrect|wrong|right)\b", re.IGNORECASE)
_UNSURE = pattern(
    r"\b(?:whether|if|cannot|can't|unable|would|could|might|neither|none|nothing|except|unless|apart|only)\b", re.I
)
_CONTRARY = pattern(
    r"\b(?:does|do|did|is|was|are|were)(?:\s+not|n't)\s+(?:\w+\s+)?(?:match|correct|right|answer|contain|agree|align"
    r"|correspond|support|satisf\w*|meet|the same|equivalent|accurate|address)"
    r"|\bmismatch|(?<!not )(?<!n't )(?<!nothing )\bcontradict(?:s|ed)?\b"
    r"|\b(?:is|was|are|were)\s+(?:\w+ly\s+)?(?:incorrect|wrong|false|inaccurate)\b|\bfails?\s+to\b",
    re.IGNORECASE,
)
_BUT = pattern(r"(?:but|however|though|although|yet|nevertheless|still|except)\b", re.IGNORECASE)
_NEGATION = pattern(r"\b(?:not|no|wrong|incorrect|false|fails?|missing)\b|n't\b", re.IGNORECASE)
_SENTENCE = pattern(rf"(?<=[.!;])\s+|(?<=\?)\s+(?!(?:{ANY_WORD})[ ]*(?:$|[.,;!]))", re.IGNORECASE)
"""regular expression for the end of a sentence; ``Is it correct? No`` is one sentence, because a verdict follows"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """A verdict that was found in a judge's text: its value, its label, and the text after the verdict."""

    value: float | str
    label: str = ""
    final: bool = False
    rest: str = ""
    """the text after the verdict in the same sentence"""
    place: int = -1
    """index of the sentence that contains the verdict"""


def read_prose(text: str, answer: str = "") -> ProseVerdict:
    """Return the value of a judge's verdict, or ``conflict`` or ``out_of_range``; None if the text has no verdict.

    ``answer`` is the judged answer. Lines of this answer in the judge's text are quotations.
    """
    lines = own_lines(text, answer)
    if not lines:
        return None
    if len(lines) == 1 and (whole := _whole_line(lines[0])) is not None:
        return whole
    sentences = [part.strip() for line in lines for part in _SENTENCE.split(line)]
    found = _labeled(sentences) or _edges(lines) or _leading(sentences)
    return _statement(lines, sentences) if found is None else _unless_contrary(found, sentences)


def _unless_contrary(found: _Statement, sentences: Sequence[str]) -> float | str:
    """Return the value of a verdict, or ``conflict`` when the text after a positive verdict contradicts it."""
    if isinstance(found.value, str) or found.value < 0.5:
        return found.value
    if _NEXT.match(found.rest):
        return CONFLICT
    later = (found.rest.lstrip(" ,"), *sentences[found.place + 1 :])
    contrary = any(_CONTRARY.search(one) or (_BUT.match(one) and _NEGATION.search(one)) for one in later)
    if contrary or (not found.rest and later[1:] and _NEXT.match(later[1])):
        return CONFLICT
    return found.value


def _whole_line(line: str) -> ProseVerdict:
    """Return the verdict if the line contains nothing else, or None."""
    bare = bare_word(line.replace(QUOTED, ""))
    word = value_of_word(bare)
    if word is not None:
        return word
    scaled = line.strip(" .()")
    share = value_of_number(scaled) if "/" in scaled or "%" in scaled or scaled in ("0", "1", "0.0", "1.0") else None
    return None if share is None else _in_range(share)


def _in_range(share: float) -> float | str:
    return share if 0 <= share <= 1 else OUT_OF_RANGE


# ------------------------------------------------------------------------ labels


def _labeled(sentences: Sequence[str]) -> _Statement | None:
    """Return the last labeled verdict, such as ``Verdict: yes``, or None.

    If the verdicts of different labels disagree, the value is ``conflict``, unless the last label is "final".
    """
    echoes = any(_ECHO.match(one) for one in sentences)
    every = (_labeled_at(one, at) or _heading_at(sentences, at) for at, one in enumerate(sentences))
    found = [one for one in every if one is not None and not (echoes and one.label == "answer" and not one.final)]
    if not found:
        return None
    values = {one.label: one.value for one in found if not isinstance(one.value, str)}
    if not found[-1].final and len({value >= 0.5 for value in values.values()}) > 1:
        return _Statement(value=CONFLICT)
    return found[-1]


def _labeled_at(sentence: str, place: int) -> _Statement | None:
    match = _LABELED.match(sentence)
    if match is None or match["value"] is None:
        return None
    noun, by = _noun(match), match["by"].strip().lower()
    if (by == "is" and noun in _WEAK | _WORDS_TOO) or (by in "-–—" and noun in _WORDS_TOO):
        return None
    value: ProseVerdict = value_of_word(match["value"])
    if value is None and noun not in _WEAK:
        share = value_of_number(match["value"])
        value = None if share is None else _in_range(share)
    if value is None:
        return None
    final = "final" in sentence[: match.start("noun")].lower()
    return _Statement(value=value, label=noun, final=final, rest=sentence[match.end() :], place=place)


def _heading_at(sentences: Sequence[str], place: int) -> _Statement | None:
    """Return the verdict in the sentence after a heading such as ``Verdict``, or None."""
    heading = _HEADING.match(sentences[place])
    if heading is None or place + 1 == len(sentences) or (noun := _noun(heading)) in _WORDS_TOO:
        return None
    final = "final" in sentences[place][: heading.start("noun")].lower()
    value, rest = _bare_value(sentences[place + 1]), ""
    if value is None and (leading := _LEADING.match(sentences[place + 1])) is not None:
        value, rest = value_of_word(leading["word"]), sentences[place + 1][leading.end() :]
    return None if value is None else _Statement(value=value, label=noun, final=final, rest=rest, place=place + 1)


def _noun(match: re.Match[str]) -> str:
    return " ".join(match["noun"].lower().split())


def _bare_value(line: str) -> float | None:
    """Return the value of a line that consists of one unquoted verdict word, or None."""
    return None if QUOTED in line or GAP in line else value_of_word(bare_word(line))


# ------------------------------------------------------------------------ words


def _edges(lines: Sequence[str]) -> _Statement | None:
    """Return the verdict if the first or the last line is only a verdict word, or None.

    If both lines are verdict words that differ, the value is ``conflict``.
    """
    first, last = _bare_value(lines[0]), _bare_value(lines[-1])
    if first is not None and last is not None and first != last:
        return _Statement(value=CONFLICT)
    if last is not None:
        return _Statement(value=last, place=sys.maxsize - 1)
    return None if first is None else _Statement(value=first, place=0)


def _leading(sentences: Sequence[str]) -> _Statement | None:
    """Return the verdict if the text begins with a verdict word and a punctuation mark, or None."""
    first = sentences[0]
    match = _LEADING.match(first)
    word = value_of_word(match["word"]) if match else None
    if match is None or word is None:
        return None
    if match["by"].strip() in (":", "="):
        if match["word"].lower() in _WORDS_TOO:
            return None
        if value_of_word(bare_word(first[match.end() :])) is not None:
            return _Statement(value=CONFLICT)
    return _Statement(value=word, rest=first[match.end() :], place=0)


def _statement(lines: Sequence[str], sentences: Sequence[str]) -> ProseVerdict:
    """Return the value of a sentence such as ``the answer is (not) correct``, or None.

    If statements in the text contradict each other, the value is ``conflict``.
    """
    of_answer: set[float] = set()
    of_anything: set[float] = set()
    for sentence in (part for line in lines for part in re.split(r"[.!?]+(?:\s|$)", line)):
        if _UNSURE.search(sentence):
            continue
        for match in _ANY_STATEMENT.finditer(sentence):
            positive = match["word"].lower() in ("correct", "right")
            if match["not"] and not positive:
                return CONFLICT
            of_anything.add(float(positive and not match["not"]))
        statement = _ANSWER_STATEMENT.match(sentence.strip())
        if statement is not None:
            of_answer.add(float(statement["word"].lower() in ("correct", "right") and not statement["not"]))
    if len(of_anything) > 1:
        return CONFLICT
    value = next(iter(of_answer), None)
    return None if value is None else _unless_contrary(_Statement(value=value), sentences)
