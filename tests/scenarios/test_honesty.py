"""S, P, I: failures are never scores, statements of a provider are checked, and a resume cannot change the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from bench.errors import IdentityError
from bench.journal import Reader, RunState
from bench.model import State
from bench.report import fold
from bench.report.results_document import results_json
from bench.report.tables import overview
from tests.scenarios.left import forgetful_in, receipt_of
from tests.scenarios.program import bench
from tests.small_world import WAITING, World

Worlds = Callable[..., World]


async def test_S1_an_outage_gives_no_score(world_of: Worlds) -> None:
    world = world_of("search:status:code=503,match=What", corpora=1, items=6)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", isolation="off")
    job = outcome.jobs[0]
    assert (outcome.exit_code, job.valid, job.states) == (4, False, {State.ERROR: 6})
    assert world.query(outcome.run_id, "select count(*) from verdict") == [(0,)]
    results, table = await job_and_tables(world, outcome.run_id)
    assert (results["valid"], results["n_scored"], results["n_planned"]) == (False, 0, 6)
    assert {one["value"] for one in results["metrics"].values()} == {None}
    (line,) = [line for line in table if line.startswith("faulty")]
    assert not any(cell.replace(".", "").isdigit() and "." in cell for cell in line.split()), line


async def test_S2_failed_items_stay_in_the_count_and_make_a_job_invalid(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K0x[0-3][?]", corpora=1, items=20)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    job = outcome.jobs[0]
    assert sum(job.states.values()) == job.planned == 20
    assert job.states[State.ERROR] == 4
    assert job.invalid is not None and outcome.exit_code == 4
    results, _ = await job_and_tables(world, outcome.run_id)
    accuracy = results["metrics"]["accuracy"]
    assert (accuracy["n"], accuracy["n_failed"], accuracy["value"]) == (16, 4, 1.0)
    assert accuracy["value_failures_as_zero"] == 16 / 20
    assert {label: part["n"] for label, part in accuracy["breakdown"]["question_type"].items()} == {"one": 8, "two": 8}


async def test_S5_an_unreadable_verdict_leaves_the_item_unscored(world_of: Worlds) -> None:
    world = world_of("chat:reply:text=hm", corpora=1, items=3)
    world.variables.update(OPENAI_BASE_URL=f"{world.url}/v1", OPENAI_API_KEY="test-key-of-no-service")
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n",
    )
    outcome = await world.run(
        benchmarks="judged", providers="faulty", answering_model="builtin/extractive", judge_model="openai/stub-echo"
    )
    assert outcome.jobs[0].states == {State.UNSCORED: 3}
    assert world.query(outcome.run_id, "select value, correct, raw from verdict") == [(None, None, '="hm"')] * 3
    results, _ = await job_and_tables(world, outcome.run_id)
    accuracy = results["metrics"]["accuracy"]
    assert (accuracy["n"], accuracy["n_excluded"], accuracy["n_failed"], accuracy["value"]) == (0, 0, 3, None)
    assert outcome.exit_code == 4 and "no_verdict, 3 times" in (outcome.jobs[0].invalid or "")


async def test_S6_searches_that_find_nothing_stop_the_job_with_an_explanation(world_of: Worlds) -> None:
    world = world_of("search:empty:match=What", corpora=2, items=30)
    outcome = await world.run(providers="faulty", concurrency=2)
    assert (outcome.exit_code, outcome.status) == (3, RunState.STOPPED)
    assert "found nothing" in outcome.message
    assert 18 <= outcome.jobs[0].states[State.MEASURED] <= 24
    free = await world.run(providers="faulty", circuit_breaker=False)
    assert free.jobs[0].states == {State.MEASURED: 60}
    async with Reader.open(free.folder) as reader:
        (job,) = (await fold(reader)).jobs
    assert "the first 20 searches of faulty found nothing: check scoping and index in its config" in job.notes


async def test_S7_more_hits_than_k_are_cut_and_flagged(world_of: Worlds) -> None:
    world = world_of("search:over:n=30", corpora=1, items=3)
    outcome = await world.run(providers="faulty", k=10)
    for data in await searches(world, outcome.run_id):
        assert (data["requested"], data["returned"], len(data["retrieved"])) == (10, 30, 10)  # type: ignore[arg-type]
        assert "over_returned" in data["flags"]  # type: ignore[operator]
    messages = world.query(outcome.run_id, "select message from event where kind = 'over_returned'")
    assert [text for (text,) in messages] == ["faulty returned more hits than k = 10: only the first k are used"]
    receipt, items = receipt_of(world, outcome.run_id)
    assert receipt["run"]["k"] == 10
    assert [(one["returned"], len(one["retrieved"])) for one in items] == [(30, 10)] * 3


async def test_the_time_of_a_failed_search_is_not_in_the_percentiles_of_a_receipt(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,match=opens the vault K0x1", corpora=1, items=4)
    outcome = await world.run(providers="faulty", isolation="off", max_error_rate=1)
    receipt, items = receipt_of(world, outcome.run_id)
    assert receipt["scores"]["measured"]["search_us"]["n"] == 3
    assert [one["itemId"] for one in items if "search" not in one["latencyUs"]] == ["c0q1"]


async def test_S8_duplicate_hits_do_not_change_the_scores(world_of: Worlds) -> None:
    world = world_of("search:dup:n=3", corpora=1, items=6)
    outcome = await world.run(providers="faulty", metrics=["ndcg@10", "recall_fraction_at_10"])
    world.heal()
    plain = await world.run(providers="faulty", metrics=["ndcg@10", "recall_fraction_at_10"])
    values = []
    for folder in (outcome.folder, plain.folder):
        async with Reader.open(folder) as reader:
            (batch,) = [batch async for batch in reader.values("facts/faulty|none|none")]
        values.append({name: list(column) for name, column in batch.values.items()})
    assert all(0 <= value <= 1 for column in values[0].values() for value in column)
    assert values[0] == values[1], "three copies of a hit have the value of one"


async def test_S11_an_abstention_item_with_nothing_found_is_correct(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=2)
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    row["qa"].append({"id": "c0q9_abs", "q": "zzz qqq?", "a": "was never said", "evidence": [], "type": "one"})
    path.write_text(json.dumps(row) + "\n")
    with (world.workspace / "configs/benchmarks/facts.yaml").open("a") as config:
        config.write("abstention: {idPattern: _abs$}\n")
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    assert outcome.jobs[0].states == {State.CORRECT: 3}


async def test_P1_a_renamed_field_is_a_mapping_error_that_names_it(world_of: Worlds) -> None:
    world = world_of("search:rename:from=memory,to=chunk,match=What", corpora=1, items=2)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.jobs[0].states == {State.ERROR: 2}
    messages = [text for (text,) in world.query(outcome.run_id, "select text from message")]
    assert any("contentField" in text and "$.memory" in text for text in messages)


async def test_P2_memories_that_are_not_searchable_yet_are_waited_for(world_of: Worlds) -> None:
    world = world_of("add:stale:ms=3000", corpora=1, items=3)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    assert outcome.jobs[0].states == {State.CORRECT: 3}


async def test_P2_items_whose_memories_are_never_stored_are_not_ready(world_of: Worlds) -> None:
    world = world_of("add:drop", corpora=1, items=3)
    world.provider("faulty", extra=WAITING)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    assert outcome.jobs[0].states == {State.NOT_READY: 3}
    assert outcome.exit_code == 4
    world.heal()
    assert world.calls("search") > 1


async def test_P3_a_slow_index_is_waited_for_and_a_failed_one_is_an_error(world_of: Worlds) -> None:
    world = world_of("add:lag:ms=800", corpora=1, items=3)
    world.provider("faulty", extra=WAITING)
    outcome = await world.run(providers="faulty")
    assert outcome.jobs[0].states == {State.MEASURED: 3}
    world.heal()
    world.fault("add:failindex")
    outcome = await world.run(providers="faulty")
    assert outcome.jobs[0].states == {State.ERROR: 3}
    kinds = world.query(outcome.run_id, "select distinct outcome from phase where phase = 5")
    assert kinds == [("ingest_failed",)]


async def test_P4_memories_of_another_namespace_are_found_before_ingest(world_of: Worlds) -> None:
    world = world_of("search:leak:n=3", corpora=3, items=2)
    base = (world.workspace / "configs/providers/faulty.yaml").read_text().splitlines(keepends=True)
    world.write("configs/providers/faulty.yaml", "".join(line for line in base if not line.startswith("  count:")))
    outcome = await world.run(providers="faulty", concurrency=1, ingest_concurrency=1, cleanup="never")
    assert outcome.exit_code == 4
    assert outcome.jobs[0].invalid is not None and "foreign" in outcome.jobs[0].invalid
    probes = world.query(outcome.run_id, "select kind, passed from probe where passed = 0")
    assert ("emptiness", 0) in probes


async def test_P4_the_canary_finds_a_leak_that_a_count_cannot_see(world_of: Worlds) -> None:
    world = world_of("search:leak:n=3", corpora=3, items=2)
    outcome = await world.run(
        providers="faulty", concurrency=1, ingest_concurrency=1, cleanup="never", isolation="full"
    )
    assert outcome.exit_code == 4
    assert ("canary", 0) in world.query(outcome.run_id, "select kind, passed from probe")


async def test_P4_a_provider_without_leaks_passes_every_probe_with_one_namespace_per_corpus(world_of: Worlds) -> None:
    world = world_of(corpora=3, items=2)
    outcome = await world.run(providers="faulty", isolation="full", ingest_concurrency=1)
    assert outcome.exit_code == 0
    assert world.query(outcome.run_id, "select count(*) from probe where passed = 0") == [(0,)]
    assert len(world.control("namespaces?provider=default")) == 3


async def test_P5_no_gold_data_is_sent_to_a_provider(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=3, flags=("--record",))
    path = world.workspace / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text())
    for number, question in enumerate(row["qa"]):
        question["type"], question["id"], question["a"] = "GOLDTYPE", f"GOLDITEM{number}", f"GOLDANSWER{number}"
    for number, turns in enumerate(row["sessions"]):
        for turn in turns:
            turn["has_answer"], turn["id"] = "GOLDFLAG", f"GOLDTURN{number}"
    for question in row["qa"]:
        question["evidence"] = [f"GOLDTURN{int(number)}" for number in (0, 1)]
    row["session_ids"] = [f"answer_GOLD{number}" for number in range(3)]
    path.write_text(json.dumps(row) + "\n")
    await world.run(providers="faulty", answering_model="builtin/extractive", isolation="full")
    sent = json.dumps(world.control("received"))
    assert "What opens the vault" in sent
    assert "GOLD" not in sent and "answer_" not in sent


SESSIONS = {"strategy": "session-based", "sessions_field": "talk", "sessions_format": "dynamic_keys"}


def talks(world: World, *, last: str) -> None:
    """Write a benchmark of 12 sessions with keys sorted as text, two per day; ``last`` is the date of the last one."""
    folder = world.workspace / "configs/benchmarks/talks"
    folder.mkdir(parents=True)
    talk: dict[str, object] = {}
    for number in sorted(range(1, 13), key=str):
        talk[f"session_{number}"] = [{"speaker": "A", "dia_id": f"D{number}:1", "text": f"Session {number}."}]
        hour = f"{8 + number % 2 * 4}:{40 + number}"
        talk[f"session_{number}_date_time"] = last if number == 12 else f"2024-05-{number // 2 + 1:02d} {hour}"
    row = {"id": "r", "talk": talk, "question": "Which session?", "answer": "1"}
    (folder / "data.jsonl").write_text(json.dumps(row) + "\n")
    manifest = {
        "manifest_version": "1", "name": "talks", "version": "1", "data_file": "data.jsonl", "ingestion": SESSIONS,
        "query": {"question_field": "question", "expected_answer_field": "answer"},
        "evaluation": {"protocol": "exact-match"}, "metrics": ["correctness"],
        "required_capabilities": ["add_memory", "retrieve_memory"],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))


async def test_P7_sessions_are_sent_in_the_order_of_their_numbers_with_dates_and_minutes(world_of: Worlds) -> None:
    world = world_of(flags=("--record",))
    talks(world, last="2024-05-07 08:52")
    await world.run(benchmarks="talks", providers="faulty", ingest_concurrency=1)
    sent = [one["body"] for one in world.control("received?provider=default&endpoint=add")]
    texts = [str(body["content"] if isinstance(body, dict) else json.loads(body)["content"]) for body in sent]
    assert [int(text.split("Session ")[1].split(".")[0]) for text in texts] == list(range(1, 13))
    assert all(f":{40 + number}" in text for number, text in enumerate(texts, start=1)), texts


async def test_P7_an_unreadable_session_date_is_an_error(world_of: Worlds) -> None:
    world = world_of()
    talks(world, last="sometime in May")
    done = bench(world.workspace, "run", "--benchmarks", "talks", "--providers", "bm25", **world.variables)
    assert done.returncode == 2
    assert b"session_12_date_time" in done.stderr and b"sometime in May" in done.stderr


@pytest.mark.parametrize("fault", ["html", "blank", "badjson", "truncate"])
async def test_P6_a_response_body_that_cannot_be_read_is_an_error_of_its_item(world_of: Worlds, fault: str) -> None:
    world = world_of(f"search:{fault}:match=vault K0x0", corpora=1, items=2)
    outcome = await world.run(providers="faulty", isolation="off")
    assert outcome.jobs[0].states == {State.ERROR: 1, State.MEASURED: 1}
    kinds = {kind for (kind,) in world.query(outcome.run_id, "select outcome from phase where phase = 3")}
    assert kinds <= {"ok", "mapping", "unavailable"}


async def test_I1_every_setting_that_can_change_a_result_changes_the_digest(world_of: Worlds) -> None:
    world = world_of()
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n",
    )
    world.variables["OPENAI_API_KEY"] = "test-key-of-no-service"
    base = {"benchmarks": "judged", "providers": "faulty", "answering_model": "openai/m1", "judge_model": "openai/j1"}
    changed: list[dict[str, object]] = [
        {},
        {"answering_model": "openai/m2"},
        {"judge_model": "openai/j2"},
        {"k": 3},
        {"seed": 2},
        {"epochs": 2},
        {"answer_prompt": "Say ${question}"},
        {"judge_prompt": "Is ${response} right?"},
        {"context_budget": 50},
        {"metrics": "mrr"},
        {"limit": 2},
        {"set": {"faulty.ingest.text": "dated"}},
    ]
    digests = [world.plan(**{**base, **one}).digest for one in changed]
    world.variables["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    digests.append(world.plan(**base).digest)
    world.variables["FAULT_URL"] = "http://127.0.0.1:9"
    digests.append(world.plan(**base).digest)
    with (world.workspace / "datasets/facts.jsonl").open("a") as data:
        data.write("\n")
    digests.append(world.plan(**base).digest)
    assert len(set(digests)) == len(digests)


async def test_I1_another_version_of_a_plug_in_changes_the_digest(world_of: Worlds) -> None:
    world = world_of()
    adapter = forgetful_in(world)
    plain = world.plan(providers="forgetful").digest
    assert world.plan(providers="forgetful").digest == plain
    text = adapter.read_text(encoding="utf-8")
    adapter.write_text(text.replace('"forgetful", "1"', '"forgetful", "2"'), encoding="utf-8")
    assert world.plan(providers="forgetful").digest != plain


async def test_I1_settings_that_cannot_change_a_result_keep_the_plan_digest(world_of: Worlds) -> None:
    world = world_of()
    digest = world.plan(providers="faulty").digest
    for one in (
        {"concurrency": 3},
        {"rate": ["faulty=5/s"]},
        {"timeout": 3},
        {"note": "x"},
        {"start": 2},
        {"shard": "1/2"},
    ):
        assert world.plan(providers="faulty", **one).digest == digest


@pytest.mark.parametrize(
    "change",
    [
        {"k": 3},
        {"seed": 7},
        {"epochs": 2},
        {"answering_model": "builtin/scripted"},
        {"answer_prompt": "${question}"},
        {"context_budget": 50},
        {"metrics": "mrr"},
        {"set": {"faulty.ingest.text": "dated"}},
    ],
)
async def test_I2_a_resume_with_a_changed_setting_is_an_identity_error_with_old_and_new_value(
    world_of: Worlds, change: dict[str, object]
) -> None:
    world = world_of(corpora=1)
    script = world.write("script.jsonl", '{"match": ".", "reply": "x"}\n')
    world.variables["MEMORYBENCH_SCRIPT"] = str(script)
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive", limit=2)
    with pytest.raises(IdentityError) as refused:
        await world.resume(outcome.run_id, **change)
    assert refused.value.changes
    assert all(old != new for _, old, new in refused.value.changes)


async def test_I2_a_resume_may_change_concurrency_rates_and_timeouts_and_records_them(world_of: Worlds) -> None:
    world = world_of("search:status:code=400,calls=1,match=What", corpora=1)
    outcome = await world.run(providers="faulty", max_error_rate=1)
    await world.resume(outcome.run_id, concurrency=3, timeout=7, item_timeout=9, rate=["faulty=500/s"])
    (recorded,) = [json.loads(data)["operation"] for (data,) in world.query(outcome.run_id, "select data from resume")]
    assert (recorded["concurrency"], recorded["timeout"], recorded["item_timeout"]) == (3, 7, 9)
    assert recorded["rate"]


async def test_I3_an_error_in_a_200_body_is_retried_by_a_resume(world_of: Worlds) -> None:
    world = world_of("search:error200:calls=1,match=What opens the vault K0x1", corpora=1, items=3)
    outcome = await world.run(providers="faulty", max_error_rate=1)
    assert outcome.jobs[0].states[State.ERROR] == 1
    outcome = await world.resume(outcome.run_id)
    assert outcome.jobs[0].states == {State.MEASURED: 3}


async def test_I4_each_epoch_has_its_own_search_call_and_row(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=3)
    outcome = await world.run(providers="faulty", epochs=3, isolation="off")
    assert world.calls("search") == 9
    assert world.query(outcome.run_id, "select count(*) from phase where phase = 3") == [(9,)]
    assert outcome.status is RunState.COMPLETE


async def test_I5_two_runs_of_one_plan_share_no_namespace(world_of: Worlds) -> None:
    world = world_of(corpora=2)
    ids: list[str] = []

    async def run() -> None:
        ids.append((await world.run(providers="faulty")).run_id)

    async with anyio.create_task_group() as both:
        both.start_soon(run)
        both.start_soon(run)
    assert len(set(ids)) == 2
    assert len(world.control("namespaces?provider=default")) == 4


async def job_and_tables(world: World, run_id: str) -> tuple[dict[str, Any], list[str]]:
    """Return the only job of ``results --json``, and the lines of the printed tables."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        report = await fold(reader)
    (job,) = results_json(report)["jobs"]  # type: ignore[misc]
    lines = ["  ".join(map(str, row)) for grid in overview(report) for row in grid.rows]
    return job, lines


async def searches(world: World, run_id: str) -> list[dict[str, object]]:
    """Return the data of every search of the only job."""
    from bench.model import Phase
    from bench.plan.job_record import read_jobs

    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        (job,) = read_jobs(reader.meta.extra)
        chain = job.chain
        return [dict(one.phases[Phase.SEARCH].data) async for one in reader.items(chain)]
