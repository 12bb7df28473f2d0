"""What a worker decides on its own: where it works, whether it can take part, which journal a shard goes on with."""

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
from bench.errors import ConfigError, IdentityError, UsageError
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


def test_what_is_the_coordinator_s_business_does_not_travel(world: World) -> None:
    flags = {"output": "out", "on_end": "true", "label": ["a=b"], "note": "n", "min_score": ["accuracy=0.1"]}
    order = ordered(world, **flags)
    assert set(order.request) & (ONLY_HERE - {"judge_calibration"}) == set()
    assert order.request["label"] == {"a": "b"}
    RunRequest.model_validate(dict(order.request))


@pytest.mark.parametrize(("number", "flag", "calibrates"), [(1, True, True), (2, True, False), (1, False, False)])
def test_the_judge_is_calibrated_once_by_the_first_shard(
    world: World, number: int, flag: bool, calibrates: bool
) -> None:
    order = ordered(world, replace(SHARD, number=number), judge_calibration=flag)
    assert order.request["judge_calibration"] is calibrates


def test_a_shard_has_the_digest_of_the_run(world: World) -> None:
    plan = world.plan(providers="faulty", run_id="r")
    orders = [ordered(world, shard) for shard in shards_of(plan, 3)]
    assert {order.digest for order in orders} == {plan.digest}
    assert [plan_of(order)[0].digest for order in orders] == [plan.digest] * 3


def test_only_a_named_file_of_variables_travels_by_its_path(world: World, tmp_path: Path) -> None:
    plan = world.plan(providers="faulty", run_id="r")
    named, own = tmp_path / "my.env", world.workspace / ".env"
    for path, sent in ((None, None), (own, None), (named, str(named.resolve()))):
        environment = Environment(values={}, dotenv=path)
        order = ShardOrder.of(plan, SHARD, environment=environment, share=1, left_usd=None, token="t")
        assert order.env_file == sent


def test_a_refusal_is_an_error_as_plain_data() -> None:
    found = Refusal.of(ConfigError("bad", where="a:1", hint="fix it"), "tcp://w")
    assert found == Refusal(kind="config", message="a:1: bad", hint="fix it", worker="tcp://w", exit_code=2)


# --------------------------------------------------------------------------- where


def test_a_worker_s_own_workspace_is_named_or_the_coordinator_s_or_where_it_was_started(
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


async def test_a_worker_that_has_everything_refuses_nothing(world: World) -> None:
    assert await bench_version() == bench.version.__version__
    assert await check_order(ordered(world)) is None


async def test_another_version_is_refused_by_both_numbers(world: World) -> None:
    found = await check_order(replace(ordered(world), version="9.9.9"))
    assert found is not None
    assert found.message == f"bench {bench.version.__version__} differs from the coordinator's version 9.9.9"
    assert (found.hint, found.exit_code) == ("install the same version of bench on every worker", 2)


def test_other_data_is_refused_with_what_differs(world: World) -> None:
    order = ordered(world)
    rows = world.workspace / "datasets/facts.jsonl"
    rows.write_text(rows.read_text().replace("W0y0", "X"))
    with pytest.raises(IdentityError, match=r"benchmarks\.facts\.dataset") as told:
        plan_of(order)
    assert str(told.value).startswith(
        f"configs, datasets or variables in the workspace {world.workspace.resolve()} differ from the coordinator's\n"
    )
    assert WORKSPACE in told.value.hint


async def test_a_secret_that_only_the_coordinator_has_is_refused_by_name(
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


def test_a_file_of_variables_that_is_not_here_is_no_reason_to_refuse(world: World) -> None:
    order = ordered(world)
    plan, _ = plan_of(replace(order, env_file="/no/such/file.env"))
    assert plan.digest == plan_of(order)[0].digest


# -------------------------------------------------------------------- which journal


async def scratch(world: World, name: str, items: int) -> Path:
    values = {f"q{at}": 1.0 for at in range(items)}
    return await made(scratch_of(ordered(world)), name, [Job(record=record("p"), values=values)])


async def test_the_shards_that_a_worker_still_has_are_those_of_the_run(world: World) -> None:
    for name in ("r.1of3-aaa", "r.2of3-bbb", "r.2of3-ccc", "other.1of3-ddd", "r2.1of3-eee"):
        await scratch(world, name, 1)
    assert sorted(await stored_shards(ordered(world))) == ["r.1of3", "r.2of3", "r.2of3"]


async def test_what_is_stored_is_deleted_and_nothing_else(world: World) -> None:
    folders = [await scratch(world, name, 1) for name in ("r.1of3-aaa", "r.2of3-bbb", "r.11of3-ccc")]
    await delete_shards(ordered(world), ["r.1of3", "r.9of3"])
    assert [one.exists() for one in folders] == [False, True, True]


async def test_a_shard_goes_on_with_the_journal_that_got_furthest(world: World) -> None:
    order = ordered(world)
    base = scratch_of(order) / "checkpoints"
    await scratch(world, "r.2of3-aaa", 1)
    furthest = await scratch(world, "r.2of3-bbb", 3)
    assert await _run_folder(order, base) == furthest
    assert await _run_folder(replace(order, phases=3), base) == furthest, "as far as the one that came along"


async def test_a_journal_that_came_along_and_is_further_is_laid_down_beside(world: World, tmp_path: Path) -> None:
    source = await made(tmp_path / "sent", "s", [Job(record=record("p"), values={f"q{at}": 1.0 for at in range(5)})])
    order = replace(ordered(world), pack=pack(source, whole=True), phases=5)
    behind = await scratch(world, "r.2of3-aaa", 2)
    begun = await _run_folder(order, scratch_of(order) / "checkpoints")
    assert begun != behind and begun.name.startswith("r.2of3-")
    assert await _phases(begun) == 5
    assert await _phases(behind) == 2


async def test_a_shard_that_nobody_began_has_a_folder_of_its_own_each_time(world: World) -> None:
    order, base = ordered(world), scratch_of(ordered(world)) / "checkpoints"
    one, other = await _run_folder(order, base), await _run_folder(order, base)
    assert one != other and not one.exists()
    assert await _phases(one) == 0


def test_an_order_without_a_run_id_cannot_be(world: World) -> None:
    plan = world.plan(providers="faulty")
    with pytest.raises(AssertionError):
        ShardOrder.of(plan, SHARD, environment=world.environment, share=1, left_usd=None, token="t")


def test_more_shards_than_items_say_how_many_there_are(world: World) -> None:
    with pytest.raises(UsageError, match="--shards 99: the run has only 8 items, but every shard needs an item"):
        shards_of(world.plan(providers="faulty"), 99)
