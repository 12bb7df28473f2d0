"""Going on with a run: which run is meant, what may change, what may not, and how that is said."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import rescored_plan, resumed_plan
from bench.engine.run_metadata import CodeState, run_meta
from bench.errors import BenchError, DataError, IdentityError, JournalError, Locked, UsageError
from bench.journal import Journal, Reader, RunState
from bench.model import State
from bench.plan.ranges import count_covered, ranges_of, union_of
from tests.rows import each_row
from tests.small_world import World

SHOWS = "bench list runs shows the runs of this workspace"


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
async def test_a_run_that_is_not_there_is_told_with_the_nearest(world: World, target: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        await planned(world, target)
    assert (error.value.message, error.value.hint) == (f'there is no run "{target}"', hint)


async def test_a_workspace_without_runs_has_none_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        await planned(World.make(tmp_path, corpora=1, items=1), "mine")
    assert error.value.hint == SHOWS


# ------------------------------------------------------------------ what may not change


async def test_nothing_has_changed(world: World) -> None:
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
async def test_a_flag_that_changes_results_is_refused_with_both_values(
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
async def test_a_file_that_was_edited_is_refused_by_its_digest(
    world: World, file: str, old: str, new: str, path: str
) -> None:
    changed = world.workspace / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    error = await refused(world)
    assert any(name == path or name.startswith(f"{path}.") for name, _, _ in error.changes)
    assert all(before != after for _, before, after in error.changes)


async def test_another_config_of_the_provider_is_refused(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=1, items=2)
    plan = world.plan(providers="faulty")
    async with Journal.create(tmp_path / "checkpoints/mine", run_meta(plan, "mine", CodeState())):
        pass
    assert await planned(world)
    world.provider("faulty", **{"ingest: {on_unknown: reset}": "ingest: {on_unknown: probe}"})
    error = await refused(world)
    assert {name.rsplit(".", 1)[0] for name, _, _ in error.changes} <= {"providers.faulty", "providers.faulty.config"}


async def test_a_dataset_that_is_gone_is_told_as_in_a_new_run(world: World) -> None:
    (world.workspace / "datasets/facts.jsonl").unlink()
    with pytest.raises(DataError):
        await planned(world)


async def test_a_benchmark_that_is_gone_is_told_as_in_a_new_run(world: World) -> None:
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
async def test_the_range_and_the_name_of_a_run_are_fixed(world: World, flag: dict[str, object], message: str) -> None:
    error = await refused(world, **flag)
    assert (error.message, error.hint) == (
        message,
        "start a new run with that value; bench merge combines runs of different ranges",
    )


async def test_the_same_range_may_be_said_again(world: World) -> None:
    await world.run(providers="bm25", run_id="part", start=2, end=5, phases="search")
    _, plan = await resumed_plan(
        "part", catalog=Catalog.load(world.workspace), flags={"start": 2, "end": 5}, environment=world.environment
    )
    assert plan.ranges == ((2, 5),)
    assert await planned(world, run_id="mine")


# ------------------------------------------------------------------ what may


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
async def test_how_a_run_is_done_may_change(world: World, flags: dict[str, object]) -> None:
    assert await planned(world, **flags)


async def test_each_process_writes_down_how_it_worked(world: World) -> None:
    await world.resume("mine", concurrency=3)
    await world.resume("mine", concurrency="auto", phases="search,evaluate")
    async with Reader.open(world.workspace / "checkpoints/mine") as reader:
        assert reader.meta.request["run_id"] == "mine"
        told = [one.data["operation"] for one in reader.resumes]
    assert [one["concurrency"] for one in told] == [3, "auto"]  # type: ignore[index]


async def test_a_run_that_somebody_holds_is_left_alone(world: World) -> None:
    async with Journal.resume(world.workspace / "checkpoints/mine"):
        with pytest.raises(Locked, match="run mine is locked by pid ") as error:
            await world.resume("mine")
    assert error.value.exit_code == 6


async def test_a_run_that_is_spread_over_a_cluster_is_not_resumed_beside_it(world: World) -> None:
    (world.workspace / "checkpoints/mine/shards").mkdir()
    with pytest.raises(UsageError) as error:
        await world.resume("mine")
    assert error.value.message == "run mine is distributed over several workers and has not ended"
    assert error.value.hint == "finish it first: bench resume mine"


# ------------------------------------------------------------------ ranges and shards of a new run


@each_row(("shard", "ranges"), [("1/4", ((1, 2),)), ("4/4", ((7, 8),)), ("1/1", ()), ("2/3", ((3, 5),))])
def test_a_shard_is_a_range(tmp_path: Path, shard: str, ranges: object) -> None:
    world = World.make(tmp_path, corpora=2, items=4)
    plan = world.plan(providers="bm25", shard=shard)
    assert plan.ranges == ranges
    assert plan.digest == world.plan(providers="bm25").digest


@each_row(
    ("flags", "message"),
    [
        ({"shard": "0/4"}, "--shard 0/4: expected i/n with i from 1 to n"),
        ({"shard": "5/4"}, "--shard 5/4: expected i/n with i from 1 to n"),
        ({"shard": "1/0"}, "--shard 1/0: expected i/n with i from 1 to n"),
        ({"shard": "0/0"}, "--shard 0/0: expected i/n with i from 1 to n"),
        ({"shard": "1/9"}, "--shard 1/9 contains no item: there are only 8 items"),
        ({"start": 9}, "--start 9: there are only 8 items"),
        ({"shard": "-1/4"}, '--shard: "-1/4" is not a shard: expected i/n, for example 1/4'),
        ({"shard": "1/4/2"}, "--shard: "),
        ({"shard": "a/b"}, "--shard: "),
        ({"start": 0}, "--start must be greater than or equal to 1, not 0"),
        ({"start": 5, "end": 4}, "flags: --end 4 is smaller than --start 5"),
        ({"shard": "1/2", "start": 1}, "flags: --shard and --start/--end exclude each other: give one"),
    ],
)
def test_a_range_that_cannot_be_is_a_usage_error(tmp_path: Path, flags: dict[str, object], message: str) -> None:
    world = World.make(tmp_path, corpora=2, items=4)
    with pytest.raises(UsageError) as error:
        world.plan(providers="bm25", **flags)
    assert error.value.message.startswith(message)
    assert error.value.exit_code == 2


@each_row("total", [1, 7, 15, 16])
def test_the_shards_of_a_run_are_all_of_it(total: int) -> None:
    for count in range(1, total + 1):
        parts = [ranges_of(RunRequest(shard=f"{at}/{count}"), total) for at in range(1, count + 1)]
        sizes = [count_covered(part, total) for part in parts]
        assert union_of(parts, total) == ()
        assert sum(sizes) == total
        assert max(sizes) - min(sizes) <= 1


async def test_what_a_run_was_asked_can_be_read_back(world: World) -> None:
    async with Reader.open(world.workspace / "checkpoints/mine") as reader:
        meta = reader.meta
    assert json.loads(json.dumps(dict(meta.request))) == {
        "benchmarks": ["facts"], "providers": ["bm25"], "run_id": "mine", "phases": ["search"],
    }  # fmt: skip
    assert (meta.total, meta.ranges) == (8, ())
    assert {"jobs", "environment", "labels", "note", "operation", "notes"} == set(meta.extra)


async def test_a_request_of_another_version_says_what_it_cannot_read(world: World) -> None:
    path = world.workspace / "checkpoints/mine/journal.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = json_set(value, '$.telepathy', 1) where key = 'request'")
        connection.commit()
    with pytest.raises(JournalError) as error:
        await planned(world)
    assert error.value.message == 'run mine has a setting that is unknown to this version: "telepathy"'
    assert error.value.hint == "continue with the version of bench that started the run"
    with pytest.raises(JournalError, match="telepathy"):
        await rescored_plan("mine", catalog=Catalog.load(world.workspace), flags={}, environment=world.environment)
