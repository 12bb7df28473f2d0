"""Contextual retrieval: a model describes the position of each chunk in its document before the chunk is indexed.

The ranks by vectors and by BM25 are combined by reciprocal rank fusion (k = 60). The text of a hit is the chunk without
its description::

    type: local
    adapter: bench.providers.contextual_retrieval:ContextualRetrieval
"""

from __future__ import annotations

from dataclasses import replace

from bench.model import ChatMessage, Memory, Model, Prompt
from bench.providers.rag.index import Piece
from bench.providers.rag.provider import Rag

CONTEXT_PROMPT = """\
<document>
{document}
</document>

Here is a part of that document:
<part>
{text}
</part>

Write 50 to 100 tokens that place this part in the document, so that a search finds it: who speaks, about whom and \
what, when. Answer with those words only."""
MAX_TOKENS = 160
DOCUMENT_CHARS = 200_000
"""maximum number of characters of the document that are put into the prompt"""
NO_CONTEXT = "no_context"


class ContextualRetrieval(Rag):
    """A provider that indexes each chunk together with a text about its place in the document."""

    strategy = "rrf"
    enriches = True

    async def enrich(self, model: Model, memory: Memory, piece: Piece) -> Piece:
        """Return the chunk with a description from one call of the model; flag the chunk if the model gives none."""
        if not piece.text.strip():
            return piece
        content = CONTEXT_PROMPT.format(document=memory.content[:DOCUMENT_CHARS], text=piece.text)
        prompt = Prompt(messages=(ChatMessage(role="user", content=content),), max_tokens=MAX_TOKENS)
        answer = await model.complete(prompt)
        found = answer.text.strip() if answer.finish != "refusal" else ""
        return replace(piece, context=found, flags=() if found else (NO_CONTEXT,))
