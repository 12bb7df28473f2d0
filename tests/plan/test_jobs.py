"""Lanes and jobs of a plan: keys, skipped lanes, and flags without effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.run import RunRequest
from bench.errors import BenchError, ConfigError, UsageError
from bench.plan import NONE, Plan
from bench.plan.ranges import ranges_of
from tests.engine.scripted_store import ScriptedStore
from tests.rows import each_row
from tests.small_world import PROVIDER, World

LISTING = 'name: listing\nversion: "1"\nextends: facts\nrequiredCapabilities: [list_memories]\n'
JUDGING = {"evaluators": "llm-judge"}


def jobs(world: World, **flags: object) -> list[tuple[str, str]]:
    plan = world.plan(**{"providers": "bm25", **flags})
    return [(job.answering, job.judge) for job in plan.jobs]


# ------------------------------------------------------------------------ models of a job


@pytest.mark.parametrize(
    ("flags", "pairs"),
    [
        ({}, [(NONE, NONE)]),
        ({"answering_model": "gpt-4o"}, [("openai/gpt-4o", NONE)]),
        ({"answering_model": "openai/a", "judge_model": "openai/j"}, [("openai/a", NONE)]),
        ({**JUDGING, "answering_model": "openai/a", "judge_model": "openai/j"}, [("openai/a", "openai/j")]),
        ({**JUDGING, "answering_model": "openai/a"}, [("openai/a", NONE)]),
        ({**JUDGING, "judge_model": "openai/j"}, [(NONE, NONE)]),
        ({**JUDGING, "judge_model": ["openai/i", "openai/j"]}, [(NONE, NONE)]),
        (
            {**JUDGING, "answering_model": ["openai/a", "none"], "judge_model": ["openai/i", "openai/j"]},
            [("openai/a", "openai/i"), ("openai/a", "openai/j"), (NONE, NONE)],
        ),
        ({**JUDGING, "answering_model": ["gpt-4o", "openai/gpt-4o"]}, [("openai/gpt-4o", NONE)]),
    ],
)
def test_there_is_one_job_per_pair_of_models_that_are_used(
    world: World, flags: dict[str, object], pairs: list[tuple[str, str]]
) -> None:
    assert jobs(world, **flags) == pairs


def test_models_of_the_benchmark_config_are_used_unless_flags_set_others(world: World) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    own = "evaluation: {method: llm-judge, answeringModel: {model: gpt-4o}, judge: {model: openai/own}}"
    path.write_text(path.read_text().replace("evaluation: {method: contains}", own))
    assert jobs(world) == [("openai/gpt-4o", "openai/own")]
    assert jobs(world, judge_model="openai/j") == [("openai/gpt-4o", "openai/j")]
    assert jobs(world, answering_model="none") == [(NONE, NONE)]
    assert jobs(world, judge_model="none") == [("openai/gpt-4o", NONE)]


def test_job_keys_contain_lane_answering_model_and_judge(world: World) -> None:
    plan = world.plan(
        providers="bm25@x", answering_model="openai/a", judge_model=["openai/i", "openai/j"], evaluators="llm-judge"
    )
    (lane,) = plan.lanes
    assert lane.key == "facts/bm25@x"
    assert lane.answering_models == ("openai/a",)
    first, second = lane.jobs
    assert first.answer_owner == second.answer_owner == "facts/bm25@x|openai/a"
    assert (first.key, second.key) == ("facts/bm25@x|openai/a|openai/i", "facts/bm25@x|openai/a|openai/j")
    assert lane.jobs_of("openai/a") == lane.jobs
    assert lane.jobs_of("openai/b") == ()


def test_the_embedding_model_is_part_of_the_key_of_lanes_that_use_it(world: World) -> None:
    plan = world.plan(providers="vector bm25", embedding_model="openai/text-embedding-3-large")
    assert [lane.key for lane in plan.lanes] == ["facts/vector/openai/text-embedding-3-large", "facts/bm25"]
    assert [lane.models for lane in plan.lanes] == [("openai/text-embedding-3-large",), ()]


def test_a_lane_lists_each_endpoint_that_it_calls_once(world: World) -> None:
    plan = world.plan(
        providers="faulty aqrag bm25",
        answering_model="openai/a",
        judge_model="openai/a",
        evaluators="llm-judge semantic-similarity",
        embedding_model="openai/text-embedding-3-small",
    )
    faulty, aqrag, bm25 = (lane.endpoints for lane in plan.lanes)
    called = ("openai/a.answering", "openai/a.judge", "openai/text-embedding-3-small.embedding")
    assert bm25 == called
    assert faulty == ("faulty.add", "faulty.search", "faulty.status", "faulty.manage", *called)
    assert aqrag[4:] == (*called, "openai/gpt-4o-mini.provider")
    assert plan.lanes[1].models == ("openai/a", "openai/text-embedding-3-small", "openai/gpt-4o-mini")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"answering_model": "nobody/x"}, 'unknown model provider "nobody" in "nobody/x"'),
        ({"answering_model": "opnai/x"}, 'unknown model provider "opnai" in "opnai/x"; did you mean "openai"?'),
        ({"answering_model": "gtp-4"}, 'the provider of the model "gtp-4" is not known; did you mean "gpt-4o"?'),
        ({"answering_model": "builtin/clever"}, 'unknown built-in model "builtin/clever"'),
        (
            {"answering_model": "anthropic/c"},
            "anthropic/c needs the environment variable ANTHROPIC_API_KEY, which is not set",
        ),
        (
            {**JUDGING, "answering_model": "openai/a", "judge_model": "groq/j"},
            "groq/j needs the environment variable GROQ_API_KEY, which is not set",
        ),
        (
            {"providers": "vector", "embedding_model": "groq/e"},
            "groq/e needs the environment variable GROQ_API_KEY, which is not set",
        ),
        (
            {"evaluators": "semantic-similarity", "embedding_model": "groq/e"},
            "groq/e needs the environment variable GROQ_API_KEY, which is not set",
        ),
        (
            {"providers": "aqrag", "set": {"aqrag.local.enhancement.model": "groq/e"}},
            "groq/e needs the environment variable GROQ_API_KEY, which is not set",
        ),
    ],
)
def test_an_unknown_model_or_missing_key_is_an_error_of_the_plan(
    world: World, flags: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        world.plan(**{"providers": "bm25", **flags})
    assert caught.value.message == message


# ------------------------------------------------------------------------ skipped lanes


def test_a_lane_without_a_required_capability_is_skipped_with_its_reason(world: World) -> None:
    world.write(
        "configs/benchmarks/forgetting.yaml",
        'name: forgetting\nversion: "1"\nextends: facts\nrequiredCapabilities: [update_memory, delete_memory]\n',
    )
    plan = world.plan(benchmarks="facts forgetting", providers="faulty bm25 oracle")
    reasons = {
        "faulty": "skipped: forgetting needs delete_memory, update_memory, faulty does not have them",
        "bm25": "skipped: forgetting needs update_memory, bm25 does not have it",
        "oracle": "skipped: forgetting needs delete_memory, update_memory, oracle does not have them",
    }
    assert {lane.provider.label: lane.skipped for lane in plan.lanes if lane.skipped} == reasons
    assert plan.notes == tuple(reasons.values())
    assert len(plan.running) == 3 and len(list(plan.jobs)) == 6
    with pytest.raises(UsageError) as caught:
        world.plan(benchmarks="forgetting", providers="faulty bm25")
    assert caught.value.message == f"no job is left to run: {reasons['faulty']}; {reasons['bm25']}"


def test_a_skipped_lane_needs_no_variables(world: World) -> None:
    world.write(
        "configs/benchmarks/forgetting.yaml",
        'name: forgetting\nversion: "1"\nextends: facts\nrequiredCapabilities: [update_memory]\n'
        "evaluation: {method: contains, answeringModel: {model: groq/a}}\n",
    )
    plan = world.plan(benchmarks="facts forgetting", providers="bm25")
    assert [lane.skipped is None for lane in plan.lanes] == [True, False]
    assert [job.answering for job in plan.jobs] == [NONE, "groq/a"]
    assert (plan.identity["models"], list(plan.identity["providers"])) == ({}, ["bm25"])  # type: ignore[call-overload]
    world.write("configs/benchmarks/listing.yaml", LISTING)
    del world.variables["FAULT_URL"]
    both = world.plan(benchmarks="listing", providers="faulty bm25")
    assert [lane.provider.label for lane in both.running] == ["bm25"]
    with pytest.raises(ConfigError, match="the environment variable FAULT_URL is not set"):
        world.plan(benchmarks="facts", providers="faulty bm25")


@pytest.mark.parametrize(
    ("flags", "notes"),
    [
        ({"judge_model": "openai/j"}, ["--judge-model has no effect: no evaluator of this run uses a judge"]),
        (
            {**JUDGING, "judge_model": "openai/j"},
            ["--judge-model has no effect: no evaluator of this run uses a judge"],
        ),
        ({"judge_model": "none"}, []),
        ({**JUDGING, "judge_model": "none", "answering_model": "openai/a"}, []),
        (
            {**JUDGING, "answering_model": "openai/a"},
            ["facts: answers get no verdict, because llm-judge needs a judge: name one with --judge-model"],
        ),
        ({**JUDGING, "judge_model": "openai/j", "answering_model": "openai/a"}, []),
        (
            {"embedding_model": "openai/e"},
            ["--embedding-model has no effect: no provider or evaluator of this run uses an embedding model"],
        ),
        ({"embedding_model": "openai/e", "providers": "bm25 vector"}, []),
        ({"embedding_model": "openai/e", "evaluators": "semantic-similarity"}, []),
        ({"sample": 13}, ["--sample 13: facts has 12 matching items, so all are used"]),
        ({"sample": 12}, []),
        ({"sample": 9, "question_type": "one"}, ["--sample 9: facts has 6 matching items, so all are used"]),
        ({"sample": 9, "per_type": True}, []),
    ],
)
def test_a_flag_without_effect_is_noted(world: World, flags: dict[str, object], notes: list[str]) -> None:
    assert list(world.plan(**{"providers": "bm25", **flags}).notes) == notes


def test_equal_notes_are_listed_once(world: World) -> None:
    path = world.workspace / "configs/providers/faulty.yaml"
    path.write_text(path.read_text().replace("supportsMetadata: true", "supportsMetadata: true, supportsBatch: true"))
    one, two = world.plan(providers="faulty"), world.plan(providers="faulty@a faulty@b")
    assert one.notes == two.notes != ()


# ------------------------------------------------------------------------ rates


@pytest.mark.parametrize(
    "name",
    ["faulty", "faulty.add", "faulty.search", "faulty.status", "faulty.manage", "openai/gpt-4.1",
     "openai/gpt-4.1.answering"],
)  # fmt: skip
def test_rate_accepts_an_endpoint_or_its_owner(world: World, name: str) -> None:
    plan = world.plan(providers="faulty@x", answering_model="openai/gpt-4.1", rate=[f"{name}=5/s"])
    assert plan.request.rates_per_s() == {name: 5.0}


@pytest.mark.parametrize(
    ("flags", "name", "hint"),
    [
        ({"providers": "faulty"}, "faulty.serch", 'did you mean "faulty.search"?'),
        ({"providers": "faulty"}, "fault", 'did you mean "faulty"?'),
        ({"providers": "faulty@x"}, "faulty@x", 'did you mean "faulty"?'),
        ({"providers": "bm25"}, "bm25", "endpoints: none"),
        ({"providers": "bm25"}, "bm25.search", "endpoints: none"),
        ({"providers": "bm25", "answering_model": "openai/a"}, "openai/a.judge", 'did you mean "openai/a"?'),
        ({"providers": "bm25", "answering_model": "openai/a"}, "q", "endpoints: openai/a.answering"),
    ],
)
def test_a_rate_for_an_endpoint_outside_the_run_is_rejected(
    world: World, flags: dict[str, object], name: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        world.plan(**flags, rate=[f"{name}=5/s"])
    assert caught.value.message == f'--rate {name}: no job of this run uses the endpoint "{name}"'
    assert caught.value.hint == hint


# ------------------------------------------------------------------------ ranges


@each_row(
    ("flags", "ranges"),
    [
        ({}, ()),
        ({"start": 1}, ()),
        ({"start": 1, "end": 10}, ()),
        ({"end": 99}, ()),
        ({"start": 4}, ((4, 10),)),
        ({"end": 4}, ((1, 4),)),
        ({"start": 4, "end": 4}, ((4, 4),)),
        ({"start": 10, "end": 50}, ((10, 10),)),
        ({"shard": "1/1"}, ()),
        ({"shard": "1/3"}, ((1, 3),)),
        ({"shard": "3/3"}, ((7, 10),)),
        ({"shard": "10/10"}, ((10, 10),)),
    ],
)
def test_ranges_are_positions_in_the_full_order(flags: dict[str, object], ranges: object) -> None:
    assert ranges_of(RunRequest.combine(None, flags), 10) == ranges


@each_row(
    ("flags", "message"),
    [
        ({"shard": "0/4"}, "--shard 0/4: expected i/n with i from 1 to n"),
        ({"shard": "5/4"}, "--shard 5/4: expected i/n with i from 1 to n"),
        ({"shard": "1/0"}, "--shard 1/0: expected i/n with i from 1 to n"),
        ({"shard": "0/0"}, "--shard 0/0: expected i/n with i from 1 to n"),
        ({"shard": "1/9"}, "--shard 1/9 contains no item: the selection has only 8 items"),
        ({"start": 9}, "--start 9 is not a position: the selection has only 8 items"),
        ({"shard": "-1/4"}, '--shard: "-1/4" is not a shard: expected i/n, for example 1/4'),
        ({"shard": "1/4/2"}, "--shard: "),
        ({"shard": "a/b"}, "--shard: "),
        ({"start": 0}, "--start must be greater than or equal to 1, not 0"),
        ({"start": 5, "end": 4}, "flags: --end 4 is smaller than --start 5"),
        ({"shard": "1/2", "start": 1}, "flags: --shard and --start/--end exclude each other: give one"),
    ],
)
def test_an_invalid_range_is_a_usage_error(tmp_path: Path, flags: dict[str, object], message: str) -> None:
    world = World.make(tmp_path, corpora=2, items=4)
    with pytest.raises(UsageError) as error:
        world.plan(providers="bm25", **flags)
    assert error.value.message.startswith(message)
    assert error.value.exit_code == 2


@given(total=st.integers(1, 500), count=st.integers(1, 60))
def test_shards_cover_each_position_once_and_differ_by_at_most_one_item(total: int, count: int) -> None:
    covered: list[int] = []
    sizes = []
    for index in range(1, count + 1):
        try:
            ((start, end),) = ranges_of(RunRequest(shard=f"{index}/{count}"), total) or ((1, total),)
        except BenchError:
            start, end = 1, 0
        covered += range(start, end + 1)
        sizes.append(end - start + 1)
    assert covered == list(range(1, total + 1))
    assert max(sizes) - min(sizes) <= 1


# ------------------------------------------------------------------------ other records


def test_a_plan_records_versions_of_python_and_packages(world: World) -> None:
    versions = world.plan(providers="bm25").versions
    assert set(versions) == {"bench", "python", "packages", "plugins"}
    packages = versions["packages"]
    assert isinstance(packages, dict) and set(packages) == {"aiohttp", "nltk", "sacrebleu", "genai-prices"}
    assert all(part and part[0].isdigit() for part in packages.values())


def test_the_total_is_that_of_the_longest_benchmark(world: World) -> None:
    world.write(
        "configs/benchmarks/short.yaml",
        'name: short\nversion: "1"\nextends: facts\ndata: {path: ./datasets/short.jsonl}\n',
    )
    rows = (world.workspace / "datasets/facts.jsonl").read_text().splitlines(keepends=True)
    world.write("datasets/short.jsonl", rows[0])
    plan = world.plan(benchmarks="short facts", providers="bm25", start=3, end=6)
    assert (plan.total, plan.ranges) == (12, ((3, 6),))
    assert _sizes(plan) == [(2, 4), (4, 12)]
    beyond = world.plan(benchmarks="short facts", providers="bm25", start=9)
    assert _sizes(beyond) == [(0, 4), (4, 12)]


def _sizes(plan: Plan) -> Sequence[tuple[int, int]]:
    return [(lane.benchmark.n_selected, lane.benchmark.n_whole) for lane in plan.lanes]


@pytest.mark.parametrize(
    ("evaluation", "flag", "judge"),
    [
        ("{method: llm-judge, pack: longmemeval@1}", (), "openai/gpt-4o-2024-08-06"),
        ("{method: llm-judge, pack: longmemeval@1, judge: {model: openai/own}}", (), "openai/own"),
        ("{method: llm-judge, pack: longmemeval@1, judge: {model: openai/own}}", ("openai/flag",), "openai/flag"),
        ("{method: llm-judge}", (), "none"),
    ],
)
def test_the_judge_comes_from_the_flag_then_the_config_then_the_pack(
    world: World, evaluation: str, flag: tuple[str, ...], judge: str
) -> None:
    path = world.workspace / "configs/benchmarks/judged.yaml"
    path.write_text(f'name: judged\nversion: "1"\nextends: facts\nevaluation: {evaluation}\n', encoding="utf-8")
    plan = world.plan(benchmarks="judged", providers="bm25", answering_model="openai/a", judge_model=flag)
    assert [job.judge for job in plan.jobs] == [judge]


@pytest.mark.parametrize(
    ("old", "new", "cost"),
    [
        ("", "", ""),  # stored memories are found by their id
        ('$.score"}', '$.score", id_from: none}', "up to 2 of 3 corpora: if neither a count nor a search shows"),
        ("capabilities:", "wait: sentinel\ncapabilities:", "up to 2 of 3 corpora: if neither a count nor a search"),
        ("path: /v1/add", "path: /v1/add\n    idempotent: true", ""),
        ("on_unknown: reset", "on_unknown: repeat", ""),
    ],
)
def test_the_possible_cost_of_a_crash_in_ingest_is_noted(world: World, old: str, new: str, cost: str) -> None:
    world.provider("faulty", base=PROVIDER.replace(old, new) if old else PROVIDER)
    notes = [
        note for note in world.plan(providers="faulty bm25", ingest_concurrency=2).notes if "a crash in ingest" in note
    ]
    assert len(notes) == bool(cost)
    assert all(note.startswith(f"faulty: a crash in ingest can cost {cost}") for note in notes)


def test_a_provider_that_stores_only_in_the_process_gets_a_note(world: World) -> None:
    ScriptedStore.install(world, durability="process")
    (note,) = world.plan(providers="scripted").notes
    assert note == (
        "scripted: a crash in ingest can cost all 3 corpora: "
        "the memories exist only in this process and are ingested again"
    )
