"""Calibration of each judge with each prompt, once per run, and warnings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.engine import Outcome
from bench.model import State
from tests.small_world import World

YES, NO = '{"correct": true}', '{"correct": false}'

RIGHT, WRONG = (json.dumps({"correctness": value, "faithfulness": value, "reasoning": ""}) for value in (1, 0))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two items whose answers a scripted judge judges."""
    world = World.make(tmp_path, corpora=1, items=2)
    world.write(
        "configs/benchmarks/judged.yaml",
        "name: judged\nversion: '1'\nextends: facts\nevaluation: {method: llm-judge}\n",
    )
    set_reply(world, RIGHT)
    return world


def set_reply(world: World, reply: str) -> None:
    """Set the reply of the judge to all prompts."""
    script = world.write("script.jsonl", json.dumps({"match": ".", "reply": reply}) + "\n")
    world.variables["MEMORYBENCH_SCRIPT"] = str(script)


async def run(world: World, **flags: object) -> Outcome:
    return await world.run(
        **{"benchmarks": "judged", "providers": "bm25", "run_id": "r", "answering_model": "builtin/extractive",
           "judge_model": "builtin/scripted", "judge_calibration": True, **flags}  # type: ignore[arg-type]
    )  # fmt: skip


def events(world: World, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Scope, message and data of each event of a kind."""
    rows = world.query("r", f"select scope, message, data from event where kind = '{kind}' order by id")
    return [(scope, message, json.loads(data) if data else {}) for scope, message, data in rows]


async def test_a_judge_that_accepts_every_answer_gets_a_warning(world: World) -> None:
    await run(world)
    (data,) = [data for _, _, data in events(world, "judge_calibration") if data["prompt"] == "default"]
    assert (data["judge"], data["unparsed"], data["judge_noise"]) == ("builtin/scripted", 0, 1.0)
    assert (data["fpr"]["value"], data["fnr"]["value"]) == (1.0, 0.0)
    assert data["fpr"]["n"] + data["fnr"]["n"] == sum(rate["n"] for rate in data["by_kind"].values())
    assert {rate["value"] for rate in data["by_kind"].values()} == {1.0}
    job = "judged/bm25|builtin/extractive|builtin/scripted"
    assert [(scope, message) for scope, message, _ in events(world, "judge_warning")] == [
        (job, "builtin/scripted judges 100% of the wrong answers as right, so its scores are too high")
    ]


async def test_a_judge_that_rejects_every_answer_gets_no_warning(world: World) -> None:
    set_reply(world, WRONG)
    await run(world)
    (data,) = [data for _, _, data in events(world, "judge_calibration") if data["prompt"] == "default"]
    assert (data["fpr"]["value"], data["fnr"]["value"], data["judge_noise"]) == (0.0, 1.0, 1.0)
    assert events(world, "judge_warning") == []


async def test_each_judge_prompt_is_calibrated_and_its_calls_belong_to_no_item(world: World) -> None:
    await run(world)
    found = [data for _, _, data in events(world, "judge_calibration")]
    assert len({data["prompt_sha256"] for data in found}) == len(found) == 2
    assert {data["prompt"] for data in found} == {"default", "abstention"}
    assert len({data["calls_of_all_prompts"] for data in found}) == 1
    assert world.query("r", "select count(*) from phase where phase = 5") == [(2,)]


async def test_a_resumed_run_does_not_repeat_the_calibration(world: World) -> None:
    await run(world, phases="search")
    assert len(events(world, "judge_calibration")) == 2
    outcome = await world.resume("r", phases="search,answer,evaluate")
    assert outcome.jobs[0].states == {State.CORRECT: 2}
    assert len(events(world, "judge_calibration")) == 2, "the first measurement stays"


async def test_a_complete_run_is_not_calibrated_on_resume(world: World) -> None:
    await run(world, judge_calibration=False)
    outcome = await world.resume("r", judge_calibration=True)
    assert outcome.message == "nothing left to do"
    assert events(world, "judge_calibration") == []


@pytest.mark.parametrize("flags", [{"judge_model": "none"}, {"benchmarks": "facts", "judge_model": None}])
async def test_a_run_without_a_judge_is_not_calibrated(world: World, flags: dict[str, object]) -> None:
    await run(world, **flags)
    assert events(world, "judge_calibration") + events(world, "judge_warning") == []


async def test_a_failed_calibration_is_an_event_and_does_not_stop_the_job(
    world: World, fault_server: Callable[..., str]
) -> None:
    url = fault_server("chat:status:code=401")
    world.variables.update(OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY="test-key-of-nobody")
    outcome = await run(world, judge_model="openai/nobody", max_error_rate=1)
    ((scope, message, _),) = events(world, "judge_calibration_failed")
    assert scope == "judged/bm25|builtin/extractive|openai/nobody"
    assert message.startswith("judge calibration: ")
    assert outcome.jobs[0].stopped is not None, "its first item stopped the job, not the calibration"
