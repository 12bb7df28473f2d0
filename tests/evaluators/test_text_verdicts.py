"""Verdicts by comparison: equality, refusals, and options."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import ConfigError
from bench.evaluators import Evaluator, is_refusal, open_evaluator, state_of
from bench.evaluators.registry import BUILT_IN
from bench.metrics import score
from bench.model import JUDGED, Deletion, Hit, State, Verdict
from tests.evaluators.judge_double import ScriptedJudge, item
from tests.rows import each_row

WORDS = st.text("abcxyz ", min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
TEXTS = st.text(max_size=30)


def opened(name: str, **config: object) -> Evaluator:
    found = open_evaluator(name, config=config)
    assert found is not None
    return found


async def verdict_of(
    name: str, answer: str, golds: Sequence[str], *, abstention: bool = False, **config: object
) -> Verdict:
    about = item(answers=tuple(golds), abstention=abstention)
    return await opened(name, **config).evaluate(about, answer, (), None)


# ------------------------------------------------------------------------ what is equal


@each_row("name", ["exact-match", "contains", "token-f1"])
@each_row("answer", ["None", "", "NaN"])
async def test_s10_an_answer_of_None_or_empty_text_does_not_match_a_reference_of_0(name: str, answer: str) -> None:
    found = await verdict_of(name, answer, ["0"])
    assert (found.value, found.correct) == (0.0, False)


@each_row(
    ("name", "config", "answer", "gold", "value"),
    [
        ("exact-match", {}, "PARIS", "paris", 1.0),
        ("exact_match", {}, "Paris", "Paris", 1.0),
        ("exact-match", {}, "New\t \nYork ", "new york", 1.0),
        ("exact-match", {}, "Paris.", "Paris", 0.0),
        ("exact-match", {}, "the Paris", "Paris", 0.0),
        ("exact-match", {"variant": "squad"}, "The Paris.", "paris", 1.0),
        ("exact-match", {"variant": "squad"}, "Lyon", "paris", 0.0),
        ("exact-match", {"case_sensitive": True}, "paris", "Paris", 0.0),
        ("exact-match", {"normalize_whitespace": False}, "a  b", "a b", 0.0),
        ("exact-match", {}, "caf\u00e9", "cafe\u0301", 1.0),
        ("exact-match", {"unicode": "none"}, "caf\u00e9", "cafe\u0301", 0.0),
        ("exact-match", {"unicode": "nfc"}, "caf\u00e9", "cafe\u0301", 1.0),
        ("exact-match", {"unicode": "nfc"}, "\ufb01n", "fin", 0.0),
        ("exact-match", {"unicode": "nfkc"}, "\ufb01n", "fin", 1.0),
        ("exact-match", {}, "\ufeffParis", "Paris", 1.0),
        ("exact-match", {}, "2022", "2022", 1.0),
        ("contains", {}, "She lives in New   York now", "new york", 1.0),
        ("contains", {}, "in Yorkshire", "York", 0.0),
        ("contains", {}, "it costs 25 euros", "2", 0.0),
        ("contains", {}, "it costs 25 euros", "25", 1.0),
        ("contains", {"word_boundary": False}, "in Yorkshire", "York", 1.0),
        ("contains", {"case_sensitive": True}, "in york", "York", 0.0),
        ("contains", {}, "C++ it is", "C++", 1.0),
        ("contains", {}, "a.b", "a.b", 1.0),
        ("contains", {}, "axb", "a.b", 0.0),
        ("token-f1", {}, "Paris", "Paris", 1.0),
        ("token-f1", {}, "the city of Paris", "Paris", pytest.approx(0.5)),
        ("token-f1", {}, "Rome", "Paris", 0.0),
    ],
)
async def test_text_comparison_uses_the_configured_options(
    name: str, config: dict[str, object], answer: str, gold: str, value: float
) -> None:
    found = await verdict_of(name, answer, [gold], **config)
    assert found.value == value
    assert (found.correct, found.abstained, found.judged, found.reason) == (value == 1.0, False, False, "")


@given(answer=WORDS, gold=WORDS)
async def test_exact_match_is_symmetric_and_ignores_case(answer: str, gold: str) -> None:
    there, back = await verdict_of("exact-match", answer, [gold]), await verdict_of("exact-match", gold, [answer])
    louder = await verdict_of("exact-match", answer.upper(), [gold])
    assert there.value == back.value == louder.value == float(answer.split() == gold.split())


@given(gold=WORDS, before=WORDS, after=WORDS)
async def test_contains_finds_a_reference_between_other_words(gold: str, before: str, after: str) -> None:
    around = f"{before} {gold} {after}"
    assert (await verdict_of("contains", around, [gold])).value == 1
    assert (await verdict_of("exact-match", gold, [gold])).value == 1
    assert (await verdict_of("exact-match", around, [gold])).value == 0


@given(answer=WORDS, golds=st.lists(WORDS, min_size=1, max_size=4))
@pytest.mark.parametrize("name", ["exact-match", "contains", "token-f1"])
async def test_the_best_of_several_references_counts_in_any_order(name: str, answer: str, golds: list[str]) -> None:
    single = [(await verdict_of(name, answer, [gold])).value for gold in golds]
    assert (await verdict_of(name, answer, golds)).value == max(value for value in single if value is not None)
    assert (await verdict_of(name, answer, golds[::-1])).value == (await verdict_of(name, answer, golds)).value


@given(answer=TEXTS, gold=TEXTS)
@pytest.mark.parametrize(
    ("name", "metric"), [("exact-match", "exact_match"), ("contains", "contains_match"), ("token-f1", "token_f1")]
)
async def test_a_text_verdict_equals_the_metric_of_its_name(name: str, metric: str, answer: str, gold: str) -> None:
    assert (await verdict_of(name, answer, [gold])).value == score(metric, prediction=answer, references=[gold])


@given(text=TEXTS)
async def test_unicode_nfc_treats_composed_and_decomposed_letters_as_equal(text: str) -> None:
    taken_apart = unicodedata.normalize("NFD", text)
    assert (await verdict_of("exact-match", taken_apart, [text], unicode="nfc")).value == 1


async def test_a_reference_without_letters_is_ignored() -> None:
    """An empty text is part of every answer, so every answer would be correct."""
    found = await verdict_of("contains", "anything", ["  "])
    assert (found.value, found.correct, found.reason) == (None, None, "no_reference")
    assert (await verdict_of("contains", "anything", ["", "any"])).value == 0


@each_row(("threshold", "correct"), [(1.0, False), (0.5, True), (0.51, False), (0.0, True)])
async def test_token_f1_is_correct_from_its_threshold(threshold: float, correct: bool) -> None:
    found = await verdict_of("token-f1", "the city of Paris", ["Paris"], threshold=threshold)
    assert (found.value, found.correct) == (pytest.approx(0.5), correct)


# ------------------------------------------------------------------------ refusals


@each_row("name", ["exact-match", "contains", "token-f1"])
@each_row("answer", ["Not mentioned", "I don't know.", "The memories do not say."])
async def test_a_refusal_is_correct_only_for_an_abstention_item(name: str, answer: str) -> None:
    answerable = await verdict_of(name, answer, ["Paris"])
    assert (answerable.value, answerable.correct, answerable.abstained) == (0.0, False, True)
    assert state_of(answerable, answerable=True) is State.ABSTAINED
    for golds in ([], ["it was never said"]):
        right = await verdict_of(name, answer, golds, abstention=True)
        assert (right.value, right.correct, right.abstained) == (1.0, True, False)


@pytest.mark.parametrize("name", ["exact-match", "contains", "token-f1"])
async def test_an_answer_to_an_abstention_item_is_wrong(name: str) -> None:
    found = await verdict_of(name, "Paris", [], abstention=True)
    assert (found.value, found.correct, found.abstained) == (0.0, False, False)
    assert state_of(found, answerable=False) is State.INCORRECT


@each_row(
    "answer",
    ["I DON'T KNOW", "  i don’t   know  ", "**I don't know.**", "`I do not know`", "“I don't know”", "_I cannot say._",
     "Sorry, but I don't have any record of that.", "Unfortunately, there is no mention of it.", "I'm unsure",
     "I am not sure about it", "I honestly don't remember", "Insufficient information", "It is unknown.", "unclear",
     "The answer is not specified.", "This was never mentioned",
     "The context does not contain it", "The provided chat logs do not mention that", "Information did not include it",
     "n/a", "Unanswerable!", "I’m not sure", "Not mentioned in the conversation", "Sorry, I cannot answer that.",
     "There is no information about this.", "unknown", "The memories do not say.", "It was never mentioned", "N/A"],
)  # fmt: skip
def test_is_refusal_recognizes_decorated_and_shortened_refusals(answer: str) -> None:
    assert is_refusal(answer)


@each_row(
    "answer",
    ["He said: I don't know", "Paris. I don't know the street.", "Notable people", "No", "None", "Never", "Nothing",
     "not Paris", "unknown Pleasures was the album", "Unclear Skies by Ana", "I know", "I can tell you: Paris",
     "Sorry seems to be the hardest word", "The memory was about Paris", "Information desk", "0", "?", "n/a Paris",
     "\ufeff", "\n\t", "", " ", "Paris", "Paris, though I don't know the street", "Not on Monday", "No idea was better",
     "I know it: Paris"],
)  # fmt: skip
def test_is_refusal_does_not_match_answers_that_resemble_refusals(answer: str) -> None:
    assert not is_refusal(answer)


# ------------------------------------------------------------------------ states


@each_row(
    ("value", "correct", "abstained", "answerable", "threshold", "state"),
    [
        (1.0, True, False, True, 1.0, State.CORRECT),
        (0.9, False, False, True, 1.0, State.PARTIAL),
        (0.9, None, False, True, 0.8, State.CORRECT),
        (0.9, None, False, True, 0.95, State.PARTIAL),
        (0.0, False, False, True, 1.0, State.INCORRECT),
        (0.0, False, True, True, 1.0, State.ABSTAINED),
        (0.4, False, True, True, 1.0, State.ABSTAINED),
        (0.0, False, True, False, 1.0, State.INCORRECT),
        (1.0, True, False, False, 1.0, State.CORRECT),
        (0.0, True, False, False, 1.0, State.CORRECT),
        (None, None, True, True, 1.0, State.UNSCORED),
        (None, None, False, False, 1.0, State.UNSCORED),
    ],
)
def test_state_of_depends_on_value_refusal_and_threshold(
    value: float | None, correct: bool | None, abstained: bool, answerable: bool, threshold: float, state: State
) -> None:
    verdict = Verdict(evaluator="x", value=value, correct=correct, abstained=abstained)
    assert state_of(verdict, answerable=answerable, threshold=threshold) is state


@given(value=st.floats(0, 1), threshold=st.floats(0.01, 1))
def test_a_scored_value_is_correct_partial_or_incorrect(value: float, threshold: float) -> None:
    state = state_of(Verdict(evaluator="x", value=value, correct=None), answerable=True, threshold=threshold)
    expected = State.CORRECT if value >= threshold else State.PARTIAL if value > 0 else State.INCORRECT
    assert state is expected


# ------------------------------------------------------------------------ LoCoMo, choices, deletions


@each_row(
    ("category", "answer", "gold", "value"),
    [
        (2, "7 May 2023", "7 May 2023", 1.0),
        (3, "yes", "yes; she said so", 1.0),
        (4, "Paris", "Rome", 0.0),
        (1, "tea", "tea, coffee", 0.5),
        (5, "Paris", "", 0.0),
        (5, "No information available", "", 1.0),
        ("4", "Paris", "Paris", 1.0),
    ],
)
async def test_locomo_f1_scores_by_category(category: object, answer: str, gold: str, value: float) -> None:
    about = item(answers=(gold,) if gold else (), metadata={"category": category})
    found = await opened("locomo-f1").evaluate(about, answer, (), None)
    assert found.value == pytest.approx(value)


@each_row("metadata", [{}, {"category": 9}, {"category": None}, {"category": "music"}])
async def test_locomo_f1_does_not_score_an_unknown_category(metadata: dict[str, object]) -> None:
    found = await opened("locomo-f1").evaluate(item(metadata=metadata), "Paris", (), None)
    assert (found.value, found.reason) == (None, "no_category")


@each_row(
    ("answer", "abstention", "value", "reason", "abstained"),
    [
        ("I don't know", False, 0.0, "", True),
        ("I don't know", True, 1.0, "", False),
        ("A or nothing", False, 0.0, "", False),
        ("none of them", False, 0.0, "no_choice", False),
        ("B", True, 1.0, "", False),
    ],
)
async def test_an_answer_without_a_choice_is_wrong_and_may_be_a_refusal(
    answer: str, abstention: bool, value: float | None, reason: str, abstained: bool
) -> None:
    about = item(answers=(), choices=("A or nothing", "Paris"), choice_answer="B", abstention=abstention)
    found = await opened("mcq").evaluate(about, answer, (), None)
    assert (found.value, found.reason, found.abstained) == (value, reason, abstained)


DELETED = "The code of the vault is 4411"


@each_row(
    ("hits", "answer", "config", "value"),
    [
        ((), "", {}, 1.0),
        (("Ana lives in Lisbon",), "She lives in Lisbon", {}, 1.0),
        ((DELETED,), "", {}, 0.0),
        ((f"Noted. {DELETED.upper()}!",), "", {}, 0.0),
        (("x", "y", DELETED), "", {}, 0.0),
        ((), f"I recall: {DELETED}", {}, 0.0),
        (("the vault code is of 4411 the",), "", {}, 1.0),
        (("the vault code is of 4411 the",), "", {"fuzzy_match": True}, 0.0),
        (("the vault code",), "", {"fuzzy_match": True}, 1.0),
        (("the vault code",), "", {"fuzzy_match": True, "fuzzy_threshold": 0.3}, 0.0),
    ],
)
async def test_deletion_check_is_1_if_no_deleted_text_remains(
    hits: tuple[str, ...], answer: str, config: dict[str, object], value: float
) -> None:
    about = item(answers=(), deletion=Deletion(target="s1", verify_query="code?", deleted_content=DELETED))
    found = await opened("deletion-check", **config).evaluate(
        about, answer, [Hit(id=str(at), content=text) for at, text in enumerate(hits)], None
    )
    assert (found.value, found.correct) == (value, value == 1)


async def test_deletion_check_of_an_empty_text_is_not_scored() -> None:
    about = item(answers=(), deletion=Deletion(target="s1", verify_query="code?", deleted_content=" "))
    found = await opened("deletion-check").evaluate(about, "x", (), None)
    assert (found.value, found.reason) == (None, "nothing_to_look_for")


# ------------------------------------------------------------------------ options


NUMBERS = ["threshold", "temperature", "max_tokens", "fuzzy_threshold", "time_limit_s"]
FLAGS = ["case_sensitive", "normalize_whitespace", "word_boundary", "fuzzy_match"]


class Nothing:
    name = "acme/none"

    async def embed(self, texts: Sequence[str], *, kind: str) -> list[tuple[float, ...]]:
        return [(1.0,) for _ in texts]


def wrong(name: str, key: str, value: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        open_evaluator(name, config={key: value}, embedder=Nothing(), where="b.yaml:9:1")
    assert caught.value.where == "b.yaml:9:1"
    return caught.value


@each_row("value", ["0.5", True, None, [1]])
@each_row(("name", "key"), [(name, key) for name, one in BUILT_IN.items() for key in one.keys if key in NUMBERS])
def test_a_number_option_must_be_a_number(name: str, key: str, value: object) -> None:
    assert wrong(name, key, value).message == f'evaluator {name}: "{key}" must be a number, not {value!r}'


@each_row("value", ["yes", 1, None])
@each_row(("name", "key"), [(name, key) for name, one in BUILT_IN.items() for key in one.keys if key in FLAGS])
def test_a_flag_option_must_be_a_boolean(name: str, key: str, value: object) -> None:
    assert wrong(name, key, value).message == f'evaluator {name}: "{key}" must be true or false, not {value!r}'


@each_row(
    ("name", "key", "value", "hint"),
    [
        ("exact-match", "variant", "loose", 'use "plain" or "squad"'),
        ("exact-match", "unicode", "nfd", 'use "none", "nfc" or "nfkc"'),
        ("contains", "unicode", True, 'use "none", "nfc" or "nfkc"'),
        ("llm-judge", "protocol", "xml", 'use "auto", "json" or "longmemeval-official"'),
    ],
)
def test_a_choice_option_must_be_one_of_its_values(name: str, key: str, value: object, hint: str) -> None:
    error = wrong(name, key, value)
    assert (error.message, error.hint) == (f"evaluator {name}: {key} = {value!r} is not allowed", hint)


@each_row(
    ("name", "key", "hint"),
    [
        ("exact-match", "variannt", 'did you mean "variant"?'),
        ("mcq", "anything", "known keys: none"),
        ("locomo-f1", "qqq", "known keys: threshold"),
        ("token-f1", "case_sensitive", "known keys: threshold, variant"),
    ],
)
def test_an_unknown_option_is_refused_with_a_hint(name: str, key: str, hint: str) -> None:
    error = wrong(name, key, 1)
    assert (error.message, error.hint) == (f'evaluator {name}: unknown key "{key}"', hint)


@each_row("name", BUILT_IN)
def test_every_evaluator_opens_without_options_under_its_name(name: str) -> None:
    found = open_evaluator(name, embedder=Nothing())
    assert found is not None
    assert (found.name, found.needs_judge) == (name, name in JUDGED)


@each_row("name", [name for name, one in BUILT_IN.items() if "threshold" in one.keys])
def test_every_configurable_threshold_is_used(name: str) -> None:
    found = open_evaluator(name, config={"threshold": 0.25}, embedder=Nothing())
    assert found is not None and getattr(found, "threshold") == 0.25  # noqa: B009  not part of the Protocol


async def test_rule_based_evaluators_make_no_judge_request() -> None:
    judge = ScriptedJudge("yes")
    for name in ("exact-match", "contains", "token-f1", "locomo-f1", "mcq", "deletion-check"):
        await opened(name).evaluate(item(), "Paris", (), judge)
    assert judge.prompts == []
