"""Merged runs: counts, resume, rescore and fork."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.engine import execute, forked_plan, rescored_plan
from bench.errors import IdentityError, JournalError
from bench.journal import MergeOutcome, Reader, RunState, merge
from bench.model import Phase, State
from bench.plan.job_record import read_jobs
from bench.report import fold
from tests.small_world import World

FLAGS = {"providers": "bm25", "answering_model": "builtin/extractive", "cleanup": "never"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """60 items, ten in each of six corpora; half of type one, half of type two."""
    return World.make(tmp_path, corpora=6, items=10)


async def joined(world: World, *parts: Mapping[str, object], into: str = "whole", **flags: object) -> MergeOutcome:
    """Run each part and merge them."""
    folders = [(await world.run(**FLAGS, **flags, **part)).folder for part in parts]
    return await merge(folders, world.workspace / "checkpoints" / into, run_id=into)


async def planned(world: World, run_id: str) -> list[int]:
    """Return the number of selected items of each job."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        return [job.n_selected for job in read_jobs(reader.meta.extra)]


async def counted(world: World, run_id: str) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return planned items, ended items and gaps of the report."""
    async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
        report = await fold(reader)
    return report.jobs[0].record.n_selected, report.jobs[0].n_ended, report.gaps


async def test_overlapping_ranges_count_shared_items_once_and_missing_ones_as_pending(world: World) -> None:
    outcome = await joined(world, {"start": 1, "end": 30}, {"start": 20, "end": 50})
    assert (outcome.gaps, outcome.state) == (((51, 60),), RunState.PARTIAL)
    assert await counted(world, "whole") == (60, 50, ((51, 60),))


async def test_a_corpus_in_two_parts_counts_once_in_notes(world: World) -> None:
    async def notes_of(run_id: str) -> list[str]:
        async with Reader.open(world.workspace / "checkpoints" / run_id) as reader:
            return [note for note in (await fold(reader)).jobs[0].notes if "size of the corpora" in note]

    whole = await world.run(**FLAGS, k=50)
    await joined(world, {"start": 1, "end": 35}, {"start": 36, "end": 60}, into="both", k=50)
    assert await notes_of("both") == await notes_of(whole.run_id)
    assert "(6 of 6 contain fewer than 100 memories" in (await notes_of("both"))[0]


async def test_overlapping_ranges_that_cover_all_items_are_complete(world: World) -> None:
    outcome = await joined(world, {"start": 1, "end": 40}, {"start": 21, "end": 60})
    assert (outcome.gaps, outcome.state) == ((), RunState.COMPLETE)
    assert await counted(world, "whole") == (60, 60, ())


async def test_a_range_inside_another_adds_no_item(world: World) -> None:
    await joined(world, {"start": 1, "end": 30}, {"start": 5, "end": 9})
    assert await counted(world, "whole") == (60, 30, ((31, 60),))


async def test_a_complete_run_merged_with_a_range_of_it_is_complete(world: World) -> None:
    await joined(world, {}, {"start": 5, "end": 9})
    assert await counted(world, "whole") == (60, 60, ())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"question_type": ["one"]}, (30, 25)),
        ({"items_of": ["c2", "c3"]}, (20, 20)),
        ({"items_of": ["c2", "c5"]}, (20, 10)),
    ],
)
async def test_filtered_items_of_overlapping_ranges_count_once(
    world: World, flags: Mapping[str, object], expected: tuple[int, int]
) -> None:
    await joined(world, {"start": 1, "end": 30}, {"start": 20, "end": 50}, **flags)
    assert (await counted(world, "whole"))[:2] == expected


@pytest.mark.parametrize(("flags", "most"), [({"limit": 5}, 10), ({"sample": 6, "seed": 3}, 12)])
async def test_limits_and_samples_per_range_are_summed_without_shared_items(
    world: World, flags: Mapping[str, object], most: int
) -> None:
    await joined(world, {"start": 1, "end": 30}, {"start": 20, "end": 50}, **flags)
    n_planned, ended, _ = await counted(world, "whole")
    assert n_planned == ended
    assert n_planned <= most
    assert "sample" in flags or n_planned == most


async def test_without_verdicts_searches_identify_shared_items(world: World) -> None:
    await joined(world, {"start": 1, "end": 30}, {"start": 10, "end": 50}, phases="search", limit=15)
    assert await planned(world, "whole") == [24], "15 from 1 and 15 from 10, of which both have six"


async def test_ranges_beyond_a_shorter_benchmark_count_its_items(world: World) -> None:
    short = world.workspace / "datasets/short.jsonl"
    short.write_text((world.workspace / "datasets/facts.jsonl").read_text().splitlines(keepends=True)[0])
    text = (world.workspace / "configs/benchmarks/facts.yaml").read_text()
    world.write("configs/benchmarks/short.yaml", text.replace("facts", "short"))
    await joined(world, {"start": 5, "end": 30}, {"start": 20, "end": 50}, benchmarks=["facts", "short"])
    assert await planned(world, "whole") == [60, 10]


async def test_resume_of_a_merged_run_processes_all_covered_items(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40}, phases="search")
    outcome = await world.resume("whole", phases="search,answer,evaluate")
    assert outcome.jobs[0].states == {State.CORRECT: 20}
    assert (outcome.status, outcome.exit_code) == (RunState.PARTIAL, 0)
    assert await counted(world, "whole") == (60, 20, ((11, 30), (41, 60)))
    assert (await world.resume("whole")).message == "nothing left to do"


async def test_resume_of_a_merged_run_without_gaps_completes_it(world: World) -> None:
    await joined(world, {"shard": "1/2"}, {"shard": "2/2"}, phases="search")
    outcome = await world.resume("whole", phases="search,answer,evaluate")
    assert (outcome.status, outcome.jobs[0].states) == (RunState.COMPLETE, {State.CORRECT: 60})


async def test_resume_of_a_merged_run_keeps_the_limit_of_each_part(world: World) -> None:
    await joined(world, {"shard": "1/2"}, {"shard": "2/2"}, phases="search", limit=4)
    outcome = await world.resume("whole", phases="search,answer,evaluate")
    assert outcome.jobs[0].states == {State.CORRECT: 8}
    assert await counted(world, "whole") == (8, 8, ())


async def test_a_merge_of_merged_runs_keeps_each_part(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 11, "end": 20}, into="first", phases="search", limit=3)
    last = await world.run(**FLAGS, start=41, end=60, phases="search", limit=3)
    checkpoints = world.workspace / "checkpoints"
    await merge([last.folder, checkpoints / "first"], checkpoints / "whole", run_id="whole")
    outcome = await world.resume("whole", phases="search,answer,evaluate")
    assert outcome.jobs[0].states == {State.CORRECT: 9}
    assert await counted(world, "whole") == (9, 9, ((21, 40),))


@pytest.mark.parametrize("flag", [{"start": 1}, {"end": 10}, {"shard": "1/2"}])
async def test_a_merged_run_rejects_another_range(world: World, flag: dict[str, object]) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40}, phases="search")
    with pytest.raises(IdentityError) as refused:
        await world.resume("whole", **flag)
    (name,) = flag
    assert str(refused.value) == f"--{name} of run whole cannot change"
    assert (
        refused.value.hint == "start a new run with the new value; combine runs of different ranges with: bench merge"
    )


async def test_a_rescore_of_a_merged_run_scores_each_part(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40})
    catalog = Catalog.load(world.workspace)
    folder, plan, scope = await rescored_plan(
        "whole", catalog=catalog, flags={"metrics": "mrr"}, environment=world.environment
    )
    outcome = await execute(plan, environment=world.environment, resume=folder, scope=scope)
    assert outcome.jobs[0].states == {State.CORRECT: 20}
    assert await planned(world, "whole") == [60]
    async with Reader.open(folder) as reader:
        assert sum([len(one.items) async for one in reader.values("facts/bm25|builtin/extractive|none")]) == 20


async def test_a_fork_of_a_merged_run_has_each_part(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40})
    flags = {"answering_model": "none", "run_id": "forked"}
    plan, scope = await forked_plan(
        "whole", Phase.ANSWER, catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment
    )
    outcome = await execute(plan, environment=world.environment, scope=scope)
    assert (outcome.status, outcome.jobs[0].states) == (RunState.PARTIAL, {State.MEASURED: 20})
    assert await counted(world, "forked") == (20, 20, ((11, 30), (41, 60)))
    assert (await world.resume("forked")).message == "nothing left to do"


async def test_a_fork_of_a_merged_run_can_have_its_own_range(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40})
    flags = {"answering_model": "none", "start": 36, "end": 40}
    plan, scope = await forked_plan(
        "whole", Phase.ANSWER, catalog=Catalog.load(world.workspace), flags=flags, environment=world.environment
    )
    assert plan.ranges == ((36, 40),)
    assert (await execute(plan, environment=world.environment, scope=scope)).jobs[0].states == {State.MEASURED: 5}


async def test_a_part_with_other_data_is_rejected_and_no_run_is_written(world: World) -> None:
    first = await world.run(**FLAGS, start=1, end=10)
    path = world.workspace / "datasets/facts.jsonl"
    path.write_text(path.read_text().replace("W5y9", "W5y8"))
    second = await world.run(**FLAGS, start=11, end=60)
    with pytest.raises(IdentityError) as refused:
        await merge([first.folder, second.folder], world.workspace / "checkpoints/whole", run_id="whole")
    changed = {name for name, _, _ in refused.value.changes}
    assert "benchmarks.facts.dataset.sha256" in changed
    assert refused.value.exit_code == 2
    assert not (world.workspace / "checkpoints/whole").exists()


@pytest.mark.parametrize("part", [0.2, 0.9])
async def test_an_incomplete_journal_is_rejected_by_name_and_no_run_is_written(
    world: World, tmp_path: Path, part: float
) -> None:
    first = await world.run(**FLAGS, start=1, end=10)
    second = await world.run(**FLAGS, start=11, end=60)
    cut = tmp_path / "copied.sqlite"
    whole = (second.folder / "journal.sqlite").read_bytes()
    cut.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(JournalError) as refused:
        await merge([first.folder, cut], world.workspace / "checkpoints/whole", run_id="whole")
    assert refused.value.where == str(cut)
    assert cut.stat().st_size == int(len(whole) * part)
    assert not (world.workspace / "checkpoints/whole").exists()


async def test_a_copied_journal_can_be_resumed_in_another_folder(world: World, tmp_path: Path) -> None:
    first = await world.run(**FLAGS, start=1, end=10, phases="search")
    copied = tmp_path / "elsewhere" / "journal.sqlite"
    copied.parent.mkdir()
    shutil.copy(first.folder / "journal.sqlite", copied)
    outcome = await world.resume(str(copied), phases="search,answer,evaluate")
    assert outcome.folder == copied.parent
    assert outcome.jobs[0].states == {State.CORRECT: 10}


async def test_a_merged_run_records_its_parts(world: World) -> None:
    await joined(world, {"start": 1, "end": 10}, {"start": 31, "end": 40}, note="mine")
    async with Reader.open(world.workspace / "checkpoints/whole") as reader:
        request, extra = reader.meta.request, reader.meta.extra
    assert not {"start", "end", "shard", "run_id"} & set(request)
    assert extra["parts"] == [[1, 10], [31, 40]]
    assert extra["note"] == "mine"
    shards = json.loads(json.dumps(extra["merged"])).values()
    assert sorted(one["ranges"] for one in shards) == [[[1, 10]], [[31, 40]]]
