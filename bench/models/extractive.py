"""Answer without a language model: return the sentence of the context that shares the most words with the question.

If several sentences share equally many words, the first of these sentences is returned. If no sentence shares a word,
the reply is "I don't know.". The model is deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from bench.metrics.answers.text_normalization import search_words
from bench.model import Completion, Prompt
from bench.models.usage import estimate_usage

NAME = "builtin/extractive"
NOTHING = "I don't know."
SENTENCE_END = re.compile(r"(?<=[.!?؟۔።])\s+|(?<=[。！？｡।॥။།។])\s*|\n+")
"""matches the end of a sentence; in some scripts, no space follows it"""


class Extractive:
    """The model ``builtin/extractive``. It reads only ``prompt.question`` and ``prompt.context``."""

    name = NAME

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the sentence that shares most words with the question, as the model's reply."""
        text = best_sentence(prompt.question, prompt.context)
        used = estimate_usage(prompt="\n".join((*prompt.context, prompt.question)), reply=text)
        return Completion(text=text, model=NAME, usage=used, cost_usd="0")


def best_sentence(question: str, context: Sequence[str]) -> str:
    """Return the sentence that has most of the question's words; "I don't know." if no sentence has any."""
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
    """Return each sentence of a memory with its words.

    The result is cached, because many questions read the same memories.
    """
    found = (sentence.strip() for sentence in SENTENCE_END.split(memory))
    return tuple((sentence, frozenset(_words(sentence))) for sentence in found if sentence)


def _words(text: str) -> set[str]:
    return set(search_words(text))
