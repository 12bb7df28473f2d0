"""What a provider takes of a question: at most ``max_k`` hits asked for, at most ``max_query_chars`` characters.

Example::

    query, flags = within_limits(Query(text="Where did Ana go in May?", k=10), Capabilities(max_query_chars=12))
    query.text, flags                                       # "Where did", ("query_cut",)
"""

from __future__ import annotations

from dataclasses import replace

from bench.model import QUERY_CUT, Query
from bench.providers.protocol import Capabilities


def within_limits(query: Query, capabilities: Capabilities) -> tuple[Query, tuple[str, ...]]:
    """Return the query as it may be sent, and a flag where its text was cut."""
    k = min(query.k, capabilities.max_k or query.k)
    text, flags = query.text, ()
    if capabilities.max_query_chars is not None and len(text) > capabilities.max_query_chars:
        text, flags = cut_at_word(text, capabilities.max_query_chars), (QUERY_CUT,)  # type: ignore[assignment]
    if k == query.k and not flags:
        return query, flags
    return replace(query, text=text, k=k), flags


def cut_at_word(text: str, limit: int) -> str:
    """Return the start of a text, cut at the last space in its second half; without one there, inside a word."""
    head = text[:limit]
    if text[limit : limit + 1].isspace():
        return head.rstrip()
    at = max((head.rfind(space) for space in " \n\t"), default=-1)
    return head[:at].rstrip() if at > limit // 2 else head
