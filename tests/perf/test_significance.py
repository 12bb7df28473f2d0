"""The simulation of error rates of a comparison, with few rounds, and its wall time, with few items."""

from __future__ import annotations

import random
from pathlib import Path

import comparing
import pytest
import significance

from bench.journal import Reader
from bench.plan.job_record import read_jobs
from bench.report.comparison.compare import compare_sides
from bench.report.comparison.sides import load_side
from tests.small_journal import Job, made, record


def test_the_false_positive_rate_is_low_and_the_mde_has_its_power() -> None:
    type_one, promised, own = significance.accuracy_figures(150, spread=0.03, seed=1)
    assert type_one.value <= 0.12 and type_one.gated
    assert promised.value >= 0.7 and promised.gated
    assert 0.65 <= own.value <= 0.95
    assert "(+- " in type_one.what and 0 < float(str(type_one.detail["error"])) < 0.05


def test_a_family_of_equal_metrics_rarely_has_a_finding() -> None:
    found = significance.family_figure(200, conversations=8, shared=0.9, seed=1)
    assert found.gated and isinstance(found.value, float) and found.value <= 0.1


def test_the_simulated_sizes_are_those_of_locomo(shared: Path) -> None:
    import json

    data = json.loads((shared / "data/locomo10/locomo10.json").read_text(encoding="utf-8"))
    assert tuple(sum(asked["category"] != 5 for asked in one["qa"]) for one in data) == significance.LOCOMO


async def test_the_simulation_gives_the_result_of_the_program(tmp_path: Path) -> None:
    world = significance.World.drawn(random.Random(2), 0.03)
    left, right = world.answers(0.05)
    found = significance.compare_metric(significance.ACCURACY, significance.paired(left, right))
    items = [f"q{at:04d}" for at in range(len(left))]
    clusters = significance.paired(left, right).clusters
    assert clusters is not None
    corpora = {item: f"c{cluster}" for item, cluster in zip(items, clusters, strict=True)}
    for run, side in (("a", left), ("b", right)):
        values = dict(zip(items, side, strict=True))
        job = Job(record=record(run, cluster_by="corpus"), values=values, corpora=corpora)
        await made(tmp_path, run, [job])
    sides = []
    for run in ("a", "b"):
        async with Reader.open(tmp_path / "checkpoints" / run) as reader, reader.snapshot():
            sides.append(await load_side(reader, read_jobs(reader.meta.extra)[0]))
    (row,) = compare_sides([sides]).comparisons[0].rows
    assert row.found == found
    assert row.p_adjusted == found.p


@pytest.mark.parametrize("metrics", [comparing.ONE, comparing.TEN])
def test_the_measured_comparison_has_wall_and_cpu_time(tmp_path: Path, metrics: tuple[str, ...]) -> None:
    comparing.fill(tmp_path, 300, metrics)
    wall_s, cpu_s = comparing.timed(tmp_path)
    assert wall_s > 0 and cpu_s > 0
