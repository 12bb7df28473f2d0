"""Token and cost metrics state how they were counted and with which prices, or null if unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench.journal import CorpusKind, CorpusRow, Journal, Reader, RunState
from bench.model import Call, Phase, Usage
from bench.plan.job_record import JobRecord, ModelNames
from bench.report.fold import fold
from bench.report.results_document import results_json
from tests.full_journal import AT, ItemData, call, write_run
from tests.rows import each_row
from tests.small_journal import measuring, record

TOKENS = ("ingest", "context", "answer_in", "answer_out", "judge_in", "judge_out")
NAMES = (
    *(f"tokens_{role}" for role in TOKENS), "cost_per_query", "cost_ingest", "cost_judge", "cost_total",
    "cost_per_correct",
)  # fmt: skip
MODELS = ModelNames(embedding="acme/e1", answering="acme/m1", judge="acme/j1")
JOB = record("hosted", models=MODELS, **measuring("accuracy", *NAMES))
VERSIONS = {"packages": {"genai-prices": "1.0"}}

REPORTED = Usage(input_tokens=10, output_tokens=2, total_tokens=12)
ESTIMATED = replace(REPORTED, estimated=True)


async def shown(
    workspace: Path,
    *,
    job: JobRecord = JOB,
    calls: Mapping[Phase, Sequence[Call]] | None = None,
    ingest: Sequence[Call] = (),
    **meta: object,
) -> dict[str, dict[str, Any]]:
    """The metrics of ``results --json``."""
    rows = [
        CorpusRow(lane=job.lane, corpus="c", attempt=1, kind=CorpusKind.INTENT, at=AT),
        CorpusRow(lane=job.lane, corpus="c", attempt=1, kind=CorpusKind.INGESTED, at=AT, calls=tuple(ingest)),
    ]
    item = ItemData(item="q1", calls={phase: tuple(made) for phase, made in (calls or {}).items()})
    folder = await write_run(workspace, "r", [(job, [item])], more=rows, **{"versions": VERSIONS, **meta})
    async with Reader.open(folder) as reader:
        (one,) = cast("list[dict[str, Any]]", results_json(await fold(reader))["jobs"])
    return cast("dict[str, dict[str, Any]]", one["metrics"])


async def test_each_token_and_cost_metric_and_label_has_unit_n_unknown_method_and_estimated(tmp_path: Path) -> None:
    found = await shown(tmp_path)
    for name in NAMES:
        one = found[name]
        labels = [label for dimension in one["breakdown"].values() for label in dimension.values()]
        for part in (one, *labels):
            assert {"unit", "n_unknown", "method", "estimated"} <= set(part), name
            assert part["unit"] == ("tokens" if name.startswith("tokens") else "USD")


async def test_unknown_tokens_and_costs_have_no_method(tmp_path: Path) -> None:
    found = await shown(tmp_path)
    methods = {name: (found[name]["method"], found[name]["estimated"]) for name in NAMES}
    assert methods.pop("tokens_context") == ("chars/4", True)
    assert set(methods.values()) == {(None, False)}


@each_row(
    ("usages", "method"),
    [
        ([REPORTED, REPORTED], ("usage", False)),
        ([ESTIMATED, ESTIMATED], ("chars/4", True)),
        ([REPORTED, ESTIMATED], ("usage and chars/4", True)),
        ([REPORTED, None], ("usage", False)),
        ([None], (None, False)),
    ],
)
@each_row("role", ["answering", "judge", "embedding"])
async def test_the_method_of_tokens_is_usage_chars_or_both(
    tmp_path: Path, role: Any, usages: list[Usage | None], method: tuple[str | None, bool]
) -> None:
    made = [call(role, cost="0", usage=usage) for usage in usages]
    phase = {"answering": Phase.ANSWER, "judge": Phase.EVALUATE}.get(role)
    found = await shown(tmp_path, calls={phase: made} if phase else {}, ingest=() if phase else made)
    names = {"answering": ("answer_in", "answer_out"), "judge": ("judge_in", "judge_out"), "embedding": ("ingest",)}
    for metric in TOKENS:
        if metric != "context":
            expected = method if metric in names[role] else (None, False)
            assert (found[f"tokens_{metric}"]["method"], found[f"tokens_{metric}"]["estimated"]) == expected, metric


@pytest.mark.parametrize(
    ("model", "method"), [("builtin/extractive", ("chars/4", True)), ("builtin/scripted", ("usage", False))]
)
async def test_tokens_of_a_built_in_model_have_the_method_of_that_model(
    tmp_path: Path, model: str, method: tuple[str, bool]
) -> None:
    found = await shown(tmp_path, job=replace(JOB, models=replace(MODELS, answering=model)))
    assert (found["tokens_answer_in"]["method"], found["tokens_answer_in"]["estimated"]) == method
    assert found["tokens_judge_in"]["method"] is None


TABLE, OWN = "genai-prices 1.0", "prices"


@pytest.mark.parametrize(
    ("request_", "answering", "judge", "total"),
    [
        ({}, TABLE, TABLE, TABLE),
        ({"prices": {"acme/m1": {"input": 1}}}, OWN, TABLE, f"{TABLE} and {OWN}"),
        ({"prices": {"acme/m1": {"input": 1}, "acme/j1": {"input": 1}}}, OWN, OWN, OWN),
    ],
)
async def test_the_method_of_a_cost_names_its_price_sources(
    tmp_path: Path, request_: dict[str, object], answering: str, judge: str, total: str
) -> None:
    calls = {
        Phase.ANSWER: [call("answering", cost="0.5", tokens=10)],
        Phase.EVALUATE: [call("judge", cost="0.1", tokens=3)],
    }
    found = await shown(tmp_path, calls=calls, request=request_)
    methods = {name: found[name]["method"] for name in NAMES if name.startswith("cost")}
    assert methods == {
        "cost_per_query": answering, "cost_ingest": None, "cost_judge": judge, "cost_total": total,
        "cost_per_correct": total,
    }  # fmt: skip
    assert not any(found[name]["estimated"] for name in methods), "an estimated usage has no price"


async def test_a_provider_call_uses_its_own_price_and_a_model_inside_it_the_price_table(tmp_path: Path) -> None:
    plain, thinking = call("provider", cost="0.01"), call("provider", cost="0.02", tokens=9)
    found = await shown(tmp_path / "a", ingest=[plain], calls={Phase.SEARCH: [thinking]})
    assert (found["cost_ingest"]["method"], found["cost_per_query"]["method"]) == (OWN, TABLE)
    embedded = call("embedding", cost="0.03", tokens=5)
    found = await shown(tmp_path / "b", ingest=[embedded], calls={Phase.SEARCH: [plain]})
    assert (found["cost_ingest"]["method"], found["cost_per_query"]["method"]) == (TABLE, OWN)
    free = await shown(tmp_path / "c", ingest=[call("embedding", cost="0", tokens=5)])
    assert free["cost_ingest"]["method"] is None, "nothing had a price"


async def test_a_run_resumed_with_another_price_table_names_both(tmp_path: Path) -> None:
    calls = {Phase.ANSWER: (call("answering", cost="0.5", tokens=10),)}
    folder = await write_run(tmp_path, "r", [(JOB, [ItemData(item="q1", calls=calls)])], versions=VERSIONS)
    for version in ("1.0", "2.0"):
        async with Journal.resume(folder) as journal:
            await journal.record_resume({"versions": {"packages": {"genai-prices": version}}})
            await journal.set_state(RunState.COMPLETE)
    async with Reader.open(folder) as reader:
        found = (await fold(reader)).jobs[0].metrics["cost_per_query"]
    assert found.method == "genai-prices 1.0 and genai-prices 2.0"
