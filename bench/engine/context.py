"""From hits to the prompt of the answering model: the same text, k and budget for every provider.

Example::

    context = fill(hits, budget_tokens=4000, dated=True)
    context.text, context.kept, context.tokens       # what the model reads; hits from the front that fitted

Hits are taken in rank order while they fit; only a first hit that is longer than the whole budget is cut inside.
Tokens are counted as characters / 4, rounded up: a rule that needs no tokenizer and is the same for every model.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.model import CHARS_PER_TOKEN, Hit, count_tokens
from bench.values import dataclass

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What of the hits an answer may rest on."""

    texts: tuple[str, ...]
    kept: int
    """hits from the front that went in"""
    tokens: int

    @property
    def text(self) -> str:
        return SEPARATOR.join(self.texts)


def fill(hits: Sequence[Hit], *, budget_tokens: int | None, dated: bool) -> Context:
    """Take hits from the front while they fit into ``budget_tokens`` (None = all of them)."""
    texts: list[str] = []
    room = None if budget_tokens is None else budget_tokens * CHARS_PER_TOKEN
    for hit in hits:
        text = _shown(hit, dated=dated)
        if room is not None:
            if len(text) > room and texts:
                break
            text = text[:room]
            room -= len(text) + len(SEPARATOR)
        texts.append(text)
        if room is not None and room <= 0:
            break
    return Context(texts=tuple(texts), kept=len(texts), tokens=count_tokens(SEPARATOR.join(texts)))


def _shown(hit: Hit, *, dated: bool) -> str:
    """A memory whose text carries no date line of its own is shown with the date that came back with it."""
    body = "\n".join(hit.chunks) if hit.chunks else hit.content
    return f"[{hit.when:%Y-%m-%d %H:%M}] {body}" if dated and hit.when is not None else body
