"""`builtin/extractive`: return the sentence of the context that shares the most words with the question.

Ties go to the earlier memory, then to the earlier sentence. Without a shared word the reply is "I don't know.". The
model is deterministic, so any difference between two providers comes from the providers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from bench.metrics.answers.text_normalization import search_words
from bench.model import Completion, Prompt
from bench.models.reply import estimate_usage

NAME = "builtin/extractive"
NOTHING = "I don't know."
SENTENCE_END = re.compile(r"(?<=[.!?؟۔።])\s+|(?<=[。！？｡।॥။།។])\s*|\n+")
"""end of a sentence; some scripts have no space after it"""


class Extractive:
    """A `bench.model.Model` that reads ``prompt.question`` and ``prompt.context``."""

    name = NAME

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the best sentence as the completion."""
        text = best_sentence(prompt.question, prompt.context)
        used = estimate_usage(prompt="\n".join((*prompt.context, prompt.question)), reply=text)
        return Completion(text=text, model=NAME, usage=used, cost_usd="0")


def best_sentence(question: str, context: Sequence[str]) -> str:
    """Return the sentence with the most distinct words of the question; "I don't know." if no word is shared."""
    wanted = _words(question)
    best, most = NOTHING, 0
    for memory in context:
        for sentence, own in _sentences(memory):
            shared = len(wanted & own)
            if shared > most:
                best, most = sentence, shared
    return best


@lru_cache(maxsize=1024)
def _sentences(memory: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return each sentence with its words; cached, because many questions use the same memories."""
    found = (sentence.strip() for sentence in SENTENCE_END.split(memory))
    return tuple((sentence, frozenset(_words(sentence))) for sentence in found if sentence)


def _words(text: str) -> set[str]:
    return set(search_words(text))
