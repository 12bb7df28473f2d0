"""Jobs that differ only in their search share one ingest: it is sent, paid and cleared once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from aiohttp import web

from bench.errors import IdentityError
from bench.model import State
from tests.cli.conftest import Bench
from tests.cli.test_builds import in_thread
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row
from tests.small_world import PROVIDER, World

SEARCH = 'body: {query: "$.query", namespace: "$.runTag", limit: "$.k"}'
FLOOR = 'body: {query: "$.query", namespace: "$.runTag", limit: "$.k", floor: "${floor}"}'
FLOORS = {"providers": ("faulty@low", "faulty@high"), "set": {"faulty@high.vars.floor": '"0.9"'}}


def with_floor(world: World, **replaced: str) -> None:
    """Add a threshold that only the search uses."""
    base = PROVIDER.replace(SEARCH, FLOOR) + 'vars: {floor: "0.1"}\n'
    world.provider("faulty", base=base, **replaced)


def labels(world: World, **flags: object) -> list[tuple[str, bool]]:
    return [(lane.provider.label, bool(lane.shares)) for lane in world.plan(**flags).lanes]


async def test_ten_jobs_of_five_k_and_two_thresholds_send_the_adds_of_one_job(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=3, sessions=2)
    with_floor(world)
    outcome = await world.run(**FLOORS, k=(1, 2, 3, 4, 5))
    assert (outcome.exit_code, len(outcome.jobs)) == (0, 10)
    assert {sum(job.states.values()) for job in outcome.jobs} == {6}
    assert stub.calls("add") == 4, "two sessions of two corpora"
    sent = {(body["limit"], body.get("floor")) for body in stub.seen["search"] if str(body["query"]).endswith("?")}
    assert sent >= {(k, floor) for k in (1, 2, 3, 4, 5) for floor in ("0.1", "0.9")}
    assert len(stub.cleared) == 2 and not any(stub.spaces.values()), "each namespace is cleared once, after all jobs"


async def test_twenty_jobs_of_k_threshold_and_search_path_send_the_adds_of_one_job(world_on: WorldOn) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=3, sessions=2)
    with_floor(world)
    names = [f"faulty@{variant}-{floor}" for variant in ("plain", "wide") for floor in ("low", "high")]
    settings = {f"{name}.vars.floor": '"0.9"' for name in names if name.endswith("high")}
    settings |= {f"{name}.endpoints.search.path": "/v1/wide/search" for name in names if "wide" in name}
    outcome = await world.run(providers=names, set=settings, k=(1, 2, 3, 4, 5), answering_model="none")
    assert (outcome.exit_code, len(outcome.jobs)) == (0, 20)
    assert {sum(job.states.values()) for job in outcome.jobs} == {6}
    assert stub.calls("add") == 4, "as many as of one job: two sessions of two corpora"


async def test_jobs_of_a_shared_build_end_as_they_do_in_separate_runs(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=2, items=4)
    with_floor(world)
    together = await world.run(providers="faulty", k=(1, 4), run_id="together")
    for k in (1, 4):
        alone = await world.run(providers="faulty", k=k, run_id=f"alone{k}")
        shared = next(job for job in together.jobs if job.provider == f"faulty@k{k}")
        assert (shared.states, shared.valid) == (alone.jobs[0].states, alone.jobs[0].valid)


@each_row(
    ("flags", "shared"),
    [
        ({"set": {"faulty@b.vars.floor": '"0.9"'}}, True),
        ({"set": {"faulty@b.endpoints.search.path": "/v1/other/search"}}, True),
        ({"set": {"faulty@b.capabilities.max_k": "3"}}, True),
        ({}, False),
        ({"set": {"faulty@b.ingest.unit": "turn"}}, False),
        ({"set": {"faulty@b.ingest.text": "dated"}}, False),
        ({"set": {"faulty@b.connection.baseUrl": "http://127.0.0.1:9"}}, False),
        ({"set": {"faulty@b.endpoints.add.path": "/v1/other/add"}}, False),
        ({"set": {"faulty@b.scoping.runIdFormat": "other-${runId}"}}, False),
    ],
)
def test_variants_share_a_build_only_if_just_their_search_differs(
    flags: dict[str, object], shared: bool, tmp_path: Path
) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:8")
    with_floor(world)
    assert labels(world, providers=("faulty@a", "faulty@b"), **flags) == [("faulty@a", False), ("faulty@b", shared)]


def test_a_provider_with_search_mutates_shares_no_build(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:8")
    world.provider("faulty", extra="determinism: search_mutates\n")
    assert labels(world, providers="faulty", k=(1, 2)) == [("faulty@k1", False), ("faulty@k2", False)]


def test_variants_with_different_variables_in_add_share_no_build(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:8")
    with_floor(world, **{"path: /v1/add": 'path: "/v1/${floor}/add"'})
    assert not any(shared for _, shared in labels(world, **FLOORS))


async def test_built_in_providers_share_one_ingest_over_several_k(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=2, items=3)
    outcome = await world.run(providers=("bm25", "full-context", "random", "oracle", "no-memory"), k=(1, 3))
    assert (outcome.exit_code, len(outcome.jobs)) == (0, 10)
    assert {sum(job.states.values()) for job in outcome.jobs} == {6}
    rows = world.query(outcome.run_id, "SELECT count(*) FROM corpus_row WHERE kind = 'ingested'")
    assert rows == [(10,)], "two corpora of five providers"


async def test_a_failed_corpus_is_an_error_in_every_job_of_a_shared_build(world_on: WorldOn) -> None:
    def refuse(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"error": "no"}, status=400) if number == 1 else None

    world = await world_on(MemoryStub(answers={"add": refuse}), corpora=2, items=3)
    outcome = await world.run(providers="faulty", k=(1, 2), ingest_concurrency=1)
    assert [job.states[State.ERROR] for job in outcome.jobs] == [3, 3]
    assert all(not job.valid for job in outcome.jobs)


async def test_a_namespace_that_was_not_empty_makes_every_job_of_a_shared_build_invalid(world_on: WorldOn) -> None:
    def held(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({"count": 7}) if number <= 1 else None

    world = await world_on(MemoryStub(answers={"count": held}), corpora=2, items=3)
    outcome = await world.run(providers="faulty", k=(1, 2), ingest_concurrency=1)
    assert ["namespace" in str(job.invalid) for job in outcome.jobs] == [True, True], outcome.jobs


async def test_a_stopped_job_of_a_shared_build_is_resumed_without_new_adds(world_on: WorldOn) -> None:
    refusing = True

    def refuse(number: int, request: web.Request, body: dict[str, object]) -> web.Response | None:
        return web.json_response({}, status=401) if refusing and body["limit"] == 2 else None

    stub = MemoryStub(answers={"search": refuse})
    world = await world_on(stub, corpora=2, items=3)
    first = await world.run(providers="faulty", k=(1, 2), isolation="off")
    done = {job.provider: job.states.get(State.MEASURED, 0) for job in first.jobs}
    assert first.exit_code == 3
    assert (done["faulty@k1"], done["faulty@k2"]) == (6, 0), first.jobs
    assert not stub.cleared, "the other job still needs them"
    adds, refusing = stub.calls("add"), False
    second = await world.resume(first.run_id)
    assert second.exit_code == 0
    assert {sum(job.states.values()) for job in second.jobs} == {6}
    assert stub.calls("add") == adds
    assert not any(stub.spaces.values())


async def test_results_of_a_shared_build_count_its_calls_once(world_on: WorldOn, bench: Bench) -> None:
    world = await world_on(MemoryStub(), corpora=2, items=3, sessions=2)
    outcome = await world.run(providers="faulty", k=(1, 2), prices={"faulty": {"add": "1", "search": "0"}})
    assert outcome.cost_usd == "4"
    found = json.loads((await in_thread(bench, "results", outcome.run_id, "--json")).stdout)
    assert [(job["provider"], job["k"]) for job in found["jobs"]] == [("faulty@k1", 1), ("faulty@k2", 2)]
    assert {json.dumps(job["build"], sort_keys=True) for job in found["jobs"]} == {
        '{"lane": "facts/faulty@k1", "searches": 2}'
    }
    paid = [float(job["usage"]["provider"]["cost_usd"]) for job in found["jobs"]]
    assert paid == [4.0, 0.0]
    assert "(shared)" in (await in_thread(bench, "results", outcome.run_id)).stdout


async def test_a_run_of_a_version_without_shared_builds_cannot_be_resumed_and_has_a_hint(world_on: WorldOn) -> None:
    """Older versions ingested once for each variant."""
    world = await world_on(MemoryStub(), corpora=1, items=2)
    with_floor(world)
    await world.run(**FLOORS, answering_model="none", run_id="r1")
    with closing(sqlite3.connect(world.workspace / "checkpoints/r1/journal.sqlite")) as journal, journal:
        tree = json.loads(journal.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()[0])
        for job in tree["jobs"].values():
            job.pop("build", None)
        journal.execute("UPDATE meta SET value = ? WHERE key = 'identity'", (json.dumps(tree),))
        journal.execute("UPDATE meta SET value = '\"0\"' WHERE key = 'plan_digest'")
    with pytest.raises(IdentityError, match=r"build: \(absent\) -> facts/faulty@low") as refused:
        await world.resume("r1")
    assert "resume the run with the version of bench that started it" in str(refused.value.hint)


def test_the_plan_counts_one_shared_build_and_all_searches(tmp_path: Path) -> None:
    from bench.plan.cost_estimate import estimate

    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=2, items=5)
    with_floor(world)
    found = estimate(world.plan(**FLOORS, k=(5, 10, 20)))
    (adds,) = [one.calls for one in found.endpoints if one.endpoint == "faulty.add"]
    (alone,) = [one.calls for one in estimate(world.plan(providers="faulty")).endpoints if one.endpoint == "faulty.add"]
    assert (found.builds, found.searches, found.corpora, adds) == (1, 60, 2, alone)


def test_a_single_k_does_not_change_labels_or_the_stored_request(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:9")
    plan = world.plan(providers="faulty", k="3")
    assert [lane.provider.label for lane in plan.lanes] == ["faulty"]
    assert plan.request.model_dump(mode="json", exclude_unset=True)["k"] == 3
