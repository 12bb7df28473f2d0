"""Evaluators without a model: texts, choices, deletions; and how an item ends."""

from __future__ import annotations

import pytest

from bench.errors import ConfigError
from bench.evaluators import Evaluator, is_refusal, needs_answer, open_evaluator, state_of, threshold_of
from bench.model import Deletion, Hit, ScoredItem, State, Verdict
from tests.evaluators.judge_double import item
from tests.rows import each_row


def opened(name: str, **config: object) -> Evaluator:
    found = open_evaluator(name, config=config)
    assert found is not None
    return found


async def say(
    name: str, answer: str, about: ScoredItem | None = None, hits: tuple[Hit, ...] = (), **config: object
) -> Verdict:
    return await opened(name, **config).evaluate(about or item(), answer, hits, None)


@each_row(
    ("name", "answer", "value"),
    [
        ("exact-match", " paris ", 1.0),
        ("exact-match", "It was Paris", 0.0),
        ("contains", "It was Paris!", 1.0),
        ("contains", "Parisian", 0.0),
        ("token-f1", "old Paris", pytest.approx(2 / 3)),
        ("exact_match", "Paris", 1.0),
    ],
)
async def test_a_text_metric_is_the_verdict(name: str, answer: str, value: float) -> None:
    found = await say(name, answer)
    assert found.value == value
    assert found.correct is (found.value == 1)
    assert not found.judged


async def test_options_of_a_manifest_reach_the_comparison() -> None:
    assert (await say("exact-match", "paris", case_sensitive=True)).value == 0
    assert (await say("exact-match", "Paris ", normalize_whitespace=False)).value == 0
    assert (await say("contains", "Parisian", word_boundary=False)).value == 1
    assert (await say("token-f1", "old Paris", threshold=0.5)).correct is True


async def test_an_item_without_an_answer_is_not_scored() -> None:
    found = await say("exact-match", "Paris", item(answers=()))
    assert (found.value, found.reason) == (None, "no_reference")


@each_row("answer", ["I don't know.", "I’m not sure", "Not mentioned in the conversation",
                                    "Sorry, I cannot answer that.", "There is no information about this.", "unknown",
                                    "The memories do not say.", "It was never mentioned", "N/A"])  # fmt: skip
def test_a_refusal_begins_by_saying_so(answer: str) -> None:
    assert is_refusal(answer)


@each_row("answer", ["", " ", "Paris", "Paris, though I don't know the street", "No", "Not on Monday",
                                    "No idea was better", "Unknown Pleasures", "I know it: Paris"])  # fmt: skip
def test_an_answer_is_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


async def test_a_refusal_is_right_only_where_nothing_can_be_answered() -> None:
    refused = await say("exact-match", "I don't know")
    assert (refused.value, refused.abstained) == (0.0, True)
    assert state_of(refused, answerable=True) is State.ABSTAINED
    right = await say("exact-match", "I don't know", item(abstention=True, answers=()))
    assert (right.value, right.correct) == (1.0, True)
    assert state_of(right, answerable=False) is State.CORRECT
    invented = await say("exact-match", "Paris", item(abstention=True, answers=("it was never said",)))
    assert state_of(invented, answerable=False) is State.INCORRECT


async def test_a_gold_that_reads_like_a_refusal_can_be_given() -> None:
    found = await say("exact-match", "unknown", item(answers=("Unknown",)))
    assert (found.correct, found.abstained) == (True, False)


@each_row(
    ("value", "correct", "state"),
    [
        (1.0, True, State.CORRECT),
        (0.5, False, State.PARTIAL),
        (0.0, False, State.INCORRECT),
        (None, None, State.UNSCORED),
    ],
)
def test_a_state_follows_from_the_value(value: float | None, correct: bool | None, state: State) -> None:
    assert state_of(Verdict(evaluator="x", value=value, correct=correct), answerable=True) is state


def test_no_verdict_at_all_is_measured() -> None:
    assert state_of(None, answerable=True) is State.MEASURED


async def test_locomo_scores_by_category_and_never_rewards_the_trap() -> None:
    adversarial = item(answers=(), metadata={"category": 5, "trap": "Paris"})
    assert (await say("locomo-f1", "Paris", adversarial)).value == 0
    absent = await say("locomo-f1", "Not mentioned in the conversation", adversarial)
    assert (absent.value, absent.abstained) == (1, False)
    multi = item(answers=("tea, coffee",), question_type="multi-hop")
    assert (await say("locomo-f1", "tea, coffee", multi)).value == 1
    assert (await say("locomo-f1", "Paris", item())).reason == "no_category"


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
async def test_the_first_option_that_stands_alone_is_the_choice(answer: str, value: float | None) -> None:
    about = item(answers=(), choices=("Rome", "Paris", "New York"), choice_answer="B")
    assert (await say("mcq", answer, about)).value == value
    by_text = item(answers=(), choices=("Rome", "Paris", "New York"), choice_answer="Paris")
    assert (await say("mcq", answer, by_text)).value == value


async def test_a_choice_without_a_gold_is_not_scored() -> None:
    assert (await say("mcq", "A", item(choices=("x", "y")))).reason == "no_choice_answer"


def hit(content: str, *chunks: str) -> Hit:
    return Hit(id="h", content=content, chunks=chunks)


async def test_deletion_looks_through_hits_chunks_and_answer() -> None:
    about = item(answers=(), deletion=Deletion(target="s1", verify_query="code?", deleted_content="the code is 4411"))
    assert not needs_answer(opened("deletion-check"))
    assert (await say("deletion-check", "", about, (hit("something else"),))).value == 1
    assert (await say("deletion-check", "", about, (hit("x", "The  code is 4411."),))).value == 0
    assert (await say("deletion-check", "so the code is 4411", about)).value == 0
    words = (hit("is 4411 the code"),)
    assert (await say("deletion-check", "", about, words)).value == 1
    assert (await say("deletion-check", "", about, words, fuzzy_match=True)).value == 0
    assert (await say("deletion-check", "", item())).reason == "no_deletion"


def test_none_evaluates_nothing() -> None:
    assert open_evaluator("none") is None


@each_row(
    ("name", "config", "text"),
    [
        ("exact-mach", {}, "exact-match"),
        ("exact-match", {"case_sensitiv": True}, "case_sensitive"),
        ("exact-match", {"case_sensitive": "yes"}, "true or false"),
        ("token-f1", {"variant": "bleu"}, "squad"),
        ("token-f1", {"threshold": "high"}, "number"),
        ("semantic-similarity", {}, "--embedding-model"),
        ("mcq", {"x": 1}, "known keys: none"),
    ],
)
def test_a_wrong_evaluator_is_a_config_error_with_its_place(name: str, config: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_evaluator(name, config=config, where="b.yaml:9:1")
    assert caught.value.where == "b.yaml:9:1"
    assert text in f"{caught.value} {caught.value.hint}"


def test_defaults_of_thresholds() -> None:
    assert [threshold_of(opened(name)) for name in ("exact-match", "contains", "token-f1", "locomo-f1")] == [1.0] * 4


async def test_any_refusal_is_right_where_nothing_can_be_answered_though_locomo_knows_two_phrases() -> None:
    adversarial = item(question_type="adversarial", abstention=True, answers=())
    refusal = await say("locomo-f1", "I don't know.", adversarial)
    assert (refusal.value, refusal.correct, refusal.abstained) == (0.0, True, False)
    assert state_of(refusal, answerable=False) is State.CORRECT
    assert (await say("locomo-f1", "I don't know.", item(question_type="multi-hop"))).abstained
