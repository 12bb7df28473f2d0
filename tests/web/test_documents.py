"""The documents of the API: fields, values, and errors for invalid queries."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.journal import Event, Journal, RunState
from bench.model import Phase, State, Verdict
from bench.plan.job_record import ModelNames, OverlayRecord
from bench.report.summary import rebuild
from tests.full_journal import WRONG, ItemData, call, write_run
from tests.small_journal import measuring, record
from tests.small_world import PROVIDER
from tests.web.workspaces import Visit, visiting

NAMES = measuring("accuracy", "hit_at_5")
X, Y = record("x", **NAMES), record("y", **NAMES)


def wrong(item: str, **more: Any) -> ItemData:
    return replace(
        ItemData(item=item, state=State.INCORRECT, verdicts=(WRONG,), values={"accuracy": 0.0, "hit_at_5": 1.0}), **more
    )


ITEMS = [
    ItemData(item="q1", values={"accuracy": 1.0, "hit_at_5": 1.0}),
    wrong("q2", labels={"question_type": "two"}, question="Who is Ann?"),
    ItemData(item="q3", state=State.ERROR, outcome="timeout", message="no answer in 5 s"),
]


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """Run ``r1`` of two jobs over the same items."""
    events = [Event(kind="odd", scope="job-x", message="said once")]
    request = {"max_error_rate": 0.5}
    extra = {"note": "a note", "labels": {"team": "blue"}}
    await write_run(tmp_path, "r1", [(X, ITEMS), (Y, ITEMS[:2])], more=events, request=request, extra=extra, planned=3)
    return tmp_path


async def refused(visit: Visit, path: str) -> tuple[int, dict[str, str]]:
    status, text = await visit.get(f"/api/v1{path}")
    found = json.loads(text)
    assert set(found) == {"error"} and set(found["error"]) == {"kind", "message", "hint"}, (path, found)
    return status, found["error"]


# ------------------------------------------------------------------------------ runs


async def test_runs_lists_one_row_per_run(workspace: Path) -> None:
    await write_run(workspace, "r2", [(X, ITEMS)], state=RunState.PAUSED, planned=9)
    async with visiting(workspace) as visit:
        rows = (await visit.document("/runs"))["runs"]
    plain = {"benchmarks": ["facts"], "created_at": "2026-01-02T03:04:05.000Z", "service": None, "cost_usd": None}
    plain |= {"headline": None, "invalid_jobs": 0, "counted": True}
    assert sorted(rows, key=lambda row: row["run_id"]) == [
        {
            "run_id": "r1", "state": "complete", "reason": "", "providers": ["x", "y"], "note": "a note", "planned": 6,
            "jobs": 2, "ended": 5, "failed": 1, "sides": ["x", "y"], **plain,
        },
        {
            "run_id": "r2", "state": "paused", "reason": "", "providers": ["x"], "note": None, "planned": 9, "ended": 3,
            "jobs": 1, "failed": 1, "sides": ["x"], **plain, "invalid_jobs": 1,
        },
    ]  # fmt: skip


async def test_the_cost_of_a_run_counts_calls_that_jobs_share_once(tmp_path: Path) -> None:
    """Two answering models over one lane: its embedding is paid once; a free job does not hide the cost of others."""
    searched = {Phase.SEARCH: (call("embedding", cost="0.25"),)}
    one = ItemData(item="q1", calls={**searched, Phase.ANSWER: (call("answering", cost="1.5"),)})
    first = record("v", key="a", lane="lane", answer_owner="lane|m1")
    second = record("v", key="b", lane="lane", answer_owner="lane|m2")
    other = ItemData(item="q1", calls={Phase.ANSWER: (call("answering", cost="0.5"),)})
    free = record("bm25")
    await write_run(tmp_path, "r1", [(first, [one]), (second, [other]), (free, [ItemData(item="q1")])])
    await write_run(tmp_path, "r2", [(free, [ItemData(item="q1")])])
    await rebuild(tmp_path)
    async with visiting(tmp_path) as visit:
        costs = {row["run_id"]: row["cost_usd"] for row in (await visit.document("/runs"))["runs"]}
    assert costs == {"r1": "2.25", "r2": None}


async def test_a_run_document_has_state_progress_records_and_results(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        run = await visit.document("/runs/r1")
    results, progress, records = run.pop("results"), run.pop("progress"), run.pop("records")
    (event,) = run.pop("events")
    assert run == {
        "run_id": "r1", "state": "complete", "reason": "", "holder": None, "created_at": "2026-01-02T03:04:05Z",
        "plan_digest": "d" * 64, "note": "a note", "labels": {"team": "blue"}, "gaps": [], "service": None,
        "progress_fresh": True, "results_fresh": True, "results_problem": None, "again": {}, "live": None,
    }  # fmt: skip
    assert (event["kind"], event["scope"], event["message"]) == ("odd", "job-x", "said once")
    assert progress["jobs"][0] == {
        "job": "job-x", "benchmark": "facts", "provider": "x", "planned": 3, "ended": 3, "failed": 1,
        "counts": {"correct": 1, "incorrect": 1, "error": 1}, "invalid": [],
        "commonest": [{"kind": "timeout", "text": "no answer in 5 s", "count": 1}],
    }  # fmt: skip
    assert (progress["planned"], progress["ended"], progress["failed"]) == (6, 5, 1)
    assert set(records[0]) == {
        "job", "benchmark", "benchmark_version", "provider", "models", "k", "track", "seed", "context_budget",
        "dataset_sha256", "license", "config_sha256", "prompts", "marks", "skipped",
    }  # fmt: skip
    assert [job["provider"] for job in results["jobs"]] == ["x", "y"]


async def test_the_gaps_of_a_partial_run_are_ranges_of_positions(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(X, ITEMS)], state=RunState.PARTIAL, ranges=((2, 3), (6, 7)), total=9)
    async with visiting(tmp_path) as visit:
        assert (await visit.document("/runs/r1"))["gaps"] == [[1, 1], [4, 5], [8, 9]]
        _, page = await visit.get("/runs/r1")
    assert "not run: items 1 to 1, 4 to 5, 8 to 9" in page


async def test_a_run_with_job_records_of_another_version_is_listed_as_unreadable(workspace: Path) -> None:
    folder = await write_run(workspace, "odd", [(X, ITEMS)])
    async with Journal.resume(folder) as journal:
        await journal.amend(jobs=[{"key": "only that"}])
    async with visiting(workspace) as visit:
        rows = {row["run_id"]: row for row in (await visit.document("/runs"))["runs"]}
        assert rows["r1"]["state"] == "complete"
        assert rows["odd"]["state"] == "unreadable" and "cannot read" in rows["odd"]["reason"]
        status, error = await refused(visit, "/runs/odd")
        assert (status, error["kind"]) == (500, "journal")


FILTERS = {
    "": ["b2", "a1", "c3"],
    "state=paused": ["a1"],
    "state=nope": [],
    "q=BM25": ["b2"],
    "q=no%20such": [],
    "q=a+remark": ["c3"],
    "sort=name": ["a1", "b2", "c3"],
    "sort=state": ["b2", "c3", "a1"],
    "sort=progress": ["b2", "c3", "a1"],
    "sort=cost": ["c3", "b2", "a1"],
    "sort=nope": ["b2", "a1", "c3"],
}


async def three_runs(folder: Path) -> None:
    paid = ItemData(item="q1", calls={Phase.ANSWER: (call("answering", cost="3"),)})
    await write_run(folder, "b2", [(record("bm25"), ITEMS)])
    await write_run(folder, "a1", [(X, ITEMS)], state=RunState.PAUSED, planned=30)
    await write_run(folder, "c3", [(Y, [paid])], planned=2, extra={"note": "A remark"})
    await rebuild(folder)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    anyio.run(three_runs, folder)
    return folder


@pytest.mark.parametrize("query", FILTERS)
async def test_the_runs_page_filters_and_sorts(three: Path, query: str) -> None:
    async with visiting(three) as visit:
        plain = [row["run_id"] for row in (await visit.document("/runs"))["runs"]]
        _, page = await visit.get(f"/?{query}")
    places = {name: page.find(f'<a href="/runs/{name}"') for name in ("a1", "b2", "c3")}
    shown = sorted((name for name, at in places.items() if at >= 0), key=lambda name: places[name])
    if query in ("", "sort=nope"):
        assert shown == plain
    elif query == "sort=cost":
        assert shown[0] == "c3"
    elif query == "sort=state":
        assert shown[-1] == "a1"
    else:
        assert shown == FILTERS[query]


async def test_explore_of_one_run_redirects_to_it_and_lists_all_runs_on_request(workspace: Path) -> None:
    async with visiting(workspace, run="r1") as visit:
        status, _, headers = await visit.ask("GET", "/")
        assert (status, headers["Location"]) == (303, "/runs/r1")
        status, page = await visit.get("/?all=1")
        assert status == 200 and '<a href="/?all=1" aria-current="page">' in page


# ------------------------------------------------------------------------------ results


async def test_a_stored_report_is_shown_until_the_journal_is_newer(workspace: Path) -> None:
    from bench.journal import Reader
    from bench.report import fold, results_json
    from bench.report.result_files import publish

    folder = workspace / "checkpoints" / "r1"
    async with Reader.open(folder) as reader:
        report = await fold(reader)
        place = await publish(reader, report, workspace / "results")
    expected = json.loads(json.dumps(results_json(report)))

    async def shown() -> Any:
        async with visiting(workspace) as visit:
            found = await visit.document("/runs/r1/results")
        for job in found["jobs"]:
            assert set(job.pop("times")) == {"search", "answer", "evaluate"}
            job.pop("ends")
        return found

    assert await shown() == expected, "joined from the two halves of report.json"
    stored = json.loads((place / "report.json").read_text())
    stored["results"]["jobs"][0]["n_planned"] = 77
    (place / "report.json").write_text(json.dumps(stored))
    assert (await shown())["jobs"][0]["n_planned"] == 77, "it was read, not folded"
    del stored["measured"]["jobs"][0]["signs"]
    (place / "report.json").write_text(json.dumps(stored))
    assert await shown() == expected, "an earlier version wrote it"
    async with Journal.resume(folder) as journal:
        await journal.set_state(RunState.STOPPED, "later")
    found = await shown()
    assert (found["status"], found["jobs"][0]["n_planned"]) == ("stopped", 3), "the journal is newer"


OTHER_REPORTS = (
    "", "{", "[]", "null", "7", "{}", '{"results": [], "measured": {}}',
    '{"results": {"jobs": []}, "measured": {"jobs": []}}',
    '{"results": {"jobs": 7, "partial": false}, "measured": {"jobs": 7}}',
    '{"results": {"jobs": [1, 2]}, "measured": {"jobs": [1, 2], "run_id": "x", "status": "y"}}',
    '{"results": {"partial": 1, "jobs": [{}, {}]}, "measured": {"run_id": "x", "status": "y", "jobs": [{}, {}]}}',
    "\xed\xa0\x80",
)  # fmt: skip


@pytest.mark.parametrize("text", OTHER_REPORTS)
async def test_an_invalid_stored_report_is_recomputed_from_the_journal(workspace: Path, text: str) -> None:
    place = workspace / "results" / "r1"
    place.mkdir(parents=True)
    (place / "report.json").write_text(text, encoding="latin-1")
    async with visiting(workspace) as visit:
        found = await visit.document("/runs/r1/results")
    assert [job["n_planned"] for job in found["jobs"]] == [3, 3]


# ------------------------------------------------------------------------------ items


async def test_the_items_document_has_one_cell_per_item_and_job(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        grid = await visit.document("/runs/r1/items")
    rows = grid.pop("items")
    models = {"embedding": None, "answering": "acme/m1", "judge": None}
    assert grid == {
        "run_id": "r1", "benchmark": "facts", "benchmarks": ["facts"], "providers": ["x", "y"],
        "question_types": ["one", "two"], "cursor": None, "cut": False,
        "total": 3, "previous": None, "first": 1,
        "jobs": [{"job": f"job-{name}", "provider": name, "models": models} for name in "xy"],
    }  # fmt: skip
    for cell in (cell for row in rows for cell in row["cells"] if cell is not None):
        assert {type(cell.pop(name)) for name in ("search_us", "tokens")} <= {int, type(None)}
    first, second, third = rows
    right = {"state": "correct", "outcome": "ok", "metric": "accuracy", "value": 1.0, "rank": 1}
    assert first == {
        "item_id": "q1", "slug": "q1", "corpus": "c", "question_type": "one", "question": "Where?",
        "cells": [right, right],
    }  # fmt: skip
    assert (second["question"], second["question_type"]) == ("Who is Ann?", "two")
    assert third["cells"] == [
        {"state": "error", "outcome": "timeout", "metric": "accuracy", "value": None, "rank": 0},
        None,
    ]


SELECTED = {
    "provider=y": ["q1", "q2"], "provider=x&state=error": ["q3"], "type=two": ["q2"], "type=nope": [], "q=ann": ["q2"],
    "q=Q3": ["q3"], "q=nothing": [], "state=correct&type=one": ["q1"], "benchmark=facts": ["q1", "q2", "q3"],
    "sort=state&provider=x": ["q1", "q3", "q2"], "sort=type": ["q1", "q3", "q2"], "limit=2": ["q1", "q2"],
    "limit=000002": ["q1", "q2"], "limit=500": ["q1", "q2", "q3"], "q=&state=&type=": ["q1", "q2", "q3"],
}  # fmt: skip


@pytest.mark.parametrize("query", SELECTED)
async def test_the_items_document_filters_sorts_and_limits(workspace: Path, query: str) -> None:
    async with visiting(workspace) as visit:
        page = await visit.document(f"/runs/r1/items?{query}")
        found = [row["item_id"] for row in page["items"]]
        assert sorted(found) == sorted(SELECTED[query])
        if query.startswith(("limit", "sort=type")):
            assert found == SELECTED[query]
        status, html = await visit.get(f"/runs/r1/items?{query}")
        assert status == 200 and html.count("<tr><td><a") == len(found)
        _, part, _ = await visit.ask("GET", f"/runs/r1/items?{query}", headers={**visit.token, "HX-Request": "true"})
        assert "<html" not in part and part.count("<tr><td><a") == len(found)


def coded(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


NONSENSE = {
    "limit=0": "is not valid: expected 1 to 500",
    "limit=501": "is not valid: expected 1 to 500",
    "limit=-1": "is not valid: expected 1 to 500",
    "limit=1e2": "is not valid: expected 1 to 500",
    "limit=%C2%B2": "is not valid: expected 1 to 500",
    "limit=0005001": "is not valid: expected 1 to 500",
    "limit=99999999999999999999": "is not valid: expected 1 to 500",
    "state=nope": "there is no state 'nope'",
    "sort=nope": "sort=nope is not valid",
    "cursor=x": "cursor 'x' is not valid for this list",
    "cursor=%C3%A4": "cursor 'ä' is not valid for this list",
    "cursor=-": "cursor '-' is not valid for this list",
    f"cursor={coded(5)}": f"cursor '{coded(5)}' is not valid for this list",
    f"cursor={coded(None)}": f"cursor '{coded(None)}' is not valid for this list",
    f"cursor={coded([1, 2])}": f"cursor '{coded([1, 2])}' is not valid for this list",
    f"cursor={coded(['a'])}": f"cursor '{coded(['a'])}' is not valid for this list",
    f"cursor={coded('ab')}": f"cursor '{coded('ab')}' is not valid for this list",
    f"cursor={urlsafe_b64encode(b'[' * 3000).decode()}": "is not valid for this list",
    "sort=state&cursor=x": "cursor 'x' is not valid for this list",
    "sort=state&cursor=-1": "cursor '-1' is not valid for this list",
    "sort=state&cursor=%C2%B2": "cursor '²' is not valid for this list",
    "sort=state&cursor=99999999999": "cursor '99999999999' is not valid for this list",
}


@pytest.mark.parametrize("query", NONSENSE)
async def test_an_invalid_query_of_items_is_400_with_a_hint(workspace: Path, query: str) -> None:
    async with visiting(workspace) as visit:
        status, error = await refused(visit, f"/runs/r1/items?{query}")
        assert status == 400 and NONSENSE[query] in error["message"]
        assert error["hint"]
        assert (await visit.get(f"/runs/r1/items?{query}"))[0] == 400


@pytest.mark.parametrize(
    ("query", "named"),
    [("provider=nope", "nope"), ("benchmark=nope", "nope"), ("benchmark=facts&provider=nope", "nope on facts")],
)
async def test_a_query_for_a_job_that_the_run_lacks_is_404(workspace: Path, query: str, named: str) -> None:
    async with visiting(workspace) as visit:
        status, error = await refused(visit, f"/runs/r1/items?{query}")
        assert (status, error["message"]) == (404, f"this run has no job of {named}")


async def test_an_item_shows_hits_answer_verdicts_attempts_and_loss_per_provider(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        item = await visit.document("/runs/r1/items/q2")
        one = await visit.document("/runs/r1/items/q2?provider=y")
    assert (item["run_id"], item["item_id"], item["slug"], item["about"]["question"]) == (
        "r1",
        "q2",
        "q2",
        "Who is Ann?",
    )
    assert [side["provider"] for side in item["sides"]] == ["x", "y"]
    assert [side["provider"] for side in one["sides"]] == ["y"]
    side = item["sides"][0]
    assert side["hits"] == [
        {"rank": 1, "id": "m0", "content": "It was Oslo", "score": 0.5, "source_ids": ["s1"], "evidence": True}
    ]
    assert (side["state"], side["loss"]) == ("incorrect", {"kind": "answer_wrong", "partial_evidence": False})
    assert (side["answer"], side["answer_model"], side["epochs"]) == ("Oslo", "acme/m1-2026", 1)
    assert side["context"] == [{"role": "user", "content": "Who is Ann? Say so."}]
    assert [(one["phase"], one["attempt"], one["outcome"]) for one in side["attempts"]] == [
        ("search", 1, "ok"), ("answer", 1, "ok"), ("evaluate", 1, "ok"),
    ]  # fmt: skip


async def test_a_failed_item_shows_its_error_and_an_unfinished_one_is_pending(workspace: Path) -> None:
    await write_run(workspace, "r2", [(X, [ItemData(item="q9", state=None)])], state=RunState.PAUSED)
    async with visiting(workspace) as visit:
        (side,) = (await visit.document("/runs/r1/items/q3"))["sides"]
        assert (side["outcome"], side["message"], side["hits"]) == ("timeout", "no answer in 5 s", [])
        assert side["loss"] == {"kind": "error", "partial_evidence": False}
        _, page = await visit.get("/runs/r1/items/q3")
        assert "timeout: no answer in 5 s" in page and "Lost: failed" in page
        (side,) = (await visit.document("/runs/r2/items/q9"))["sides"]
        assert (side["state"], side["loss"], side["verdicts"]) == ("pending", None, [])
        status, error = await refused(visit, "/runs/r1/items/q3?provider=nope")
        assert (status, error["message"]) == (404, "this run has no such item, or the item has not begun")


async def test_hits_beyond_k_and_hits_without_source_ids_are_shown(tmp_path: Path) -> None:
    beyond = ItemData(item="q1", hits=["a", "b", "c"], retrieved=[["s2"]], beyond=[["s1"], []], gold=("s1",))
    mapped_nowhere = ItemData(item="q2", hits=["a"], retrieved=None)
    await write_run(tmp_path, "r1", [(X, [beyond, mapped_nowhere])])
    async with visiting(tmp_path) as visit:
        (side,) = (await visit.document("/runs/r1/items/q1"))["sides"]
        assert [(hit["source_ids"], hit["evidence"]) for hit in side["hits"]] == [
            (["s2"], False), (["s1"], True), ([], False),
        ]  # fmt: skip
        (side,) = (await visit.document("/runs/r1/items/q2"))["sides"]
        assert side["hits"][0]["source_ids"] is None


async def test_an_item_has_the_same_loss_as_in_bench_failures(tmp_path: Path) -> None:
    """Two judges of one answer, and two epochs: a disagreement does not count as a wrong answer."""
    from bench.journal import Reader
    from bench.report.failures import lost_items

    text = Verdict(evaluator="llm-judge", value=0.0, correct=False, judged=True)
    other = replace(text, value=1.0, correct=True)
    jobs = [
        (record("x", key=f"job-{judge}", lane="lane", answer_owner="lane|m",
                models=ModelNames(embedding=None, answering="acme/m1", judge=judge)), [item])
        for judge, item in (
            ("acme/a", wrong("q1", verdicts=(text,))), ("acme/b", ItemData(item="q1", verdicts=(other,))),
        )
    ]  # fmt: skip
    epochs = [wrong("q2", verdicts=(text,)), ItemData(item="q2", epoch=2, verdicts=(other,))]
    doubted = OverlayRecord(name="audit", sha256="0" * 64, source="us", items={"q3": "wrong"})
    await write_run(
        tmp_path, "r1",
        [*jobs, (record("twice", epochs=2), epochs), (record("doubted", overlay=doubted), [wrong("q3")])],
    )  # fmt: skip
    async with Reader.open(tmp_path / "checkpoints" / "r1") as reader:
        lost = {item["item_id"]: item["loss"] for job in (await lost_items(reader)).jobs for item in job.items}
    assert lost == {"q1": "judge_disagreement", "q2": "judge_disagreement", "q3": "gold_suspect"}
    async with visiting(tmp_path) as visit:
        for item, kind in lost.items():
            (side, *_) = (await visit.document(f"/runs/r1/items/{item}"))["sides"]
            assert side["loss"]["kind"] == kind
        side = (await visit.document("/runs/r1/items/q2"))["sides"][0]
        assert side["epochs"] == 2


async def test_an_item_id_in_two_corpora_has_one_side_per_corpus(tmp_path: Path) -> None:
    items = [ItemData(item="q1", corpus="a"), wrong("q1", corpus="b")]
    await write_run(tmp_path, "r1", [(X, items)], planned=2)
    async with visiting(tmp_path) as visit:
        sides = (await visit.document("/runs/r1/items/q1"))["sides"]
    assert [(side["corpus"], side["state"]) for side in sides] == [("a", "correct"), ("b", "incorrect")]


# ------------------------------------------------------------------------------ compare


async def test_a_comparison_has_conclusion_and_flipped_items(
    tmp_path: Path,
) -> None:
    better = [ItemData(item=f"q{n}") for n in range(30)]
    worse = [wrong(f"q{n}") if n % 3 else ItemData(item=f"q{n}") for n in range(30)]
    await write_run(tmp_path, "r1", [(record("x"), better), (record("y"), worse)])
    async with visiting(tmp_path) as visit:
        found = await visit.document("/compare?a=r1:x&b=r1:y")
        several = await visit.document("/compare?job=r1:y&job=r1:x")
        _, page = await visit.get("/compare?a=r1:x&b=r1:y")
    (pair,) = found["comparisons"]
    assert pair["flips"] == {"a": sorted(f"q{n}" for n in range(30) if n % 3), "b": []}
    assert pair["conclusion"][0].startswith("A (x) is better than B (y) on accuracy")
    assert several["comparisons"][0]["flips"]["b"] == pair["flips"]["a"]
    assert "A is better on 20 items" in page and '<a href="/runs/r1/items/q1?provider=x%2Cy">q1</a>' in page
    assert "B is better on" not in page


async def test_costs_and_times_have_the_precision_of_their_units_on_each_page(tmp_path: Path) -> None:
    def spent(usd: float, ms: float) -> list[ItemData]:
        values = {"cost_per_query": usd, "latency_p50": ms, "accuracy": 1.0}
        return [ItemData(item=f"q{n}", values=values) for n in range(6)]

    names = measuring("cost_per_query", "latency_p50", "accuracy")
    await write_run(
        tmp_path,
        "r1",
        [(record("x", **names), spent(0.000036, 9.7)), (record("y", **names), spent(0.003651, 0.97))],
    )
    async with visiting(tmp_path) as visit:
        pages = [(await visit.get(path))[1] for path in ("/report/r1", "/runs/r1", "/compare?a=r1:x&b=r1:y")]
        found = await visit.document("/compare?a=r1:x&b=r1:y")
    for page in pages:
        assert "0.000036" in page and "0.003651" in page
    assert "-0.003615" in pages[2] and "900.0%" in pages[2]
    (pair,) = found["comparisons"]
    assert pair["units"] == {"cost_per_query": "USD", "latency_p50": "ms", "accuracy": None}
    assert pair["relative"] == ["latency_p50"]


@pytest.mark.parametrize(("other", "note"), [(8, "Of times: the loads differ, which changes times"), (2, "")])
async def test_the_compare_page_notes_loads_that_differ(tmp_path: Path, other: int, note: str) -> None:
    for name, concurrency in (("r1", 2), ("r2", other)):
        extra = {"operation": {"concurrency": concurrency}}
        await write_run(tmp_path, name, [(record("x"), [ItemData(item=f"q{n}") for n in range(3)])], extra=extra)
    async with visiting(tmp_path) as visit:
        _, page = await visit.get("/compare?a=r1:x&b=r2:x")
    assert ("Of times: " in page) is bool(note) and note in page
    assert ("differs: moves times" in page) is bool(note)


REFUSED = {
    "": (400, "the number of jobs to compare is 0, expected 2 to 6"),
    "a=r1:x": (400, "the number of jobs to compare is 1, expected 2 to 6"),
    "&".join(f"job=r1:x{n}" for n in range(7)): (400, "the number of jobs to compare is 7, expected 2 to 6"),
    "a=r1:x&b=nope:x": (404, "there is no run nope"),
    "a=r1:x&b=r1:nope": (400, "run r1 has no job nope"),
    "a=r1:x&b=r1": (400, '"r1" is not RUN_ID:PROVIDER'),
    "a=:x&b=r1:x": (400, "the path contains a text that is not a run id"),
    "a=../r1:x&b=r1:x": (400, "the path contains a text that is not a run id"),
    "a=r1:x&b=r1:y&metric=nope": (400, 'unknown metric "nope"'),
    "a=r1:x&b=r1:y&metric=mrr": (400, "the metric mrr was not computed for both sides of facts"),
    "a=r1:x&b=r1:y&benchmark=nope": (400, "run r1 has no job nope x x"),
    "a=r1:x&b=r1:y": (400, "not like for like"),
}


@pytest.mark.parametrize("query", REFUSED)
async def test_an_invalid_comparison_is_an_error_with_its_reason(workspace: Path, query: str) -> None:
    async with visiting(workspace) as visit:
        status, error = await refused(visit, f"/compare?{query}")
    assert status == REFUSED[query][0] and REFUSED[query][1].lower() in error["message"].lower(), error


async def test_runs_that_are_not_comparable_are_compared_only_if_forced_and_marked(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for force in ("1", "true"):
            assert (await visit.document(f"/compare?a=r1:x&b=r1:y&force={force}"))["forced"] is True
        assert (await visit.get("/api/v1/compare?a=r1:x&b=r1:y&force=0"))[0] == 400
        _, page = await visit.get("/compare?a=r1:x&b=r1:y")
        assert "not like for like: A = x" in page and "force=1" in page
        _, page = await visit.get("/compare?a=r1:x&b=r1:y&force=1")
        assert '<p class="note">not like for like</p>' in page


# ------------------------------------------------------------------------------ leaderboard


async def two_benchmarks(folder: Path) -> None:
    good = [ItemData(item=f"q{n}", labels={"question_type": "ab"[n % 2]}) for n in range(6)]
    poor = [wrong(f"q{n}", labels={"question_type": "ab"[n % 2]}) if n % 2 else good[n] for n in range(6)]
    own = {"provider_type": "hosted", "models": ModelNames(embedding="acme/e", answering="acme/m1", judge=None)}
    await write_run(folder, "r1", [(record("good"), good), (record("poor"), poor), (record("vec", **own), poor)])
    tales = {"benchmark": "tales", "key": "tales-good", "lane": "tales", "answer_owner": "tales"}
    await write_run(folder, "r2", [(record("good", **tales), poor)])
    await rebuild(folder)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three providers on ``facts``, one of them also on ``tales``."""
    folder = tmp_path_factory.mktemp("board")
    anyio.run(two_benchmarks, folder)
    return folder


