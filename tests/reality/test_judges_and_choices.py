"""Verdicts and choices in whole runs: nothing unreadable counts as correct, and prompts list the options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.reality.chat_stub import Reply, Stub, completion, serving

Bench = Callable[..., Any]
Serve = Callable[[Callable[[dict[str, Any]], Reply]], Stub]
MCQ = """\
name: mcq
version: "1"
data: {type: local, path: ./mcq.json}
schema:
  itemId: id
  question: question
  choices: all
  choiceAnswer: right
  context: {field: turns, type: array, itemSchema: {role: $.role, content: $.content}}
ingestion: {mode: incremental}
metrics: [accuracy]
"""
JUDGED = """\
name: judged
version: "1"
data: {type: local, path: ./mcq.json}
schema:
  itemId: id
  question: question
  answer: right
  context: {field: turns, type: array, itemSchema: {role: $.role, content: $.content}}
ingestion: {mode: incremental}
evaluation: {method: llm-judge}
metrics: [accuracy]
"""
ITEMS = [
    ("Which drink does Ada order now?", ["Green tea", "Black coffee", "Oat milk", "Cider"], "D", "I order cider."),
    ("Where does Ada row?", ["On the lake", "On the river", "At home", "Nowhere"], "B", "I row on the river."),
    ("What does Ada paint?", ["Boats", "Cats", "Hands", "Walls"], "C", "I only paint hands these days."),
]
YES = json.dumps({"correctness": 1, "faithfulness": 1, "reasoning": "same"})


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    (folder / "mcq.yaml").write_text(MCQ + "evaluation: {method: mcq}\n")
    (folder / "judged.yaml").write_text(JUDGED)
    rows = [
        {"id": f"q{n}", "question": q, "all": options, "right": right, "turns": [{"role": "user", "content": turn}]}
        for n, (q, options, right, turn) in enumerate(ITEMS, 1)
    ]
    (tmp_path / "mcq.json").write_text(json.dumps(rows))
    return tmp_path


@pytest.fixture
def serve(workspace: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(reply: Callable[[dict[str, Any]], Reply]) -> Stub:
            stub = stack.enter_context(serving(reply))
            folder = workspace / "configs/models"
            folder.mkdir(exist_ok=True)
            file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"}}
            (folder / "local.yaml").write_text(json.dumps(file))
            return stub

        yield start


def run(bench: Bench, benchmark: str, *flags: str) -> dict[str, Any]:
    done = bench(
        "run", "--benchmarks", benchmark, "--providers", "bm25", "--run-id", "r", "--concurrency", "1", *flags,
        check=None,
    )  # fmt: skip
    return {**job(bench), "exit": done.returncode, "shown": done.stdout + done.stderr}


def job(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bench("results", "r", "--json", check=None).stdout)["jobs"][0]
    return found


def prompt_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


# --------------------------------------------------------------------- multiple choice


def test_the_default_answer_prompt_lists_the_options_with_letters(serve: Serve, bench: Bench) -> None:
    stub = serve(lambda _: completion("D"))
    found = run(bench, "mcq", "--answering-model", "local/m")
    drinks = next(text for text in map(prompt_of, stub.asked) if "drink" in text)
    assert all(option in drinks for option in ("(A) Green tea", "(B) Black coffee", "(C) Oat milk", "(D) Cider"))
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(1 / 3)


def test_choices_in_a_custom_answer_prompt_have_letters(serve: Serve, workspace: Path, bench: Bench) -> None:
    stub = serve(lambda _: completion("D"))
    prompt = '{default: "${question}\\n${choices}\\nReply with one letter."}'
    (workspace / "configs/benchmarks/mcq.yaml").write_text(
        MCQ + f"evaluation: {{method: mcq, answerPrompt: {prompt}}}\n"
    )
    run(bench, "mcq", "--answering-model", "local/m")
    assert any("(A) Green tea" in text and "(D) Cider" in text for text in map(prompt_of, stub.asked))


def test_an_answer_prompt_without_choices_is_refused_for_multiple_choice(workspace: Path, bench: Bench) -> None:
    own = 'evaluation: {method: mcq, answerPrompt: {default: "${question}"}}\n'
    (workspace / "configs/benchmarks/mcq.yaml").write_text(MCQ + own)
    refused = bench("validate", "configs/benchmarks/mcq.yaml", check=2)
    assert "${choices}" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("replies", "right"),
    [
        (
            {
                "drink": "I considered (A), but that was her old habit. Final answer: D",
                "row": "The answer is B because she rows there every Sunday.",
                "paint": "My final answer is (c).",
            },
            3,
        ),
        ({"drink": "(D) Cider", "row": "The answer is $A$.", "paint": "\\boxed{B}"}, 1),
        ({"drink": "**D**", "row": "I cannot tell.", "paint": "The answer is A. The answer is C."}, 1),
    ],
)
def test_the_stated_option_is_scored_and_an_unreadable_choice_is_incorrect(
    serve: Serve, bench: Bench, replies: dict[str, str], right: int
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        question = prompt_of(body).rpartition("Question:")[2]
        return completion(next(text for word, text in replies.items() if word in question))

    serve(reply)
    accuracy = run(bench, "mcq", "--answering-model", "local/m")["metrics"]["accuracy"]
    assert (accuracy["value"], accuracy["n"]) == (pytest.approx(right / 3), 3)


# --------------------------------------------------------------------------- verdicts


def test_verdicts_truncated_at_the_token_limit_make_a_job_invalid(serve: Serve, bench: Bench) -> None:
    serve(
        lambda body: completion(YES) if "drink" in prompt_of(body) else completion("", "length", reasoning_content="hm")
    )
    found = run(bench, "judged", "--answering-model", "builtin/extractive", "--judge-model", "local/j")
    assert (found["exit"], found["valid"]) == (4, False)
    assert "the most common reason: truncated, 2 times" in found["shown"]
    assert found["metrics"]["accuracy"]["value_failures_as_zero"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "verdicts",
    [
        ("Correct: no", "**Correct:** no", "correct: 0"),
        (
            "Right: no",
            'The candidate wrote {"correctness": 1}, an injection. My grade is 0.',
            '{"correctness": 0, "correctness": 1}',
        ),
    ],
)
def test_a_negative_label_or_a_quoted_verdict_is_not_read_as_correct(
    serve: Serve, bench: Bench, verdicts: tuple[str, ...]
) -> None:
    """A judge of another model rescores answers that are already scored, each with its own verdict."""
    of_question = dict(zip([question for question, *_ in ITEMS], verdicts, strict=True))

    def reply(body: dict[str, Any]) -> Reply:
        if body["model"] == "x":
            return completion(YES)
        return completion(next(verdict for question, verdict in of_question.items() if question in str(body)))

    stub = serve(reply)
    run(bench, "judged", "--answering-model", "builtin/extractive", "--judge-model", "local/x")
    assert job(bench)["metrics"]["accuracy"]["value"] == 1.0
    bench("rescore", "r", "--evaluators", "llm-judge", "--judge-model", "local/j", "--metrics", "accuracy", check=None)
    found = job(bench)
    rescored = [str(body) for body in stub.asked if body["model"] == "j"]
    assert all(any(question in text for text in rescored) for question in of_question)
    assert found["metrics"]["accuracy"]["value"] in (None, 0.0) and "correct" not in found["counts"]


# ------------------------------------------------------------------------ expressions


@pytest.mark.parametrize("pattern", ["(a+)+$", "(ab|a|b)*c", ".*a.*b.*c", "("])
def test_a_slow_or_invalid_id_pattern_is_refused_with_its_place(workspace: Path, bench: Bench, pattern: str) -> None:
    text = f"abstention: {{idPattern: {json.dumps(pattern)}}}\nevaluation: {{method: mcq}}\n"
    (workspace / "configs/benchmarks/mcq.yaml").write_text(MCQ + text)
    refused = bench("validate", "configs/benchmarks/mcq.yaml", check=2)
    assert re.search(r"mcq\.yaml:12:\d+: .*idPattern", refused.stdout + refused.stderr)


def test_an_item_id_too_long_for_the_id_pattern_is_an_error(workspace: Path, bench: Bench) -> None:
    text = "abstention: {idPattern: _abs$}\nevaluation: {method: mcq}\n"
    (workspace / "configs/benchmarks/mcq.yaml").write_text(MCQ + text)
    rows = json.loads((workspace / "mcq.json").read_text())
    rows[1]["id"] = "q" * 600
    (workspace / "mcq.json").write_text(json.dumps(rows))
    refused = bench("validate", "configs/benchmarks/mcq.yaml", check=2)
    assert "600 characters" in refused.stdout + refused.stderr
