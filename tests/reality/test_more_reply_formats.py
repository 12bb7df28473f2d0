"""Rare reply formats of models and servers: each is scored correctly or is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.evaluators.judge_prose import read_prose
from bench.metrics.answers.choices import chosen_index
from bench.model import Completion
from bench.models.reply import strip_reasoning
from tests.reality.chat_stub import Reply, completion
from tests.reality.test_answers import Job, Serve, job, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]

CITIES = ("Lund", "Paris", "Oslo", "Rome")


@each_row(
    ("text", "answer"),
    [
        ("<|START_THINKING|>Lund?<|END_THINKING|><|START_RESPONSE|>Paris<|END_RESPONSE|>", "Paris"),
        ("<|begin_of_thought|>Lund?<|end_of_thought|><|begin_of_solution|>Paris<|end_of_solution|>", "Paris"),
        ("<unused94>thought\nLund?<unused95>Paris", "Paris"),
        ("analysisThe user asks; Lund?assistantfinalParis", "Paris"),
        ('<details type="reasoning" done="true"><summary>Thought for 3 s</summary>Lund?</details>\nParis', "Paris"),
        ("```thinking\nLund?\n```\nParis", "Paris"),
        ("&lt;think&gt;Lund?&lt;/think&gt;Paris", "Paris"),
        ("<\u200bthink>Lund?</\u200bthink>Paris", "Paris"),
        ("<analysis>Lund?</analysis>Paris", "Paris"),
        ("Paris<|im_end|>\n<|im_start|>user\nWas it Lund?", "Paris"),
        ("<|im_start|>assistant\nParis<|im_end|>", "Paris"),
        ("Paris</s>[INST] Lund? [/INST]", "Paris"),
        ("\u200b\u2060\ufeff", ""),
        ("<s>Lund</s> Paris", "<s>Lund</s> Paris"),
        ("<details>Paris</details> in May", "<details>Paris</details> in May"),
        ("```\nParis\n```", "```\nParis\n```"),
        ("analysis of Paris", "analysis of Paris"),
    ],
)
def test_strip_reasoning_removes_thoughts_markers_and_invented_turns(text: str, answer: str) -> None:
    assert strip_reasoning(Completion(text=text, model="m")).text == answer


def test_text_after_the_end_of_turn_marker_is_not_scored(serve: Serve, job: Job) -> None:
    serve(completion("In the red drawer.<|im_end|>\n<|im_start|>user\nNot under the blue pot, Pelle, Umea or alto?"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0 and found["rows"][0]["answer"] == "In the red drawer."
    assert "Pelle" in found["rows"][0]["raw_answer"]


@pytest.mark.parametrize(
    "reply",
    [
        completion({"answer": "Pelle"}),
        completion(42),
        completion([{"type": "text", "text": {"value": "Pelle"}}]),
        {"choices": [{"text": "Pelle", "finish_reason": "stop"}]},
    ],
)
def test_an_answer_in_an_unreadable_format_is_a_mapping_error(serve: Serve, job: Job, reply: Reply) -> None:
    serve(reply)
    found = job()
    assert found["error_kinds"] == {"mapping": 4} and found["n_scored"] == 0


def test_answer_content_as_a_list_of_texts_is_joined(serve: Serve, job: Job) -> None:
    serve(completion(["Pel", {"type": "text", "text": "le"}]))
    assert job()["metrics"]["contains_match"]["value"] == 0.25


@each_row(
    ("answer", "place"),
    [
        ("The answer is not A.", None),
        ("It is not Lund.", None),
        ("(A) is incorrect.", None),
        ("Not Lund but Paris", 1),
        ("Neither A nor B, so C.", 2),
        ("A is wrong, C is wrong, D is wrong. So B.", 1),
        ("I can't be sure, A", 0),
        ("[ ] A) Lund\n[x] B) Paris\n[ ] C) Oslo", 1),
        ('{"reasoning": "not A", "answer": "B"}', 1),
        ('```json\n{"final_answer": "B"}\n```', 1),
    ],
)
def test_chosen_index_does_not_choose_an_option_that_the_answer_rules_out(answer: str, place: int | None) -> None:
    assert chosen_index(answer, CITIES) == place


@each_row(
    ("text", "value"),
    [
        ("[X] CORRECT\n[ ] INCORRECT", 1.0),
        ("[ ] CORRECT\n[X] INCORRECT", 0.0),
        ("- [x] Correct\n- [ ] Incorrect", 1.0),
        ("☐ CORRECT ☑ INCORRECT", 0.0),
        ("( ) CORRECT\n(x) INCORRECT", 0.0),
        ("[ ] CORRECT\n[ ] INCORRECT", "conflict"),
        ("[[CORRECT]]", 1.0),
    ],
)
def test_only_a_ticked_box_is_read_as_a_verdict(text: str, value: float | str) -> None:
    assert read_prose(text) == value


@pytest.mark.parametrize(
    ("first", "others", "words"),
    [
        ([0.0, 0.0], [0.0, 0.0], "4 of 4 vectors contain only zeros"),
        ([0.0, 0.0], [1.0, 2.0], "1 of 4 vectors contains only zeros and cannot be ranked, for example the vector of"),
        ([1.0, 2.0], [1.0, 2.0], "have the same vector"),
    ],
)
def test_zero_or_identical_embedding_vectors_are_an_error(
    bench: Callable[..., Any], serve: Serve, first: list[float], others: list[float], words: str
) -> None:
    vectors = (first, *[others] * 9)
    serve(lambda body: {"data": [{"index": at, "embedding": vectors[at]} for at, _ in enumerate(body["input"])]})
    done = bench(
        "run", "--benchmarks", "mini", "--providers", "vector", "--embedding-model", "local/m", "--run-id", "r",
        "--answering-model", "none", check=4,
    )  # fmt: skip
    assert words in done.stdout + bench("failures", "r").stdout


def test_a_note_names_the_answering_model_if_the_run_has_several(bench: Callable[..., Any], serve: Serve) -> None:
    serve(lambda body: completion("Pelle", "length" if body["model"] == "short" else "stop"))
    done = bench(
        "run", "--benchmarks", "mini", "--providers", "bm25", "--run-id", "r",
        "--answering-models", "local/short", "local/long",
    )  # fmt: skip
    assert "note: bm25 / local/short: 4 answers cut at the token limit" in done.stdout
