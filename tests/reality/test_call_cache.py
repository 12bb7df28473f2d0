"""``--cache``: an equal call of a model is paid once across runs, and every output marks cached calls."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.model import ChatMessage, Completion, Prompt, Usage
from bench.models.call_cache import CACHE_FILE, CachedModel, CallCache
from tests.cli.conftest import Bench
from tests.reality.chat_stub import Reply, Stub, completion, serving

RUN = ("run", "demo", "bm25", "--limit", "3", "--answering-model", "acme/m1", "--judge-model", "acme/j1")
FILE = """
evaluators: [llm-judge]
prices:
  acme/m1: {input: 1, output: 2}
  acme/j1: {input: 1, output: 2}
"""
MODELS = "name: acme\ndialect: openai\nbase_url: %s\nauth: {type: none}\n"
KEY = "sk-test-key-of-no-service"


USAGE = {"prompt_tokens": 400, "completion_tokens": 9, "total_tokens": 409}
VERDICT = '{"correctness": 1, "faithfulness": 1, "reasoning": "same"}'


def judged(body: dict[str, Any]) -> Reply:
    return completion("Paris" if body["model"] == "m1" else VERDICT, usage=USAGE)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with serving(lambda body: replies(body)) as made:
        replies.clear()
        place = tmp_path / "configs/models/acme.yaml"
        place.parent.mkdir(parents=True)
        place.write_text(MODELS % made.url)
        (tmp_path / "prices.yaml").write_text(FILE)
        yield made


class Replies:
    """The replies of the stub; a test can change them."""

    made: Any = staticmethod(judged)

    def __call__(self, body: dict[str, Any]) -> Reply:
        return self.made(body)  # type: ignore[no-any-return]

    def clear(self) -> None:
        self.made = judged


replies = Replies()


def run(bench: Bench, run_id: str, *flags: str, check: int | None = 0) -> str:
    return str(bench(*RUN, "-c", "prices.yaml", "--run-id", run_id, *flags, check=check).stdout)


def exported(bench: Bench, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bench("export", run_id, "--format", "jsonl").stdout.splitlines()]


def test_a_cached_call_is_not_paid_again_and_is_marked_in_every_output(
    bench: Bench, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    plain = run(bench, "first", "--cache", "readwrite")
    assert "call cache" not in plain
    called = len(stub.asked)
    assert called == 6
    planned = bench("plan", *RUN[1:], "--cache", "read").stdout
    assert "call cache (read): " in planned and "checkpoints/calls.sqlite" in planned
    shown = run(bench, "second", "--cache", "read")
    assert len(stub.asked) == called, "nothing was called again"
    assert "3 answers and 3 verdicts from the call cache: 2,454 tokens (USD 0.002508) not paid again" in " ".join(
        shown.split()
    )
    for before, after in zip(exported(bench, "first"), exported(bench, "second"), strict=True):
        assert (before["cached"], after["cached"]) == ([], ["answer", "verdict"])
        assert "cached" in after["flags"]
        assert (before["answer"], before["state"], before["score"]) == (after["answer"], after["state"], after["score"])
        assert before["cost"].keys() == {"answering", "judge"} and after["cost"] == {}
        assert before["latency"].keys() == {"search", "answer", "evaluate"} and after["latency"].keys() == {"search"}
    rows = list(csv.DictReader(io.StringIO(bench("export", "second", "--format", "csv").stdout)))
    assert {row["cached"] for row in rows} == {"answer verdict"}
    bench("keys", "new")
    bench("sign", "second")
    (receipt,) = (tmp_path / "results/second/receipts").glob("*.json")
    reasons = json.loads(receipt.read_text())["reproducibility"]["reasons"]
    assert any("from the call cache" in reason for reason in reasons)


def test_cost_and_latency_metrics_exclude_cached_calls(bench: Bench, stub: Stub) -> None:
    metrics = "accuracy,cost_total,cost_judge,tokens_answer_in,tokens_judge_in,answer_latency_p50,total_latency_p50"
    for run_id in ("first", "second"):
        run(bench, run_id, "--cache", "readwrite", "--metrics", metrics)
    first, second = (json.loads(bench("results", name, "--json").stdout) for name in ("first", "second"))
    before, after = (shown["jobs"][0]["metrics"] for shown in (first, second))
    assert before["cost_total"]["value"] > 0 and after["cost_total"]["value"] == 0
    assert after["cost_judge"]["value"] == 0 and after["cost_total"]["n_unknown"] == 0
    for name in ("accuracy", "tokens_answer_in", "tokens_judge_in"):
        assert before[name]["value"] == after[name]["value"]
    for name in ("answer_latency_p50", "total_latency_p50"):
        assert before[name]["value"] is not None and after[name]["value"] is None


def test_repeats_of_an_item_are_cached_separately(bench: Bench, stub: Stub) -> None:
    run(bench, "first", "--cache", "readwrite", "--epochs", "2")
    assert len(stub.asked) == 12
    run(bench, "second", "--cache", "readwrite", "--epochs", "3")
    assert len(stub.asked) == 18


@pytest.mark.parametrize(
    "changed", [("--seed", "1"), ("--max-answer-tokens", "77"), ("--answer-prompt", "Say ${question}")], ids=" ".join
)
def test_a_changed_request_is_not_answered_from_the_cache(bench: Bench, stub: Stub, changed: tuple[str, ...]) -> None:
    run(bench, "first", "--cache", "readwrite")
    before = len([body for body in stub.asked if body["model"] == "m1"])
    run(bench, "second", "--cache", "readwrite", *changed)
    assert len([body for body in stub.asked if body["model"] == "m1"]) == before + 3


@pytest.mark.parametrize(
    "reply",
    [
        lambda body: completion("Par", "length"),
        lambda body: completion("I cannot", "content_filter"),
        lambda body: completion(""),
        lambda body: (400, {"error": {"message": "no"}}),
        lambda body: completion("", "stop", reasoning_content="hm"),
    ],
    ids=["cut", "refused", "empty", "error", "reasoning alone"],
)
def test_incomplete_refused_or_failed_answers_are_not_cached(
    bench: Bench, stub: Stub, tmp_path: Path, reply: Any
) -> None:
    replies.made = lambda body: reply(body) if body["model"] == "m1" else judged(body)
    run(bench, "first", "--cache", "readwrite", "--max-error-rate", "1", check=None)
    with sqlite3.connect(tmp_path / "checkpoints" / CACHE_FILE) as connection:
        kept = [json.loads(body)["model"] for (body,) in connection.execute("SELECT body FROM reply")]
        text = "".join(connection.iterdump())
    assert all("Paris" not in one for one in kept)
    assert "content_filter" not in text and '"Par"' not in text


def test_cache_mode_read_stores_nothing_and_mode_write_reads_nothing(bench: Bench, stub: Stub) -> None:
    for number, mode in enumerate(("read", "write", "write"), start=1):
        run(bench, f"r{number}", "--cache", mode)
        assert len(stub.asked) == 6 * number


def test_a_damaged_cache_file_stops_the_run_before_its_first_call(bench: Bench, stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / CACHE_FILE).write_text("not a database, and longer than its header" * 9)
    error = bench(*RUN, "--cache", "read", check=2).stderr
    assert "the call cache cannot be opened" in error and CACHE_FILE in error
    assert stub.asked == []


class Counting:
    """A model that replies with the number of its calls."""

    name = "acme/m1"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, prompt: Prompt) -> Completion:
        self.calls += 1
        return Completion(text=f"reply {self.calls}", model="m1", usage=Usage(input_tokens=1), cost_usd="0.1")


def prompt(text: str) -> Prompt:
    return Prompt(messages=(ChatMessage(role="user", content=text),))


async def test_two_runs_can_use_one_cache_file_at_the_same_time(tmp_path: Path) -> None:
    caches = [CallCache(tmp_path / CACHE_FILE, mode="readwrite") for _ in range(2)]
    model = Counting()
    models = [CachedModel(model, cache, {"name": "acme/m1"}) for cache in caches]
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(models[number % 2].complete, prompt(f"question {number}"))
    again = [await models[1 - number % 2].complete(prompt(f"question {number}")) for number in range(40)]
    assert model.calls == 40
    assert all((one.flags, one.cost_usd, one.saved_usd) == (("cached",), "0", "0.1") for one in again)
    for cache in caches:
        cache.close()


async def test_a_reply_that_contains_a_secret_is_not_cached(tmp_path: Path) -> None:
    from bench.events import redactor

    redactor.learn(KEY)
    cache = CallCache(tmp_path / CACHE_FILE, mode="readwrite")
    await cache.put(b"key", Completion(text=f"my key is {KEY}", model="m1"))
    assert await cache.get(b"key") is None
    cache.close()
