"""Orders of the service: start, pause, resume and cancel at each moment of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.errors import BenchError, UsageError
from bench.journal import Journal, Reader, RunState
from bench.settings import Environment
from bench.web.admission import admit
from bench.web.service import OrderStore, RunOrder, Service
from tests.full_journal import ItemData, write_run
from tests.small_journal import record
from tests.small_world import World
from tests.web.workspaces import Visit, bench, visiting

DEMO = {"benchmarks": ["demo"], "providers": ["oracle"], "limit": 2, "answering_model": "none"}
SLOW = {"benchmarks": ["facts"], "providers": ["faulty"], "answering_model": "none", "concurrency": 2, "run_id": "r1"}


@pytest.fixture
def slow(tmp_path: Path, fault_server: Callable[..., str]) -> dict[str, str]:
    """A provider so slow that a run takes longer than the second between two checks of the pause file."""
    return World.make(tmp_path, fault_server("search:latency:ms=150"), corpora=1, items=40).variables


@asynccontextmanager
async def serving(
    workspace: Path, *, max_runs: int = 1, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Service]:
    with OrderStore.open(workspace) as orders:
        async with anyio.create_task_group() as tasks:
            environment = Environment(values=dict(variables or {}))
            service = Service(
                workspace=workspace, environment=environment, orders=orders, tasks=tasks, max_runs=max_runs
            )
            yield service
            await idle(service)


async def idle(service: Service) -> None:
    with anyio.fail_after(60):
        while service.active or (service.queue and not service.closing):
            await anyio.sleep(0.01)


async def state_of(workspace: Path, run_id: str) -> tuple[str, str]:
    async with Reader.open(workspace / "checkpoints" / run_id) as reader:
        status = await reader.status()
    return str(status.state), status.reason


async def test_a_pause_before_the_run_has_a_folder_is_applied(tmp_path: Path, slow: dict[str, str]) -> None:
    async with serving(tmp_path, variables=slow) as service:
        await service.start(admit(SLOW))
        assert not (tmp_path / "checkpoints" / "r1").exists()
        assert await service.stop("r1", "pause") == "stopping"
        assert service.states() == {"r1": "stopping"}
        await idle(service)
        state, reason = await state_of(tmp_path, "r1")
        assert (state, service.orders.all()) == ("paused", []), reason
        assert service.states() == {}


async def test_a_run_id_requested_three_times_at_once_is_accepted_once(tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def ask(service: Service) -> None:
        try:
            outcomes.append(await service.start(admit({**DEMO, "run_id": "r1"})))
        except UsageError as error:
            outcomes.append(str(error))

    async with serving(tmp_path, max_runs=2) as service, anyio.create_task_group() as asking:
        for _ in range(3):
            asking.start_soon(ask, service)
    assert sorted(outcomes) == ["r1", *["run r1 exists already"] * 2]
    assert (await state_of(tmp_path, "r1"))[0] == "complete"


async def test_a_queued_run_can_be_withdrawn_and_requested_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_runs=0) as service:
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await service.start(admit({**DEMO, "run_id": "r2"}))
        assert service.states() == {"r1": "queued", "r2": "queued"}
        assert [order.number for order in service.orders.all()] == [1, 2]
        with pytest.raises(UsageError, match="run r1 exists already"):
            await service.start(admit({**DEMO, "run_id": "r1"}))
        assert await service.stop("r1", "cancel") == "not started"
        assert [order.run_id for order in service.orders.all()] == ["r2"]
        await service.start(admit({**DEMO, "run_id": "r1"}))
        assert [order.run_id for order in service.queue] == ["r2", "r1"]
        await service.resume("r2")
        assert [order.run_id for order in service.queue] == ["r2", "r1"], "it is queued already"
        for name in ("r1", "r2"):
            await service.stop(name, "cancel")


async def test_a_run_that_is_paused_in_the_queue_keeps_its_settings_over_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, max_runs=0) as service:
        await service.start(admit({**DEMO, "run_id": "r1", "note": "for anna"}))
        assert await service.stop("r1", "pause") == "paused"
        assert (service.states(), service.queue) == ({"r1": "paused"}, [])
        with pytest.raises(UsageError, match="run r1 exists already"):
            await service.start(admit({**DEMO, "run_id": "r1"}))
    async with serving(tmp_path) as service:
        assert await service.recover() == [], "it stays paused"
        assert service.states() == {"r1": "paused"}
        await service.resume("r1")
        await idle(service)
        assert (service.states(), service.orders.all()) == ({}, [])
    async with Reader.open(tmp_path / "checkpoints" / "r1") as reader:
        assert (await reader.status()).state is RunState.COMPLETE
        assert reader.meta.request["note"] == "for anna"


async def test_a_resume_that_is_paused_in_the_queue_stays_paused_over_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await idle(service)
    async with serving(tmp_path, max_runs=0) as service:
        await service.resume("r1")
        assert await service.stop("r1", "pause") == "paused"
    async with serving(tmp_path, max_runs=0) as service:
        assert (await service.recover(), service.states()) == ([], {"r1": "paused"})
        assert await service.stop("r1", "cancel") == "not started"


async def test_a_run_that_is_paused_in_the_queue_can_be_canceled(tmp_path: Path) -> None:
    async with serving(tmp_path, max_runs=0) as service:
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await service.stop("r1", "pause")
        assert await service.stop("r1", "cancel") == "not started"
        assert (service.states(), service.orders.all()) == ({}, [])


async def test_a_request_whose_run_id_was_taken_while_it_waited_fails_visibly(tmp_path: Path) -> None:
    async with serving(tmp_path, max_runs=0) as service:
        await service.start(admit({**DEMO, "run_id": "r1", "note": "for anna"}))
        bench(tmp_path, "run", "demo", "random", "--limit", "1", "--run-id", "r1", "--quiet")
        service.max_runs = 1
        await service.start(admit({**DEMO, "run_id": "r2"}))
        await idle(service)
        assert "run r1 exists already with other settings" in service.states()["r1"]


async def test_a_run_whose_results_folder_cannot_be_written_does_not_stop_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "r1").write_text("no folder", encoding="utf-8")
    async with serving(tmp_path) as service:
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await service.start(admit({**DEMO, "run_id": "r2"}))
        await idle(service)
        assert list(service.states()) == ["r1"] and service.states()["r1"].startswith("failed: ")
    assert (await state_of(tmp_path, "r2"))[0] == "complete"


async def test_a_run_that_cannot_start_is_listed_as_failed_and_can_be_requested_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_runs=0) as service:
        config = tmp_path / "configs" / "providers" / "mine.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("name: mine\ntype: hosted\nadapter: ./gone.py:Class\n")
        service.orders.add(RunOrder(run_id="r1", request={**DEMO, "providers": ["nope"]}))
        service.max_runs = 1
        assert await service.recover() == ["r1"]
        await idle(service)
        (state,) = service.states().values()
        assert state.startswith("failed: ") and "nope" in state
        assert service.orders.all() == [], "it would only fail again at the next start"
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await idle(service)
        assert service.states() == {} and (await state_of(tmp_path, "r1"))[0] == "complete"


@pytest.mark.parametrize("retry", [False, True])
async def test_a_resume_or_retry_of_a_stopping_run_starts_after_it_stopped(
    tmp_path: Path, slow: dict[str, str], retry: bool
) -> None:
    async with serving(tmp_path, variables=slow) as service:
        await service.start(admit(SLOW))
        await service.stop("r1", "pause")
        await service.resume("r1", retry=retry)
        assert service.active["r1"].next_order == RunOrder(run_id="r1", retry=retry)
        await idle(service)
        if retry:  # no item has failed, so the run stays as the pause left it
            assert await state_of(tmp_path, "r1") == ("paused", "paused")
            await service.resume("r1")
            await idle(service)
        assert (await state_of(tmp_path, "r1"))[0] == "complete"


async def test_resume_of_a_running_run_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await service.start(admit({**DEMO, "run_id": "r1"}))
        await service.resume("r1")
        assert service.active["r1"].next_order is None and service.queue == []
        await idle(service)
        assert (await state_of(tmp_path, "r1"))[0] == "complete"


async def test_a_cancelled_run_has_the_state_stopped_and_the_reason_cancelled(
    tmp_path: Path, slow: dict[str, str]
) -> None:
    async with serving(tmp_path, variables=slow) as service:
        await service.start(admit(SLOW))
        await service.stop("r1", "cancel")
        await idle(service)
        assert await state_of(tmp_path, "r1") == ("stopped", "cancelled")
        assert await service.stop("r1", "cancel") == "stopped", "a repeated cancel is not an error"


async def test_a_run_of_another_process_can_be_paused_but_not_resumed(tmp_path: Path) -> None:
    from bench.web.errors import RequestRefused

    folder = await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1")])], state=RunState.PAUSED)
    async with serving(tmp_path) as service, Journal.resume(folder) as journal:
        await journal.set_state(RunState.RUNNING)
        with pytest.raises(RequestRefused) as refused:
            await service.resume("r1")
        assert (refused.value.status, refused.value.kind, refused.value.hint) == (
            409,
            "locked",
            "pause the run first with: bench pause r1",
        )
        assert "run r1 is locked by pid" in str(refused.value)
        assert await service.stop("r1", "pause") == "stopping"
        assert (folder / "pause").exists()
        await journal.set_state(RunState.PAUSED)


async def test_recover_takes_up_interrupted_runs_and_ignores_a_broken_journal(tmp_path: Path) -> None:
    await write_run(tmp_path, "gone", [(record("x"), [ItemData(item="q1")])], state=RunState.RUNNING)
    await write_run(tmp_path, "done", [(record("x"), [ItemData(item="q1")])])
    (tmp_path / "checkpoints" / "torn").mkdir()
    (tmp_path / "checkpoints" / "torn" / "journal.sqlite").write_text("no journal")
    async with serving(tmp_path, max_runs=0) as service:
        service.orders.add(RunOrder(run_id="first"))
        assert await service.recover() == ["first", "gone"]
        assert [order.run_id for order in service.orders.all()] == ["first", "gone"]
        for name in ("first", "gone"):
            await service.stop(name, "pause")


async def test_a_closing_service_pauses_the_active_run_starts_no_other_and_keeps_its_orders(
    tmp_path: Path, slow: dict[str, str]
) -> None:
    async with serving(tmp_path, variables=slow) as service:
        await service.start(admit(SLOW))
        await service.start(admit({**DEMO, "run_id": "r2"}))
        await service.close()
        await idle(service)
        assert [order.run_id for order in service.orders.all()] == ["r1", "r2"]
        assert [order.run_id for order in service.queue] == ["r2"]
        service.queue.clear()
    assert (await state_of(tmp_path, "r1"))[0] == "paused"
    assert not (tmp_path / "results" / "r1" / "report.json").exists(), "the next start writes the report"
    assert not (tmp_path / "checkpoints" / "r2").exists()


async def test_a_finished_run_has_its_report_and_a_leaderboard_row(tmp_path: Path) -> None:
    from bench.report.leaderboard.standings import load_board

    async with serving(tmp_path) as service:
        name = await service.start(admit(DEMO))
        await idle(service)
    assert (tmp_path / "results" / name / "report.md").is_file()
    assert [place.job.run_id for place in await load_board(tmp_path)] == [name]


# ------------------------------------------------------------------------------ over HTTP


async def post(visit: Visit, path: str, body: object = None) -> tuple[int, Any]:
    status, text, _ = await visit.ask("POST", f"/api/v1{path}", data=json.dumps(body if body is not None else {}))
    return status, json.loads(text)


async def settled(visit: Visit) -> None:
    service = visit.site.site.service
    assert service is not None
    await idle(service)


async def test_a_queued_run_is_shown_as_queued_until_it_is_withdrawn(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True, max_runs=0) as visit:
        status, found = await post(visit, "/runs", {**DEMO, "run_id": "r1"})
        assert (status, found) == (202, {"run_id": "r1", "state": "queued"})
        row = {
            "run_id": "r1", "state": "queued", "reason": "waits for its turn", "service": "queued", "planned": 0,
            "ended": 0, "failed": 0,
        }  # fmt: skip
        assert await visit.document("/runs/r1") == row
        assert (await visit.document("/runs"))["runs"] == [row]
        status, page = await visit.get("/runs/r1")
        assert status == 200 and "waits for its turn" in page and 'data-again="1500"' in page
        status, page = await visit.get("/")
        assert status == 200 and "waits for its turn" in page and 'action="/runs/r1/pause"' in page
        for path in ("/runs/r1/items", "/runs/r1/results", "/runs/r1/events"):
            assert (await visit.get(f"/api/v1{path}"))[0] == 404
        assert await post(visit, "/runs/r1/pause") == (202, {"run_id": "r1", "state": "paused"})
        status, page = await visit.get("/runs/r1")
        assert (
            "was paused before it started" in page and 'action="/runs/r1/resume"' in page and "data-again" not in page
        )
        status, page = await visit.get("/")
        assert 'action="/runs/r1/resume"' in page and 'action="/runs/r1/pause"' not in page
        assert await post(visit, "/runs/r1/resume") == (202, {"run_id": "r1", "state": "queued"})
        assert await post(visit, "/runs/r1/cancel") == (202, {"run_id": "r1", "state": "not started"})
        assert (await visit.get("/api/v1/runs/r1"))[0] == 404


async def test_a_run_that_failed_before_its_journal_is_listed_with_reason_and_without_actions(
    tmp_path: Path,
) -> None:
    async with visiting(tmp_path, runs=True) as visit:
        service = visit.site.site.service
        assert service is not None
        service.problems["r1"] = "there is no provider nope"
        (row,) = (await visit.document("/runs"))["runs"]
        assert (row["state"], row["reason"]) == ("failed", "there is no provider nope")
        status, page = await visit.get("/runs/r1")
        assert status == 200 and "there is no provider nope" in page and "data-again" not in page
        status, page = await visit.get("/")
        assert 'action="/runs/r1/' not in page, "there is nothing to pause or resume"
        for action in ("pause", "cancel", "resume"):
            status, found = await post(visit, f"/runs/r1/{action}")
            assert (status, found["error"]["kind"]) == (404, "not_found"), action


async def test_the_form_starts_a_run_and_rejects_invalid_values(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True) as visit:
        assert visit.site.secret is not None
        status, page = await visit.get("/new?benchmarks=demo&providers=oracle&limit=2", headers=visit.cookie)
        assert status == 200 and visit.site.secret.csrf in page and "<option selected>demo</option>" in page
        assert "2 items, " in page and "cost USD 0" in page and "Start this run" in page
        form = [
            ("csrf_token", visit.site.secret.csrf), ("benchmarks", "demo"), ("providers", "oracle"), ("limit", "2"),
            ("run_id", "mine"), ("answering_model", ""),
        ]  # fmt: skip
        from aiohttp import FormData

        status, _, headers = await visit.ask("POST", "/runs", headers=visit.cookie, data=FormData(form))
        assert (status, headers["Location"]) == (303, "/runs/mine?queued=1")
        await settled(visit)
        assert (await visit.document("/runs/mine"))["state"] == "complete"
        for name, value, text in (("limit", "x", "limit"), ("providers", "./evil.py:C", "names of known configs")):
            data = FormData([("csrf_token", visit.site.secret.csrf), (name, value)])
            status, page, _ = await visit.ask("POST", "/runs", headers=visit.cookie, data=data)
            assert status == 400 and text in page and 'action="/new"' in page, page
        status, page = await visit.get("/runs/mine", headers=visit.cookie)
        assert "/new?benchmarks=demo&amp;providers=oracle&amp;limit=2" in page, "again with changes"


async def test_the_plan_page_names_missing_keys_and_invalid_values_without_a_start_button(tmp_path: Path) -> None:
    async with visiting(tmp_path, runs=True) as visit:
        status, page = await visit.get("/new?benchmarks=demo&providers=mem0&limit=2", headers=visit.cookie)
        assert status == 200 and "MEM0_API_KEY" in page and "Start this run" not in page
        status, page = await visit.get("/new?benchmarks=demo&limit=x&note=kept", headers=visit.cookie)
        assert status == 400 and "limit" in page and 'value="kept"' in page and "Start this run" not in page
    async with visiting(tmp_path) as visit:
        assert (await visit.get("/new"))[0] == 404


@pytest.mark.parametrize(("action", "place"), [("pause", "/runs/r1"), ("cancel", "/runs/r1")])
async def test_pause_and_cancel_of_a_finished_run_redirect_to_its_page(tmp_path: Path, action: str, place: str) -> None:
    await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1")])])
    async with visiting(tmp_path, runs=True) as visit:
        assert visit.site.secret is not None
        data = {"csrf_token": visit.site.secret.csrf}
        status, _, headers = await visit.ask("POST", f"/runs/r1/{action}", headers=visit.cookie, data=data)
        assert (status, headers["Location"]) == (303, place)
        assert (await visit.document("/runs/r1"))["state"] == "complete"


async def test_a_failed_resume_is_shown_on_the_row_of_the_run(tmp_path: Path) -> None:
    await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1")])], state=RunState.PAUSED, planned=2)
    async with visiting(tmp_path, runs=True) as visit:
        assert (await post(visit, "/runs/r1/resume"))[0] == 202
        await settled(visit)
        (row,) = (await visit.document("/runs"))["runs"]
        assert row["state"] == "paused" and row["service"].startswith("failed: ")
        assert (await visit.document("/runs/r1"))["service"] == row["service"]
        status, page = await visit.get("/runs/r1")
        assert status == 200 and "failed: " in page and 'action="/runs/r1/resume"' in page


async def test_metrics_include_a_run_only_while_it_is_running(tmp_path: Path, slow: dict[str, str]) -> None:
    async with visiting(tmp_path, runs=True, variables=slow) as visit:
        service = visit.site.site.service
        assert service is not None
        await post(visit, "/runs", SLOW)
        texts, statuses = [], set[int]()
        with anyio.fail_after(60):
            while "r1" in service.active:
                _, text = await visit.get("/api/v1/metrics")
                texts.append(text)
                statuses.add((await visit.get("/api/v1/runs/r1/items?show=differ"))[0])
                await anyio.sleep(0.02)
        assert 500 not in statuses, "counts of the metrics are not taken for the outcomes of items"
        planned = [text for text in texts if 'bench_run_items_planned{run_id="r1"} ' in text]
        assert planned, "it was seen while it ran"
        assert any('bench_run_phases{outcome="ok",phase=' in text for text in planned)
        assert any("bench_runs_running 1.0" in text for text in planned)
        _, after = await visit.get("/api/v1/metrics")
        assert 'run_id="r1"' not in after and "bench_runs_running 0.0" in after


# ------------------------------------------------------------------------------ orders on disk


def test_malformed_order_files_are_ignored(tmp_path: Path) -> None:
    with OrderStore.open(tmp_path) as orders:
        for name, body in (
            ("torn", "{"), ("list", "[1]"), ("text", '"x"'), ("more", '{"run_id": "a", "number": 1, "x": 2}'),
            ("none", "{}"), ("climbs", '{"run_id": "../a"}'), ("hidden", '{"run_id": ".a"}'), ("null", "null"),
            ("number", '{"run_id": 7}'), ("words", '{"run_id": "b", "number": "first"}'),
        ):  # fmt: skip
            (orders.folder / f"{name}.json").write_text(body)
        (orders.folder / "bytes.json").write_bytes(b"\xff\xfe")
        assert orders.all() == []
        made = orders.add(RunOrder(run_id="a", request={"limit": 1}))
        assert made == RunOrder(run_id="a", request={"limit": 1}, number=1)
        assert orders.all() == [made]
        orders.add(RunOrder(run_id="a"))
        assert orders.all() == [RunOrder(run_id="a", number=2)], "one order per run, the newest"
        orders.drop("nobody")


def test_a_second_order_store_is_rejected_with_the_pid_of_the_first(tmp_path: Path) -> None:
    import os

    with OrderStore.open(tmp_path), pytest.raises(BenchError) as refused, OrderStore.open(tmp_path):
        pass
    assert str(refused.value).endswith(f"/checkpoints/.service: the workspace is served by pid {os.getpid()}")
    assert refused.value.hint == "stop that service, or use another workspace" and refused.value.exit_code == 6
    with OrderStore.open(tmp_path):
        pass
