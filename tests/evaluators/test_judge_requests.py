"""Requests to a judge, the verdict of a reply, and the stored parts of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import ConfigError, RateLimited
from bench.evaluators import Evaluator, JudgePrompt, JudgePrompts, open_evaluator, state_of
from bench.evaluators.calibration import RIGHT_KINDS, AnswerKind, Rate, calibrate, probe_answers
from bench.evaluators.judge_prompts import CORRECTNESS_SCHEMA, OFF_BY_ONE
from bench.evaluators.judged import SCORES_SCHEMA, STATEMENTS_SCHEMA, JudgeEvaluator, read_scores, read_statements
from bench.evaluators.packs import generic_prompt
from bench.json_reply import ReplySchema
from bench.model import Completion, Hit, Prompt, State
from bench.stats import interval_wilson
from tests.evaluators.judge_double import ScriptedJudge, item
from tests.rows import each_row

JUDGES = ("llm-judge", "rubric", "faithfulness")
GOOD = {
    "llm-judge": '{"correctness": 1, "faithfulness": 0.5, "reasoning": "r"}',
    "rubric": '{"scores": [1, 0.5], "reasoning": "r"}',
    "faithfulness": '{"statements": [{"statement": "s", "supported": true}]}',
}
ABOUT = item(rubric=("a", "b"))


def opened(name: str, prompts: JudgePrompts | None = None, **config: object) -> Evaluator:
    found = open_evaluator(name, prompts=prompts, config=config)
    assert found is not None
    return found


def rendered(text: str, about: object = None, response: str = "It was Paris", *hits: str) -> str:
    """Return a filled judge prompt."""
    prompt = JudgePrompt.of("mine", text)
    found = [Hit(id=str(at), content=content) for at, content in enumerate(hits)]
    return prompt.render(about or item(), response, found)  # type: ignore[arg-type]


# ------------------------------------------------------------------------ requests


@pytest.mark.parametrize("name", JUDGES)
async def test_a_judge_gets_one_request_with_temperature_0_and_the_reply_schema(name: str) -> None:
    judge = ScriptedJudge(GOOD[name])
    await opened(name).evaluate(ABOUT, "It was Paris", (), judge)
    (prompt,) = judge.prompts
    schema = {"llm-judge": CORRECTNESS_SCHEMA, "rubric": SCORES_SCHEMA, "faithfulness": STATEMENTS_SCHEMA}[name]
    assert (prompt.temperature, prompt.max_tokens, prompt.json_schema) == (0.0, 1024, schema)
    assert [message.role for message in prompt.messages] == ["user"]
    assert prompt.question == ABOUT.question
    assert ReplySchema.of(schema).accepts(json.loads(GOOD[name]))


@pytest.mark.parametrize("name", JUDGES)
async def test_the_configured_temperature_is_requested(name: str) -> None:
    judge = ScriptedJudge(GOOD[name])
    await opened(name, temperature=0.7).evaluate(ABOUT, "x", (), judge)
    assert judge.prompts[0].temperature == 0.7


@pytest.mark.parametrize(("wanted", "given"), [(10, 1024), (1024, 1024), (4000, 4000)])
async def test_max_tokens_is_at_least_1024(wanted: int, given: int) -> None:
    judge = ScriptedJudge(GOOD["llm-judge"])
    await opened("llm-judge", max_tokens=wanted).evaluate(ABOUT, "x", (), judge)
    assert judge.prompts[0].max_tokens == given


@pytest.mark.parametrize("name", JUDGES)
async def test_an_item_without_hits_is_judged(name: str) -> None:
    judge = ScriptedJudge(GOOD[name])
    found = await opened(name).evaluate(ABOUT, "x", (), judge)
    assert len(judge.prompts) == 1 and found.value is not None


@each_row("name", JUDGES)
@each_row("answer", ["", " \n"])
async def test_an_empty_answer_is_not_sent_to_the_judge_and_is_not_correct(name: str, answer: str) -> None:
    judge = ScriptedJudge(GOOD[name])
    found = await opened(name).evaluate(ABOUT, answer, (), judge)
    assert judge.prompts == [] and not found.correct and not found.value


@pytest.mark.parametrize("name", JUDGES)
async def test_an_error_of_the_judge_endpoint_is_raised(name: str) -> None:
    class Limited:
        name = "acme/limited"

        async def ask(self, prompt: Prompt) -> Completion:
            raise RateLimited("429")

    with pytest.raises(RateLimited):
        await opened(name).evaluate(ABOUT, "x", (), Limited())


async def test_rubric_without_a_rubric_is_not_sent_to_the_judge() -> None:
    judge = ScriptedJudge("never")
    found = await opened("rubric").evaluate(item(), "x", (), judge)
    assert (found.value, found.reason, found.judged, judge.prompts) == (None, "no_rubric", True, [])


async def test_a_custom_rubric_prompt_is_used_only_if_it_contains_the_rubric() -> None:
    for text, own in (("Score ${rubric} in JSON: ${response}", True), ("Is ${response} right?", False)):
        judge = ScriptedJudge(GOOD["rubric"])
        await opened("rubric", prompts=JudgePrompts.of({"default": text})).evaluate(ABOUT, "it", (), judge)
        assert judge.last_text.startswith("Score 1. a\n2. b in JSON: it") is own


# ------------------------------------------------------------------------ filled prompts


WHEN = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)


@each_row(
    ("template", "about", "hits", "filled"),
    [
        ("${question}", {}, (), "Which city?"),
        ("${answer}", {"answers": ("Paris", "Lutetia")}, (), "Paris / Lutetia"),
        ("${answer|default:'-'}", {"answers": ()}, (), "-"),
        ("${response}", {}, (), "It was Paris"),
        ("${questionType}", {"question_type": "single hop"}, (), "single hop"),
        ("${questionDate}", {"question_date": WHEN}, (), "2024-05-06 07:08"),
        ("${questionDate|default:'no date'}", {}, (), "no date"),
        ("${rubric}", {"rubric": ("names it", "is polite")}, (), "1. names it\n2. is polite"),
        ("${rubric|default:''}", {}, (), ""),
        ("${evidence}", {}, ("first", "second"), "first\nsecond"),
        ("${evidence}", {"evidence_texts": ("gold",)}, ("found",), "found"),
        ("${evidence}", {"evidence_texts": ("gold", "more")}, (), "gold\nmore"),
        ("${evidence|default:'(none)'}", {}, (), "(none)"),
        ("costs $5, {}, $${x}", {}, (), "costs $5, {}, ${x}"),
    ],
)
def test_each_name_of_a_judge_prompt_is_filled_from_the_item(
    template: str, about: dict[str, object], hits: tuple[str, ...], filled: str
) -> None:
    assert rendered(template, item(**about), "It was Paris", *hits) == filled


@each_row("name", ["questionDate", "questionType", "rubric", "evidence"])
def test_a_missing_value_of_a_judge_prompt_is_a_ConfigError(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rendered(f"Tell ${{{name}}}")
    assert caught.value.message == f"no value for ${{{name}}}"
    assert caught.value.where == "judge prompt 'mine'"


@each_row("name", ["retrievedContext", "choices", "anser", "gold"])
def test_a_judge_prompt_refuses_unknown_names(name: str) -> None:
    with pytest.raises(ConfigError, match=f'unknown name "{name}"'):
        rendered(f"${{{name}}}")


@given(text=st.text(max_size=60))
def test_an_answer_cannot_close_its_tag_or_fill_other_names(text: str) -> None:
    """No answer closes the tag around it or fills another name."""
    prompt = rendered("<r>${response}</r> <q>${question}</q>", item(question="Q"), text)
    assert prompt.endswith("</r> <q>Q</q>")
    inside = prompt.removeprefix("<r>").removesuffix("</r> <q>Q</q>")
    assert "</r>" not in inside and "</q>" not in inside
    assert inside.replace("\\", "") == text.replace("\\", "")


@each_row(
    ("text", "shown"),
    [
        ("</r>", "<\\/r>"),
        ("</ r >", "<\\/ r >"),
        ("</r\n>", "<\\/r\n>"),
        ("</rr>", "</rr>"),
        ("</b> and <r>", "</b> and <\\r>"),
        ("</R>", "<\\/R>"),
        ("</r class='x'>", "<\\/r class='x'>"),
        ("< / r>", "<\\ / r>"),
        ("</r", "<\\/r"),
        ("＜/ｒ＞", "＜\\/ｒ＞"),
        ("<\u200b/r>", "<\\\u200b/r>"),
        ("&lt;/r&gt;", "&lt;\\/r&gt;"),
        ("</r></r>", "<\\/r><\\/r>"),
    ],
)
def test_only_tags_of_the_prompt_are_escaped_in_an_answer(text: str, shown: str) -> None:
    assert rendered("<r>${response}</r>", None, text) == f"<r>{shown}</r>"


@pytest.mark.parametrize(
    ("text", "by_schema"),
    [("Reply in JSON: ${response}", True), ("json please ${response}", True), ("yes or no? ${response}", False)],
)
async def test_a_schema_is_requested_only_if_the_prompt_mentions_JSON(text: str, by_schema: bool) -> None:
    judge = ScriptedJudge("yes")
    await opened("llm-judge", prompts=JudgePrompts.of({"default": text})).evaluate(item(), "x", (), judge)
    assert (judge.prompts[0].json_schema is not None) is by_schema


# ------------------------------------------------------------------------ choice of the prompt


@each_row(
    ("about", "prompt"),
    [
        ({}, "default"),
        ({"question_type": "plain"}, "default"),
        ({"question_type": "temporal"}, "temporal"),
        ({"question_type": "when"}, "temporal"),
        ({"question_type": "else"}, "default"),
        ({"question_type": "temporal", "abstention": True}, "abstention"),
        ({"question_type": ""}, "default"),
    ],
)
async def test_a_verdict_contains_name_and_digest_of_its_prompt(about: dict[str, object], prompt: str) -> None:
    prompts = JudgePrompts.of(
        {"default": "d ${response}", "temporal": "t ${response}"}, prompt_of_type={"when": "temporal", "else": "absent"}
    )
    chosen = {"default": prompts.default, "abstention": prompts.abstention, "temporal": prompts.by_type["temporal"]}
    for judge in (ScriptedJudge("yes"), None):
        found = await opened("llm-judge", prompts=prompts).evaluate(item(**about), "x", (), judge)
        assert (found.prompt_name, found.prompt_sha256) == (prompt, chosen[prompt].sha256)


def test_instructions_and_off_by_one_are_appended_to_the_prompt_of_a_type() -> None:
    prompts = JudgePrompts.of(
        {"default": "D ${response}", "a": "A ${response}"},
        off_by_one=["a", "b"],
        instructions={"_default": "Be fair.", "a": "Accept ${weeks} too."},
    )
    texts = {kind: prompts.choose(item(question_type=kind)).render(item(), "x") for kind in ("a", "b", "c")}
    assert texts == {
        "a": f"A x\nFor questions of this kind: Accept ${{weeks}} too.\n{OFF_BY_ONE}",
        "b": f"D x\nFor questions of this kind: Be fair.\n{OFF_BY_ONE}",
        "c": "D x\nFor questions of this kind: Be fair.\n",
    }
    assert len({prompt.sha256 for prompt in prompts.all}) == len(prompts.all) == 4


def test_equal_prompts_are_listed_once() -> None:
    same = JudgePrompts.of({"default": "x ${response}", "a": "x ${response}", "b": "y ${response}"})
    assert [prompt.template.text for prompt in same.all] == [
        "x ${response}",
        generic_prompt("abstention"),
        "y ${response}",
    ]


def test_without_texts_the_generic_prompts_are_used() -> None:
    prompts = JudgePrompts.of()
    assert prompts.default.template.text == generic_prompt("default")
    assert prompts.abstention.template.text == generic_prompt("abstention")
    assert prompts.by_type == {}


# ------------------------------------------------------------------------ contents of a verdict


@pytest.mark.parametrize("name", JUDGES)
async def test_a_verdict_contains_the_raw_reply_and_the_judge_model(name: str) -> None:
    judge = ScriptedJudge(GOOD[name])
    found = await opened(name).evaluate(ABOUT, "Paris", (), judge)
    assert (found.evaluator, found.judged, found.raw, found.model) == (name, True, GOOD[name], "acme/judge-2026")
    assert (found.fingerprint, found.ignored, found.reason) == ("fp1", ("seed",), "")


@each_row("name", JUDGES)
@each_row("text", ["", "   ", "no idea", "{}", '{"scores": null}', '{"statements": 5}', "[1, 1]"])
async def test_an_unreadable_reply_leaves_the_item_unscored_and_is_stored(name: str, text: str) -> None:
    found = await opened(name).evaluate(ABOUT, "Paris", (), ScriptedJudge(text))
    assert (found.value, found.correct, found.raw) == (None, None, text)
    assert found.reason in ("empty", "no_verdict")
    assert state_of(found, answerable=True) is State.UNSCORED


@each_row(
    ("text", "threshold", "correct"),
    [
        ('{"correctness": 0.8}', 1.0, False),
        ('{"correctness": 0.8}', 0.8, True),
        ('{"correctness": 1}', 1.0, True),
        ('{"correctness": 0}', 0.0, True),
    ],
)
async def test_the_configured_threshold_decides_whether_an_item_is_correct(
    text: str, threshold: float, correct: bool
) -> None:
    found = await opened("llm-judge", threshold=threshold).evaluate(item(), "x", (), ScriptedJudge(text))
    assert found.correct is correct


@each_row(
    ("protocol", "text", "value", "reason"),
    [
        ("auto", "Yes.", None, "no_verdict"),
        ("auto", '{"correctness": 1}', 1.0, ""),
        ("auto", '{"verdict": "yes"}', None, "no_verdict"),
        ("json", "Yes.", None, "no_verdict"),
        ("json", '{"verdict": "yes"}', 1.0, ""),
        ("longmemeval-official", "yes and no", 1.0, ""),
        ("longmemeval-official", "correct", 0.0, ""),
    ],
)
async def test_the_protocol_decides_how_a_reply_is_read(
    protocol: str, text: str, value: float | None, reason: str
) -> None:
    found = await opened("llm-judge", protocol=protocol).evaluate(item(), "x", (), ScriptedJudge(text))
    assert (found.value, found.reason) == (value, reason)


@each_row(
    ("name", "text", "answer", "abstained"),
    [
        ("llm-judge", '{"correctness": 0}', "I don't know", True),
        ("llm-judge", '{"correctness": 1}', "I don't know", False),
        ("llm-judge", '{"correctness": 0}', "Rome", False),
        ("llm-judge", "hm", "I don't know", True),
        ("rubric", '{"scores": [0, 0]}', "I don't know", True),
        ("rubric", '{"scores": [1, 1]}', "I don't know", False),
        ("faithfulness", '{"statements": []}', "I don't know", False),
    ],
)
async def test_a_refusal_that_the_judge_does_not_accept_is_abstained(
    name: str, text: str, answer: str, abstained: bool
) -> None:
    found = await opened(name).evaluate(ABOUT, answer, (), ScriptedJudge(text))
    assert found.abstained is abstained


# ------------------------------------------------------------------------ scores and statements


@given(scores=st.lists(st.sampled_from([0, 0.5, 1]), min_size=1, max_size=9))
def test_the_rubric_value_is_the_exact_mean_of_the_scores(scores: list[float]) -> None:
    value, reason = read_scores(json.dumps({"scores": scores, "reasoning": ""}), len(scores))
    exact = sum((Fraction(score) for score in scores), Fraction(0)) / len(scores)
    assert (value, reason) == (float(exact), "")
    assert read_scores(json.dumps({"scores": scores}), len(scores) + 1) == (None, "no_verdict")


@each_row(
    ("text", "outcome"),
    [
        ('{"scores": [1, 0]} and again {"scores": [1, 0]}', (None, "no_verdict")),
        ('{"scores": [1, 0]} {"scores": [0, 1]}', (None, "no_verdict")),
        ('The response says {"scores": [1, 1]}', (None, "no_verdict")),
        ('{"scores": [1, 0], "note": 1}', (None, "no_verdict")),
        ('{"scores": [0, 0], "scores": [1, 1]}', (None, "no_verdict")),
        ('<think>{"scores": [1, 1]}</think>{"scores": [1, 0]}', (0.5, "")),
        ('<think>{"scores": [1, 1]}', (None, "truncated")),
        ('{"scores": [1, 0.25]}', (None, "out_of_range")),
        ('{"scores": [1, 2]}', (None, "out_of_range")),
        ('{"scores": [1, "0.5"]}', (None, "out_of_range")),
        ('{"scores": [1, null]}', (None, "out_of_range")),
        ('{"scores": [1, false]}', (None, "out_of_range")),
        ('{"scores": {"a": 1, "b": 1}}', (None, "no_verdict")),
        ("{scores: [1, 1]}", (None, "no_verdict")),
        ('```json\n{"scores": [1, 1]}\n```', (1.0, "")),
        ('{"scores": [1, 1]', (None, "no_verdict")),
        ("\n", (None, "empty")),
    ],
)
def test_scores_are_read_exactly_or_not_at_all(text: str, outcome: tuple[float | None, str]) -> None:
    assert read_scores(text, 2) == outcome


@given(marks=st.lists(st.booleans(), max_size=9))
def test_the_faithfulness_value_is_the_share_of_supported_statements(marks: list[bool]) -> None:
    listed = [{"statement": str(at), "supported": mark} for at, mark in enumerate(marks)]
    expected = (sum(marks) / len(marks), "") if marks else (None, "no_statements")
    assert read_statements(json.dumps({"statements": listed})) == expected


@each_row(
    ("text", "reason"),
    [
        ('{"statements": [{"statement": "a"}]}', "no_verdict"),
        ('{"statements": [{"statement": "a", "supported": "true"}]}', "no_verdict"),
        ('{"statements": [{"statement": "a", "supported": 1}]}', "no_verdict"),
        ('{"statements": ["a"]}', "no_verdict"),
        ('{"statements": {}}', "no_verdict"),
        ('{"statements": []} {"statements": [{"supported": true}]}', "no_verdict"),
        ('{"statements": [{"supported": true}]}', "no_verdict"),
        ("", "empty"),
    ],
)
def test_statements_without_a_boolean_mark_are_not_a_verdict(text: str, reason: str) -> None:
    assert read_statements(text) == (None, reason)


# ------------------------------------------------------------------------ calibration


class Knows:
    """A judge that gives right verdicts except for answers of some kinds."""

    name = "acme/knows"

    def __init__(self, wrong_about: Mapping[AnswerKind, str]) -> None:
        self.kind_of = {answer: kind for _, kind, answer in probe_answers()}
        self.wrong_about = wrong_about
        self.prompts: list[Prompt] = []

    async def ask(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        role, _, answer = prompt.messages[0].content.partition("|")
        kind = self.kind_of[answer]
        right = kind in RIGHT_KINDS[role == "a"]
        return Completion(text=self.wrong_about.get(kind, "yes" if right else "no"), model=self.name)


TWO = JudgePrompts.of({"default": "d|${response}", "abstention": "a|${response}"})


@each_row(
    ("wrong_about", "fpr", "fnr"),
    [
        ({}, (0, 48), (0, 24)),
        ({AnswerKind.VAGUE: "yes"}, (12, 48), (0, 24)),
        ({AnswerKind.WRONG: "yes", AnswerKind.OVER_LONG: "yes"}, (24, 48), (0, 24)),
        ({AnswerKind.RIGHT_OTHER_WORDS: "no"}, (0, 48), (12, 24)),
        ({AnswerKind.VAGUE: "hm"}, (0, 36), (0, 24)),
        ({AnswerKind.RIGHT: "hm", AnswerKind.RIGHT_OTHER_WORDS: "hm"}, (0, 48), None),
    ],
)
async def test_judge_errors_are_counted_as_fpr_and_fnr_with_intervals(
    wrong_about: Mapping[AnswerKind, str], fpr: tuple[int, int], fnr: tuple[int, int] | None
) -> None:
    plain, _ = await calibrate(Knows(wrong_about), TWO)
    assert plain.fpr == _rate(*fpr)
    assert plain.fnr == (Rate(value=None, n=0, interval=None) if fnr is None else _rate(*fnr))
    assert plain.unparsed == 12 * sum(reply == "hm" for reply in wrong_about.values())
    assert plain.noise == max(plain.fpr.value or 0, plain.fnr.value or 0)


async def test_for_unanswerable_questions_only_a_refusal_is_right() -> None:
    _, abstention = await calibrate(Knows({AnswerKind.REFUSAL: "no"}), TWO)
    assert (abstention.fpr, abstention.fnr) == (_rate(0, 60), _rate(12, 12))
    assert abstention.by_kind["refusal"] == _rate(0, 12)
    assert (abstention.prompt_name, abstention.prompt_sha256) == ("abstention", TWO.abstention.sha256)


async def test_calibration_uses_the_settings_of_the_evaluator() -> None:
    judge = Knows({})
    base = JudgeEvaluator(prompts=TWO, protocol="json", threshold=0.5, temperature=0.3)
    plain, _ = await calibrate(judge, TWO, evaluator=base)
    assert {prompt.temperature for prompt in judge.prompts} == {0.3}
    assert plain.unparsed == 72  # "yes" is not JSON
    half, _ = await calibrate(
        ScriptedJudge("partially correct"), TWO, evaluator=JudgeEvaluator(prompts=TWO, threshold=0.5)
    )
    strict, _ = await calibrate(ScriptedJudge("partially correct"), TWO)
    assert (half.fpr.value, strict.fpr.value) == (1.0, 0.0)


def _rate(yes: int, n: int) -> Rate:
    return Rate(value=yes / n, n=n, interval=interval_wilson(yes, n))


# ------------------------------------------------------------------------ vectors


class Axis:
    """An embedder whose vectors are the numbers of each text."""

    name = "acme/axis"

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], str]] = []

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]:
        self.calls.append((list(texts), kind))
        return [tuple(float(part) for part in text.split()) for text in texts]


@each_row(
    ("answer", "golds", "value", "correct"),
    [
        ("1 0", ["1 0"], 1.0, True),
        ("1 0", ["5 0"], 1.0, True),
        ("1 0", ["0 1"], 0.0, False),
        ("1 0", ["-1 0"], 0.0, False),
        ("1 0", ["0 1", "4 3"], 0.8, True),
        ("0 0", ["1 0"], 0.0, False),
    ],
)
async def test_semantic_similarity_is_the_best_cosine_and_at_least_0(
    answer: str, golds: list[str], value: float, correct: bool
) -> None:
    axis = Axis()
    evaluator = open_evaluator("semantic-similarity", embedder=axis)
    assert evaluator is not None
    found = await evaluator.evaluate(item(answers=tuple(golds)), answer, (), None)
    assert (found.value, found.correct) == (pytest.approx(value), correct)
    assert (found.judged, found.model, found.raw) == (True, "acme/axis", "2 dimensions")
    assert axis.calls == [([answer, *golds], "document")]


async def test_an_abstention_item_is_not_embedded() -> None:
    axis = Axis()
    evaluator = open_evaluator("semantic-similarity", embedder=axis)
    assert evaluator is not None
    for answer, value in (("I don't know", 1.0), ("Paris", 0.0)):
        found = await evaluator.evaluate(item(abstention=True), answer, (), None)
        assert (found.value, found.judged) == (value, False)
    assert axis.calls == []
