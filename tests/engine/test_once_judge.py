"""One question of one item is put to a judge once; another temperature or schema is another question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bench.engine.items.evaluate import Memo, MemoizedJudge
from bench.model import ChatMessage, Completion, Prompt

PROMPT = Prompt(messages=(ChatMessage(role="user", content="Right?"),), json_schema={"type": "object"})


@dataclass
class Counting:
    """A judge that answers with how often it was asked."""

    name: str = "j/m"
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return Completion(text=str(len(self.asked)), model=self.name, finish="stop")


async def test_jobs_share_a_verdict_on_the_same_question() -> None:
    judge, memo = Counting(), Memo()
    texts = [(await MemoizedJudge(judge=judge, memo=memo).ask(PROMPT)).text for _ in range(3)]
    assert texts == ["1", "1", "1"]


async def test_what_changes_the_question_is_asked_anew() -> None:
    judge, memo = Counting(), Memo()
    once = MemoizedJudge(judge=judge, memo=memo)
    changed = [
        replace(PROMPT, temperature=0.5),
        replace(PROMPT, max_tokens=7),
        replace(PROMPT, seed=3),
        replace(PROMPT, json_schema={"type": "array"}),
    ]
    texts = [(await once.ask(prompt)).text for prompt in [PROMPT, *changed]]
    assert texts == ["1", "2", "3", "4", "5"]
