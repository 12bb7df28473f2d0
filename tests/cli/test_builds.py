"""``bench builds``: fingerprint and cost of a build, and the namespaces that still hold it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio.to_thread
import pytest

from tests.cli.conftest import Bench, Done
from tests.reality.conftest import WorldOn, world_on
from tests.reality.memory_stub import MemoryStub
from tests.small_world import World

__all__ = ["world_on"]


async def in_thread(bench: Bench, *arguments: str) -> Done:
    """The stub answers on this loop while the command runs on another."""
    return await anyio.to_thread.run_sync(lambda: bench(*arguments))


async def builds(bench: Bench, *arguments: str) -> list[dict[str, object]]:
    done = await in_thread(bench, "builds", *arguments, "--json")
    found: list[dict[str, object]] = json.loads(done.stdout)["builds"]
    return found


async def fingerprint(world: World, **flags: object) -> str:
    from bench.journal import Reader
    from bench.plan.stored_builds import builds_of

    outcome = await world.run(answering_model="none", **{"providers": "bm25", **flags})
    async with Reader.open(outcome.folder) as reader:
        (build,) = await builds_of(reader)
    assert build.fingerprint is not None
    return build.fingerprint


async def test_builds_list_shows_the_lanes_that_search_a_build_its_counts_and_its_cost(
    world_on: WorldOn, bench: Bench
) -> None:
    world = await world_on(MemoryStub(), corpora=2, items=3, sessions=2)
    await world.run(providers="faulty", k=(1, 2), run_id="r1", cleanup="never", prices={"faulty": {"add": "1"}})
    (build,) = await builds(bench, "list")
    assert (build["run_id"], build["build"], build["searched_by"]) == (
        "r1", "facts/faulty@k1", ["faulty@k1", "faulty@k2"],
    )  # fmt: skip
    assert (build["n_corpora"], build["n_memories"], build["n_held"]) == (2, 4, 2)
    assert build["cost_usd"] == "4"
    assert len(str(build["fingerprint"])) == 64
    for name in ("r1", str(build["fingerprint"])[:8]):
        assert await builds(bench, "show", name) == [build]
    shown = (await in_thread(bench, "builds", "show", "r1")).stdout
    cells = dict(line.split(maxsplit=1) for line in map(str.strip, shown.splitlines()) if " " in line)
    assert (cells["searched_by"], cells["lent_to"]) == ("faulty@k1, faulty@k2", "-")


async def test_ingest_us_is_the_network_and_provider_time_of_all_batches(world_on: WorldOn, bench: Bench) -> None:
    from bench.journal import CorpusKind, Reader

    world = await world_on(MemoryStub(), corpora=2, items=2, sessions=2)
    outcome = await world.run(providers="faulty", run_id="r1", answering_model="none")
    async with Reader.open(outcome.folder) as reader:
        rows = [row async for one in reader.corpora("facts/faulty") for row in one.last if row.kind == CorpusKind.BATCH]
    (build,) = await builds(bench, "list")
    assert rows and build["ingest_us"] == sum(row.times_us["network"] + row.times_us["provider"] for row in rows)


async def test_builds_rm_clears_the_namespaces_and_keeps_the_run(
    world_on: WorldOn, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = MemoryStub()
    world = await world_on(stub, corpora=2, items=2)
    monkeypatch.setenv("FAULT_URL", str(world.url))
    await world.run(providers="faulty", k=(1, 2), run_id="r1", cleanup="never")
    assert "add --yes" in (await in_thread(bench, "builds", "rm", "r1")).stderr
    assert sum(map(bool, stub.spaces.values())) == 2
    await in_thread(bench, "builds", "rm", "r1", "--yes")
    assert not any(stub.spaces.values())
    (build,) = await builds(bench, "show", "r1")
    assert build["n_held"] == 0


def test_builds_rm_deletes_the_files_of_built_in_providers(bench: Bench, tmp_path: Path) -> None:
    bench("run", "demo", "--limit", "2", "--cleanup", "never", "--run-id", "r", "-q", "--answering-model", "none")

    def files() -> set[str]:
        return {path.parent.name for path in (tmp_path / "checkpoints/r/stores").rglob("*.sqlite")}

    def held() -> set[tuple[str, int]]:
        found = json.loads(bench("builds", "--json").stdout)["builds"]
        return {(one["provider"], one["n_held"]) for one in found}

    providers = {"bm25", "full-context", "no-memory", "oracle", "random"}
    assert (held(), files()) == ({(name, 1) for name in providers}, {"bm25", "full-context", "random"})
    assert "5 namespaces left at bm25, full-context, no-memory, oracle, random" in bench("builds", "rm", "r").stdout
    assert bench("builds", "rm", "r", "--yes").stderr == "r: cleared 5 namespaces\n"
    assert (held(), files()) == ({(name, 0) for name in providers}, set())
    assert bench("clean", "r", "--orphans", "--yes").stderr == "nothing to clean\n"
    bench("results", "r")


def test_builds_in_a_workspace_without_runs_reports_that_there_is_none(bench: Bench) -> None:
    assert "no run of this workspace" in bench("builds").stderr
    assert bench("builds", "show", "nothing", check=2).stderr.startswith("error: ")


async def test_runs_that_differ_in_k_or_seed_have_the_same_build_fingerprint(tmp_path: Path) -> None:
    world = World.make(tmp_path)
    same = await fingerprint(world)
    assert await fingerprint(world, k=3) == same
    assert await fingerprint(world, k=(2, 5)) == same
    assert await fingerprint(world, seed=7) == same


@pytest.mark.parametrize("what", ["text", "order", "unit", "selection"])
async def test_another_text_order_unit_or_selection_changes_the_build_fingerprint(what: str, tmp_path: Path) -> None:
    world = World.make(tmp_path)
    before = await fingerprint(world)
    flags: dict[str, object] = {}
    path = world.workspace / "datasets" / "facts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    if what == "text":
        rows[0]["sessions"][0][-1]["content"] += " Really."
    elif what == "order":
        rows[0]["dates"] = rows[0]["dates"][::-1]
    elif what == "unit":
        flags["set"] = {"bm25.ingest.unit": "turn"}
    else:
        flags["items_of"] = (rows[0]["id"],)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert await fingerprint(world, **flags) != before
