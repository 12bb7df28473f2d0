"""``--min-score``: a gate is checked before the first call, and a missing value fails it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from bench import api
from bench.cli.commands.run_command import check_gates, missed_gates
from bench.errors import UsageError
from bench.journal import Reader
from bench.plan import Plan
from bench.report import Report, fold
from tests.cli.conftest import Bench
from tests.rows import each_row
from tests.small_journal import Job, made, measuring, record


def planned(workspace: Path, *gates: str, **flags: Any) -> Plan:
    return api.plan(workspace=workspace, providers="no-memory", limit=2, min_score=list(gates), **flags)


def reported(workspace: Path, *jobs: Job) -> Report:
    async def read() -> Report:
        async with Reader.open(await made(workspace, "r", list(jobs))) as reader:
            return await fold(reader)

    return anyio.run(read)


@pytest.mark.parametrize("name", ["ndcg_at_10", "ndcg@10", "ndcg@10=0.5"])
def test_a_gate_accepts_every_alias_of_its_metric(tmp_path: Path, name: str) -> None:
    check_gates(planned(tmp_path, name if "=" in name else f"{name}=0.5"))


@each_row(
    ("gate", "text", "hint"),
    [
        (
            "bleu=0.5",
            "--min-score bleu: no benchmark of this run computes this metric",
            "add the metric with --metrics",
        ),
        (
            "nonsense=0.5",
            "--min-score nonsense: no benchmark of this run computes this metric",
            "add the metric with --metrics",
        ),
        (
            "accurcy=0.5",
            "--min-score accurcy: no benchmark of this run computes this metric",
            'did you mean "accuracy"?',
        ),
        ("mrr=high", "--min-score mrr=high: expected a number", "see bench --help"),
        ("mrr=nan", "--min-score mrr=nan: expected a number", "see bench --help"),
        ("mrr=inf", "--min-score mrr=inf: expected a number", "see bench --help"),
    ],
)
def test_a_gate_with_an_unknown_metric_or_invalid_number_is_rejected(
    tmp_path: Path, gate: str, text: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_gates(planned(tmp_path, gate))
    assert (str(caught.value), caught.value.hint) == (text, hint)


@pytest.mark.parametrize("command", [("plan",), ("run", "--dry-run"), ("run",)])
def test_plan_and_dry_run_reject_a_gate_as_the_run_does(bench: Bench, command: tuple[str, ...]) -> None:
    flags = ("--providers", "no-memory", "--limit", "2", "--min-score", "accurcy=0.3")
    assert "--min-score accurcy: no benchmark of" in bench(*command, *flags, check=2).stderr


def test_a_gate_accepts_a_metric_added_with_metrics(tmp_path: Path) -> None:
    check_gates(planned(tmp_path, "bleu=0.5", metrics=["bleu"]))


RIGHT = {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 1.0}
OWN = record("bm25")


@pytest.mark.parametrize(
    ("gate", "missed"), [("accuracy=0.75", False), ("accuracy=0.7500001", True), ("accuracy=-1", False)]
)
def test_a_gate_passes_at_exactly_its_value(tmp_path: Path, gate: str, missed: bool) -> None:
    report = reported(tmp_path, Job(record=OWN, values=RIGHT))
    name, _, wanted = gate.partition("=")
    expected = [f"gate failed: facts x bm25: {name} = 0.75, expected at least {float(wanted)}"] if missed else []
    assert missed_gates(planned(tmp_path, gate), report) == expected


def test_each_job_must_pass_each_gate(tmp_path: Path) -> None:
    both = {"record": record("x", **measuring("accuracy", "mrr")), "more": {"mrr": dict.fromkeys(RIGHT, 0.5)}}
    report = reported(tmp_path, Job(record=OWN, values=dict.fromkeys(RIGHT, 1.0)), Job(values=RIGHT, **both))  # type: ignore[arg-type]
    output = missed_gates(planned(tmp_path, "accuracy=0.8", "mrr=0.4"), report)
    assert output == [
        "gate failed: facts x x: accuracy = 0.75, expected at least 0.8",
        "gate failed: facts x bm25: mrr = None, expected at least 0.4",
    ]


def test_an_invalid_job_fails_every_gate(tmp_path: Path) -> None:
    report = reported(tmp_path, Job(record=OWN, values={"q1": 1.0, "q2": None}))
    assert not report.jobs[0].valid
    (output,) = missed_gates(planned(tmp_path, "accuracy=0"), report)
    assert output == "gate failed: facts x bm25: accuracy = None, expected at least 0"


def test_without_gates_no_gate_fails(tmp_path: Path) -> None:
    assert missed_gates(planned(tmp_path), reported(tmp_path, Job(record=OWN, values=RIGHT))) == []
