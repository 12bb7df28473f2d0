"""A judge that returns given replies and records its prompts."""

from __future__ import annotations

from bench.model import Completion, Prompt, ScoredItem


class ScriptedJudge:
    """A judge that gives the texts in order and repeats the last one."""

    name = "acme/judge"

    def __init__(self, *texts: str, finish: str = "stop") -> None:
        self.texts = list(texts)
        self.finish = finish
        self.prompts: list[Prompt] = []

    async def ask(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Completion(text=text, model="acme/judge-2026", finish=self.finish, fingerprint="fp1", ignored=("seed",))  # type: ignore[arg-type]

    @property
    def last_text(self) -> str:
        """Return the text of the last prompt."""
        return self.prompts[-1].messages[-1].content


def item(**more: object) -> ScoredItem:
    """Return an answerable item about a city."""
    given: dict[str, object] = {"id": "q1", "question": "Which city?", "answers": ("Paris",)}
    return ScoredItem(**(given | more))  # type: ignore[arg-type]
