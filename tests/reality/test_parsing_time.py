"""Parsing of external texts, and expressions of a reply script, have a bounded time."""

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
def test_a_repetitive_answer_or_verdict_is_parsed_within_seconds(part: str) -> None:
    text = part * (20_000 // len(part))
    at_most(5, lambda: (chosen_index(text, ("Rome", "Paris", "New York")), parse_verdict(text)))


@pytest.mark.parametrize("part", ["☑ ", "ﬁ", "no\n", "ﷺ"])
def test_an_answer_or_verdict_of_8_mib_is_parsed_within_half_a_second(part: str) -> None:
    text = part * (2**23 // len(part))
    chosen, verdict = at_most(0.5, lambda: (chosen_index(text, ("Rome", "Paris", "New York")), parse_verdict(text)))
    assert (chosen, verdict.reason) == (None, "no_verdict")


def test_a_choice_before_much_white_space_is_read() -> None:
    assert chosen_index(f"The answer is B.{' ' * 100_000}", ("Rome", "Paris")) == 1


@pytest.mark.parametrize("match", ["(a+)+$", "(a|ab)*c", "("])
def test_a_slow_or_invalid_match_in_a_reply_script_is_a_config_error_with_its_line(tmp_path: Path, match: str) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(f'{{"match": ".", "reply": "x"}}\n{{"match": "{match}", "reply": "x"}}\n')
    with pytest.raises(ConfigError, match="match") as caught:
        Scripted(script)
    assert caught.value.where == f"{script}:2:1"
