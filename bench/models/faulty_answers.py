"""Find out whether a reply is an answer, or an error, a null value, an unfilled prompt, an echo or a tool call.

Example::

    non_answer_reason("Error code: 500 - {'error': ...}")        # "an error message instead of an answer"
    non_answer_reason("Paris")                                   # None
    signs("It was A. Wait, actually B.")                # ("taken_back",)
    signs('{"answer": "It was')                         # ("cut_json",)
    is_tool_call('{"name": "search", "arguments": {}}')     # True

A text is rejected only if it cannot be an answer in any language. A doubtful text is scored unchanged, and its doubtful
signs are counted.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence

from bench.metrics.answers.text import occurs
from bench.metrics.answers.text_normalization import has_spelling, loose_form
from bench.patterns import pattern
from bench.reasoning_blocks import took_back
from bench.visible_text import has_misleading_characters

ERROR_TEXT, NO_VALUE, TEMPLATE, TAKEN_BACK, ECHO, ODD = (
    "error_text", "no_value", "template", "taken_back", "echo", "odd_characters",
)  # fmt: skip
TOOL_CALL_TEXT, AS_JSON, CUT_JSON = "tool_call", "json_text", "cut_json"
OTHER_MARKS, QUOTES, CONTRADICTS, IN_NUMBER = "other_marks", "quotes_context", "contradicts_gold", "in_number"

_LONGEST = 20_000
_SHORT = 600
"""maximum length, in characters, of a text that can be an error message as a whole"""
_ALONE = "internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|too many requests"
_FAILED = pattern(
    rf"\s*(?:(?:HTTP(?:/[\d.]+)?|(?:http )?error(?: code)?|status(?: code)?)[: ]+[45]\d\d\b"
    rf"|[45]\d\d[: -]+(?:{_ALONE}|bad request|unauthorized|forbidden|not found|request time-?out)\b|(?:{_ALONE})\W*$"
    r"|traceback \(most recent call last\):|upstream (?:connect error|request timeout)|no healthy upstream"
    r"|an? (?:internal |unexpected |unknown )?(?:server )?error (?:has )?occurred (?:while|during|when) "
    r"(?:processing|generating|handling)"
    r"|\[?(?:error|exception|fatal|[\w.]{1,60}(?:Error|Exception))\]?\s*[:\-]\s*.{0,200}?\b(?:rate.?limit"
    r"|timed? ?out|timeout|connection|quota|api.?key|unauthori[sz]ed|overloaded|server|invalid.request"
    r"|context (?:length|window)|billing|not loaded|out of memory|http|status)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ERROR_START = pattern(r"\s*(?:\[error\]|(?:error|exception|fatal|[\w.]{1,60}(?:Error|Exception))\s*:)", re.IGNORECASE)
_PAGE = pattern(r"\s*<(?:!doctype html|html[\s>])", re.IGNORECASE)
_MARKUP = pattern(r"\s*[<\[{$]")
_LONGEST_VALUE = 40
_NEVER = frozenset({"null", "undefined", "nan", "[object object]", "(null)", "<null>", "{}", "[]", '""', "''"})
_EMPTY_WORDS = frozenset(
    {"n/a", "na", "none", "nil", "nothing", "-", "--", "...", "…", "?", "todo", "tbd", "string", "<empty>"}
)
_SLOT = r"\{\{[^{}\n]{1,60}\}\}|\$\{[^{}\n]{1,60}\}|\{%[^%\n]{1,60}%\}|<%[^%\n]{1,60}%>"
_MARK = (
    r"<\|[\w ]{1,40}\|>|<｜[^｜\n]{1,40}｜>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
    r"|\[/?(?:SYSTEM|AVAILABLE_TOOLS)[^\]]{0,20}\]"
)
_LEAK = pattern(rf"{_SLOT}|{_MARK}", re.IGNORECASE)
_ONLY_LEAK = pattern(rf"(?:\s*(?:{_SLOT}|{_MARK}|</?s>))+\s*(?:user|assistant|system)?\s*", re.IGNORECASE)


def form_of(text: str) -> str:
    """Return the text in lower case with single spaces, without punctuation at its start and end."""
    return " ".join(text.lower().split()).strip(" \"'`*_.“”")


def non_answer_reason(text: str, accepted: Sequence[str] = ()) -> str | None:
    """Return the reason why a text cannot be meant as an answer; None if it can be an answer.

    A text that resembles one of the ``accepted`` answers is always an answer.
    """
    if len(text) > _LONGEST:
        return None
    reason = None
    if (len(text) <= _SHORT or "traceback" in text[:80].lower()) and (
        _FAILED.match(text) or _is_error_body(_tree(text))
    ):
        reason = "an error message instead of an answer"
    elif len(text) < _LONGEST_VALUE and " ".join(text.lower().split()) in _NEVER:
        reason = "a value such as null instead of an answer"
    elif _MARKUP.match(text) and _PAGE.match(text):
        reason = "a page of HTML, for example of a proxy, instead of an answer"
    elif _MARKUP.match(text) and _ONLY_LEAK.fullmatch(text):
        reason = "a mark or an unfilled placeholder of a prompt template"
    return None if reason is None or _is_accepted(text, accepted) else reason


def is_error_text(text: str) -> bool:
    """Return True if a text is an error message or begins like one."""
    return _ERROR_START.match(text[:_SHORT]) is not None or non_answer_reason(text) is not None


def signs(text: str, *, question: str = "", prompt: str = "", accepted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of all signs that an answer may be faulty, such as a mark of a prompt template.

    Template marks that also occur in the prompt are not counted. If the text resembles one of the ``accepted`` answers,
    only odd characters and tool calls are counted.
    """
    text = text[:_LONGEST]
    found = [ODD] if has_misleading_characters(text) else []
    if is_tool_call(text):
        found.append(TOOL_CALL_TEXT)
    form, maybe = form_of(text), []
    if _ERROR_START.match(text):
        maybe.append(ERROR_TEXT)
    if form in _EMPTY_WORDS or text.strip() in _EMPTY_WORDS:
        maybe.append(NO_VALUE)
    if _LEAK.search(text) and any(leak.group() not in prompt for leak in _LEAK.finditer(text)):
        maybe.append(TEMPLATE)
    if took_back(text) is not None:
        maybe.append(TAKEN_BACK)
    if TOOL_CALL_TEXT not in found and is_json_object(text):
        maybe.append(AS_JSON)
    elif len(text) < _LONGEST and is_cut_json(text):
        maybe.append(CUT_JSON)
    if question and form.rstrip("?") == form_of(question).rstrip("?"):
        maybe.append(ECHO)
    return (*found, *maybe) if maybe and not _is_accepted(text, accepted) else tuple(found)


