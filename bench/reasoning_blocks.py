"""Remove the reasoning blocks from the text of a model.

Example::

    without_reasoning("<think>hm</think> Paris")     # " Paris"
    without_reasoning("<think>hm")                   # None: the block is never closed, so there is no answer
    took_back("It was A. Wait, actually B.")         # 15: the text from here on replaces the text before
"""

from __future__ import annotations

import re

from bench.patterns import pattern
from bench.visible_text import HIDDEN

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis"
_SPACE = "[ \\t\\u200b-\\u200d\\u2060\\ufeff]{0,4}"
_TAG = pattern(
    rf"<{_SPACE}(?P<close>/?){_SPACE}(?:\w{{1,16}}:)?(?P<name>{_NAMES})(?:[ \t/][^<>]{{0,200}})?>"
    r"|◁(?P<close2>/?)(?P<name2>think)▷"
    r"|\[(?P<close3>/?)(?P<name3>THINK)\]"
    r"|<\|(?P<edge>begin|start|end)_(?:of_)?(?P<name4>think|thinking|thought|reasoning)\|>"
    rf"|<\|(?P<close8>/?)(?P<name8>{_NAMES})\|>"
    r"|<(?P<name5>unused9)(?P<last>[45])>"
    r"|<details[ ][^<>]{0,80}type=\"(?P<name6>reasoning)\"[^<>]{0,200}>|<(?P<close6>/details)>"
    r"|```(?<![^\n]```)[ ]?(?P<name7>thinking|thought|reasoning)[ ]*$|``(?P<close7>`)(?<![^\n]```)[ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ESCAPED = pattern(rf"&lt;([ \t]{{0,4}}/?[ \t]{{0,4}}(?:{_NAMES})(?:[ \t/][^<>&]{{0,200}})?)&gt;", re.IGNORECASE)
_ENDS = {"close6": "details", "close7": "fence"}
"""closing tags that are also used outside of reasoning; such a tag ends only a block of its own kind"""
_CHANNEL = pattern(r"<\|channel\|>(?P<name>\w{1,20})[^<\n]{0,80}<\|message\|>")
_BARE_CHANNELS = ("analysis", "assistantfinal")
"""texts that mark a channel when the server removed the channel's special tokens"""
_DONE = pattern(r"^[ \t]*\.\.\.done thinking\.[ \t\r]*$", re.MULTILINE)
"""the line that ends the reasoning in the output of ``ollama run``; the reasoning begins with ``Thinking...``"""
_STEMS = ("think", "thought", "reasoning", "reflection", "scratchpad", "analysis", "<unused9")
MANY = 100_000
"""maximum number of opening brackets in a text that is searched for tags; a model that writes more of them repeats
itself"""
_CONTROL = pattern(r"<\|(?:return|end|start|message)\|>(?:assistant)?")
_SEEN = pattern(rf"[^\s{HIDDEN.pattern[1:]}")
_TURN_BEGINS = pattern(
    r"\s*(?:(?:<\|im_start\|>assistant\s|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|assistant\|>"
    r"|<start_of_turn>model\s|<\|begin_of_text\|>|<\|START_RESPONSE\|>|<\|begin_of_(?:solution|box)\|>)\s*)+",
    re.IGNORECASE,
)
_TURN_ENDS = pattern(
    r"<(?:\|(?:im_end|eot_id|eom_id|end_of_text|endoftext|end_of_turn|end_of_turn_token|return|end|eos|im_start|user"
    r"|start_header_id|END_RESPONSE|end_of_(?:solution|box))\||(?:end|start)_of_turn|｜end▁of▁sentence｜|/s)>",
    re.IGNORECASE,
)


def without_reasoning(text: str) -> str | None:
    """Return a text without its reasoning blocks; None if a block is never closed.

    If the opening tag is missing, all text before the closing tag is reasoning, because the opening tag was in the
    prompt. Text after an end-of-turn mark is dropped. If only invisible characters remain, the result is empty.
    """
    # in nearly every text none of the marks can be; a long one is reported at once too
    if done := list(_DONE.finditer(text)) if "...done thinking." in text else ():
        text = text[done[-1].end() :].lstrip()
    if not ("<" in text or "[" in text or "&" in text or "◁" in text or "```" in text or text[:8] == _BARE_CHANNELS[0]):
        return text if _SEEN.search(text) or not text.strip() else ""
    rest = _outside_blocks(_final_channel(text))
    return None if rest is None else _own_turn(rest)


def _own_turn(text: str) -> str:
    """Return the text up to the end-of-turn mark, without the marks at its start, such as ``<|im_start|>assistant``."""
    begins = _TURN_BEGINS.match(text)
    text = text if begins is None else text[begins.end() :]
    if text.count("<") > MANY:
        return text
    struck = "<s>" in text
    ends = next((end for end in _TURN_ENDS.finditer(text) if not (struck and end.group() == "</s>")), None)
    turn = text if ends is None else text[: ends.start()].rstrip()
    return turn if not turn.strip() or _SEEN.search(turn) else ""


def _outside_blocks(text: str) -> str | None:
    lowered = text.lower()
    if not any(stem in lowered for stem in _STEMS):
        return text
    text = _ESCAPED.sub(r"<\1>", text)
    if sum(map(text.count, ("<", "◁", "[", "```"))) > MANY:
        return None
    parts: list[str] = []
    at, inside = 0, ""
    for tag in _TAG.finditer(text):
        name, closes = _read(tag)
        if not inside and closes and name in _ENDS.values():
            continue
        if inside:
            if closes and name == inside:
                inside, at = "", tag.end()
        elif closes:
            parts, at = [], tag.end()
        else:
            parts.append(text[at : tag.start()])
            inside = name
    return None if inside else "".join([*parts, text[at:]]) if at or parts else text


def _read(tag: re.Match[str]) -> tuple[str, bool]:
    """Return the kind of block that a tag opens or closes, and True if the tag closes the block."""
    for key, kind in _ENDS.items():
        if tag[key]:
            return kind, True
    if tag["name5"]:
        return "unused", tag["last"] == "5"
    if tag["name6"] or tag["name7"]:
        return "details" if tag["name6"] else "fence", False
    name = next(found for key in ("name", "name2", "name3", "name4", "name8") if (found := tag[key]))
    closes = any(tag[key] for key in ("close", "close2", "close3", "close8")) or (tag["edge"] or "").lower() == "end"
    return name.lower(), closes


def _final_channel(text: str) -> str:
    """Return the last message of a text if it is in the channel ``final``. Return a text without channels unchanged.

    If the last message is in another channel, the text has no answer: return ``<think>``, an open block of reasoning.
    """
    if "<|channel|>" not in text:
        opens, final = _BARE_CHANNELS
        return text.rpartition(final)[2] if text.startswith(opens) and final in text else text
    last = _CHANNEL.search(text, text.rindex("<|channel|>"))
    if last is None or last["name"] != "final":
        return "<think>"
    return _CONTROL.split(text[last.end() :], maxsplit=1)[0]


_TAKEN_BACK = pattern(
    r"[.!?…:;,—–\n)\]*\"'-]\s*(?:(?:oh|oops|hmm|no)[,.]? )?wait(?:[,.!:…—–-]| no\b| actually\b)"
    r"|[.!?…:;—–\n)\]*\"'-]\s*(?:hold on\b|scratch that|strike that|on second thought|correction\s*:"
    r"|i (?:made a mistake|misspoke|was wrong)|let me (?:re-?check|re-?consider|re-?think|correct)"
    r"|actually,? (?:no\b|it'?s?\b|that'?s\b|the (?:correct |right )?(?:answer|option)\b|i )"
    r"|(?:no|sorry|oops|hmm),? (?:actually|i meant|rather)\b|i meant\b"
    r"|moment mal|nein, doch|espera,|attends,|aspetta,|подожди)"
    r"|[。！？；，,.\n]\s*(?:等等|不对|不對|等一下|待って|いや、)",
    re.IGNORECASE,
)


def took_back(text: str) -> int | None:
    """Return the position after the last phrase that takes back the text before it, such as ``wait, no``.

    Return None if nothing is taken back.
    """
    found = [match.end() for match in _TAKEN_BACK.finditer(text) if text[: match.start()].strip()]
    return found[-1] if found else None
