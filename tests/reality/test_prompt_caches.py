"""Prompts begin with their shared part, it is marked for Anthropic's prompt cache, and the saved money is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.evaluators.packs import generic_prompt
from tests.cli.conftest import Bench
from tests.reality.chat_stub import Reply, completion, serving
from tests.rows import each_row

RUN = ("run", "demo", "--limit", "4", "--answering-model", "acme/m1", "--judge-model", "none", "-c", "prices.yaml")
PACKS = Path(__file__).parents[2] / "bench/packs"


@each_row("path", sorted(PACKS.glob("*/answer*.txt")))
def test_every_shipped_answer_prompt_has_the_context_before_the_question(path: Path) -> None:
    names = re.findall(r"\$\{(\w+)", path.read_text())
    assert names.index("retrievedContext") < names.index("question")


def test_judge_prompts_have_the_rules_before_the_item() -> None:
    for name in ("default", "abstention"):
        assert len(re.split(r"\$\{", generic_prompt(name))[0]) > 100


def message(body: dict[str, Any]) -> Reply:
    blocks = body["messages"][0]["content"]
    marked = isinstance(blocks, list)
    usage = {"input_tokens": 50, "output_tokens": 2, "cache_read_input_tokens": 9000 if marked else 0}
    usage |= {"input_tokens": 50 if marked else 9050}
    return {"model": "m1", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": usage}


def place(tmp_path: Path, url: str, dialect: str) -> None:
    (tmp_path / "configs/models").mkdir(parents=True)
    address = url.removesuffix("/v1") if dialect == "anthropic" else url
    (tmp_path / "configs/models/acme.yaml").write_text(
        f"name: acme\ndialect: {dialect}\nbase_url: {address}\nauth: {{type: none}}\n"
    )
    (tmp_path / "prices.yaml").write_text("prices: {acme/m1: {input: 10, output: 10, cache_read: 1}}\n")


def marked(requests: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found = [body["messages"][0]["content"] for body in requests]
    return [blocks for blocks in found if isinstance(blocks, list)]


def test_a_repeated_context_is_marked_for_the_cache_and_the_saving_is_shown(bench: Bench, tmp_path: Path) -> None:
    with serving(message) as stub:
        place(tmp_path, stub.url, "anthropic")
        shown = bench(*RUN, "--providers", "full-context", "--context-budget", "100000").stdout
    blocks = marked(stub.asked)
    assert len(blocks) == 3, "at the first prompt, it is unknown that its context is repeated"
    for first, rest in blocks:
        assert first["cache_control"] == {"type": "ephemeral"} and "cache_control" not in rest
        assert first["text"] == blocks[0][0]["text"], "all begin with the same text"
    assert len({rest["text"] for _, rest in blocks}) == 3
    assert "the vendor's prompt cache was used for 3 answers: USD 0.243 saved" in " ".join(shown.split())


def test_a_context_that_is_used_once_is_not_marked_for_the_cache(bench: Bench, tmp_path: Path) -> None:
    with serving(message) as stub:
        place(tmp_path, stub.url, "anthropic")
        bench(*RUN, "--providers", "bm25")
    assert marked(stub.asked) == []


def test_a_repeated_prompt_is_marked_completely_for_the_cache(bench: Bench, tmp_path: Path) -> None:
    with serving(message) as stub:
        place(tmp_path, stub.url, "anthropic")
        bench(*RUN, "--providers", "full-context", "--epochs", "2", "--context-budget", "100000")
    assert [len(blocks) for blocks in marked(stub.asked)] == [1] * 8


def test_a_dialect_with_automatic_caching_gets_plain_text(bench: Bench, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9050, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9000}}
    with serving(lambda body: completion("x", usage=usage)) as stub:
        place(tmp_path, stub.url, "openai")
        shown = bench(*RUN, "--providers", "full-context", "--context-budget", "100000").stdout
    assert marked(stub.asked) == []
    assert "the vendor's prompt cache was used for 4 answers: USD 0.324 saved" in " ".join(shown.split())
