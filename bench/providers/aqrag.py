"""AQRAG: a model writes questions that each chunk answers, and a search compares its query with these questions.

The score of a chunk combines two cosine similarities: between query and chunk, and between query and best question. It
is their mean, unless the config sets other weights. If the model returns no valid list of questions, the chunk is
flagged and found only by its own text::

    type: local
    adapter: bench.providers.aqrag:Aqrag
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from bench.model import ChatMessage, Memory, Model, Prompt
from bench.providers.rag.index import Piece, Similarities
from bench.providers.rag.provider import Rag

QUESTION_PROMPT = """\
Write {count} different questions that the text below answers. Each must be understood without the text: \
name people, things and dates instead of pointing at them.
Answer with a JSON object of the form {{"questions": ["...", "..."]}} and nothing else.

<text>
{text}
</text>"""
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": {"type": "string"}}},
    "required": ["questions"],
    "additionalProperties": False,
}
TOKENS_PER_QUESTION = 48
NO_QUESTIONS = "no_questions"


class Aqrag(Rag):
    """A provider that indexes each chunk together with questions that the chunk answers."""

    strategy = "weighted"
    enriches = True

    async def enrich(self, model: Model, memory: Memory, piece: Piece) -> Piece:
        """Return the chunk with questions from one call of the model; flag the chunk if the model gives no question."""
        wanted = self.local.enhancement.questions_per_chunk
        if not self.local.enhancement.generate_questions or not piece.text.strip():
            return piece
        prompt = Prompt(
            messages=(ChatMessage(role="user", content=QUESTION_PROMPT.format(count=wanted, text=piece.text)),),
            max_tokens=TOKENS_PER_QUESTION * wanted,
            json_schema=SCHEMA,
        )
        found = questions((await model.complete(prompt)).text)[:wanted]
        return replace(piece, questions=found, flags=() if found else (NO_QUESTIONS,))

    def second_scores(self, text: str, pieces: Mapping[str, Piece], similarities: Similarities) -> Mapping[str, float]:
        """Return for each chunk the similarity between the query and the chunk's most similar question."""
        return similarities.questions


def questions(text: str) -> tuple[str, ...]:
    """Return the questions in a model's reply without repeats; return () if the reply has no valid list.

    The list is a JSON list of texts, or the value of ``questions`` in a JSON object.
    """
    try:
        tree = json.loads(text)
    except ValueError:
        return ()
    found = tree.get("questions") if isinstance(tree, dict) else tree
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return ()
    return tuple(dict.fromkeys(one.strip() for one in found if one.strip()))
