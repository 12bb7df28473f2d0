"""`builtin/extractive`: the sentence of the context that shares most words with the question. No key, no network.

Ties go to the earlier memory, then to the earlier sentence. Without a shared word it says "I don't know.". It
understands nothing: it is a fixed reader, so that a difference between two providers is theirs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bench.metrics.text_normalization import search_words
from bench.model import Completion, Prompt
from bench.models.reply import estimate

NAME = "builtin/extractive"
NOTHING = "I don't know."
SENTENCE_END = re.compile(r"(?<=[.!?؟۔።])\s+|(?<=[。！？｡।॥။།។])\s*|\n+")
"""where a sentence ends; some scripts put no space after it"""


class Extractive:
    """A `bench.model.Model` that reads ``prompt.question`` and ``prompt.context``."""

    name = NAME

    async def complete(self, prompt: Prompt) -> Completion:
        """Give the best sentence; the same prompt always gives the same text."""
        text = best_sentence(prompt.question, prompt.context)
        used = estimate(prompt="\n".join((*prompt.context, prompt.question)), reply=text)
        return Completion(text=text, model=NAME, usage=used, cost_usd="0")


def best_sentence(question: str, context: Sequence[str]) -> str:
    """The sentence with the highest number of distinct words of the question."""
    wanted = _words(question)
    best, most = NOTHING, 0
    for sentence in _sentences(context):
        shared = len(wanted & _words(sentence))
        if shared > most:
            best, most = sentence, shared
    return best


def _sentences(context: Sequence[str]) -> Iterator[str]:
    for memory in context:
        yield from (sentence.strip() for sentence in SENTENCE_END.split(memory) if sentence.strip())


def _words(text: str) -> set[str]:
    return set(search_words(text))
