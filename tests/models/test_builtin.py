"""Models without network: `builtin/extractive` and `builtin/scripted`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import ConfigError, Rejected
from bench.http import Http, recording
from bench.model import ChatMessage, Prompt, Usage
from bench.models import open_model
from bench.models.extractive import NOTHING, best_sentence
from bench.settings import Environment
from tests.rows import each_row


@each_row(
    ("question", "context", "answer"),
    [
        ("Where does Ann live?", ["Ann has a cat. Ann does live in Lisbon!", "Bob."], "Ann does live in Lisbon!"),
        ("cat?", ["A dog.", "The cat sat.", "A cat ran."], "The cat sat."),
        ("cat?", ["One cat here. Another cat there."], "One cat here."),
        ("cat?", ["a line with a Cat\nanother line"], "a line with a Cat"),
        ("zebra?", ["A dog.", "A cat."], NOTHING),
        ("zebra?", [], NOTHING),
        ("", ["A dog."], NOTHING),
        ("cat cat cat dog?", ["cat cat cat", "cat dog"], "cat dog"),
        ("Wo wohnt Jörg?", ["Jörg wohnt in Köln."], "Jörg wohnt in Köln."),
    ],
)
def test_best_sentence_returns_the_first_sentence_with_most_common_words(
    question: str, context: list[str], answer: str
) -> None:
    assert best_sentence(question, context) == answer


@given(st.text(), st.lists(st.text(max_size=60), max_size=6))
def test_best_sentence_returns_a_piece_of_the_context_or_NOTHING(question: str, context: list[str]) -> None:
    answer = best_sentence(question, context)
    assert answer == NOTHING or any(answer in memory for memory in context)


async def test_builtin_extractive_makes_no_call_and_costs_nothing() -> None:
    model = open_model("builtin/extractive", http=Http(), environment=Environment(), role="answering")
    prompt = Prompt(messages=(), question="cat?", context=("The cat sat.",))
    with recording() as calls:
        answer = await model.complete(prompt)
    assert (answer.text, answer.model, answer.cost_usd, calls) == ("The cat sat.", "builtin/extractive", "0", [])
    assert answer.usage is not None and answer.usage.estimated


def script(folder: Path, *lines: object) -> Environment:
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(line) if isinstance(line, dict) else str(line) for line in lines))
    return Environment(values={"MEMORYBENCH_SCRIPT": str(path)})


def user_prompt(text: str) -> Prompt:
    return Prompt(messages=(ChatMessage(role="user", content=text),))


async def test_builtin_scripted_answers_with_the_first_matching_line(tmp_path: Path) -> None:
    environment = script(
        tmp_path,
        {"match": "locker L01", "reply": "amber", "usage": {"input_tokens": 9, "output_tokens": 1}},
        {"match": "(?i)LOCKER", "reply": "violet", "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "",
        {"match": "cut", "reply": "", "finish": "length"},
    )
    model = open_model("builtin/scripted", http=Http(), environment=environment, role="judge")
    one = await model.complete(user_prompt("what is in locker L01?"))
    assert (one.text, one.cost_usd, one.model) == ("amber", "0", "builtin/scripted")
    assert one.usage == Usage(input_tokens=9, output_tokens=1, total_tokens=10)
    two = await model.complete(user_prompt("locker L02"))
    assert two.text == "violet" and two.usage == Usage(input_tokens=3, output_tokens=2, total_tokens=5)
    three = await model.complete(user_prompt("cut"))
    assert three.finish == "length" and three.usage is not None and three.usage.estimated


async def test_a_prompt_without_match_is_rejected_with_its_digest(tmp_path: Path) -> None:
    environment = script(tmp_path, {"match": "x", "reply": "y"})
    model = open_model("builtin/scripted", http=Http(), environment=environment, role="judge")
    with pytest.raises(Rejected, match=hashlib.sha256(b"nothing").hexdigest()):
        await model.complete(user_prompt("nothing"))


@each_row(
    "line",
    [
        "{",
        {"match": "x"},
        {"match": 1, "reply": "x"},
        {"match": "(", "reply": "x"},
        {"match": "x", "reply": "y", "extra": 1},
        {"match": "x", "reply": "y", "finish": "never"},
        {"match": "x", "reply": "y", "usage": {"input": 1}},
        {"match": "x", "reply": "y", "usage": {"input_tokens": -1}},
        {"match": "x", "reply": "y", "usage": [1]},
    ],
)
def test_an_invalid_script_line_is_refused_at_its_place(tmp_path: Path, line: object) -> None:
    environment = script(tmp_path, {"match": "a", "reply": "b"}, line)
    with pytest.raises(ConfigError) as caught:
        open_model("builtin/scripted", http=Http(), environment=environment, role="judge")
    assert "replies.jsonl:2:1" in str(caught.value)


def test_a_missing_script_is_a_ConfigError(tmp_path: Path) -> None:
    environment = Environment(values={"MEMORYBENCH_SCRIPT": str(tmp_path / "absent.jsonl")})
    with pytest.raises(ConfigError, match="cannot be read"):
        open_model("builtin/scripted", http=Http(), environment=environment, role="judge")
