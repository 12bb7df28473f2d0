"""Formats of other tools: JUnit XML, OpenTelemetry traces, Inspect logs, Every Eval Ever records, pandas frames."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bench
from bench.journal import Reader
from bench.model import Phase, State, Verdict
from bench.report.exports.eval_record import export_records
from bench.report.exports.inspect_log import export_inspect
from bench.report.exports.junit import export_junit
from bench.report.exports.trace import export_otlp
from tests.full_journal import ItemData, call, write_run
from tests.small_journal import measuring, record

RECORD = record("bm25", **measuring("accuracy", "hit_at_5"))
RIGHT = Verdict(evaluator="exact-match", value=1.0, correct=True)
WRONG = Verdict(evaluator="exact-match", value=0.0, correct=False, reason="another <city> & date\x1b[31m")
ITEMS = (
    ItemData(item="q1", verdicts=(RIGHT,), state=State.CORRECT, values={"accuracy": 1.0, "hit_at_5": 1.0}),
    ItemData(
        item="q2",
        verdicts=(WRONG,),
        state=State.INCORRECT,
        values={"accuracy": 0.0, "hit_at_5": None},
        calls={Phase.ANSWER: (call("answering", cost="0.002", tokens=40),), Phase.SEARCH: (call("provider"),)},
    ),
    ItemData(item="q3", state=State.ERROR, outcome="timeout", message="took longer than 5 s"),
    ItemData(item="q4", state=State.UNSCORED, verdicts=(), values={}),
)


async def folder_of(workspace: Path) -> Path:
    return await write_run(workspace, "r1", [(RECORD, ITEMS)])


async def test_junit_has_one_case_per_item_and_counts_failures(tmp_path: Path) -> None:
    sink = io.StringIO()
    async with Reader.open(await folder_of(tmp_path)) as reader:
        assert await export_junit(reader, sink) == 4
    (suite,) = ElementTree.fromstring(sink.getvalue())
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    kinds = {case.get("name"): [(one.tag, one.get("type")) for one in case] for case in suite}
    assert kinds == {
        "q1": [],
        "q2": [("failure", "incorrect")],
        "q3": [("error", "timeout")],
        "q4": [("skipped", None)],
    }
    assert suite[1][0].get("message") == "another <city> & date\\x1b[31m"


async def traces(workspace: Path) -> list[dict[str, Any]]:
    sink = io.StringIO()
    async with Reader.open(await folder_of(workspace)) as reader:
        assert await export_otlp(reader, sink) == 4
    lines = [json.loads(line) for line in sink.getvalue().splitlines()]
    return [span for line in lines for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


async def test_a_trace_has_one_root_span_per_item_and_its_phases_as_children(tmp_path: Path) -> None:
    spans = await traces(tmp_path)
    roots = {attributes(span)["memorybench.item.id"]: span for span in spans if "parentSpanId" not in span}
    assert set(roots) == {"q1", "q2", "q3", "q4"}
    assert len({span["traceId"] for span in spans}) == 4
    assert len({span["spanId"] for span in spans}) == len(spans)
    ids = {span["spanId"] for span in roots.values()}
    assert all(span["parentSpanId"] in ids for span in spans if "parentSpanId" in span)
    children = [span for span in spans if span.get("parentSpanId") == roots["q2"]["spanId"]]
    named = {attributes(span)["gen_ai.operation.name"]: span for span in children}
    assert set(named) == {"search_memory", "chat", "evaluate"}
    assert attributes(named["chat"])["gen_ai.usage.input_tokens"] == "40"
    (event,) = named["evaluate"]["events"]
    assert attributes(event)["gen_ai.evaluation.score.label"] == "incorrect"
    assert roots["q3"]["status"] == {"code": 2, "message": "took longer than 5 s"}
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)


async def test_repeated_exports_give_the_same_spans(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path)
    texts = []
    for _ in range(2):
        sink = io.StringIO()
        async with Reader.open(folder) as reader:
            await export_otlp(reader, sink)
        texts.append(sink.getvalue())
    assert texts[0] == texts[1]


async def logs(workspace: Path) -> dict[str, Any]:
    async with Reader.open(await folder_of(workspace)) as reader:
        written = await export_inspect(reader, workspace / "logs")
    ((name, count),) = written.items()
    assert count == 4 and re.match(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_facts_\w+\.json$", name), (
        "the name that inspect view lists"
    )
    found: dict[str, Any] = json.loads((workspace / "logs" / name).read_text())
    return found


async def test_an_inspect_log_has_one_sample_per_item_and_no_score_for_a_failed_one(tmp_path: Path) -> None:
    log = await logs(tmp_path)
    assert (log["version"], log["status"], log["eval"]["task"]) == (2, "success", "facts")
    assert log["eval"]["model"] == "acme/m1" and log["eval"]["task_args"]["provider"] == "bm25"
    samples = {one["id"]: one for one in log["samples"]}
    assert samples["q1"]["scores"]["exact-match"]["value"] == 1.0 and samples["q1"]["target"] == ["Oslo"]
    assert samples["q1"]["output"]["choices"][0]["message"]["content"] == "Oslo"
    assert samples["q1"]["metadata"]["hits"][0]["content"] == "It was Oslo"
    assert samples["q2"]["output"]["usage"]["input_tokens"] == 40
    assert samples["q3"]["scores"] == {} and samples["q3"]["error"]["message"] == "timeout: took longer than 5 s"
    scores = {one["name"]: one for one in log["results"]["scores"]}
    assert scores["accuracy"]["metrics"]["mean"]["value"] == 0.5 and scores["accuracy"]["unscored_samples"] == 2


async def test_inspect_ai_reads_the_log(tmp_path: Path) -> None:
    inspect_log = pytest.importorskip("inspect_ai.log")
    await logs(tmp_path)
    (info,) = inspect_log.list_eval_logs(str(tmp_path / "logs"))
    log = await inspect_log.read_eval_log_async(info)
    assert [sample.id for sample in log.samples] == ["q1", "q2", "q3", "q4"]
    assert log.results.scores[0].metrics["mean"].value == 0.5


RECORD_KEYS = {
    "schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library",
    "evaluation_results",
}  # fmt: skip
RESULT_KEYS = {"evaluation_name", "source_data", "metric_config", "score_details"}
INSTANCE_KEYS = {
    "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input",
    "answer_attribution", "evaluation",
}  # fmt: skip
"""what the public schema 0.3.0 requires"""


async def records(workspace: Path) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    more = tuple(replace(ITEMS[0], item=f"r{at}") for at in range(60))
    async with Reader.open(await write_run(workspace, "r1", [(RECORD, (*ITEMS, *more))])) as reader:
        ((name, count),) = (await export_records(reader, workspace)).items()
    path = workspace / name
    lines = path.read_bytes().splitlines()
    assert len(lines) == count
    record = json.loads(path.with_name(path.name.replace("_samples.jsonl", ".json")).read_text())
    return path, record, [json.loads(line) for line in lines]


async def test_an_eval_record_omits_failed_items_and_counts_them(tmp_path: Path) -> None:
    path, record, instances = await records(tmp_path)
    assert path.parent == tmp_path / "data/facts/acme/m1"
    assert record.keys() >= RECORD_KEYS
    accuracy = record["evaluation_results"][0]
    assert accuracy.keys() >= RESULT_KEYS and accuracy["score_details"]["score"] == pytest.approx(61 / 62)
    assert accuracy["score_details"]["details"]["failed"] == "1"
    assert record["detailed_evaluation_results"]["checksum"] == sha256(path.read_bytes()).hexdigest()
    assert [one["sample_id"] for one in instances[:3]] == ["q1", "q2", "r0"], "q3 failed, q4 has no score"
    for one in instances:
        assert one.keys() >= INSTANCE_KEYS and one["evaluation_id"] == record["evaluation_id"]
        assert one["evaluation_result_id"] == accuracy["evaluation_result_id"]
    assert [one["evaluation"] for one in instances[:2]] == [
        {"score": 1.0, "is_correct": True},
        {"score": 0.0, "is_correct": False},
    ]


async def test_an_eval_record_passes_the_validator_of_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = pytest.importorskip("every_eval_ever.validate").main
    await records(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([str(one) for one in Path("data").rglob("*.json*")]) == 0


async def test_an_invalid_job_has_no_eval_record_and_an_invalidated_log(tmp_path: Path) -> None:
    failed = tuple(ItemData(item=f"q{at}", state=State.ERROR, outcome="timeout", values={}) for at in range(4))
    async with Reader.open(await write_run(tmp_path, "r1", [(RECORD, failed)])) as reader:
        assert await export_records(reader, tmp_path / "records") == {}
        (name,) = await export_inspect(reader, tmp_path / "logs")
    assert json.loads((tmp_path / "logs" / name).read_text())["invalidated"] is True


async def test_frames_have_types_and_join_on_job_item_and_epoch(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    frames = bench.frames("r1", workspace=tmp_path)
    assert list(frames.items["item_id"]) == ["q1", "q2", "q3", "q4"]
    assert frames.items["accuracy"].sum() == 1.0
    assert str(frames.items["score"].dtype) == "Float64"
    assert frames.items["score"].isna().sum() == 2
    joined = frames.verdicts.merge(frames.items, on=["job", "item_id", "epoch"])
    assert list(joined["item_id"]) == ["q1", "q2"]
    assert set(frames.hits["rank"]) >= {1}
    assert str(frames.calls["started_at"].dtype).startswith("datetime64")
    assert frames.calls["cost_usd"].sum() == 0.002
    assert frames.calls["input_tokens"].sum() == 40


async def test_frames_of_a_run_without_ended_items_are_empty_with_columns(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(RECORD, ())])
    frames = bench.frames("r1", workspace=tmp_path)
    assert len(frames.items) == len(frames.hits) == 0
    assert {"item_id", "rank", "content"} <= set(frames.hits.columns)
