"""Endpoints with a largest batch or a longest text: batches are halved, memories are split if configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reality.chat_stub import Reply, Stub, serving

Bench = Callable[..., Any]
MOST, LONGEST = 10, 6000


def embed(body: dict[str, Any]) -> Reply:
    texts = body["input"]
    if len(texts) > MOST:
        return 422, {
            "error": f"batch size {len(texts)} > maximum allowed batch size {MOST}",
            "error_type": "Validation",
        }
    if any(len(text) > LONGEST for text in texts):
        message = "This model's maximum context length is 8192 tokens, however you requested 9310 tokens"
        return 400, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    rows = [
        {"index": at, "embedding": [float(len(text)), float(sum(map(ord, text)) % 97), 1.0]}
        for at, text in enumerate(texts)
    ]
    return {"object": "list", "model": body["model"], "data": rows, "usage": {"prompt_tokens": 5, "total_tokens": 5}}


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with serving(embed) as found:
        (tmp_path / "configs/models").mkdir(parents=True)
        file = {"name": "emb", "dialect": "openai", "base_url": found.url, "auth": {"type": "none"}}
        (tmp_path / "configs/models/emb.yaml").write_text(json.dumps(file))
        yield found


@pytest.fixture
def long_texts(tmp_path: Path) -> None:
    """One memory of 9,000 characters."""
    folder = tmp_path / "configs/benchmarks/long"
    folder.mkdir(parents=True)
    manifest = {
        "manifest_version": "1", "name": "long", "version": "1", "data_file": "data.jsonl",
        "ingestion": {"strategy": "simple", "content_field": "content", "corpus_field": "line",
                      "evidence_field": "gold"},
        "query": {"question_field": "question", "expected_answer_field": "answer", "retrieval_limit": 2},
        "evaluation": {"protocol": "exact-match"}, "metrics": ["hit_at_1"],
        "required_capabilities": ["add_memory", "retrieve_memory"],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    text = " ".join(f"On day {day} it rained a little in Turku." for day in range(250))
    row = {
        "id": "l1",
        "line": "a",
        "content": text,
        "question": "Where did it rain?",
        "answer": "Turku",
        "gold": ["l1"],
    }
    (folder / "data.jsonl").write_text(json.dumps(row) + "\n")


def vector(folder: Path, ingest: str = "{}") -> None:
    path = folder / "configs/providers/vec.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "name: vec\ntype: local\nadapter: builtin:vector\nclient_embeddings: {model: emb/small}\n"
        f"capabilities: {{scores: true}}\ningest: {ingest}\n"
    )


def test_an_embedding_batch_refused_for_its_size_is_halved_and_the_size_remembered(bench: Bench, stub: Stub) -> None:
    bench(
        "run", "--benchmarks", "demo", "--limit", "20", "--providers", "vector", "--embedding-model", "emb/small",
        "--answering-model", "none", "--concurrency", "1",
    )  # fmt: skip
    sizes = [len(body["input"]) for body in stub.asked]
    learned = next(at for at, size in enumerate(sizes) if size <= MOST)
    assert sizes[:learned] == [64, 32, 16] and all(size <= 32 for size in sizes[learned:])
    first_small = next(at for at in range(len(sizes)) if all(size <= MOST for size in sizes[at:]))
    assert first_small < len(sizes) / 2, "the size is learned once, not for every batch"


def test_the_embedding_batch_size_can_be_set_per_model(bench: Bench, stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("models: {emb/small: {batch: 7, body: {truncate: END}}}\n")
    bench(
        "run", "--benchmarks", "demo", "--limit", "3", "--providers", "vector", "--embedding-model", "emb/small",
        "--answering-model", "none", "--config", "run.yaml",
    )  # fmt: skip
    assert max(len(body["input"]) for body in stub.asked) == 7
    assert {body["truncate"] for body in stub.asked} == {"END"}


def test_equal_texts_are_embedded_once_per_run_for_all_providers(bench: Bench, stub: Stub, tmp_path: Path) -> None:
    vector(tmp_path)
    bench(
        "run", "--benchmarks", "demo", "--limit", "5", "--providers", "vec", "vector", "--embedding-model", "emb/small",
        "--answering-model", "none",
    )  # fmt: skip
    embedded = [text for body in stub.asked if len(body["input"]) <= MOST for text in body["input"]]
    assert len(embedded) == len(set(embedded))


def test_the_error_for_a_too_long_text_names_the_chunk_setting(
    bench: Bench, stub: Stub, long_texts: None, tmp_path: Path
) -> None:
    vector(tmp_path)
    bench("run", "--benchmarks", "long", "--providers", "vec", "--answering-model", "none", "--run-id", "r", check=4)
    assert "ingest: {unit: chunk" in bench("failures", "r", "--json").stdout


@pytest.mark.parametrize(
    "ingest",
    ["{split: {max_chars: 1500}}", "{unit: chunk, chunk: {size: 375}}", "{split: {max_chars: 1500, overlap: 100}}"],
)
def test_memories_are_split_as_the_ingest_config_requires(
    bench: Bench, stub: Stub, long_texts: None, tmp_path: Path, ingest: str
) -> None:
    vector(tmp_path, ingest)
    bench("run", "--benchmarks", "long", "--providers", "vec", "--answering-model", "none", "--run-id", "r")
    assert max(len(text) for body in stub.asked for text in body["input"]) <= 1500
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["metrics"]["hit_at_1"]["value"] == 1, "a piece counts as its memory"
