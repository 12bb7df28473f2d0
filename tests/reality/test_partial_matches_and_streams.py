"""A part is not the whole text: a number inside a longer one, one option of several, a stream without its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.metrics import resolve, score
from bench.metrics.answers.choices import chosen_index
from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, delta, events
from tests.reality.test_answers import Job, Serve, job, note, serve, workspace
from tests.rows import each_row

__all__ = ["job", "serve", "workspace"]

CITIES = ("Rome", "Paris", "New York")


@each_row(
    ("gold", "answer", "held"),
    [
        ("10", "It was $10,000.", False),
        ("$10", "It was $10,000.", False),
        ("10,000", "It was $10,000.", True),
        ("000", "10,000", False),
        ("10", "about 10.5 km", False),
        ("10", "It was $10.00.", True),
        ("10", "10 000 people", False),
        ("5", "at -5 degrees", False),
        ("5", "pages 3-5", True),
        ("99", "1'099 francs", False),
        ("1", "1.234.567", False),
        ("7 days", "1.7 days", False),
        ("2023", "on May 7,2023", True),
        ("2023", "on 07.05.2023", True),
        ("5", "1,5,7", True),
        ("10", "10, 20 and 30", True),
        ("10", "at 10:30", True),
        ("10", "It was 10.", True),
    ],
)
def test_contains_match_does_not_find_a_number_inside_a_longer_one(gold: str, answer: str, held: bool) -> None:
    assert score("contains_match", prediction=answer, reference=gold) == held


def test_the_definition_of_contains_match_is_contains_match_3() -> None:
    assert resolve("contains_match").definition == "contains_match/3"


def test_compare_refuses_runs_with_different_evaluators(bench: Bench) -> None:
    for run_id, method in (("r1", "exact-match"), ("r2", "contains")):
        flags = ("--answering-model", "builtin/extractive", "--run-id", run_id)
        bench("run", "-q", "--benchmarks", "demo", "--providers", "bm25", "--limit", "4", *flags)
        bench("rescore", run_id, "--evaluators", method)
    refused = bench("compare", "r1", "r2", check=None)
    assert refused.returncode != 0
    assert "evaluator: A has exact-match/3, B has contains/4" in refused.stdout + refused.stderr


@each_row(
    ("answer", "place"),
    [
        ("A: no. B: yes.", None),
        ("A - no, B - yes", None),
        ("A: no", None),
        ("Not A, B", None),
        ("not (A), (B)", None),
        ("neither A, B nor C", None),
        ("A/B", None),
        ("A. Rome was planned.\nB. Paris came first.\nSo she went.", None),
        ("B) Paris\nA) was planned only.\nShe said so.", 1),
        ("Not A, but B", 1),
        ("A is wrong, B", 1),
        ("A. Rome", 0),
        ("B. No other city was named.", 1),
    ],
)
def test_chosen_index_chooses_none_if_the_answer_discusses_several_options(answer: str, place: int | None) -> None:
    assert chosen_index(answer, CITIES) == place


@pytest.mark.parametrize("answer", ["A. No", "A: No.", "(A) no"])
def test_an_option_that_says_no_is_chosen_by_its_letter(answer: str) -> None:
    assert chosen_index(answer, ("No", "Yes")) == 0


def test_a_number_inside_a_longer_number_is_not_chosen_as_an_option() -> None:
    assert chosen_index("It cost 10,000.", ("10", "20")) is None
    assert chosen_index("Answer: 10,000", ("10", "10,000")) == 1


# ------------------------------------------------------------------------ streams


def bare(text: str) -> Mapping[str, Any]:
    """A chunk of a server that has no finish reasons."""
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def test_a_stream_with_done_but_without_its_finish_reason_is_unavailable(serve: Serve, job: Job) -> None:
    serve(events(delta("Pel"), delta("le")), m={"stream": True})
    found = job("--limit", "1")
    assert found["counts"] == {"error": 1} and found["error_kinds"] == {"unavailable": 1}
    assert found["exit"] == 4


def test_streamed_answers_of_a_server_without_finish_reasons_are_scored_and_noted(serve: Serve, job: Job) -> None:
    serve(events(bare("Pel"), bare("le")), m={"stream": True})
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25
    assert note(found, "4 answers without a finish reason, and scored as sent")


def test_a_reply_without_a_finish_reason_is_noted(serve: Serve, job: Job) -> None:
    serve(completion("Pelle", None))
    assert note(job(), "4 answers without a finish reason")


@pytest.mark.parametrize(("tokens", "noted"), [(256, True), (255, False)])
def test_an_answer_as_long_as_the_token_limit_is_noted(tokens: int, noted: bool, serve: Serve, job: Job) -> None:
    serve(completion("Pelle and", usage={"prompt_tokens": 200, "completion_tokens": tokens, "total_tokens": 1}))
    assert (
        note(job("--max-answer-tokens", "256"), "4 answers as long as the token limit, although the endpoint reports")
        is noted
    )


# ------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "command",
    [
        lambda name: ("run", "--benchmarks", "demo", "--providers", "bm25", f"--run-id={name}"),
        lambda name: ("merge", "r", f"--into={name}"),
        lambda name: ("keys", "new", f"--name={name}"),
    ],
)
def test_a_name_that_begins_with_a_hyphen_is_refused(
    command: Callable[[str], tuple[str, ...]], bench: Bench, tmp_path: Path
) -> None:
    done = bench(*command("-r1"), check=2)
    assert "not begin with a dot or hyphen" in done.stderr or "not begin with a dot or dash" in done.stderr
    assert not (tmp_path / "checkpoints" / "-r1").exists()
