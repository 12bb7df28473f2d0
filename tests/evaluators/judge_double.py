"""A judge that says what it was told to say, and remembers what it was asked."""

from __future__ import annotations

from bench.model import Completion, Prompt, ScoredItem


class SaidBefore:
    """The texts are given one after the other; the last one again and again."""

    name = "acme/judge"

    def __init__(self, *texts: str, finish: str = "stop") -> None:
        self.texts = list(texts)
        self.finish = finish
        self.asked: list[Prompt] = []

    async def ask(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Completion(text=text, model="acme/judge-2026", finish=self.finish, fingerprint="fp1", ignored=("seed",))  # type: ignore[arg-type]

    @property
    def said(self) -> str:
        """The text of the last request."""
        return self.asked[-1].messages[-1].content


def item(**more: object) -> ScoredItem:
    """An answerable item about a city."""
    given: dict[str, object] = {"id": "q1", "question": "Which city?", "answers": ("Paris",)}
    return ScoredItem(**(given | more))  # type: ignore[arg-type]
