"""Evaluators without a model: texts, choices, deletions; and the state of an item."""

from __future__ import annotations

import pytest

from bench.errors import ConfigError
from bench.evaluators import Evaluator, needs_answer, open_evaluator, state_of, threshold_of
from bench.model import Deletion, Hit, ScoredItem, State, Verdict
from tests.evaluators.judge_double import item
from tests.rows import each_row


def opened(name: str, **config: object) -> Evaluator:
    found = open_evaluator(name, config=config)
    assert found is not None
    return found


async def verdict_of(
    name: str, answer: str, about: ScoredItem | None = None, hits: tuple[Hit, ...] = (), **config: object
) -> Verdict:
    return await opened(name, **config).evaluate(about or item(), answer, hits, None)


async def test_an_item_without_a_reference_is_not_scored() -> None:
    found = await verdict_of("exact-match", "Paris", item(answers=()))
    assert (found.value, found.reason) == (None, "no_reference")


async def test_an_answer_equal_to_a_reference_is_correct_even_if_it_looks_like_a_refusal() -> None:
    found = await verdict_of("exact-match", "unknown", item(answers=("Unknown",)))
    assert (found.correct, found.abstained) == (True, False)


def test_without_a_verdict_the_state_is_measured() -> None:
    assert state_of(None, answerable=True) is State.MEASURED


@each_row(
    ("answer", "value"),
    [
        ("B", 1.0),
        ("(b)", 1.0),
        ("B) Paris", 1.0),
        ("The answer is B.", 1.0),
        ("I think it is Paris, not Rome", 1.0),
        ("A. Rome", 0.0),
        ("Rome or Paris", 0.0),
        ("Parisian cafes", 0.0),
        ("something else", 0.0),
        ("I don't know", 0.0),
    ],
)
async def test_the_first_option_named_in_an_answer_is_the_choice(answer: str, value: float | None) -> None:
    about = item(answers=(), choices=("Rome", "Paris", "New York"), choice_answer="B")
    assert (await verdict_of("mcq", answer, about)).value == value
    by_text = item(answers=(), choices=("Rome", "Paris", "New York"), choice_answer="Paris")
    assert (await verdict_of("mcq", answer, by_text)).value == value


async def test_a_choice_item_without_choice_answer_is_not_scored() -> None:
    assert (await verdict_of("mcq", "A", item(choices=("x", "y")))).reason == "no_choice_answer"


def hit(content: str, *chunks: str) -> Hit:
    return Hit(id="h", content=content, chunks=chunks)


async def test_deletion_check_searches_hits_chunks_and_answer() -> None:
    about = item(answers=(), deletion=Deletion(target="s1", verify_query="code?", deleted_content="the code is 4411"))
    assert not needs_answer(opened("deletion-check"))
    assert (await verdict_of("deletion-check", "", about, (hit("something else"),))).value == 1
    assert (await verdict_of("deletion-check", "", about, (hit("x", "The  code is 4411."),))).value == 0
    assert (await verdict_of("deletion-check", "so the code is 4411", about)).value == 0
    words = (hit("is 4411 the code"),)
    assert (await verdict_of("deletion-check", "", about, words)).value == 1
    assert (await verdict_of("deletion-check", "", about, words, fuzzy_match=True)).value == 0
    assert (await verdict_of("deletion-check", "", item())).reason == "no_deletion"


def test_method_none_opens_no_evaluator() -> None:
    assert open_evaluator("none") is None


@each_row(
    ("name", "config", "text"),
    [
        ("exact-mach", {}, "exact-match"),
        ("semantic-similarity", {}, "--embedding-model"),
    ],
)
def test_an_unknown_evaluator_or_a_missing_embedder_is_a_ConfigError(
    name: str, config: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        open_evaluator(name, config=config, where="b.yaml:9:1")
    assert caught.value.where == "b.yaml:9:1"
    assert text in f"{caught.value} {caught.value.hint}"


def test_the_default_threshold_is_1() -> None:
    assert [threshold_of(opened(name)) for name in ("exact-match", "contains", "token-f1", "locomo-f1")] == [1.0] * 4


async def test_any_refusal_of_an_adversarial_LoCoMo_item_is_correct() -> None:
    adversarial = item(question_type="adversarial", abstention=True, answers=())
    refusal = await verdict_of("locomo-f1", "I don't know.", adversarial)
    assert (refusal.value, refusal.correct, refusal.abstained) == (0.0, True, False)
    assert state_of(refusal, answerable=False) is State.CORRECT
    assert (await verdict_of("locomo-f1", "I don't know.", item(question_type="multi-hop"))).abstained
