"""parse_verdict reads a reply exactly or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.evaluators import parse_verdict
from tests.rows import each_row


def test_every_reference_judge_text_is_read_as_expected(shared: Path) -> None:
    cases = json.loads((shared / "vectors/metrics/judge-texts.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 50
    for case in cases:
        got = parse_verdict(case["text"], **case["options"])
        assert {key: getattr(got, key) for key in case["expected"]} == case["expected"], case["id"]


def test_the_substring_rule_of_the_paper_agrees_with_its_reference_vectors(shared: Path) -> None:
    cases = json.loads((shared / "vectors/metrics/vectors-dev.json").read_text(encoding="utf-8"))["cases"]
    cases = [case for case in cases if case["call"] == "parse_verdict"]
    assert cases
    for case in cases:
        assert parse_verdict(case["input"]["text"], protocol=case["metric"]).correct is case["expected"]["correct"]


@each_row(
    ("text", "outcome"),
    [
        ("yes", True),
        ("**Yes**, because it says so", True),
        ("[[no]]", False),
        ("\\boxed{\\text{yes}}", True),
        ("> **Verdict:** yes", "no_verdict"),
        ("Grade = incorrect", False),
        ("The response misses the date.\n\nIncorrect", False),
        ("not correct", False),
        ("It isn't correct.", False),
        ("Partially correct: the year is missing", 0.5),
        ("Verdict: partly correct", 0.5),
        ('```json\n{"label": "WRONG"}\n```', False),
        ('{"CORRECT": "TRUE"}', True),
        ('{"score": "0.5"}', 0.5),
        ('{"reasoning": "it is wrong", "verdict": "yes"}', True),
        ('[{"grade": "pass"}]', True),
        ("text {not json}\nVerdict: no", False),
        ("weighing it </think> yes", True),
        ("<THINKING>no</THINKING>\nyes", True),
        ("Yes-men are never right about this", "no_verdict"),
        ("Nothing is wrong.", "no_verdict"),
        ("{}", "no_verdict"),
        ('{"verdict": ["yes"]}', "no_verdict"),
        ('{"score": 1e999}', "no_verdict"),
        ('{"verdict": "yes"} {"verdict": "no"}', "conflict"),
        ("It is right. It is wrong.", "conflict"),
        ("<reasoning>yes", "truncated"),
        ("Sorry, I won't say.", "refusal"),
        (" \n\t", "empty"),
    ],
)
def test_each_reply_text_has_its_expected_verdict(text: str, outcome: object) -> None:
    got = parse_verdict(text)
    if isinstance(outcome, str):
        assert (got.state, got.value, got.correct, got.reason) == ("unparsed", None, None, outcome)
    else:
        assert got.state == "parsed"
        assert got.value == float(outcome)  # type: ignore[arg-type]
        assert got.correct is (got.value == 1)


@given(text=st.text(max_size=200), finish=st.sampled_from([None, "stop", "length"]))
def test_any_reply_is_parsed_with_a_value_or_unparsed_with_a_reason(text: str, finish: str | None) -> None:
    got = parse_verdict(text, finish_reason=finish)
    if got.state == "parsed":
        assert got.value is not None and 0 <= got.value <= 1 and got.reason is None
    else:
        assert got.value is None and got.correct is None and got.reason


@given(value=st.floats(allow_nan=True), key=st.sampled_from(["correctness", "score", "GRADE"]))
def test_a_number_outside_0_to_1_is_not_clipped(value: float, key: str) -> None:
    got = parse_verdict(json.dumps({key: value}))
    if 0 <= value <= 1:
        assert got.value == value
    else:
        assert got.value is None
