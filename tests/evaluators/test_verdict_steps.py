"""The steps of parse_verdict in their order, and replies that no step reads."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.evaluators import parse_verdict
from bench.evaluators.judge_parsing import KEYS, only_objects
from bench.evaluators.judge_prose import bare_word, value_of_word
from bench.reasoning_blocks import without_reasoning
from tests.rows import each_row

RIGHT = ("yes", "correct", "right", "true", "pass", "passed")
WRONG = ("no", "incorrect", "wrong", "false", "fail", "failed", "not correct")
PARTIAL = ("partial", "partially correct", "partly correct")
VALUES = {**dict.fromkeys(RIGHT, 1.0), **dict.fromkeys(WRONG, 0.0), **dict.fromkeys(PARTIAL, 0.5)}
WORD = st.sampled_from(sorted(VALUES))
PLAIN = st.text("bdghjkmqz ,.\n", max_size=40)
"""letters that cannot form a verdict word, a marker or a refusal"""


def read(text: str, **options: object) -> float | str | None:
    """Return the value, or the reason why it is missing."""
    got = parse_verdict(text, **options)  # type: ignore[arg-type]
    assert (got.state == "parsed") == (got.value is not None) == (got.correct is not None) == (got.reason is None)
    return got.value if got.state == "parsed" else got.reason


# ------------------------------------------------------------------------ words


@each_row("word", sorted(VALUES))
def test_every_verdict_word_is_read_in_each_form(word: str) -> None:
    value = VALUES[word]
    forms = [word, f"Verdict: {word}", f"{word}, because it says so", json.dumps({"verdict": word}), f"[[{word}]]"]
    assert [read(form) for form in forms] == [value] * 5
    assert [read(form.upper()) for form in forms] == [value] * 5


@given(
    word=WORD,
    before=st.text(" \t*_`\"'“‘«[({<>#~-–—", max_size=4),
    after=st.text(" \t*_`\"'”’»])}>#~.,!;:-–—", max_size=4),
)
def test_decoration_around_a_verdict_word_is_ignored(word: str, before: str, after: str) -> None:
    assert value_of_word(bare_word(f"{before}{word}{after}")) == VALUES[word]


@each_row(
    "text",
    ["yesterday", "eyes", "nope", "notcorrect", "truely", "passing", "failure", "incorrectly", "righteous", "wrongly",
     "yess", "partially", "partly", "correct answer", "yes no", "", "42"],
)  # fmt: skip
def test_words_that_contain_a_verdict_word_are_not_read(text: str) -> None:
    assert value_of_word(text) is None


@pytest.mark.parametrize(("text", "value"), [("not   correct", 0.0), ("PARTLY\tCORRECT", 0.5), ("  yes ", 1.0)])
def test_white_space_around_and_inside_verdict_words_is_ignored(text: str, value: float) -> None:
    assert value_of_word(text) == value


# ------------------------------------------------------------------------ nothing, reasoning


@each_row("text", [None, "", " ", "\n\t ", "<think>it is right</think>", "<reasoning>x</reasoning> \n"])
def test_a_reply_without_text_is_empty(text: str | None) -> None:
    assert parse_verdict(text).reason == "empty"


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "THINK"])
@given(thought=st.text(max_size=40).filter(lambda text: "<" not in text), word=WORD)
def test_reasoning_is_not_read_as_verdict(tag: str, thought: str, word: str) -> None:
    assert read(f"<{tag}>{thought} no</{tag}>{word}") == VALUES[word]
    assert read(f"{thought} no</{tag}> {word}") == VALUES[word]  # the opening tag was part of the prompt
    assert read(f"<{tag}>{thought} {word}") == "truncated"
    assert read(f'<{tag} lang="en">{{"correctness": 0}}</{tag}> {{"correctness": 1}}') == 1.0


def test_an_unclosed_reasoning_block_truncates_the_reply() -> None:
    assert read("<think>a</think> yes <think>but") == "truncated"
    assert read("<think>a</think> <think>b</think> yes") == 1.0
    assert read("<thinker>no</thinker>\nVerdict: yes") == 1.0


# ------------------------------------------------------------------------ JSON


@each_row(("first", "second"), list(combinations(KEYS, 2)))
def test_of_two_keys_the_first_of_KEYS_counts_and_contradictions_conflict(first: str, second: str) -> None:
    assert read(json.dumps({second: "yes", first: 0.75})) == 0.75
    for tree in ({first: "yes", second: "no"}, {second: "no", first: "yes"}, {second.upper(): 0, first.title(): 1}):
        assert read(json.dumps(tree)) == (1.0 if second == "answer" else "conflict")  # an answer may be what was judged


@each_row(
    ("text", "value"),
    [
        ('{"score": 1, "max_score": 5}', 0.2),
        ('{"score": 5, "out_of": 5}', 1.0),
        ('{"score": 1, "scale": "1-10"}', 0.1),
        ('{"score": 1, "scale": "0-1"}', 1.0),
        ('{"score": 7, "max": 5}', "out_of_range"),
    ],
)
def test_a_score_uses_the_scale_of_its_object(text: str, value: float | str) -> None:
    assert read(text) == value


@each_row(
    ("value", "outcome"),
    [
        (1, 1.0), (0, 0.0), (0.25, 0.25), (True, 1.0), (False, 0.0), ("1", 1.0), ("0.75", 0.75), (" yes ", 1.0),
        ("**No.**", 0.0), ("Partially correct", 0.5), (1.0000001, "out_of_range"), (-0.1, "out_of_range"),
        (7, "out_of_range"), ("85", "out_of_range"), ("85%", "no_verdict"), (None, "no_verdict"), ("", "no_verdict"),
        ("maybe", "no_verdict"), ("yes and no", "no_verdict"), ([1], "no_verdict"), ({"value": 1}, "no_verdict"),
        (10**400, "no_verdict"), ("nan", "no_verdict"), ("inf", "no_verdict"), ("0_1", "no_verdict"),
    ],
)  # fmt: skip
def test_the_value_of_a_key_is_a_number_or_boolean_or_verdict_word(value: object, outcome: float | str) -> None:
    assert read(json.dumps({"correctness": value})) == outcome


@each_row(
    ("text", "outcome"),
    [
        ('Sure! {"label": "CORRECT", "reason": "the wrong one was not named"}', 1.0),
        ('{"reason": "yes"}', "no_verdict"),
        ('{"reason": "x"} {"score": 1}', 1.0),
        ('{"score": 1} {"score": 1.0}', 1.0),
        ('{"score": 1} {"score": 0.5}', "conflict"),
        ('{"score": 1} {"score": null}', "conflict"),
        ('{"outer": {"score": 1}}', "no_verdict"),
        ('[{"score": 0}, {"score": 0}]', 0.0),
        ('{"score": 1, "score": 0}', "conflict"),
        ('{"score": 1, "Score": 0}', "conflict"),
        ('{"correctness": 1', "no_verdict"),
        ('{not json} {"score": 1}', "no_verdict"),
        ('{{"score": 1}}', "no_verdict"),
        ('{"verdict": "yes"}\nVerdict: no', 0.0),
        ('The response is {"verdict": "yes"}', "no_verdict"),
        ("{} Verdict: yes", "no_verdict"),
        ('"yes" {"a": ' + "[" * 2000, "no_verdict"),
    ],
)
def test_JSON_objects_are_read_before_prose(text: str, outcome: float | str) -> None:
    assert read(text) == outcome


@each_row(
    ("faithfulness", "stored"),
    [(0.5, 0.5), (1, 1.0), ("0.25", 0.25), (2, None), (-1, None), ("high", None), (True, None)],
)
def test_faithfulness_outside_its_bounds_is_ignored(faithfulness: object, stored: float | None) -> None:
    got = parse_verdict(json.dumps({"correctness": 1, "faithfulness": faithfulness}))
    assert (got.value, got.faithfulness) == (1.0, stored)


@given(trees=st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=2), max_size=4), between=PLAIN)
def test_only_objects_returns_the_objects_of_a_text_of_objects_only(trees: list[dict[str, int]], between: str) -> None:
    assert only_objects("\n".join(map(json.dumps, trees))) == trees
    if between.strip(" ,\n"):
        assert only_objects(between.join(["", *map(json.dumps, trees), ""])) == []


# ------------------------------------------------------------------------ prose


@given(words=st.lists(WORD, min_size=1, max_size=4), between=PLAIN)
def test_the_last_marked_verdict_counts(words: list[str], between: str) -> None:
    text = "".join(f"{between}\nVerdict: {word}.\n" for word in words)
    assert read(text) == VALUES[words[-1]]


@each_row(
    "marker", ["verdict", "judgement", "judgment", "answer", "label", "grade", "result", "decision", "evaluation"]
)
def test_each_of_nine_markers_marks_a_verdict(marker: str) -> None:
    for text in (f"{marker}: yes", f"My {marker.title()} = yes.", f"**{marker.upper()}:** yes", f"{marker} is: yes!"):
        assert read(f"no\nIt depends.\n{text}") == 1.0
    assert read(f"{marker} yes it may be") == "no_verdict"


@each_row(
    ("text", "outcome"),
    [
        ("Verdict: yes we can", "no_verdict"),
        ("Verdict: yes (see above)", 1.0),
        ("Verdict: [yes]", 1.0),
        ("Verdict:\nyes", 1.0),
        ("no\nlong words\nno", 0.0),
        ("yes\nlong words\nno", "conflict"),
        ("yes\nlong words\nmaybe", 1.0),
        ("maybe\nlong words\nyes", 1.0),
        ("Yes - it does", 1.0),
        ("Yes; it does", 1.0),
        ("Yes it does", "no_verdict"),
        ("Yes-or-no is hard", "no_verdict"),
        ("No! It is right.", 0.0),
        ("The answer was right.", 1.0),
        ("The answer isn’t right.", 0.0),
        ("The answer is not wrong.", "conflict"),
        ("It is correct. It is right.", 1.0),
        ("It is correct. It is not right.", "conflict"),
        ("If it is correct, then good.", "no_verdict"),
        ("It would be wrong to guess. It is correct.", 1.0),
        ("I cannot say. It is correct.", 1.0),
        ("I am unable to judge this.", "refusal"),
        ("As an AI I have no view", "refusal"),
        ("Sorry", "refusal"),
        ("The response names Paris.", "no_verdict"),
    ],
)
def test_prose_steps_are_applied_in_order(text: str, outcome: float | str) -> None:
    assert read(text) == outcome


@given(text=PLAIN)
def test_an_unreadable_reply_is_truncated_only_if_the_model_reports_it(text: str) -> None:
    if text.strip():
        assert read(text) == read(text, finish_reason="stop") == "no_verdict"
        assert read(text, finish_reason="length") == "truncated"
        assert read(text, protocol="json", finish_reason="length") == "truncated"
    assert read(f"{text}\nVerdict: yes", finish_reason="length") == 1.0


@given(text=st.text(max_size=60), threshold=st.floats(0, 1))
def test_the_threshold_changes_only_correct(text: str, threshold: float) -> None:
    strict, other = parse_verdict(text), parse_verdict(text, threshold=threshold)
    assert (strict.state, strict.value, strict.reason) == (other.state, other.value, other.reason)
    assert other.correct is (None if other.value is None else other.value >= threshold)


@given(text=st.text(max_size=60))
def test_the_longmemeval_official_protocol_always_gives_a_verdict(text: str) -> None:
    assume(without_reasoning(text) == text)
    got = parse_verdict(text, protocol="longmemeval-official")
    assert (got.value, got.correct) == (float("yes" in text.lower()), "yes" in text.lower())


@pytest.mark.parametrize("protocol", ["xml", "", "AUTO"])
def test_an_unknown_protocol_is_a_ValueError(protocol: str) -> None:
    with pytest.raises(ValueError, match="unknown judge protocol"):
        parse_verdict("yes", protocol=protocol)