BOARDS: dict[str, list[list[str]]] = {
    "": [["good", "poor", "vec acme/e"], ["good"]],
    "benchmark=tales": [["good"]],
    "benchmark=nope": [],
    "provider_type=hosted": [["vec acme/e"]],
    "model=acme/e": [["vec acme/e"]],
    "model=acme/m1&benchmark=facts": [["good", "poor", "vec acme/e"]],
    "model=nope": [],
    "type=a&benchmark=facts": [["good", "poor", "vec acme/e"]],
    "type=nope&benchmark=tales": [["good"]],
    "view=model&benchmark=facts": [["acme/m1"], ["acme/m1"], ["acme/m1"]],
    "view=type&benchmark=facts": [["good", "poor", "vec acme/e"]],
}


@pytest.mark.parametrize("query", BOARDS)
async def test_the_leaderboard_applies_its_filters(board: Path, query: str) -> None:
    async with visiting(board) as visit:
        found = await visit.document(f"/leaderboard?{query}")
        status, page = await visit.get(f"/leaderboard?{query}")
    assert [[row["name"] for row in table["rows"]] for table in found["tables"]] == BOARDS[query]
    assert found["benchmarks"] == ["facts", "tales"] and status == 200
    assert found["filters"] == {
        "views": ["overall", "benchmark", "type", "provider", "model"], "provider_types": ["hosted", "local"],
        "models": ["acme/e", "acme/m1"], "types": ["a", "b"],
    }  # fmt: skip
    assert ("Nothing fits." in page) is (not BOARDS[query])
    for names in BOARDS[query]:
        for name in names:
            assert f'<td class="who" title="{name}">' in page


