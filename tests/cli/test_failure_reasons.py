"""``bench failures`` and the notes of an INVALID job: the most common reason comes first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.cli.commands.results import SHOWN_ITEMS
from bench.report.failure_tables import LONGEST_REASON
from tests.small_journal import Job, made, record
from tests.small_world import write_codes

Bench = Callable[..., Any]
DOWN = "p.search: POST /v1/search -> 503: down"
RARE = "p.search: POST /v1/search -> 400: " + "odd " * 80
NAMES = [f"q{at:02d}" for at in range(12)]


def write(workspace: Path, **messages: str) -> None:
    """A run of twelve items, of which those with a message failed."""
    values = {name: None if name in messages else 1.0 for name in NAMES}
    job = Job(record=record("p"), values=values, messages=messages)
    anyio.run(lambda: made(workspace, "r", [job]))


@pytest.fixture
def failed(tmp_path: Path) -> None:
    write(tmp_path, q00=RARE, **dict.fromkeys(NAMES[1:6], DOWN))


def losses(bench: Bench, *flags: str) -> dict[str, Any]:
    (job,) = json.loads(bench("failures", "r", "--json", *flags).stdout)["jobs"]
    found: dict[str, Any] = job
    return found


def one_line(text: str) -> str:
    """Return the text of a table without its layout."""
    return " ".join(re.sub("[─\\s]+", " ", text).split())


def test_equal_reasons_are_one_entry_with_count_and_items(bench: Bench, failed: None) -> None:
    found = losses(bench)
    assert found["n_lost"] == 6
    assert found["reasons"] == [
        {"loss": "error", "error": "timeout", "text": DOWN, "count": 5, "items": NAMES[1:6]},
        {"loss": "error", "error": "timeout", "text": RARE, "count": 1, "items": ["q00"]},
    ]


def test_each_lost_item_has_its_complete_reason(bench: Bench, failed: None) -> None:
    items = {item["item_id"]: item for item in losses(bench)["items"]}
    assert {item["reason"] for item in items.values()} == {DOWN, RARE}
    assert items["q00"]["error"] == {"kind": "timeout", "message": RARE}


def test_the_table_lists_the_most_common_error_first_and_once(
    bench: Bench, failed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shown = one_line(bench("failures", "r").stdout)
    assert (
        "facts x p: distinct errors, the most common first items loss error reason which 5 error timeout p.search:"
        in shown
    )
    assert shown.count("-> 503: down") == 1, "an error is one line, however many items it cost"


def test_a_long_reason_is_shortened_unless_full_is_set(
    bench: Bench, failed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    short, full = bench("failures", "r").stdout, bench("failures", "r", "--full").stdout
    assert RARE.strip() not in short and "…" in short
    assert short.count("note: --full shows the complete texts") == 1
    assert full.count(RARE.strip()) == 1
    assert "…" not in full and "--full" not in full


def test_the_hint_at_full_is_printed_only_if_a_reason_was_shortened(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, q00="short")
    assert "--full" not in bench("failures", "r").stdout


@pytest.mark.parametrize(("length", "cut"), [(LONGEST_REASON, False), (LONGEST_REASON + 1, True)])
def test_a_reason_is_shortened_only_above_LONGEST_REASON(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, cut: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    write(tmp_path, q00="x" * length)
    shown = bench("failures", "r").stdout
    assert ("x" * (LONGEST_REASON - 1) + "…" in shown) is cut
    assert ("x" * length in shown) is not cut


def test_rows_beyond_the_limit_are_counted_in_a_note(bench: Bench, tmp_path: Path) -> None:
    names = [f"i{at:03d}" for at in range(60)]
    job = Job(
        record=record("p"), values=dict.fromkeys(names, None), messages={name: f"code {name[1:]}" for name in names}
    )
    anyio.run(lambda: made(tmp_path, "r", [job]))
    shown = bench("failures", "r").stdout
    assert f"note: {60 - SHOWN_ITEMS} more rows: --limit 0 shows all" in shown
    assert "--limit 0 shows all" not in bench("failures", "r", "--limit", "0").stdout
    assert "note: 57 more" in bench("failures", "r", "--limit", "3").stdout
    assert "hint: use 0 to show all items" in bench("failures", "r", "--limit", "-1", check=2).stderr
    assert len(losses(bench)["reasons"]) == len(losses(bench)["items"]) == 60


def test_a_reason_of_several_lines_is_one_line_in_the_table_and_unchanged_in_json(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, q00="first\n  second\tthird")
    assert "first second third" in bench("failures", "r").stdout
    assert losses(bench)["reasons"][0]["text"] == "first\n  second\tthird"


def test_a_run_without_losses_has_no_reasons(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path)
    assert losses(bench) == {
        "benchmark": "facts", "provider": "p", "models": {"embedding": None, "answering": "acme/m1", "judge": None},
        "n_lost": 0, "counts": {}, "reasons": [], "items": [],
    }  # fmt: skip
    assert "distinct errors" not in bench("failures", "r").stdout


def test_kind_filters_the_reasons_but_not_the_counts(bench: Bench, failed: None) -> None:
    assert losses(bench, "--kind", "not_ready")["reasons"] == []
    assert losses(bench, "--kind", "not_ready")["counts"] == {"error": 6}


def test_an_unscored_item_has_the_reason_of_its_evaluator(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"c{n}", "content": f"Code {n}.", "question": f"Code {n}?", "answer": f"{n}"} for n in range(2)]
    folder = write_codes(tmp_path, rows)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "evaluation": {"protocol": "llm-as-judge"}}))
    (tmp_path / "script.jsonl").write_text('{"match": ".", "reply": "hm, who knows"}\n')
    monkeypatch.setenv("MEMORYBENCH_SCRIPT", str(tmp_path / "script.jsonl"))
    flags = ("--benchmarks", "codes", "--providers", "bm25", "--judge-model", "builtin/scripted")
    bench("run", "-q", *flags, "--answering-model", "builtin/extractive", "--run-id", "r", check=4)
    found = losses(bench)
    assert found["counts"] == {"unscored": 2}
    assert [item["state"] for item in found["items"]] == ["unscored", "unscored"]
    reasons = {item["reason"] for item in found["items"]}
    assert None not in reasons and all(item["error"] is None for item in found["items"])
    assert {one["text"] for one in found["reasons"]} == reasons


# -------------------------------------------------------------------- the INVALID note


def test_the_note_of_an_invalid_job_names_its_most_common_failure_and_the_command(bench: Bench, failed: None) -> None:
    shown = bench("results", "r").stdout
    assert "note: p: INVALID, 6 of 12 items failed (error or not_ready): above the allowed 2%\n" in shown
    assert (
        f"note: p: the most common failure, 5 times: timeout: {DOWN} (list all failures with: bench failures r)\n"
    ) in shown


def test_a_failure_without_a_message_is_named_by_its_kind(bench: Bench, tmp_path: Path) -> None:
    anyio.run(lambda: made(tmp_path, "r", [Job(record=record("p"), values=dict.fromkeys(NAMES, None))]))
    assert (
        "the most common failure, 12 times: timeout (list all failures with: bench failures r"
        in bench("results", "r").stdout
    )


def test_a_valid_job_has_no_note_of_its_most_common_failure(bench: Bench, tmp_path: Path) -> None:
    many = {f"q{at:03d}": 1.0 for at in range(100)}
    job = Job(record=record("p"), values={**many, "bad": None}, messages={"bad": DOWN})
    anyio.run(lambda: made(tmp_path, "r", [job]))
    assert "most common" not in bench("results", "r").stdout


def test_the_most_common_failure_ignores_failures_that_a_retry_resolved(bench: Bench, tmp_path: Path) -> None:
    """The newest outcome of an item counts."""
    from bench.journal import Journal, JournaledPhase, Key
    from bench.model import Phase, State

    write(tmp_path, q00=RARE, q01=DOWN, q02=DOWN)

    async def again() -> None:
        async with Journal.resume(tmp_path / "checkpoints" / "r") as journal:
            for name in ("q01", "q02"):
                key = Key(owner="job-p", phase=Phase.EVALUATE, corpus="c", unit=name)
                journal.append(
                    JournaledPhase(key=key, attempt=2, outcome="ok", state=State.CORRECT, values={"accuracy": 1.0})
                )

    anyio.run(again)
    assert ("the most common failure, once: timeout: p.search: POST /v1/search -> 400: odd") in bench(
        "results", "r"
    ).stdout


def test_a_long_failure_is_shortened_in_the_note(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path, q00="x" * 500)
    (note,) = [line for line in bench("results", "r").stdout.splitlines() if "most common" in line]
    assert "x" * 199 + "…" in note and "x" * 200 not in note


@pytest.mark.parametrize(("state", "message"), [("partial", "| partial |"), ("stopped", "| partial (stopped) |")])
def test_a_partial_run_is_marked_partial_once(bench: Bench, tmp_path: Path, state: str, message: str) -> None:
    from bench.journal import RunState

    anyio.run(lambda: made(tmp_path, "r", [Job(record=record("p"), values={"q": 1.0})], state=RunState(state)))
    assert message in bench("results", "r").stdout


PLUGIN = """from bench.model import Verdict


