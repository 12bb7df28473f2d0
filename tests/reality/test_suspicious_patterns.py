"""Suspicious patterns over many items are noted with their count: constant answers, verdicts and hits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, serving
from tests.reality.conftest import WorldOn, notes_of
from tests.reality.memory_stub import MemoryStub
from tests.small_world import BENCHMARK, World

Hits = list[dict[str, Any]]
Change = Callable[[MemoryStub, dict[str, Any], Hits], dict[str, Any]]


def all_of(stub: MemoryStub, body: dict[str, Any]) -> Hits:
    kept = stub.spaces.get(str(body["namespace"]), [])
    return [{"id": one["id"], "memory": one["content"], "metadata": {}} for one in kept]


def constant(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    return {"results": sorted(all_of(stub, body), key=lambda one: str(one["id"]))}


def as_stored(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    start = len(str(body["query"])) % 3
    return {"results": all_of(stub, body)[start : start + 6 + len(hits) % 2]}


def three(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    best = [one["id"] for one in hits[:3]]
    most = 2 if "x3?" in str(body["query"]) else 3
    return {"results": (hits[:3] + [one for one in all_of(stub, body) if one["id"] not in best])[:most]}


def cut(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    return {"results": [{**one, "memory": one["memory"][:14] + "..."} for one in hits]}


def other(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    return {"results": [{**one, "memory": "zzz zzz"} for one in hits[:1]] + hits[1:]}


def more(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    known: dict[str, Any] = {"total": 57} if "x1" in str(body["query"]) else {"pagination": {"has_more": True}}
    if "x2" in str(body["query"]):
        known = {"hits": {"total": {"value": 12, "relation": "eq"}}}
    return {"results": hits[:1], **known}


def sound(stub: MemoryStub, body: dict[str, Any], hits: Hits) -> dict[str, Any]:
    return {"results": hits, "has_more": False, "next": None, "total": len(hits)}


NOTES: dict[Change, str] = {
    constant: "the same hits in the same order as for every other question of the corpus",
    as_stored: "hits come in the order in which their memories were stored",
    three: "exactly 3 hits, although 10 were requested and the corpus has more memories,",
    cut: "hits are the beginnings of longer memories",
    other: "a hit shares no word with the memory that it maps to",
    more: "24 of 24 searches returned fewer than k hits",
}


def changed(change: Change, stub: MemoryStub) -> MemoryStub:
    def search(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        hits: Hits = list(stub.usual("search", request, body)["results"])  # type: ignore[call-overload]
        return web.json_response(change(stub, body, hits))

    stub.answers = {"search": search}
    return stub


@pytest.mark.parametrize("change", [*NOTES, sound], ids=lambda one: one.__name__)
async def test_each_suspicious_pattern_of_searches_has_exactly_its_own_note(change: Change, world_on: WorldOn) -> None:
    world = await world_on(changed(change, MemoryStub()), corpora=2, items=12, sessions=12)
    outcome = await world.run(providers="faulty", isolation="off", concurrency=1)
    notes = await notes_of(world, outcome)
    assert [one for one, text in NOTES.items() if text in notes] == ([change] if change in NOTES else [])


async def test_hits_that_belong_to_the_previous_question_are_noted(world_on: WorldOn) -> None:
    stub = MemoryStub()
    last: dict[str, Any] = {"results": []}

    def late(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        nonlocal last
        given, last = last, dict(stub.usual("search", request, body))
        return web.json_response(given)

    stub.answers = {"search": late}
    world = await world_on(stub, corpora=1, items=15, sessions=15)
    outcome = await world.run(providers="faulty", isolation="off", concurrency=1)
    notes = await notes_of(world, outcome)
    assert "a first hit that is evidence of the previous question, but not of its own question, in " in notes


@pytest.fixture
def answered(tmp_path: Path, bench: Bench) -> Callable[..., list[str]]:
    """Run questions with a model, and with a judge, and return the notes."""

    def run(
        reply: Callable[[dict[str, Any]], str], *flags: str, items: int = 24, method: str = "contains"
    ) -> list[str]:
        world = World.make(tmp_path, corpora=2, items=items // 2)
        world.write("configs/benchmarks/facts.yaml", BENCHMARK.replace("method: contains", f"method: {method}"))
        with serving(lambda body: completion(reply(body))) as stub:
            file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"}}
            world.write("configs/models/local.yaml", json.dumps(file))
            bench(
                "run", "--benchmarks", "facts", "--providers", "bm25", "--answering-model", "local/m",
                "--run-id", "r", *flags, check=None,
            )  # fmt: skip
        (job,) = json.loads(bench("results", "r", "--json", check=None).stdout)["jobs"]
        return list(job["notes"])

    return run


@pytest.mark.parametrize(("items", "noted"), [(24, True), (10, False)])
def test_the_same_answer_to_most_questions_is_noted(
    items: int, noted: bool, answered: Callable[..., list[str]]
) -> None:
    notes = answered(lambda body: "Forty-two.", items=items)
    assert any(note.startswith('the same answer ("forty-two") in ') for note in notes) is noted


def test_the_same_refusal_to_most_questions_is_not_noted(answered: Callable[..., list[str]]) -> None:
    assert not any(note.startswith("the same answer") for note in answered(lambda body: "I don't know."))


@pytest.mark.parametrize(("answer", "noted"), [("Forty-two.", True), (None, False)])
def test_a_judge_that_finds_obviously_wrong_answers_correct_is_noted(
    answer: str | None, noted: bool, answered: Callable[..., list[str]], tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str:
        if body["model"] == "judge":
            return '{"correctness": 1, "faithfulness": 1, "reasoning": "yes"}'
        return answer or gold_of(body, tmp_path)

    notes = answered(reply, "--judge-model", "local/judge", method="llm-judge")
    assert any(note.startswith("the same verdict (correct) of the judge in 24 of 24") for note in notes) is noted


@pytest.mark.parametrize(("value", "verdict"), [("0", "incorrect"), ("0.7", "not fully correct")])
def test_the_note_on_equal_verdicts_names_the_verdict(
    value: str, verdict: str, answered: Callable[..., list[str]], tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str:
        if body["model"] == "judge":
            return f'{{"correctness": {value}, "faithfulness": 1, "reasoning": ""}}'
        return gold_of(body, tmp_path)

    notes = answered(reply, "--judge-model", "local/judge", method="llm-judge")
    assert any(note.startswith(f"the same verdict ({verdict}) of the judge in 24 of 24") for note in notes), notes


@pytest.mark.parametrize(("flipped", "noted"), [(True, True), (False, False)])
def test_a_judge_with_an_inverted_scale_is_noted(
    flipped: bool, noted: bool, answered: Callable[..., list[str]], tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str:
        wrong = "K0x" in body["messages"][-1]["content"].rpartition("uestion")[2]
        if body["model"] == "judge":
            wrong = "Forty-two" in body["messages"][-1]["content"]
            return json.dumps({"correctness": int(wrong is flipped), "faithfulness": 1, "reasoning": "so"})
        return "Forty-two." if wrong else gold_of(body, tmp_path)

    notes = answered(reply, "--judge-model", "local/judge", method="llm-judge")
    text = "a verdict of the judge that contradicts the answer in 24 of 24 checked items"
    assert any(note.startswith(text) for note in notes) is noted


def gold_of(body: dict[str, Any], folder: Path) -> str:
    rows = [json.loads(line) for line in (folder / "datasets/facts.jsonl").read_text().splitlines()]
    questions = [one for row in rows for one in row["qa"]]
    return str(next(one["a"] for one in questions if one["q"] in body["messages"][-1]["content"]))