@pytest.mark.parametrize("view", ["overall", "provider"])
async def test_a_leaderboard_view_of_several_benchmarks_is_a_grid(board: Path, view: str) -> None:
    async with visiting(board) as visit:
        (table,) = (await visit.document(f"/leaderboard?view={view}"))["tables"]
        _, page = await visit.get(f"/leaderboard?view={view}")
    assert table["grid"]["rows"][0][0] == "good"
    assert "<th>provider</th>" in page and all(name in page for name in ("facts k=10 accuracy", "tales k=10 accuracy"))
    assert ("mean" in table["grid"]["head"]) is (view == "overall")


async def test_an_unknown_leaderboard_view_is_400_with_the_known_ones(board: Path) -> None:
    async with visiting(board) as visit:
        status, error = await refused(visit, "/leaderboard?view=nope")
    assert (status, error) == (
        400,
        {
            "kind": "usage",
            "message": "there is no view 'nope'",
            "hint": "known: overall, benchmark, type, provider, model",
        },
    )


async def test_a_workspace_without_results_has_an_empty_leaderboard(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        found = await visit.document("/leaderboard")
        assert (found["benchmarks"], found["tables"]) == ([], [])
        assert "No finished run yet." in (await visit.get("/leaderboard"))[1]
        assert (await visit.document("/runs"))["runs"] == []
        assert "No run here yet." in (await visit.get("/"))[1]


# ------------------------------------------------------------------------------ configs


async def test_configs_are_validated_again_after_they_change(tmp_path: Path) -> None:
    place = tmp_path / "configs" / "providers" / "mine.yaml"
    place.parent.mkdir(parents=True)
    place.write_text("name: mine\ntype: hostd\n")
    async with visiting(tmp_path) as visit:

        async def mine() -> Any:
            (found,) = [one for one in (await visit.document("/configs"))["providers"] if one["name"] == "mine"]
            return found

        found = await mine()
        assert set(found) == {
            "name", "kind", "title", "description", "tags", "builtin", "shadowed", "file", "problems", "needs",
            "unset",
        }  # fmt: skip
        assert (found["file"], found["kind"], found["builtin"]) == ("configs/providers/mine.yaml", "providers", False)
        assert any("mine.yaml:2" in problem["where"] for problem in found["problems"])
        one = await visit.document("/configs/providers/mine")
        assert one["text"] == "name: mine\ntype: hostd\n" and one["problems"] == found["problems"]
        place.write_text(PROVIDER.replace("name: faulty", "name: mine"))
        found = await mine()
        assert (found["problems"], found["needs"], found["unset"]) == ([], ["FAULT_URL"], ["FAULT_URL"])
        assert "not set</span> FAULT_URL" in (await visit.get("/configs"))[1]
        for path in ("/configs/providers/nope", "/configs/nope/mine", "/configs/benchmarks/mine"):
            assert (await refused(visit, path))[0] == 404


async def test_built_in_configs_have_no_problem_and_broken_ones_show_theirs(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visit:
        found = await visit.document("/configs")
        assert list(found) == ["benchmarks", "providers", "models", "runs"]
        assert [one["name"] for kind in found.values() for one in kind if one["problems"]] == []
        broken = tmp_path / "configs"
        for kind, text in (("benchmarks", "name: b\n"), ("models", "x: [\n"), ("runs", "limit: -1\n")):
            (broken / kind).mkdir(parents=True)
            (broken / kind / "bad.yaml").write_text(text)
        found = await visit.document("/configs")
        bad = {kind: one["problems"] for kind, entries in found.items() for one in entries if one["problems"]}
        assert set(bad) == {"benchmarks", "models", "runs"}
        assert all("bad.yaml" in problem["where"] for problems in bad.values() for problem in problems)
        status, page = await visit.get("/configs")
        assert status == 200 and "configs/runs/bad.yaml" in page
