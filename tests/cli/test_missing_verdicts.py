"""Missing verdicts of a judge: they count as failures, are zero in ``value_failures_as_zero``, and have a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.evaluators.calibration import AnswerKind, probe_answers
from bench.plan.validity import same_family_note
from tests.cli.conftest import Bench
from tests.rows import each_row
from tests.small_world import write_codes

GOOD = json.dumps({"correctness": 1, "faithfulness": 1, "reasoning": ""})
RUN = ("run", "-q", "--run-id", "r", "--benchmarks", "codes", "--providers", "bm25")
MODELS = ("--answering-model", "builtin/extractive", "--judge-model", "builtin/scripted")


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four items; the judge replies with a verdict to one and with other text to three."""
    rows = [{"id": f"c{n}", "content": f"The code is {n}.", "question": f"Code {n}?", "answer": str(n)} for n in "1234"]
    write_codes(tmp_path, rows, protocol="llm-as-judge", metric="accuracy")
    set_replies(tmp_path, monkeypatch, {"Code 1": GOOD, ".": "Correct: yes"})


def set_replies(folder: Path, monkeypatch: pytest.MonkeyPatch, replies: dict[str, str]) -> None:
    """Set the replies of the judge by the text of its prompt."""
    lines = (json.dumps({"match": match, "reply": reply}) + "\n" for match, reply in replies.items())
    (folder / "script.jsonl").write_text("".join(lines))
    monkeypatch.setenv("MEMORYBENCH_SCRIPT", str(folder / "script.jsonl"))


def job(bench: Bench) -> dict[str, Any]:
    (found,) = json.loads(bench("results", "r", "--json", check=None).stdout)["jobs"]
    return dict(found)


def test_too_many_missing_verdicts_make_a_job_invalid_and_name_the_most_common_reason(
    bench: Bench, judge: None
) -> None:
    shown = bench(*RUN, *MODELS, check=4)
    assert "3 of 4 items have no verdict of the judge; the most common reason: no_verdict, 3 times" in shown.stdout
    assert (job(bench)["valid"], job(bench)["counts"]) == (False, {"correct": 1, "unscored": 3})


def test_allowed_missing_verdicts_count_as_zero_in_value_failures_as_zero_and_in_the_receipt(
    bench: Bench, judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(*RUN, *MODELS, "--max-error-rate", "1")
    accuracy = job(bench)["metrics"]["accuracy"]
    assert (accuracy["value"], accuracy["value_failures_as_zero"]) == (1.0, 0.25)
    assert (accuracy["n"], accuracy["n_failed"], accuracy["n_excluded"]) == (1, 3, 0)
    assert any("no_verdict, 3 times" in note for note in job(bench)["notes"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    bench("keys", "new", "me")
    bench("sign", "r")
    (receipt,) = Path("results/r/receipts").glob("*.json")
    score = json.loads(receipt.read_text())["scores"]["judged"]["accuracy"]
    assert (score["valueFailuresAsZero"], score["nFailed"], score["nExcluded"]) == (0.25, 3, 0)
    assert bench("verify", str(receipt), check=None).stdout.startswith("VALID")


def test_rescore_asks_the_judge_again_for_items_with_an_unreadable_reply(
    bench: Bench, judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(*RUN, *MODELS, check=4)
    set_replies(tmp_path, monkeypatch, {"Code 1": "never asked again", ".": GOOD})
    bench("rescore", "r")
    assert (job(bench)["valid"], job(bench)["counts"]) == (True, {"correct": 4})


def test_a_run_without_any_scored_item_exits_4_at_any_max_error_rate(
    bench: Bench, judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_replies(tmp_path, monkeypatch, {".": "hm"})
    shown = bench(*RUN, *MODELS, "--max-error-rate", "1", check=4)
    assert "no item was scored" in shown.stdout


def test_the_row_of_a_job_without_any_verdict_has_the_counts_of_its_metric(
    bench: Bench, judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_replies(tmp_path, monkeypatch, {".": "hm"})
    bench(*RUN, *MODELS, "--metrics", "accuracy", "latency_p50", check=4)
    table = [line for line in bench("results", "r", "--markdown", check=None).stdout.splitlines() if line[:1] == "|"]
    head, _, row = ([cell.strip() for cell in line.split("|")] for line in table[:3])
    counts = dict(zip(head, row, strict=True))
    assert (counts["accuracy"], counts["n"], counts["failed"], counts.get("excluded", "0")) == (
        "INVALID",
        "0",
        "4",
        "0",
    )


def test_without_a_judge_model_unscored_items_are_no_failures(bench: Bench, judge: None) -> None:
    bench(*RUN, *MODELS[:2])
    assert (job(bench)["valid"], job(bench)["counts"]) == (True, {"unscored": 4})


def test_a_job_whose_judge_passes_calibration_shows_its_rates_and_stays_valid(
    bench: Bench, judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = [answer for _, kind, answer in probe_answers() if kind in (AnswerKind.RIGHT_OTHER_WORDS,)]
    set_replies(tmp_path, monkeypatch, {**dict.fromkeys(right, GOOD), "Code": GOOD, ".": GOOD.replace("1", "0")})
    bench(*RUN, *MODELS, "--judge-calibration", check=None)
    notes = job(bench)["notes"]
    assert any(note.startswith("judge calibration, builtin/scripted, prompt default: accepts 0%") for note in notes)
    calibrated = {one["prompt"]: one for one in job(bench)["judge_calibration"]}
    assert set(calibrated) == {"default", "abstention"} and calibrated["default"]["fpr"]["value"] == 0
    assert set(calibrated["default"]) == {"judge", "prompt", "prompt_sha256", "fpr", "fnr", "by_kind", "unparsed"}
    (measured,) = json.loads(Path("results/r/report.json").read_text())["measured"]["jobs"]
    assert measured["judge_calibration"] == list(calibrated.values())
    shown = bench("results", "r", check=None).stdout
    assert "Judge calibration" in shown and "wrong accepted (FPR)" in shown and "judge calibration, b" not in shown
    assert job(bench)["valid"] is True


@each_row(
    ("answering", "judge", "message"),
    [
        ("openai/gpt-4o", "openai/gpt-4o", "the answering model itself"),
        ("openai/gpt-4o", "azure/gpt-4.1-mini", "same family (gpt)"),
        ("openai/o3", "openai/gpt-4o", "same family (gpt)"),
        ("local/qwen3:8b", "together/Qwen2.5-72B", "same family (qwen)"),
        ("local/deepseek-r1-distill-qwen-7b", "local/qwen3", "same family (qwen)"),
        ("openai/gpt-4o", "anthropic/claude-sonnet-4", None),
        ("builtin/extractive", "builtin/scripted", None),
        ("local/m", "local/j", None),
        (None, "openai/gpt-4o", None),
    ],
)
def test_a_judge_of_the_family_of_the_answering_model_gets_a_note(
    answering: str | None, judge: str, message: str | None
) -> None:
    found = same_family_note(answering, judge)
    assert (message is None and found is None) or (message is not None and message in (found or ""))