class Broken:
    name, definition, unit = "broken", "broken/1", None

    async def evaluate(self, item, answer, hits, judge):
        return Verdict(evaluator="mine", value=float(item.letter == answer), correct=True)

    def score(self, row):
        return row.letter
"""


@pytest.mark.parametrize(
    "plugin",
    [
        "evaluation: {method: custom, customEvaluator: ./mine.py:Broken}\nmetrics: [accuracy]",
        "evaluation: {method: none}\nmetrics: [mrr, {name: own, method: custom, evaluator: ./mine.py:Broken}]",
    ],
)
def test_items_that_failed_in_an_evaluator_or_metric_are_scored_again_after_its_code_is_fixed(
    bench: Bench, tmp_path: Path, plugin: str
) -> None:
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    (folder / "b.yaml").write_text(
        'name: b\nversion: "1"\ndata: {type: local, path: ./b.jsonl}\n'
        f"schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}\n{plugin}\n"
    )
    (folder / "b.jsonl").write_text('{"id": "1", "q": "q", "a": "a", "c": "c"}\n')
    code = folder / "mine.py"
    code.write_text(PLUGIN)
    flags = ("--benchmarks", "b", "--providers", "bm25", "--answering-model", "builtin/extractive", "--run-id", "r")
    failed = bench("run", *flags, check=4)
    assert "next: bench rescore r\n" in failed.stderr and "--resume" not in failed.stderr
    (item,) = losses(bench)["items"]
    assert item["error"]["kind"] == "evaluator" and "AttributeError: " in item["error"]["message"]
    code.write_text(PLUGIN.replace("item.letter", "item.question").replace("row.letter", "0.5"))
    assert "--resume" not in bench("rescore", "r").stderr
    assert bench("failures", "r").stderr == ""
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert (job["valid"], job["error_kinds"]) == (True, {})
