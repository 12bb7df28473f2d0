"""Text without spaces takes about as many tokens as characters: in the plan, budgets, limits and flags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, serving

SCRIPTS = {
    "zh": "今天我把备用钥匙放在蓝色花盆下面",
    "ja": "きょう予備の鍵を青い鉢の下に置いた",
    "th": "วันนี้ฉันวางกุญแจไว้ใต้กระถาง",
}
CONFIG = """
name: pots
version: "1"
data: {type: local, path: ./pots.json}
schema: {itemId: id, question: q, answer: a, context: {field: history, type: array}}
evaluation: {method: contains}
metrics: [accuracy]
"""

Run = Callable[..., dict[str, dict[str, Any]]]
TEXTS = {name: sentence * 20 for name, sentence in SCRIPTS.items()}


@pytest.fixture
def ask(bench: Bench, tmp_path: Path) -> Run:
    """Run one benchmark per script with an endpoint that counts so many tokens per character of the prompt.

    Each has three questions about ten memories of 20 such sentences; return the jobs with their longest prompts.
    """
    folder = tmp_path / "configs" / "benchmarks"
    folder.mkdir(parents=True)
    for name, sentence in TEXTS.items():
        rows = [
            {"id": f"q{at}", "q": sentence[:9], "a": "x", "history": [f"{at}{part}{sentence}" for part in range(10)]}
            for at in range(3)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        (folder / f"{name}.yaml").write_text(CONFIG.replace("pots", name), encoding="utf-8")

    def run(share: float, *flags: str, context: int | None = None) -> dict[str, dict[str, Any]]:
        def reply(body: dict[str, Any]) -> dict[str, Any]:
            sent = sum(len(message["content"]) for message in body["messages"])
            return completion("x", usage={"prompt_tokens": int(sent * share), "completion_tokens": 1})

        with serving(reply) as stub:
            file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"},
                    "models": {"m": {"context": context}} if context else {}}  # fmt: skip
            (tmp_path / "configs" / "models").mkdir(parents=True, exist_ok=True)
            (tmp_path / "configs" / "models" / "local.yaml").write_text(json.dumps(file))
            bench("run", "--benchmarks", ",".join(TEXTS), "--providers", "bm25", "--answering-model", "local/m",
                  "--run-id", "r", *flags)  # fmt: skip
        jobs = json.loads(bench("results", "r", "--json").stdout)["jobs"]
        assert [job["benchmark"] for job in jobs] == list(TEXTS)
        prompts = [str(body["messages"][0]["content"]) for body in stub.asked]
        longest = {name: max(len(sent) for sent in prompts if sentence[:9] in sent) for name, sentence in TEXTS.items()}
        return {job["benchmark"]: {**job, "longest": longest[job["benchmark"]]} for job in jobs}

    return run


def test_the_plan_estimates_the_tokens_of_scripts_without_spaces(bench: Bench, ask: Run) -> None:
    ask(0.7)
    for name, text in TEXTS.items():
        flags = ("--benchmarks", name, "--providers", "bm25", "--answering-model", "local/m", "-k", "2")
        (found,) = json.loads(bench("plan", *flags, "--json").stdout)["endpoints"]
        assert 3 * 2 * len(text) <= found["tokens_in"] <= 3 * (2 * len(text) + 210), name


def test_a_context_budget_limits_prompts_in_scripts_without_spaces(ask: Run) -> None:
    for name, found in ask(0.7, "--context-budget", "500").items():
        assert found["longest"] <= 500 + 4 * 210, name


def test_the_context_of_a_model_limits_prompts_in_scripts_without_spaces(ask: Run) -> None:
    """600 tokens, of which the prompt's own English has four characters each."""
    for name, found in ask(0.7, "--max-answer-tokens", "100", context=700).items():
        assert 300 <= found["longest"] <= 600 + 3 * 100, name


@pytest.mark.parametrize(("share", "noted"), [(0.05, True), (0.4, False), (1.1, False)])
def test_a_prompt_is_noted_as_cut_only_if_no_tokenizer_counts_so_few_tokens(
    share: float, noted: bool, ask: Run
) -> None:
    for name, found in ask(share).items():
        assert noted is any("read only a part of the prompt" in note for note in found["notes"]), name
