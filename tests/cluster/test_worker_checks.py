"""Checks before a cluster run: addresses, workers, versions and variables."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.journal import Reader, RunState
from tests.cluster.conftest import Machines, end
from tests.cluster.spread import FLAGS, bench, command, folder, resume, run, same_as_one_process
from tests.small_world import World


async def test_a_worker_without_variable_version_or_data_is_named_before_the_run(
    machines: Machines, world: World, tmp_path: Path
) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    world.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\n")
    world.variables["FAULTY_KEY"] = "hunter2-hunter2"
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=2)
    patch = tmp_path / "older.py"
    patch.write_text("import bench.version\nbench.version.__version__ = '0.0.9'\n", encoding="utf-8")

    elsewhere = World.make(tmp_path / "elsewhere", world.url, corpora=4, items=8)
    elsewhere.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    elsewhere.write(".env", f"FAULT_URL={world.url}\n")
    place = {"MEMORYBENCH_WORKSPACE": str(elsewhere.workspace)}

    older = machines.worker("--preload", str(patch))
    machines.wait(3)
    with pytest.raises(
        UsageError, match=r"worker tcp://\S+: bench 0.0.9 differs from the coordinator's version"
    ) as version:
        await run(world, plan)
    assert "install the same version of bench" in version.value.hint
    end(older)

    lacking = machines.worker(**place)
    machines.wait(3)
    with pytest.raises(UsageError, match=r"worker tcp://\S+: .*FAULTY_KEY, which is not set"):
        await run(world, plan)

    changed = (elsewhere.workspace / "datasets/facts.jsonl").read_text().replace("W0y0", "W9y9")
    elsewhere.write("datasets/facts.jsonl", changed)
    with pytest.raises(UsageError, match=r"benchmarks.facts.dataset.sha256") as other:
        await run(world, plan)
    assert "MEMORYBENCH_WORKSPACE" in other.value.hint

    (elsewhere.workspace / "datasets/facts.jsonl").unlink()
    with pytest.raises(UsageError, match=r"worker tcp://\S+: .*facts.jsonl"):
        await run(world, plan)
    end(lacking)
    assert not folder(world, "r").exists(), "no file is left"
    assert world.calls("search") == 0


async def test_a_worker_that_lost_its_data_after_the_check_fails_its_shards(machines: Machines, world: World) -> None:
    """The file is deleted after the workers were checked."""
    world.fault("search:latency:ms=200")
    plan = world.plan(**FLAGS, run_id="r", cluster=machines.address, shards=4)
    data = world.workspace / "datasets/facts.jsonl"
    kept = data.read_bytes()
    outcome = await run(world, plan, once=data.unlink)
    assert (outcome.status, outcome.exit_code) == (RunState.STOPPED, 3)
    assert "shard 3, 4: worker tcp://" in outcome.message or "shard 3: worker" in outcome.message
    assert "facts.jsonl" in outcome.message
    async with Reader.open(folder(world, "r")) as reader:
        assert reader.meta.ranges == ((1, 16),), "finished shards are kept, the others are a gap"
    data.write_bytes(kept)
    world.heal()
    assert (await resume(world, "r")).status is RunState.COMPLETE
    assert await same_as_one_process(world, "r")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", "no dask scheduler answers within 3 s"),
        ("somewhere", "expected tcp://HOST:PORT"),
        ("local:0", "expected tcp://HOST:PORT"),
    ],
)
async def test_an_invalid_cluster_address_is_an_error_before_the_run(world: World, address: str, message: str) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match=message):
        await run(world, world.plan(**FLAGS, run_id="r", cluster=address))
    assert time.monotonic() - began < 10
    assert not folder(world, "r").exists()


async def test_a_scheduler_without_workers_is_an_error_with_a_hint(world: World, tmp_path: Path) -> None:
    empty = Machines(tmp_path).start()
    try:
        empty.wait(0)
        with pytest.raises(UsageError, match="the scheduler has no worker") as error:
            await run(world, world.plan(**FLAGS, run_id="r", cluster=empty.address))
        assert f"dask worker {empty.address}" in error.value.hint
    finally:
        empty.stop()


def test_the_coordinator_needs_no_secret_if_the_workers_have_it(machines: Machines, world: World) -> None:
    world.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    there = World.make(world.workspace.parent / "there", world.url, corpora=4, items=8)
    there.provider("faulty", extra="auth: {type: bearer, envVar: FAULTY_KEY}\n")
    there.write(".env", f"FAULT_URL={world.url}\nFAULTY_KEY=hunter2-hunter2\nOPENAI_API_KEY=hunter3-hunter3\n")
    machines.have(0)
    machines.worker(MEMORYBENCH_WORKSPACE=str(there.workspace), OPENAI_BASE_URL=f"{world.url}/v1")
    machines.wait(1)
    words = [counters.replace("builtin/extractive", "openai/stub-extract") for counters in command(machines.address)]
    process = bench(world.workspace, *words, "--json", FAULT_URL=str(world.url), OPENAI_BASE_URL=f"{world.url}/v1")
    output, text = process.communicate(timeout=90)
    assert process.returncode == 0, output + text
    assert json.loads(output.splitlines()[-1])["jobs"][0]["models"]["answering"] == "openai/stub-extract"
    assert world.calls("chat") == 32
    machines.have(0)
    for path in world.workspace.rglob("*"):
        assert not path.is_file() or b"hunter" not in path.read_bytes(), path


async def test_a_run_of_one_process_cannot_be_resumed_on_a_cluster(world: World) -> None:
    await world.run(**FLAGS, run_id="alone", limit=4)
    with pytest.raises(UsageError, match="was started in one process"):
        await resume(world, "alone", cluster="local:2")


async def test_resume_of_a_complete_cluster_run_repeats_its_failed_items(machines: Machines, world: World) -> None:
    world.fault("search:status:code=400,match=K3x0")
    flags = {**FLAGS, "max_error_rate": 0.5, "isolation": "off"}
    plan = world.plan(**flags, run_id="r", cluster=machines.address, shards=2)
    assert (await run(world, plan)).status is RunState.COMPLETE
    world.heal()
    assert (await resume(world, "r")).exit_code == 0
    assert await same_as_one_process(world, "r")


def test_an_installed_package_runs_on_a_local_cluster_from_any_folder(root: Path, tmp_path: Path) -> None:
    """Files as in site-packages: the package and its data, without a checkout."""
    site, place = tmp_path / "site", tmp_path / "empty"
    place.mkdir()
    shutil.copytree(root / "bench", site / "bench")
    for name in ("configs", "datasets/demo"):
        shutil.copytree(root / name, site / "bench/_data" / name)
    words = ["run", "--providers", "oracle", "--cluster", "local:1", "--shards", "2", "--run-id", "r", "--json"]
    process = bench(place, *words, PYTHONPATH=str(site), PYTHONSAFEPATH="1")
    output, text = process.communicate(timeout=120)
    assert process.returncode == 0, text
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["event"] for line in lines if line["event"] != "progress"] == ["launch", "done"]
    assert lines[-2]["ended"] == lines[-2]["planned"] == 160
    assert (lines[-1]["status"], lines[-1]["resume"]) == ("complete", None)
