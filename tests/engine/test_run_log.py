"""``results/RUN/run.log``: one JSON object per line with run, job, corpus, item and phase."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.events import close, configure, log, run_log
from bench.plan import make_plan
from bench.settings import Environment
from tests.small_world import World


def events_of(workspace: Path, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (workspace / f"results/{run_id}/run.log").read_text("utf-8").splitlines()]


async def run_in(workspace: Path, run_id: str, environment: Environment, **flags: Any) -> None:
    request = RunRequest(run_id=run_id, answering_model=("none",), **flags)
    plan = make_plan(Catalog.load(workspace), request, environment)
    await execute(plan, environment=environment)


@pytest.fixture
def world(tmp_path: Path, fault_server: Callable[..., str]) -> World:
    return World.make(tmp_path, fault_server("search:status:code=500,match=What.opens,calls=1"), corpora=2, items=6)


async def test_log_events_name_their_run_and_retries_also_job_corpus_item_phase_and_endpoint(
    world: World, tmp_path: Path
) -> None:
    environment = Environment(values={"FAULT_URL": str(world.url)})
    await run_in(tmp_path, "r", environment, benchmarks=("facts",), providers=("faulty",), seed=3)
    found = events_of(tmp_path, "r")
    assert {one["run_id"] for one in found} == {"r"}
    assert [found[0]["event"], found[-1]["event"]] == ["run_started", "run_ended"]
    assert all({"timestamp", "level", "logger"} <= set(one) for one in found)
    retry = next(one for one in found if one["event"] == "retry" and one.get("phase") == "search")
    assert retry["job"] == "facts/faulty"
    assert {"corpus", "item", "endpoint", "attempt", "status"} <= set(retry)
    assert sum(one["event"] == "corpus_ready" for one in found) == 2


async def test_concurrent_runs_in_one_process_have_separate_logs(tmp_path: Path) -> None:
    environment = Environment()
    async with anyio.create_task_group() as both:
        for name in ("a", "b"):
            both.start_soon(partial(run_in, tmp_path, name, environment, providers=("no-memory",), limit=3))
    for name in ("a", "b"):
        found = events_of(tmp_path, name)
        assert {one["run_id"] for one in found} == {name}
        assert [one["event"] for one in found].count("run_started") == 1


async def test_the_end_of_one_run_does_not_stop_the_log_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ours = logging.getLogger(), logging.getLogger("bench")
    monkeypatch.setattr(root, "level", logging.WARNING)
    ours.setLevel(logging.NOTSET)
    begun, ended = anyio.Event(), anyio.Event()

    async def first() -> None:
        with run_log(tmp_path / "results/a/run.log", "a"):
            await begun.wait()
        ended.set()

    async def second() -> None:
        with run_log(tmp_path / "results/b/run.log", "b"):
            begun.set()
            await ended.wait()
            log().info("still heard")

    async with anyio.create_task_group() as both:
        both.start_soon(first)
        both.start_soon(second)
    assert [one["event"] for one in events_of(tmp_path, "b")] == ["still heard"]
    assert ours.level == logging.NOTSET, "the last run restores the level"


async def test_the_log_is_written_next_to_the_report(tmp_path: Path) -> None:
    output = tmp_path / "elsewhere"
    await run_in(tmp_path, "r", Environment(), providers=("no-memory",), limit=2, output=str(output))
    assert (output / "r/run.log").is_file()


async def test_a_run_whose_report_folder_cannot_be_created_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        await run_in(tmp_path, "r", Environment(), providers=("no-memory",), limit=2, output=str(tmp_path / "file/x"))
    assert not (tmp_path / "checkpoints" / "r").exists()


async def test_keys_are_redacted_in_the_log(world: World, tmp_path: Path) -> None:
    world.fault("search:echo_auth:code=400")
    environment = Environment(values={"FAULT_URL": str(world.url), "FAULT_KEY": "a-very-secret-word-9"})
    assert environment.secret("FAULT_KEY") is not None
    await run_in(tmp_path, "r", environment, benchmarks=("facts",), providers=("faulty",))
    text = (tmp_path / "results/r/run.log").read_text("utf-8")
    assert '"event": "failed"' in text
    assert "a-very-secret-word-9" not in text


async def test_the_traceback_of_a_plugin_is_in_the_log_and_not_on_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError as error:
        configure(log_file=tmp_path / "all.log")
        log().warning("plugin_error", exc_info=error)
    close()
    shown = capsys.readouterr().err
    assert "plugin_error" in shown
    assert "Traceback" not in shown
    assert "RuntimeError: boom" in (tmp_path / "all.log").read_text("utf-8")
