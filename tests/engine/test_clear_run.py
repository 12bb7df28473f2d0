"""``clear_run`` clears the namespaces that a run left at providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine.corpora.cleanup import clear_run
from bench.errors import AuthError, BenchError, Locked
from bench.journal import Journal, Reader, RunState
from bench.plan.leftover_namespaces import leftovers
from tests.engine.scripted_store import ScriptedStore
from tests.small_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path, corpora=3, items=2)


def folder_of(world: World) -> Path:
    return world.workspace / "checkpoints/r"


async def left(world: World) -> list[str]:
    """Return the corpora of the run that are not cleared."""
    async with Reader.open(folder_of(world)) as reader:
        return [corpus for one in await leftovers(reader) for corpus in one.attempts]


async def state(world: World) -> tuple[RunState, str]:
    async with Reader.open(folder_of(world)) as reader:
        status = await reader.status()
    return status.state, status.reason


async def test_each_remaining_namespace_is_cleared_and_recorded(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never", phases="ingest,index")
    assert len(store.held) == 3
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 3
    assert store.held == {}
    rows = world.query("r", "select corpus, data from corpus_row where kind = 'cleared' order by corpus")
    assert [corpus for corpus, _ in rows] == ["c0", "c1", "c2"]
    assert all('"removed":3' in data for _, data in rows), "the number of removed memories"


async def test_a_run_with_cleanup_has_no_namespace_to_clear(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r")
    assert await left(world) == []
    store.forget_calls()
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 0
    assert store.calls() == []


async def test_a_second_clear_makes_no_call(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never")
    await clear_run(world.workspace, folder_of(world), world.environment)
    store.forget_calls()
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 0
    assert store.calls() == []


async def test_a_corpus_without_an_ingest_is_not_cleared(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never", items_of=["c1"])
    assert await left(world) == ["c1"]
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 1
    assert len(store.calls("clear")) == 1


async def test_only_the_last_attempt_of_a_corpus_is_cleared(world: World) -> None:
    store = ScriptedStore.install(world)
    store.fails("ingest", at=1, error="Unavailable")
    await world.run(providers="scripted", run_id="r", cleanup="never", items_of=["c0"])
    (held,) = store.held
    store.forget_calls()
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 1
    assert [call["namespace"] for call in store.calls("clear")] == [held]


async def test_the_state_of_a_run_is_unchanged_by_a_clear(world: World) -> None:
    ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never", phases="search")
    before = await state(world)
    assert before[0] is RunState.PARTIAL
    await clear_run(world.workspace, folder_of(world), world.environment)
    assert await state(world) == before


async def test_namespaces_cleared_before_an_error_are_recorded(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never")
    store.fails("clear", at=1, error="AuthError")
    with pytest.raises(AuthError):
        await clear_run(world.workspace, folder_of(world), world.environment)
    assert await left(world) == ["c1", "c2"]
    assert (await state(world))[0] is not RunState.RUNNING
    store.heal()
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 2


async def test_a_provider_that_cannot_clear_is_not_called(world: World) -> None:
    store = ScriptedStore.install(world, clears=False)
    await world.run(providers="scripted", run_id="r")
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 0
    assert store.calls("clear") == []


async def test_built_in_providers_have_no_namespace_to_clear(world: World) -> None:
    await world.run(providers="bm25", run_id="r", cleanup="never")
    assert await clear_run(world.workspace, folder_of(world)) == 0


async def test_a_running_run_is_not_cleared(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never")
    async with Journal.resume(folder_of(world)):
        with pytest.raises(Locked):
            await clear_run(world.workspace, folder_of(world), world.environment)
    assert len(store.held) == 3


async def test_a_missing_provider_config_is_an_error_with_its_name(world: World) -> None:
    ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never")
    (world.workspace / "configs/providers/scripted.yaml").unlink()
    with pytest.raises(BenchError, match="scripted"):
        await clear_run(world.workspace, folder_of(world), world.environment)
    assert (await state(world))[0] is RunState.COMPLETE


async def test_each_namespace_of_a_partial_run_is_cleared(world: World) -> None:
    store = ScriptedStore.install(world)
    await world.run(providers="scripted", run_id="r", cleanup="never", start=2, end=4)
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 2
    assert store.held == {}


async def test_a_provider_named_by_alias_with_changed_settings_is_cleared(world: World) -> None:
    store = ScriptedStore.install(world)
    with (world.workspace / "configs/providers/scripted.yaml").open("a", encoding="utf-8") as file:
        file.write("aliases: [script]\n")
    flags = {"providers": "bm25,script", "set": {"script.description": "of one run"}}
    await world.run(run_id="r", cleanup="never", **flags)
    assert await clear_run(world.workspace, folder_of(world), world.environment) == 3
    assert store.held == {}
