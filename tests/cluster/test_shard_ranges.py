"""Ranges of shards: they cover the run, do not overlap, are similar in size, and split few corpora."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.cluster.coordinator import shards_of
from bench.errors import UsageError
from bench.plan.ranges import cut_range
from tests.small_world import World


@given(length=some.integers(1, 400), data=some.data())
def test_cut_range_returns_no_empty_shard_and_none_much_larger_than_the_mean(
    length: int, data: some.DataObject
) -> None:
    count = data.draw(some.integers(1, length))
    breaks = sorted(data.draw(some.sets(some.integers(1, length), max_size=20)))
    ranges = cut_range((1, length), range(1, length + 1), breaks, count)
    sizes = [end - start + 1 for start, end in ranges]
    assert len(sizes) == count
    assert min(sizes) >= 1
    assert max(sizes) <= length / count * 1.5 + 1


def test_shards_cover_each_position_once(tmp_path: Path) -> None:
    plan = World.make(tmp_path, "http://127.0.0.1:9", corpora=3, items=7).plan(providers="faulty")
    for count in range(1, 22):
        covered = [at for shard in shards_of(plan, count) for at in range(shard.start, shard.end + 1)]
        assert covered == list(range(1, 22))


def test_with_workers_each_shard_has_whole_corpora_and_there_are_no_more_shards_than_corpora(tmp_path: Path) -> None:
    plan = World.make(tmp_path, "http://127.0.0.1:9", corpora=3, items=9).plan(providers="oracle", workers=5)
    assert [(shard.start, shard.end) for shard in shards_of(plan, 2)] == [(1, 9), (10, 27)]
    assert [(shard.start, shard.end) for shard in shards_of(plan, 5)] == [(1, 9), (10, 18), (19, 27)]


def test_a_boundary_of_a_shard_moves_to_the_nearest_boundary_of_a_corpus(tmp_path: Path) -> None:
    plan = World.make(tmp_path, "http://127.0.0.1:9", corpora=5, items=9).plan(providers="oracle")
    assert [(shard.start, shard.end) for shard in shards_of(plan, 2)] == [(1, 18), (19, 45)]
    assert [(shard.start, shard.end) for shard in shards_of(plan, 3)] == [(1, 18), (19, 27), (28, 45)], "by 3 at most"
    whole = World.make(tmp_path / "one", "http://127.0.0.1:9", corpora=1, items=9).plan(providers="oracle")
    assert [(shard.start, shard.end) for shard in shards_of(whole, 2)] == [(1, 4), (5, 9)], "one corpus must be cut"


def test_shards_have_equal_numbers_of_selected_items_inside_the_range(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:9", corpora=2, items=10)
    plan = world.plan(providers="oracle", question_type="one", start=3, end=16)
    shards = shards_of(plan, 3)
    assert (shards[0].start, shards[-1].end) == (3, 16)
    for shard in shards:
        flags = {"question_type": "one", "start": shard.start, "end": shard.end}
        assert world.plan(providers="oracle", **flags).lanes[0].benchmark.n_selected in (2, 3)


def test_limit_and_sample_are_rejected_with_several_shards(tmp_path: Path) -> None:
    world = World.make(tmp_path, "http://127.0.0.1:9")
    for flag in ("limit", "sample"):
        with pytest.raises(UsageError, match=f"--{flag} cannot be used with --cluster, because it would apply"):
            shards_of(world.plan(providers="oracle", **{flag: 4}), 2)


def test_more_shards_than_items_are_rejected(tmp_path: Path) -> None:
    plan = World.make(tmp_path, "http://127.0.0.1:9", corpora=1, items=4).plan(providers="oracle")
    with pytest.raises(UsageError, match="--shards 5: the run has only 4 items, but every shard needs an item"):
        shards_of(plan, 5)
