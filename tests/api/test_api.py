"""``import bench``: the functions for scripts."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import bench
from bench import api
from bench.engine import Progress, SilentObserver
from bench.errors import ConfigError, IdentityError, JournalError, UnknownMetric, UsageError
from bench.journal import RunState
from tests.rows import each_row
from tests.small_journal import Job, made, record

VALUES = {f"q{at}": float(at % 2) for at in range(8)}


def plan(workspace: Path, **flags: Any) -> object:
    return api.plan(workspace=workspace, **{"providers": "no-memory", "limit": 3, **flags})


def test_importing_bench_imports_no_library() -> None:
    code = "import sys, bench; print(sorted({'aiohttp', 'anyio', 'pydantic', 'rich', 'cyclopts'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@each_row("name", ["plan", "run", "resume", "report", "compare"])
def test_every_API_function_has_a_docstring_and_keyword_options(name: str) -> None:
    function = getattr(api, name)
    assert (function.__doc__ or "").splitlines()[0].rstrip().endswith(".")
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 1


def test_plan_accepts_the_flags_of_the_command_line(tmp_path: Path) -> None:
    made = api.plan(workspace=str(tmp_path), benchmarks="demo", providers=["bm25", "oracle"], k=5, limit=3)
    assert [lane.provider.label for lane in made.lanes] == ["bm25", "oracle"]
    assert {(lane.benchmark.k, lane.benchmark.n_selected) for lane in made.lanes} == {(5, 3)}
    assert made.workspace == tmp_path


@each_row(
    ("flags", "text"),
    [
        ({"limit": 0}, "--limit"),
        ({"nonsense": 1}, "--nonsense"),
        ({"providers": "bm52"}, "bm52"),
        ({"benchmarks": "dmo"}, "dmo"),
    ],
)
def test_an_invalid_flag_is_a_UsageError_that_names_it(tmp_path: Path, flags: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        plan(tmp_path, **flags)


def test_plan_writes_no_files(tmp_path: Path) -> None:
    plan(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_variables_are_read_from_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY, which is not set"):
        api.plan(workspace=tmp_path, providers="bm25", answering_model="openai/gpt-4o", limit=1)
    (tmp_path / "mine.env").write_text("OPENAI_API_KEY=not-a-real-key-of-anyone\n")
    assert api.plan(
        workspace=tmp_path, env_file=tmp_path / "mine.env", providers="bm25", answering_model="openai/gpt-4o", limit=1
    ).jobs


async def test_an_observer_receives_the_start_and_end_of_a_run(tmp_path: Path) -> None:
    class Listening(SilentObserver):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def launched(self, progress: Progress) -> None:
            self.heard.append(f"launched {progress.run_id} {progress.planned}")

        def finished(self, outcome: bench.engine.Outcome) -> None:
            self.heard.append(f"finished {outcome.status}")

    observer = Listening()
    outcome = await bench.run(
        api.plan(workspace=tmp_path, providers="no-memory", limit=3, run_id="r"), observer=observer
    )
    assert observer.heard == ["launched r 3", "finished complete"]
    assert outcome.folder == tmp_path / "checkpoints" / "r"


async def test_resume_continues_a_run_and_refuses_a_different_plan(tmp_path: Path) -> None:
    first = api.plan(workspace=tmp_path, providers="bm25", limit=3, run_id="r", phases="ingest,index")
    assert (await bench.run(first)).status is RunState.PARTIAL
    whole = await bench.resume("r", workspace=tmp_path, phases="ingest,index,search,answer,evaluate")
    assert whole.status is RunState.COMPLETE
    (job,) = api.report("r", workspace=tmp_path).jobs
    assert job.n_ended == 3
    with pytest.raises(IdentityError, match="10 -> 3"):
        await bench.resume("r", workspace=str(tmp_path), k=3)


@pytest.mark.parametrize("call", [api.report, partial(api.compare, "absent:x", "absent:y")])
def test_an_unknown_run_is_a_UsageError(tmp_path: Path, call: object) -> None:
    assert callable(call)
    arguments = () if isinstance(call, partial) else ("absent",)
    with pytest.raises(UsageError, match='no run "absent"'):
        call(*arguments, workspace=tmp_path)


def test_a_file_that_is_not_a_journal_is_a_JournalError(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "torn"
    folder.mkdir(parents=True)
    (folder / "journal.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(JournalError, match=r"journal\.sqlite"):
        api.report("torn", workspace=tmp_path)


async def test_an_error_inside_a_running_loop_is_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='no run "absent"'):
        api.report("absent", workspace=tmp_path)


async def test_compare_accepts_one_metric_or_several(tmp_path: Path) -> None:
    await made(tmp_path, "r1", [Job(record=record("x"), values=VALUES), Job(record=record("y"), values=VALUES)])
    one = api.compare("r1:x", "r1:y", metric="accuracy", workspace=str(tmp_path))
    several = api.compare("r1:x", "r1:y", metric=("accuracy",), workspace=tmp_path)
    for found in (one, several):
        assert [row.metric for row in found.comparisons[0].rows] == ["accuracy"]
    assert not one.forced
    with pytest.raises(UnknownMetric, match="ndgc_at_10"):
        api.compare("r1:x", "r1:y", metric="ndgc_at_10", workspace=tmp_path)