_SEVERAL = pattern(r"\s*(?:[;|]| / )\s*")
"""matches the separators between several answers in one gold answer"""
_ENDS = " .!?\"'"


_SYNONYMS = {"true": "yes", "false": "no", "yes": "true", "no": "false"}
_ORDER = pattern(r",? and |, | & ")
_LONGEST_PART = 40


def _has_synonym(form: str, gold: str) -> bool:
    """Return True if the answer begins with "yes" where the gold answer is "true", and in similar cases."""
    return gold in _SYNONYMS and re.match(rf"{_SYNONYMS[gold]}\b", form.lstrip(_ENDS + "*")) is not None


def _has_parts(form: str, gold: str) -> bool:
    """Return True if the answer contains all parts of a gold answer such as "tea and coffee", in any order."""
    parts = _ORDER.split(gold) if len(gold) < 10 * _LONGEST_PART else []
    if len(parts) < 2 or not all(len(part) <= _LONGEST_PART and part.upper() != part for part in parts):
        return False
    return all(occurs(part, form, whole_words=True) for part in parts)


_SMALL_NUMBER = pattern(r"\d{1,2}")
_SHORT_ANSWER = 12
"""in an answer with more spaces than this, a small number in another spelling does not count as the gold answer"""


def _has_loose_form(form: str, gold: str) -> bool:
    """Return True if the answer contains the gold answer after both were converted to their loose form.

    The loose form ignores the spelling of marks, numbers and dates. A gold answer with "|" is a list of alternatives,
    of which one must occur. A gold answer with ";" or " / " is a list of parts, which must all occur.
    """
    if not has_spelling(form) and not has_spelling(gold):
        return False
    plain, parts = _loose(form), [part for part in map(_loose, _SEVERAL.split(gold)) if part]
    if all(_SMALL_NUMBER.fullmatch(part) for part in parts) and form.count(" ") > _SHORT_ANSWER:
        return False  # a long answer may name such a number for something else
    return bool(parts) and (any if "|" in gold else all)(occurs(part, plain, whole_words=True) for part in parts)


