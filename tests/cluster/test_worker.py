"""Decisions of a worker: its workspace, whether it accepts an order, and which journal a shard continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import bench.version
from bench.cluster.coordinator import shards_of
from bench.cluster.messages import ONLY_HERE, Refusal, Shard, ShardOrder, pack
from bench.cluster.worker import (
    SCRATCH,
    WORKSPACE,
    _phases,
    _run_folder,
    bench_version,
    check_order,
    delete_shards,
    plan_of,
    scratch_of,
    stored_shards,
    workspace_of,
)
from bench.config.run import RunRequest
from bench.errors import ConfigError, IdentityError
from bench.settings import Environment
from tests.small_journal import Job, made, record
from tests.small_world import World

SHARD = Shard(number=2, count=3, start=4, end=6)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv(WORKSPACE, raising=False)
    monkeypatch.setenv("FAULT_URL", "http://127.0.0.1:9")
    return World.make(tmp_path / "w", "http://127.0.0.1:9")


def ordered(world: World, shard: Shard = SHARD, *, left_usd: float | None = None, **flags: object) -> ShardOrder:
    plan = world.plan(**{"providers": "faulty", "run_id": "r", "cluster": "local:2", "shards": 3, **flags})
    return ShardOrder.of(plan, shard, environment=world.environment, share=0.5, left_usd=left_usd, token="t")


# --------------------------------------------------------------------------- order


def test_an_order_is_a_range_of_the_run_with_its_own_name(world: World) -> None:
    order = ordered(world, left_usd=1.5, k=3)
    assert (order.name, order.run_id, str(order.shard)) == ("r.2of3", "r", "2of3")
    assert (order.version, order.share, order.token) == (bench.version.__version__, 0.5, "t")
    assert {key: order.request[key] for key in ("start", "end", "max_cost", "k")} == {
        "start": 4, "end": 6, "max_cost": 1.5, "k": 3,
    }  # fmt: skip
    assert order.workspace == str(world.workspace.resolve())


def test_an_order_omits_settings_that_only_the_coordinator_uses(world: World) -> None:
    flags = {"output": "out", "on_end": "true", "label": ["a=b"], "note": "n", "min_score": ["accuracy=0.1"]}
    order = ordered(world, **flags)
    assert set(order.request) & (ONLY_HERE - {"judge_calibration"}) == set()
    assert order.request["label"] == {"a": "b"}
    RunRequest.model_validate(dict(order.request))


@pytest.mark.parametrize(("number", "flag", "calibrates"), [(1, True, True), (2, True, False), (1, False, False)])
def test_the_judge_is_calibrated_by_the_first_shard_only(
    world: World, number: int, flag: bool, calibrates: bool
) -> None:
    order = ordered(world, replace(SHARD, number=number), judge_calibration=flag)
    assert order.request["judge_calibration"] is calibrates


def test_the_order_of_a_shard_has_the_plan_digest_of_the_run(world: World) -> None:
    plan = world.plan(providers="faulty", run_id="r")
    orders = [ordered(world, shard) for shard in shards_of(plan, 3)]
    assert {order.digest for order in orders} == {plan.digest}
    assert [plan_of(order)[0].digest for order in orders] == [plan.digest] * 3


def test_an_order_contains_the_path_of_an_env_file_only_if_it_was_named(world: World, tmp_path: Path) -> None:
    plan = world.plan(providers="faulty", run_id="r")
    named, own = tmp_path / "my.env", world.workspace / ".env"
    for path, sent in ((None, None), (own, None), (named, str(named.resolve()))):
        environment = Environment(values={}, dotenv=path)
        order = ShardOrder.of(plan, SHARD, environment=environment, share=1, left_usd=None, token="t")
        assert order.env_file == sent


def test_a_refusal_has_kind_message_hint_and_exit_code_of_the_error() -> None:
    found = Refusal.of(ConfigError("bad", where="a:1", hint="fix it"), "tcp://w")
    assert found == Refusal(kind="config", message="a:1: bad", hint="fix it", worker="tcp://w", exit_code=2)


# --------------------------------------------------------------------------- where


def test_the_workspace_is_the_variable_then_that_of_the_coordinator_then_the_current_folder(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ordered(world)
    assert workspace_of(order) == world.workspace.resolve()
    elsewhere = replace(order, workspace="/no/such/folder")
    monkeypatch.chdir(tmp_path)
    assert workspace_of(elsewhere) == tmp_path
    monkeypatch.setenv(WORKSPACE, "/mine")
    assert workspace_of(order) == workspace_of(elsewhere) == Path("/mine")
    assert scratch_of(order) == Path("/mine/checkpoints") / SCRATCH


# ------------------------------------------------------------------------- can it?


async def test_a_worker_with_data_and_variables_accepts_an_order(world: World) -> None:
    assert await bench_version() == bench.version.__version__
    assert await check_order(ordered(world)) is None


async def test_a_worker_with_another_version_refuses_with_both_versions(world: World) -> None:
    found = await check_order(replace(ordered(world), version="9.9.9"))
    assert found is not None
    assert found.message == f"bench {bench.version.__version__} differs from the coordinator's version 9.9.9"
    assert (found.hint, found.exit_code) == ("install the same version of bench on every worker", 2)


def test_a_worker_with_other_data_refuses_with_the_difference(world: World) -> None:
    order = ordered(world)
    rows = world.workspace / "datasets/facts.jsonl"
    rows.write_text(rows.read_text().replace("W0y0", "X"))
    with pytest.raises(IdentityError, match=r"benchmarks\.facts\.dataset") as caught:
        plan_of(order)
    assert str(caught.value).startswith(
        f"configs, datasets or variables in the workspace {world.workspace.resolve()} differ from the coordinator's\n"
    )
    assert WORKSPACE in caught.value.hint


async def test_a_worker_without_a_secret_of_the_coordinator_refuses_with_its_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.provider("locked", extra="auth: {type: bearer, envVar: LOCKED_KEY}\n")
    world.variables["LOCKED_KEY"] = "a-word-of-this-test"
    order = ordered(world, providers="locked")
    monkeypatch.delenv("LOCKED_KEY", raising=False)
    found = await check_order(order)
    assert found is not None and "LOCKED_KEY, which is not set" in found.message
    assert "a-word-of-this-test" not in repr(order)
    monkeypatch.setenv("LOCKED_KEY", "another")
    assert await check_order(order) is None


def test_a_missing_env_file_is_ignored_by_a_worker(world: World) -> None:
    order = ordered(world)
    plan, _ = plan_of(replace(order, env_file="/no/such/file.env"))
    assert plan.digest == plan_of(order)[0].digest


# -------------------------------------------------------------------- which journal


async def scratch(world: World, name: str, items: int) -> Path:
    values = {f"q{at}": 1.0 for at in range(items)}
    return await made(scratch_of(ordered(world)), name, [Job(record=record("p"), values=values)])


async def test_stored_shards_returns_only_shards_of_the_run(world: World) -> None:
    for name in ("r.1of3-aaa", "r.2of3-bbb", "r.2of3-ccc", "other.1of3-ddd", "r2.1of3-eee"):
        await scratch(world, name, 1)
    assert sorted(await stored_shards(ordered(world))) == ["r.1of3", "r.2of3", "r.2of3"]


async def test_delete_shards_deletes_only_the_named_shards(world: World) -> None:
    folders = [await scratch(world, name, 1) for name in ("r.1of3-aaa", "r.2of3-bbb", "r.11of3-ccc")]
    await delete_shards(ordered(world), ["r.1of3", "r.9of3"])
    assert [one.exists() for one in folders] == [False, True, True]


async def test_a_shard_continues_with_the_journal_that_is_furthest(world: World) -> None:
    order = ordered(world)
    base = scratch_of(order) / "checkpoints"
    await scratch(world, "r.2of3-aaa", 1)
    furthest = await scratch(world, "r.2of3-bbb", 3)
    assert await _run_folder(order, base) == furthest
    assert await _run_folder(replace(order, phases=3), base) == furthest, "as far as the journal of the order"


async def test_a_sent_journal_that_is_further_is_unpacked_into_a_new_folder(world: World, tmp_path: Path) -> None:
    source = await made(tmp_path / "sent", "s", [Job(record=record("p"), values={f"q{at}": 1.0 for at in range(5)})])
    order = replace(ordered(world), pack=pack(source, whole=True), phases=5)
    behind = await scratch(world, "r.2of3-aaa", 2)
    begun = await _run_folder(order, scratch_of(order) / "checkpoints")
    assert begun != behind and begun.name.startswith("r.2of3-")
    assert await _phases(begun) == 5
    assert await _phases(behind) == 2


async def test_a_shard_without_a_journal_gets_a_new_folder_each_time(world: World) -> None:
    order, base = ordered(world), scratch_of(ordered(world)) / "checkpoints"
    one, other = await _run_folder(order, base), await _run_folder(order, base)
    assert one != other and not one.exists()
    assert await _phases(one) == 0


def test_an_order_needs_a_run_id(world: World) -> None:
    plan = world.plan(providers="faulty")
    with pytest.raises(AssertionError):
        ShardOrder.of(plan, SHARD, environment=world.environment, share=1, left_usd=None, token="t")
