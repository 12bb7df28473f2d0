"""A cluster inside this process, with a real scheduler and real workers."""

from __future__ import annotations

import logging
import socket
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from bench.cli import run as command_line
from bench.cluster.backend import Cluster
from bench.cluster.round import workers
from bench.cluster.worker import SCRATCH, bench_version
from bench.engine import Stop
from bench.engine.run import PAUSE_FILE, SHARDS
from bench.errors import UsageError
from bench.journal import RunState
from tests.cluster.spread import FLAGS, folder, resume, run, same_as_one_process
from tests.small_world import World


@asynccontextmanager
async def cluster_here(*, count: int = 1) -> AsyncIterator[str]:
    """Yield the address of a scheduler whose workers are threads of this process."""
    from distributed import LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with LocalCluster(
            n_workers=count, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1",
            memory_limit=0, dashboard_address=None, asynchronous=True,
        ) as cluster:  # fmt: skip
            yield cluster.scheduler_address


async def test_results_of_a_run_on_worker_threads_equal_those_of_one_process(world: World) -> None:
    async with cluster_here(count=2) as address:
        outcome = await run(world, world.plan(**FLAGS, run_id="r", cluster=address, shards=3))
    assert (outcome.status, outcome.exit_code, outcome.message) == (RunState.COMPLETE, 0, "")
    assert await same_as_one_process(world, "r")


async def test_a_paused_cluster_run_keeps_its_shards_and_resumes_from_them(world: World) -> None:
    world.fault("search:latency:ms=60")
    async with cluster_here() as address:
        plan = world.plan(**FLAGS, run_id="r", cluster=address, shards=2)
        home = folder(world, "r")
        outcome = await run(world, plan, once=(home / PAUSE_FILE).touch, after=4)
        assert (outcome.status, outcome.exit_code, outcome.stop) == (RunState.PAUSED, 3, Stop.PAUSED)
        ended = sum(sum(job.states.values()) for job in outcome.jobs)
        assert 4 <= ended < 32
        assert outcome.resume == "bench run --resume r"
        assert (home / SHARDS).is_dir()
        world.heal()
        assert (await resume(world, "r")).status is RunState.COMPLETE
    assert not (home / SHARDS).exists()
    assert not list((world.workspace / "checkpoints" / SCRATCH / "checkpoints").iterdir())
    asked = [key for key in world.keys("search") if "What opens" in key]
    assert len(asked) == 32, "in the same namespaces"
    assert await same_as_one_process(world, "r")


async def test_ask_returns_the_answer_or_exception_of_each_worker() -> None:
    async def boom() -> str:
        raise RuntimeError("boom")

    async with cluster_here(count=2) as address, Cluster.open(address, token="t") as cluster:
        assert cluster.alive
        assert sorted((await workers(cluster)).values()) == [1, 1]
        from bench.version import __version__

        assert list((await cluster.ask(bench_version, within_s=10)).values()) == [__version__] * 2
        output = await cluster.ask(boom, within_s=10)
        assert [str(one) for one in output.values()] == ["boom", "boom"]


async def test_messages_of_a_task_are_received_and_its_exception_is_its_error() -> None:
    def speak(text: str) -> str:
        from bench.cluster.backend import DaskLine

        post = DaskLine.here("t")
        post.report(f"heard: {text}")
        assert not post.stop_requested(within_s=0)
        return post.address

    def fail(text: str) -> str:
        raise ValueError(text)

    heard: list[str] = []
    async with cluster_here() as address, Cluster.open(address, token="t") as cluster:
        cluster.listen(heard.append)
        (worker,) = await cluster.slots()
        spoken, failed = (
            cluster.submit(function, "hello", name=name, preferred=[worker])
            for function, name in ((speak, "one"), (fail, "two"))
        )
        while spoken.state == "pending" or failed.state == "pending" or not heard:
            await anyio.sleep(0.01)
        assert (spoken.state, await spoken.result()) == ("finished", worker)
        assert (failed.state, await failed.error()) == ("error", "ValueError: hello")
        assert heard == ["heard: hello"]


async def test_stop_reaches_a_running_task() -> None:
    def wait(token: str) -> bool:
        from bench.cluster.backend import DaskLine

        post = DaskLine.here(token)
        while not post.stop_requested(within_s=1):
            pass
        return True

    async with cluster_here() as address, Cluster.open(address, token="t") as cluster:
        task = cluster.submit(wait, "t", name="w", preferred=())
        await cluster.stop()
        while task.state == "pending":
            await anyio.sleep(0.01)
        assert await task.result() is True


@pytest.mark.parametrize(
    "address", ["", "local:0", "local:-1", "local:", "127.0.0.1:8786", "tcp://h", "http://h:1", "tcp://h:1/x"]
)
async def test_an_invalid_cluster_address_is_rejected_before_dask_is_imported(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(UsageError) as caught:
        async with Cluster.open(address, token="t"):
            pass
    assert str(caught.value) == f"--cluster {address}: expected tcp://HOST:PORT, tls://HOST:PORT or local:N"


@pytest.mark.parametrize("missing", ["dask", "distributed"])
@pytest.mark.parametrize("address", ["local:2", "tcp://127.0.0.1:8786"])
async def test_opening_a_cluster_without_dask_names_the_extra_to_install(
    missing: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError) as caught:
        async with Cluster.open(address, token="t"):
            pass
    assert str(caught.value) == "--cluster needs the extra [cluster]"
    assert caught.value.hint == "pip install 'memorybench[cluster]', also on the workers"


def test_run_with_cluster_without_dask_names_the_extra_and_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    words = ["run", "--providers", "no-memory", "--cluster", "local:2", "--workspace", str(tmp_path)]
    assert command_line(words) == 2
    assert capsys.readouterr().err == (
        "error: --cluster needs the extra [cluster]\nhint: pip install 'memorybench[cluster]', also on the workers\n"
    )
    assert list(tmp_path.iterdir()) == [], "no file was written"


async def test_an_address_without_a_scheduler_hints_at_starting_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.cluster import backend as dask

    monkeypatch.setattr(dask, "CONNECT_S", 0.2)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(UsageError) as caught:
        async with Cluster.open(address, token="t"):
            pass
    assert str(caught.value) == f"--cluster {address}: no dask scheduler answers within 0.2 s"
    assert caught.value.hint.startswith("start a scheduler with: dask scheduler")