_FORMS: Sequence[Callable[[str, str], bool]] = (_has_synonym, _has_parts, _has_loose_form)
"""functions that find a gold answer in another form within an answer; both texts are in lower case"""
_loose = functools.lru_cache(maxsize=8)(loose_form)


def has_other_marks(text: str, golds: Sequence[str], *, exact: bool = False) -> bool:
    """Return True if a text contains a gold answer, but only when differences in spelling are ignored.

    With ``exact``, also return True if the whole text is a gold answer in another spelling.
    """
    if not text.isascii():
        text, *golds = (unicodedata.normalize("NFC", one) for one in (text[:_LONGEST], *golds))
    form, spelled = _single_spaced(text[:_LONGEST]), [gold for gold in map(_single_spaced, golds) if gold]
    if exact and form not in spelled and _loose(form).strip(_ENDS) in [_loose(gold).strip(_ENDS) for gold in spelled]:
        return True
    if any(occurs(gold, form, whole_words=True) for gold in spelled):
        return False
    return any(has_form(form, gold) for gold in spelled for has_form in _FORMS)


_SPACED_NUMBER = pattern(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?!\w|[.,]\d)")


def parts_spaced_number(text: str, golds: Sequence[str]) -> bool:
    """Return True if a text contains a gold answer only as a part of a number with spaces, such as 200 in ``1 200``."""
    form = _single_spaced(text[:_LONGEST])
    if _SPACED_NUMBER.search(form) is None:
        return False
    held = [gold for gold in map(_single_spaced, golds) if gold and occurs(gold, form, whole_words=True)]
    joined = _without_spaces(form)
    return bool(held) and not any(occurs(_without_spaces(gold), joined, whole_words=True) for gold in held)


def _without_spaces(form: str) -> str:
    return _SPACED_NUMBER.sub(lambda number: number[0].replace(" ", ""), form)


_FINAL = pattern(r"^\W*(?:the |my )?final answer\W*(?:is\b)?\W*(?=\w)", re.IGNORECASE | re.MULTILINE)
_STATED = pattern(
    r"^[ \t>*_#-]{0,9}(?:the |my )?(?:correct |short )?answer(?: is)?[*_]{0,2}:\W{0,9}(?=\w)"
    r"|\b(?:so|therefore|thus|hence),? (?:the|my) (?:final |correct )?answer is\W{1,9}(?=\w)"
    r"|####[ \t]{0,3}(?=[^\n]{1,60}\Z)|\\boxed\{",
    re.IGNORECASE | re.MULTILINE,
)
"""matches phrases other than "final answer" after which a text states its answer"""
_DENIED = pattern(
    r"(?:\bnot|n['’]t|\bnever|\bneither|\bnor) "
    r"(?:(?:an?|the|his|her|my|your|their|in|on|at|by|to|of|from|with|called|named|(?:call|name) \w+) ){0,2}$"
)
_DOUBTFUL = pattern(r"\b(?:not|never|neither|nor)\s|n['’]t\s|\banswer\b|####|\\boxed", re.IGNORECASE)
_BEFORE = 40
"""number of characters before a gold answer in which a negation is searched for"""


def contradicts_gold(text: str, golds: Sequence[str]) -> bool:
    """Return True if a text contains gold answers, but rejects them all.

    A gold answer is rejected if a negation precedes it, or if it occurs only before a phrase such as "final answer:".
    """
    text = text[:_LONGEST]
    if _DOUBTFUL.search(text) is None:
        return False
    stated, form = [found.end() for found in _FINAL.finditer(text)], _single_spaced(text)
    held = [gold for gold in map(_single_spaced, golds) if gold and gold in form]
    if stated:
        return bool(held) and not any(gold in _single_spaced(text[stated[-1] :]) for gold in held)
    ends = [found.end() for found in _STATED.finditer(text)] if held else []
    if ends and not any(gold in _single_spaced(text[ends[-1] :]) for gold in held):
        return True
    return bool(held) and all(
        _DENIED.search(form[max(0, found.start() - _BEFORE) : found.start()])
        for gold in held
        for found in re.finditer(re.escape(gold), form)
    )


def _single_spaced(text: str) -> str:
    return " ".join(text.lower().split())


