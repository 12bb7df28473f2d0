"""Reasoning blocks are removed from replies in every spelling and length."""

from __future__ import annotations

import pytest

from bench.reasoning_blocks import without_reasoning
from tests.cpu_time import at_most
from tests.rows import each_row

MIB = 1024 * 1024


@each_row(
    ("text", "rest"),
    [
        ("Paris", "Paris"),
        ("", ""),
        ("<think>hm</think>Paris", "Paris"),
        ("<THINK lang='en'>hm</Think >\nParis", "\nParis"),
        ("<thinking>a</thinking> <reasoning>b</reasoning> Paris", "  Paris"),
        ("◁think▷hm◁/think▷Paris", "Paris"),
        ("[THINK]hm[/THINK]Paris", "Paris"),
        ("<seed:think>hm</seed:think>Paris", "Paris"),
        ("<|begin_of_thought|>hm<|end_of_thought|>Paris", "Paris"),
        ("hm, so </think> Paris", " Paris"),
        ("<think>a <think> b</think> c</think>Paris", "Paris"),
        (
            "<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>Paris<|return|>",
            "Paris",
        ),
        ("<|channel|>analysis<|message|>hm", None),
        ("Thinking...\nhm\n...done thinking.\n\nParis", "Paris"),
        ("hm <think>\n...done thinking.\r\nParis", "Paris"),
        ("hm\n...done thinking.", ""),
        ("He is ...done thinking. Paris", "He is ...done thinking. Paris"),
        ("Thinking... Paris", "Thinking... Paris"),
        ("<|thinking|>hm<|/thinking|>Paris", "Paris"),
        ("<|THINK|>hm<|/THINK|>Paris", "Paris"),
        ("<|thinking|>hm", None),
        ("<think>hm", None),
        ("Paris <think>or", None),
        ("<think>a</thinking> Paris", None),
        ("<thinker>no</thinker> Paris", "<thinker>no</thinker> Paris"),
        ("I think (a < b) it is Paris", "I think (a < b) it is Paris"),
    ],
)
def test_without_reasoning_removes_reasoning_blocks(text: str, rest: str | None) -> None:
    assert without_reasoning(text) == rest


@pytest.mark.parametrize(
    "unit",
    [
        "<think>",
        "</think>",
        "<think></think>",
        "<",
        "< ",
        "<think ",
        "◁think▷",
        "<|",
        "x",
        "```\n",
        "</s>",
        "<|assistant|>",
        "...done thinking.\n",
    ],
)
def test_without_reasoning_reads_8_MiB_within_half_a_second(unit: str) -> None:
    text = unit * (8 * MIB // len(unit.encode())) + "think"
    at_most(0.5, lambda: without_reasoning(text))
