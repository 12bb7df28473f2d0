"""Resume: how a run is named, settings that can change and settings that cannot."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.engine import rescored_plan, resumed_plan
from bench.engine.run_metadata import CodeState, run_meta
from bench.errors import BenchError, DataError, IdentityError, JournalError, Locked, UsageError
from bench.journal import Journal, Reader, RunState
from bench.model import State
from bench.settings import Environment
from tests.small_world import World

SHOWS = "list the runs of this workspace with: bench list runs"


@pytest.fixture
async def world(tmp_path: Path) -> World:
    """A workspace with one run ``mine`` that searched and did not evaluate yet."""
    made = World.make(tmp_path, corpora=2, items=4)
    await made.run(providers="bm25", run_id="mine", phases="search")
    return made


async def planned(world: World, target: str = "mine", **flags: object) -> Path:
    folder, _ = await resumed_plan(
        target, catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment
    )
    return folder


async def refused(world: World, **flags: object) -> IdentityError:
    with pytest.raises(IdentityError) as error:
        await planned(world, **flags)
    assert error.value.exit_code == 2
    return error.value


# ------------------------------------------------------------------ which run


async def test_a_run_is_named_by_id_folder_or_file(world: World) -> None:
    folder = world.workspace / "checkpoints/mine"
    assert await planned(world, "mine") == folder
    assert await planned(world, str(folder)) == folder
    assert await planned(world, str(folder / "journal.sqlite")) == folder / "journal.sqlite"


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("mime", 'did you mean "mine"?'),
        ("entirely-else", SHOWS),
        ("../mine", 'did you mean "mine"?'),
        ("", SHOWS),
        ("a/b", SHOWS),
        ("x" * 300, SHOWS),
    ],
)
async def test_an_unknown_run_suggests_the_nearest_one(world: World, target: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        await planned(world, target)
    assert (error.value.message, error.value.hint) == (f'there is no run "{target}"', hint)


async def test_an_unknown_run_in_an_empty_workspace_hints_at_bench_list_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        await planned(World.make(tmp_path, corpora=1, items=1), "mine")
    assert error.value.hint == SHOWS


# ------------------------------------------------------------------ fixed settings


async def test_an_unchanged_run_can_be_resumed(world: World) -> None:
    outcome = await world.resume("mine", phases="search,evaluate")
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.MEASURED: 8})


@pytest.mark.parametrize(
    ("flags", "path", "old", "new"),
    [
        ({"seed": 4}, "settings.seed", "0", "4"),
        ({"k": 3}, "benchmarks.facts.k", "10", "3"),
        ({"epochs": 2}, "settings.epochs", "1", "2"),
        ({"limit": 1}, "settings.selection.limit", "null", "1"),
        ({"context_budget": 70}, "benchmarks.facts.context_budget", "120000", "70"),
    ],
)
async def test_a_flag_that_changes_results_is_rejected_with_both_values(
    world: World, flags: Mapping[str, object], path: str, old: str, new: str
) -> None:
    error = await refused(world, **flags)
    assert (path, old, new) in error.changes
    assert str(error).startswith("the plan differs from the one that run mine was started with\n")
    assert f"\n  {path}: {old} -> {new}" in str(error)
    assert error.hint == IdentityError.default_hint


@pytest.mark.parametrize(
    ("file", "old", "new", "path"),
    [
        ("configs/benchmarks/facts.yaml", "method: contains", "method: exact-match", "benchmarks.facts"),
        ("configs/benchmarks/facts.yaml", 'version: "1"', 'version: "2"', "benchmarks.facts.version"),
        ("datasets/facts.jsonl", "W1y3", "W1y4", "benchmarks.facts.dataset.sha256"),
        ("datasets/facts.jsonl", '"c1q3"', '"c1q4"', "benchmarks.facts.dataset.sha256"),
        ("datasets/facts.jsonl", "\n", "\n\n", "benchmarks.facts.dataset.sha256"),
    ],
)
async def test_an_edited_config_or_dataset_is_rejected_by_its_digest(
    world: World, file: str, old: str, new: str, path: str
) -> None:
    changed = world.workspace / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    error = await refused(world)
    assert any(name == path or name.startswith(f"{path}.") for name, _, _ in error.changes)
    assert all(before != after for _, before, after in error.changes)


async def test_a_changed_provider_config_is_rejected(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=1, items=2)
    plan = world.plan(providers="faulty")
    async with Journal.create(tmp_path / "checkpoints/mine", run_meta(plan, "mine", CodeState(), Environment())):
        pass
    assert await planned(world)
    world.provider("faulty", **{"ingest: {on_unknown: reset}": "ingest: {on_unknown: probe}"})
    error = await refused(world)
    assert {name.rsplit(".", 1)[0] for name, _, _ in error.changes} <= {"providers.faulty", "providers.faulty.config"}


async def test_a_missing_dataset_is_a_DataError(world: World) -> None:
    (world.workspace / "datasets/facts.jsonl").unlink()
    with pytest.raises(DataError):
        await planned(world)


async def test_a_missing_benchmark_exits_2_and_is_named(world: World) -> None:
    (world.workspace / "configs/benchmarks/facts.yaml").unlink()
    with pytest.raises(BenchError) as error:
        await planned(world)
    assert error.value.exit_code == 2
    assert "facts" in str(error.value)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ({"start": 2}, "--start of run mine cannot change"),
        ({"end": 3}, "--end of run mine cannot change"),
        ({"shard": "1/2"}, "--shard of run mine cannot change"),
        ({"run_id": "other"}, "--run-id of run mine cannot change"),
    ],
)
async def test_range_and_run_id_of_a_run_cannot_change(world: World, flag: dict[str, object], message: str) -> None:
    error = await refused(world, **flag)
    assert (error.message, error.hint) == (
        message,
        "start a new run with the new value; combine runs of different ranges with: bench merge",
    )


async def test_the_same_range_and_run_id_are_accepted(world: World) -> None:
    await world.run(providers="bm25", run_id="part", start=2, end=5, phases="search")
    _, plan = await resumed_plan(
        "part", catalog=Catalog.load(world.workspace), flags={"start": 2, "end": 5}, environment=world.environment
    )
    assert plan.ranges == ((2, 5),)
    assert await planned(world, run_id="mine")


# ------------------------------------------------------------------ changeable settings


@pytest.mark.parametrize(
    "flags",
    [
        {"concurrency": 3},
        {"concurrency": "auto"},
        {"timeout": 9},
        {"item_timeout": "2m"},
        {"isolation": "off"},
        {"cleanup": "never"},
        {"max_cost": 3.5},
        {"max_error_rate": 1},
        {"phases": "ingest,index,search,answer,evaluate"},
        {"note": "second try"},
    ],
)
async def test_settings_that_do_not_change_results_can_change(world: World, flags: dict[str, object]) -> None:
    assert await planned(world, **flags)


async def test_each_resume_records_its_settings(world: World) -> None:
    await world.resume("mine", concurrency=3)
    await world.resume("mine", concurrency="auto", phases="search,evaluate")
    async with Reader.open(world.workspace / "checkpoints/mine") as reader:
        assert reader.meta.request["run_id"] == "mine"
        operations = [one.data["operation"] for one in reader.resumes]
    assert [one["concurrency"] for one in operations] == [3, "auto"]  # type: ignore[index]


async def test_a_run_locked_by_another_process_cannot_be_resumed(world: World) -> None:
    async with Journal.resume(world.workspace / "checkpoints/mine"):
        with pytest.raises(Locked, match="run mine is locked by pid ") as error:
            await world.resume("mine")
    assert error.value.exit_code == 6


async def test_a_cluster_run_cannot_be_resumed_without_its_cluster(world: World) -> None:
    (world.workspace / "checkpoints/mine/shards").mkdir()
    with pytest.raises(UsageError) as error:
        await world.resume("mine")
    assert error.value.message == "run mine is distributed over several workers and has not ended"
    assert error.value.hint == "finish the run first: bench resume mine"


async def test_the_journal_stores_request_and_metadata_of_the_run(world: World) -> None:
    async with Reader.open(world.workspace / "checkpoints/mine") as reader:
        meta = reader.meta
    assert json.loads(json.dumps(dict(meta.request))) == {
        "benchmarks": ["facts"], "providers": ["bm25"], "run_id": "mine", "phases": ["search"],
    }  # fmt: skip
    assert (meta.total, meta.ranges) == (8, ())
    assert {"jobs", "environment", "labels", "note", "operation", "notes"} == set(meta.extra)


async def test_a_run_of_a_version_with_other_rules_names_that_version(world: World) -> None:
    with closing(sqlite3.connect(world.workspace / "checkpoints/mine/journal.sqlite")) as journal, journal:
        tree = json.loads(journal.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()[0])
        tree["benchmarks"]["facts"]["evaluators"][0] = "contains/2"
        journal.execute("UPDATE meta SET value = ? WHERE key = 'identity'", (json.dumps(tree),))
        journal.execute("UPDATE meta SET value = '\"0\"' WHERE key = 'plan_digest'")
        journal.execute("UPDATE meta SET value = ? WHERE key = 'code_state'", (json.dumps({"commit": "ab" * 20}),))
    error = await refused(world)
    assert [path for path, _, _ in error.changes] == ["benchmarks.facts.evaluators[0]"]
    assert "the version of bench that started it (commit abababababab): no setting was changed" in str(error.hint)


async def test_a_setting_unknown_to_this_version_is_a_JournalError(world: World) -> None:
    path = world.workspace / "checkpoints/mine/journal.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = json_set(value, '$.telepathy', 1) where key = 'request'")
        connection.commit()
    with pytest.raises(JournalError) as error:
        await planned(world)
    assert error.value.message == 'run mine has the setting "telepathy", which this version of bench does not know'
    assert error.value.hint == "resume the run with the version of bench that started it"
    with pytest.raises(JournalError, match="telepathy"):
        await rescored_plan("mine", catalog=Catalog.load(world.workspace), flags={}, environment=world.environment)
