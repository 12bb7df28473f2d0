"""``--judge-calibration``: the error rates of a judge are measured before the first item and stored with the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small_world import write_codes

Bench = Callable[..., Any]
RUN = ("run", "--run-id", "r", "--benchmarks", "codes", "--providers", "bm25", "--judge-model", "builtin/scripted")
FLAGS = ("--answering-model", "builtin/extractive")

RIGHT = json.dumps({"correctness": 1, "faithfulness": 1, "reasoning": ""})


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A judged benchmark of two items, and a judge that always replies the same."""
    rows = [{"id": f"c{n}", "content": f"The code is {n}.", "question": f"Code {n}?", "answer": str(n)} for n in "12"]
    write_codes(tmp_path, rows, protocol="llm-as-judge")

    def set_reply(reply: str) -> None:
        (tmp_path / "script.jsonl").write_text(json.dumps({"match": ".", "reply": reply}) + "\n")
        monkeypatch.setenv("MEMORYBENCH_SCRIPT", str(tmp_path / "script.jsonl"))

    return set_reply


def calibration(bench: Bench) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(bench("describe", "r", "--json").stdout)["judge_calibration"]
    return found


def test_a_judge_that_accepts_every_answer_makes_the_job_invalid_with_a_note(
    bench: Bench, judge: Callable[[str], None]
) -> None:
    judge(RIGHT)
    bench(*RUN, *FLAGS, "--judge-calibration", check=4)
    found = {one["prompt"]: one for one in calibration(bench)}
    assert set(found) == {"default", "abstention"}
    default = found["default"]
    assert default["fpr"]["value"] == 1.0 and default["fpr"]["n"] == 48
    assert default["fnr"]["value"] == 0.0 and default["fnr"]["n"] == 24
    assert default["fpr"]["interval"]["method"] == "wilson" and default["judge_noise"] == 1.0
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert any("judges 100% of the wrong answers as right" in note for note in job["notes"])
    assert any("accepts 100% [93%, 100%] of 48 wrong answers" in note for note in job["notes"])
    assert job["valid"] is False
    assert "no better than chance" in bench("results", "r", check=None).stdout


def test_judge_replies_that_cannot_be_parsed_are_counted_as_unparsed(
    bench: Bench, judge: Callable[[str], None]
) -> None:
    judge("hm")
    bench(*RUN, *FLAGS, "--judge-calibration", check=None)
    for one in calibration(bench):
        assert one["unparsed"] == 72 and one["fpr"]["value"] is None and one["judge_noise"] == 0


def test_calibration_runs_only_with_the_flag_and_is_not_repeated_by_a_resume(
    bench: Bench, judge: Callable[[str], None]
) -> None:
    judge(RIGHT)
    bench(*RUN, *FLAGS)
    assert calibration(bench) == []
    bench("run", "--run-id", "s", *RUN[3:], *FLAGS, "--judge-calibration", check=4)
    before = bench("describe", "s", "--json").stdout
    bench("resume", "s", check=4)
    assert (
        json.loads(bench("describe", "s", "--json").stdout)["judge_calibration"]
        == json.loads(before)["judge_calibration"]
    )


def test_plan_counts_the_calls_of_judge_calibration(bench: Bench, judge: Callable[[str], None]) -> None:
    judge(RIGHT)

    def calls(*more: str) -> int:
        found = json.loads(bench("plan", *RUN[3:], *FLAGS, *more, "--json").stdout)
        return int(found["calls"]) if "calls" in found else int(found["estimate"]["calls"])

    assert calls("--judge-calibration") == calls() + 2 * 72
