"""What a model thinks aloud is not what it says: take its reasoning blocks out of a text, in linear time.

Example::

    without_reasoning("<think>hm</think> Paris")     # "Paris"
    without_reasoning("<think>hm")                   # None: the block is never closed, there is no answer
"""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
_TAG = re.compile(
    rf"<[ \t]{{0,4}}(?P<close>/?)[ \t]{{0,4}}(?:\w{{1,16}}:)?(?P<name>{_NAMES})(?:[ \t/][^<>]{{0,200}})?>"
    r"|◁(?P<close2>/?)(?P<name2>think)▷"
    r"|\[(?P<close3>/?)(?P<name3>THINK)\]"
    r"|<\|(?P<edge>begin|end)_of_(?P<name4>thought)\|>",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"<\|channel\|>(?P<name>\w{1,20})[^<\n]{0,80}<\|message\|>")
_STEMS = ("think", "thought", "reasoning", "reflection", "scratchpad")
MANY = 100_000
"""a text with more opening brackets is a loop of its model, and no answer"""
_CONTROL = re.compile(r"<\|(?:return|end|start|message)\|>(?:assistant)?")


def without_reasoning(text: str) -> str | None:
    """Return a text without its reasoning blocks; None when one of them is never closed.

    What stands before a closing tag that was never opened is reasoning too: the opening tag was part of the prompt.
    """
    text = _final_channel(text) if "<|channel|>" in text else text
    lowered = text.lower()
    if not any(stem in lowered for stem in _STEMS):
        return text
    if sum(map(text.count, "<◁[")) > MANY:
        return None
    said: list[str] = []
    at, inside = 0, ""
    for tag in _TAG.finditer(text):
        name, closes = _read(tag)
        if inside:
            if closes and name == inside:
                inside, at = "", tag.end()
        elif closes:
            said, at = [], tag.end()
        else:
            said.append(text[at : tag.start()])
            inside = name
    return None if inside else "".join([*said, text[at:]]) if at or said else text


def _read(tag: re.Match[str]) -> tuple[str, bool]:
    name = next(found for key in ("name", "name2", "name3", "name4") if (found := tag[key]))
    closes = bool(tag["close"] or tag["close2"] or tag["close3"]) or (tag["edge"] or "").lower() == "end"
    return name.lower(), closes


def _final_channel(text: str) -> str:
    """The last message of the channel ``final``; without one, the text is all reasoning."""
    last = _CHANNEL.search(text, text.rindex("<|channel|>"))
    if last is None or last["name"] != "final":
        return "<think>"
    return _CONTROL.split(text[last.end() :], maxsplit=1)[0]
