"""Two machines measured the same items: different times are not a conflict, the earlier row wins."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bench.errors import MergeConflict
from bench.journal import Journal, RunState, merge
from bench.journal.reader import Reader
from bench.model import State
from tests.journal.journal_samples import JOB, START, meta, scored

MEASURED = {"latency_p50": 1500.0, "cost_per_query": 0.1, "tokens_context": 90.0}


async def part(folder: Path, unit: str, *, seconds: int, **changes: object) -> Path:
    async with Journal.create(folder, meta(folder.name)) as journal:
        journal.append(scored(unit, started_at=START + timedelta(seconds=seconds), **changes))
        await journal.set_state(RunState.PARTIAL)
    return folder


async def values_of(folder: Path) -> dict[str, float]:
    async with Reader.open(folder) as reader:
        found = [batch async for batch in reader.values(JOB)]
    assert [list(batch.items) for batch in found] == [["q1"]]
    return {name: column[0] for name, column in found[0].values.items() if column is not None}


async def test_an_item_in_both_shards_is_merged_although_its_measured_values_differ(tmp_path: Path) -> None:
    late = {name: value * 3 for name, value in MEASURED.items()}
    a = await part(tmp_path / "a", "q1", seconds=60, values={"accuracy": 1.0, **late})
    b = await part(tmp_path / "b", "q1", seconds=0, values={"accuracy": 1.0, **MEASURED})
    await merge([a, b], tmp_path / "whole", run_id="whole")
    assert await values_of(tmp_path / "whole") == {"accuracy": 1.0, **MEASURED}, "the earlier row wins"


async def test_different_states_of_the_same_item_are_a_merge_conflict(tmp_path: Path) -> None:
    a = await part(tmp_path / "a", "q1", seconds=0)
    b = await part(tmp_path / "b", "q1", seconds=60, state=State.INCORRECT)
    with pytest.raises(MergeConflict):
        await merge([a, b], tmp_path / "whole", run_id="whole")
