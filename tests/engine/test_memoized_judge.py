"""The memoized judge: each different prompt is sent once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bench.engine.items.evaluate import Memo, MemoizedJudge
from bench.model import ChatMessage, Completion, Prompt

PROMPT = Prompt(messages=(ChatMessage(role="user", content="Right?"),), json_schema={"type": "object"})


@dataclass
class Counting:
    """A judge that replies with its number of calls."""

    name: str = "j/m"
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return Completion(text=str(len(self.asked)), model=self.name, finish="stop")


async def test_jobs_share_the_reply_to_the_same_prompt() -> None:
    judge, memo = Counting(), Memo()
    texts = [(await MemoizedJudge(judge=judge, memo=memo).ask(PROMPT)).text for _ in range(3)]
    assert texts == ["1", "1", "1"]


async def test_a_prompt_with_another_parameter_or_schema_is_sent_again() -> None:
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