_LEAST_QUOTED = 20
"""minimum length, in characters, of a text whose repetition counts as a quotation"""
_DATE = pattern(r"(?:^|(?<=\0))\[[\d: -]{10,16}\] ")
_BREAK = pattern(r" ?\0 ?")


def quotes_context(text: str, context: Sequence[str]) -> bool:
    """Return True if an answer repeats at least half of the texts in ``context``, and at least two, word for word."""
    if (size := len(text)) < 2 * _LEAST_QUOTED:
        return False
    lengths = sorted(map(len, context))
    if (count := len(lengths)) < 2 or sum(lengths[: (count + 1) // 2]) > 2 * size:
        return False  # even the shortest half of them is too long to be repeated
    answer = _single_spaced(text)
    shown = {*_BREAK.sub("\0", _single_spaced(_DATE.sub("", "\0".join(context)))).split("\0")}
    held = sum(len(one) >= _LEAST_QUOTED for one in filter(answer.__contains__, shown))
    return held >= 2 and 2 * held >= len(shown)


def repeats_prompt(text: str, prompt: str) -> bool:
    """Return True if a reply begins with its prompt. Some servers return the prompt and the reply as one text."""
    start = " ".join(prompt[:600].split())[:160]
    return len(start) >= 60 and " ".join(text[:1200].split()).startswith(start)


def _is_accepted(text: str, accepted: Collection[str]) -> bool:
    form = form_of(text)
    return any(form == gold or (gold and gold in form and len(form) < 4 * len(gold)) for gold in map(form_of, accepted))


def _is_error_body(tree: object) -> bool:
    return isinstance(tree, dict) and bool(tree.get("error") or tree.get("errors")) and "answer" not in tree


def _tree(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_CALL_MARK = pattern(
    r"\s*(?:<tool_calls?\b|<function_calls?>|<function=|<invoke |\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call|<｜tool)",
    re.IGNORECASE,
)
_CALL_KEYS = frozenset({"name", "arguments", "parameters", "function", "id", "type", "tool_calls"})
_CALL_START = pattern(r"\s*[<\[{`]")
_JSON_START = pattern(r"\s*(?:```\w{0,10}\s*)?(?:\{(?=\s*(?:[\"}]|$))|\[(?=\s*[\[{\"]))")
_JSON_MARK = pattern(r'\\.|["{}\[\]]', re.DOTALL)
_FENCE = pattern(r"\s*```(?:json|tool_call|tool_code)?\s*(.*?)\s*```\s*", re.DOTALL)


def is_json_object(text: str) -> bool:
    """Return True if the text is exactly one JSON object. A code fence around the object is allowed."""
    if not _CALL_START.match(text):
        return False
    fenced = _FENCE.fullmatch(text)
    return isinstance(_tree(fenced[1] if fenced else text), dict)


def is_cut_json(text: str) -> bool:
    """Return True if the text is the beginning of a JSON object or list whose end is missing.

    A code fence before the beginning is allowed.
    """
    begun = _JSON_START.match(text)
    if begun is None:
        return False
    body = text[begun.end() - 1 :]
    try:
        json.JSONDecoder().raw_decode(body)
    except (ValueError, RecursionError):
        return _is_open(body)
    return False


def _is_open(text: str) -> bool:
    """Return True if a JSON text ends inside a string, an object or a list."""
    depth, quoted = 0, False
    for mark in _JSON_MARK.findall(text):
        if mark == '"':
            quoted = not quoted
        elif not quoted and len(mark) == 1:
            depth += 1 if mark in "{[" else -1
    return quoted or depth > 0


def is_tool_call(text: str) -> bool:
    """Return True if the text is only a tool call, in the notation of any known model."""
    if len(text) > _LONGEST or not _CALL_START.match(text):
        return False
    fenced = _FENCE.fullmatch(text)
    text = fenced[1] if fenced else text.strip()
    if _CALL_MARK.match(text):
        return True
    tree = _tree(text)
    calls = tree if isinstance(tree, list) else [tree]
    return bool(calls) and all(_is_call(one) for one in calls)


def _is_call(tree: object) -> bool:
    if not isinstance(tree, dict) or not tree or not tree.keys() <= _CALL_KEYS:
        return False
    named = len(tree.keys() & {"name", "arguments", "parameters"}) > 1
    return named or "tool_calls" in tree or isinstance(tree.get("function"), dict)
