"""Token usage in responses. Each count has the same meaning for all vendors.

Example::

    normalise("anthropic", {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}})
    # Usage(input_tokens=100, cache_read_tokens=90, output_tokens=5, total_tokens=105)

``input_tokens`` includes cache reads and writes, ``output_tokens`` includes reasoning, and ``total_tokens`` is their
sum. If the counts of a response exclude reasoning or cached tokens, these are added.

If a response has no readable token counts, :mod:`bench.tokens` estimates them, and the usage is marked ``estimated``.
Unreadable token counts never invalidate an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from bench.model import Usage
from bench.tokens import count_tokens

DialectName = Literal["openai", "anthropic", "google"]
MAX_TOKENS = 10**12
"""a token count above this limit counts as unreadable"""


OPENAI_COUNTS: Mapping[str, str] = {
    "prompt_tokens": "sent",
    "completion_tokens": "received",
    "reasoning_tokens": "reasoning",
    **dict.fromkeys(("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"), "cache_read"),
    **dict.fromkeys(("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"), "cache_write"),
}
"""field of OpenAI's and of compatible servers, in ``usage`` or in its details -> the count that it reports"""


class _Unreadable(Exception):
    """Raised if a token count in a response is not a plausible whole number."""


def normalise(dialect: DialectName, body: object, *, prompt: str = "", reply: str = "") -> Usage:
    """Return the usage that a response reports. If it cannot be read, estimate it from ``prompt`` and ``reply``.

    A count of 0 for a prompt or reply that is not empty counts as unreadable.
    """
    try:
        found = _parse_usage(dialect, body)
    except _Unreadable:
        found = None
    if found is None or (prompt and not found.input_tokens) or (reply and not found.output_tokens):
        return estimate_usage(prompt=prompt, reply=reply)  # a zero for what was sent or replied is a placeholder
    return found


def is_usage_unreadable(dialect: DialectName, body: object) -> bool:
    """Return True if a response reports a usage that cannot be read. A response without usage gives False."""
    try:
        _parse_usage(dialect, body)
    except _Unreadable:
        return True
    return False


def _parse_usage(dialect: DialectName, body: object) -> Usage | None:
    block = _child(body, "usageMetadata" if dialect == "google" else "usage")
    if not block:
        return None
    match dialect:
        case "openai":
            return _openai(block)
        case "anthropic":
            return _anthropic(block)
        case "google":
            return _google(block)
        case _:
            assert_never(dialect)


def estimate_usage(*, prompt: str, reply: str) -> Usage:
    """Estimate the usage of a call from its texts, with the token count of :mod:`bench.tokens`."""
    sent, received = count_tokens(prompt), count_tokens(reply)
    return Usage(input_tokens=sent, output_tokens=received, total_tokens=sent + received, estimated=True)


def _openai(block: Mapping[str, object]) -> Usage:
    counts = {"sent": 0, "received": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0}
    for part in (block, _child(block, "prompt_tokens_details"), _child(block, "completion_tokens_details")):
        for name in part:
            if name in OPENAI_COUNTS and (count := _count(part, name)) > counts[OPENAI_COUNTS[name]]:
                counts[OPENAI_COUNTS[name]] = count
    total, known = block.get("total_tokens"), counts["sent"] + counts["received"]
    if type(total) is int and known < total <= MAX_TOKENS and counts["sent"] and counts["received"]:
        rest = total - known
        if rest == counts["cache_read"] + counts["cache_write"]:
            counts["sent"] += rest
        else:
            counts |= {"received": counts["received"] + rest, "reasoning": max(counts["reasoning"], rest)}
    return _usage(**counts)


def _anthropic(block: Mapping[str, object]) -> Usage:
    read, written = _count(block, "cache_read_input_tokens"), _count(block, "cache_creation_input_tokens")
    return _usage(
        sent=_count(block, "input_tokens") + read + written,
        received=_count(block, "output_tokens"),
        cache_read=read,
        cache_write=written,
        reasoning=_count(_child(block, "output_tokens_details"), "thinking_tokens"),
    )


def _google(block: Mapping[str, object]) -> Usage:
    thoughts = _count(block, "thoughtsTokenCount")
    return _usage(
        sent=_count(block, "promptTokenCount") + _count(block, "toolUsePromptTokenCount"),
        received=_count(block, "candidatesTokenCount") + thoughts,
        cache_read=_count(block, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


def _usage(*, sent: int, received: int, cache_read: int = 0, cache_write: int = 0, reasoning: int = 0) -> Usage:
    if reasoning > received:  # so the endpoint counts reasoning next to the text
        received += reasoning
    return Usage(
        input_tokens=sent,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=received,
        reasoning_tokens=reasoning,
        total_tokens=sent + received,
    )


def _child(tree: object, key: str) -> Mapping[str, object]:
    value = tree.get(key) if isinstance(tree, dict) else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Unreadable
    return value


def _count(block: Mapping[str, object], key: str) -> int:
    value = block.get(key)
    if value is None:
        return 0
    if type(value) is int and 0 <= value <= MAX_TOKENS:
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MAX_TOKENS
        or value != int(value)
    ):
        raise _Unreadable
    return int(value)
