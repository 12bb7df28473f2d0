"""No text from outside keeps our own reading busy, and no expression of a script of replies does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import ConfigError
from bench.evaluators.judge_parsing import parse_verdict
from bench.metrics.answers.choices import chosen_index
from bench.models.scripted import Scripted
from tests.cpu_time import at_most
from tests.rows import each_row


@each_row(
    "part",
    ["(", "A ", "answer ", "answer: ", "**", "\\boxed{", '"', "'", "`", "> ", "{", "correct, ", "not ", "no\n",
     "<think", "$", " ", "\n", "-", "the answer is ", '{"correctness": ', "final verdict: "],
)  # fmt: skip
def test_a_hostile_answer_or_verdict_is_read_in_seconds(part: str) -> None:
    text = part * (20_000 // len(part))
    at_most(5, lambda: (chosen_index(text, ("Rome", "Paris", "New York")), parse_verdict(text)))


@pytest.mark.parametrize("part", ["☑ ", "ﬁ", "no\n", "ﷺ"])
def test_an_answer_or_verdict_of_eight_mebibytes_is_read_in_half_a_second(part: str) -> None:
    text = part * (2**23 // len(part))
    chosen, verdict = at_most(0.5, lambda: (chosen_index(text, ("Rome", "Paris", "New York")), parse_verdict(text)))
    assert (chosen, verdict.reason) == (None, "no_verdict")


def test_white_space_around_a_choice_is_not_what_makes_it_long() -> None:
    assert chosen_index(f"The answer is B.{' ' * 100_000}", ("Rome", "Paris")) == 1


@pytest.mark.parametrize("match", ["(a+)+$", "(a|ab)*c", "("])
def test_a_match_of_a_script_that_may_take_minutes_is_refused_with_its_place(tmp_path: Path, match: str) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(f'{{"match": ".", "reply": "x"}}\n{{"match": "{match}", "reply": "x"}}\n')
    with pytest.raises(ConfigError, match="match") as caught:
        Scripted(script)
    assert caught.value.where == f"{script}:2:1"
