"""JSON by schema from a judge: one repair request where its text is not the object that the schema asks for.

Example::

    judge = SchemaJudge(model)
    completion = await judge.ask(prompt)                       # prompt.json_schema says what is wanted
    verdict = Schema.of(prompt.json_schema).read(completion.text)  # a mapping, or None: the item is unscored

Nothing is guessed from keywords: a text that is not exactly one object of the schema is no verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from bench.model import ChatMessage, Completion, Model, Prompt
from bench.models.chat import joined
from bench.structured import Schema

REPAIR = (
    "That is not one JSON object that fits the schema. Reply again with that JSON object only, "
    "no other text, no code fence. The schema:\n"
)


class SchemaJudge:
    """A model as a judge: what it says is repaired once when it does not fit the prompt's schema."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def ask(self, prompt: Prompt) -> Completion:
        """Give the model's answer, the repaired one if there had to be one, with what both cost."""
        answer = await self._model.complete(prompt)
        schema = prompt.json_schema
        if schema is None or answer.finish in ("length", "refusal"):
            return answer
        if Schema.of(schema).read(answer.text) is not None:
            return answer
        return joined(answer, await self._model.complete(_repair(prompt, answer, schema)))


def _repair(prompt: Prompt, answer: Completion, schema: Mapping[str, object]) -> Prompt:
    said = ChatMessage(role="assistant", content=answer.text or "(nothing)")
    request = ChatMessage(role="user", content=REPAIR + json.dumps(schema, ensure_ascii=False, sort_keys=True))
    return replace(prompt, messages=(*prompt.messages, said, request))
