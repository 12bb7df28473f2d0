"""What of a model's reply is its answer: the text without reasoning, and whether there is an answer at all.

Example::

    cleaned(completion).text          # without reasoning blocks; the raw text stays in `Completion.raw`
    no_answer(completion)             # None, or the error that the reply is
"""

from __future__ import annotations

from dataclasses import replace

from bench.errors import CallError, NoAnswer, Truncated
from bench.model import Completion, Model, Prompt
from bench.reasoning import without_reasoning

TOOL_CALL = "tool_calls"
"""the native finish of a reply that calls a tool that was not offered"""


def cleaned(said: Completion) -> Completion:
    """Take the reasoning out of a reply; the raw text is kept beside it."""
    rest = without_reasoning(said.text)
    if rest == said.text:
        return said
    return replace(said, text=(rest or "").strip(), raw=said.text if said.raw is None else said.raw)


def no_answer(said: Completion) -> CallError | None:
    """Return the error that a reply without text is; one that ended on its own without a thought, or a refusal, is an
    answer."""
    if said.text.strip():
        return None
    finish = said.native_finish or said.finish
    if said.finish == "length":
        return Truncated(f'the reply was cut before its answer began (finish "{finish}"{_spent(said)})')
    if said.raw is not None and without_reasoning(said.raw) is None:
        return NoAnswer(f'the reply holds a reasoning block that is never closed (finish "{finish}"{_spent(said)})')
    if said.finish == "stop" and (said.reasoning.strip() or said.raw is not None):
        return NoAnswer(f'the reply holds reasoning and no answer (finish "{finish}"{_spent(said)})')
    if said.finish in ("stop", "refusal"):
        return None
    if finish == TOOL_CALL:
        return NoAnswer(f'the reply calls a tool that was not offered (finish "{finish}"{_spent(said)})')
    return NoAnswer(f'the reply has no text (finish "{finish}"{_spent(said)})')


def _spent(said: Completion) -> str:
    if said.usage is None or said.usage.estimated:
        return ""
    reasoning = f", {said.usage.reasoning_tokens} of them reasoning" if said.usage.reasoning_tokens else ""
    return f"; {said.usage.output_tokens} tokens{reasoning}"


class Cleaned:
    """A model that is not ours, without the reasoning in its replies; those behind HTTP leave it out themselves."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply without its reasoning."""
        return cleaned(await self._model.complete(prompt))


class Answering:
    """A model that a provider uses: without an answer its call has failed."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply.

        Raises:
            CallError: the call failed, or gave no answer.
        """
        said = await self._model.complete(prompt)
        error = no_answer(said)
        if error is not None:
            error.hint = f"choose a model without reasoning instead of {self.name}"
            raise error
        return said
