"""What a judge only quotes is not what it says: leave its own words, as lines without decoration.

Example::

    own_lines('The response is "Verdict: yes".\\n> correct\\n**Verdict:** no')     # (..., "Verdict: no")

Quoted are text in quotation marks and backticks, code fences, block quotes, JSON, elements of markup, and the lines of
the answer itself. One verdict word in quotation marks stays, marked with ``QUOTED``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from bench.evaluators.words import ANY_WORD, bare_word, value_of_word
from bench.structured import FENCE, ticked, unfenced

GAP = "\ufffc"
"""stands where something was quoted"""
QUOTED = "\ufff9"
"""stands on both sides of one verdict word in quotation marks"""
LONGEST = 256 * 1024
"""characters of a text, reasoning left out and ligatures written out, that may be a verdict"""
SHORTEST_QUOTE = 8
"""characters of a line of the answer that a judge may repeat by chance"""
MOST_LINES = 64
LABELS = frozenset(
    {"answer", "verdict", "judgment", "judgement", "result", "grade", "score", "decision", "label", "final_answer"}
)
"""elements of markup that hold a judge's own verdict"""

_LATEX = re.compile(r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf|mathit)[ ]?\{([^{}\\\n]*)\}")
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
_ELEMENT = re.compile(r"<(?P<close>/?)(?P<name>\w{1,40})[^<>\n]{0,200}>")
_BRACE = re.compile(r"[{}]")
_NUMBERING = re.compile(r"(?:[-+•·–—]|\d{1,2}[.)])\s+(?=\S)")
_DECORATION = str.maketrans(dict.fromkeys("*#~$\\[]", None) | {"_": " "})
_HAS_WORD = re.compile(ANY_WORD, re.IGNORECASE)


def own_lines(text: str, answer: str = "") -> tuple[str, ...]:
    """Return the lines of a judge's text that are its own words, the ones that are not blank."""
    rest = ticked(unicodedata.normalize("NFKC", unfenced(text)))
    if len(rest) > LONGEST:
        return ()
    for quoted in _telling(unicodedata.normalize("NFKC", answer)):
        rest = rest.replace(quoted, GAP)
    rest = "\n".join(_outside_blocks(rest.splitlines()))
    for _ in range(3):
        rest = _LATEX.sub(r"\1", rest)
    rest = _outside_braces(_outside_elements(rest))
    for pair in _PAIRS:
        rest = pair.sub(_quote, rest)
    lines = (_plain(line) for line in _outside_marks(rest).replace("’", "'").splitlines())
    return tuple(line for line in lines if line)


def _telling(answer: str) -> Iterator[str]:
    """The parts of an answer that a judge could read out and that would look like a verdict."""
    lines = answer.splitlines()[:MOST_LINES]
    for part in dict.fromkeys([answer.strip(), *(line.strip() for line in lines)]):
        if len(part) >= SHORTEST_QUOTE and value_of_word(bare_word(part)) is None and _HAS_WORD.search(part):
            yield part


def _outside_blocks(lines: Iterable[str]) -> Iterator[str]:
    """The lines that stand in no code fence and no block quote."""
    fence = ""
    for line in lines:
        mark = line.lstrip()[:3]
        if mark in (FENCE, "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence and not line.lstrip().startswith(">"):
            yield line


def _outside_elements(text: str) -> str:
    """The text without what stands in elements of markup, but for those that are called like a verdict."""
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
    """The text without its objects; all after a brace that is never closed belongs to one."""
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
    """The text without what stands in straight quotation marks; an odd mark may open or close, so nothing after it."""
    pieces = text.split('"')
    if len(pieces) % 2 == 0:
        return pieces[0]
    return "".join(piece if place % 2 == 0 else _kept(piece) for place, piece in enumerate(pieces))


def _quote(found: re.Match[str]) -> str:
    return _kept(found.group(1))


def _kept(quoted: str) -> str:
    return GAP if value_of_word(bare_word(quoted)) is None else f"{QUOTED}{bare_word(quoted)}{QUOTED}"


def _plain(line: str) -> str:
    """A line without marks of lists, headings, emphasis, tables and formulas."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []
    bare = (": ".join(cells) if len(cells) == 2 else line).translate(_DECORATION).strip()
    return _NUMBERING.sub("", bare, count=1).strip() if _NUMBERING.match(bare) else bare
