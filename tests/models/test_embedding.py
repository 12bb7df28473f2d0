"""Embeddings: order, batches, one dimension, and each text once."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bench.config.provider.sections import ClientEmbeddings
from bench.errors import MappingError, Rejected
from bench.http import Http, recording
from bench.models import open_embedder
from bench.models.embedding import VectorCache
from bench.settings import Environment
from tests.local_server import LocalServers
from tests.rows import each_row

Plays = Callable[..., Awaitable[Any]]


def environment(url: str) -> Environment:
    values = {"OLLAMA_BASE_URL": f"{url}/v1", "GEMINI_API_KEY": "k-123456", "GOOGLE_BASE_URL": url}
    return Environment(values=values)


def vector_of(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)) % 97), 1.0]


async def embedding(request: web.Request) -> web.Response:
    """Respond with the vectors in reversed order, which the API allows."""
    body = json.loads(await request.read())
    rows = [{"index": at, "embedding": vector_of(text)} for at, text in enumerate(body["input"])]
    usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
    return web.json_response({"data": rows[::-1], "usage": usage, "model": body["model"]})


async def test_embeddings_are_in_the_order_of_the_texts_and_each_text_is_sent_once() -> None:
    servers = LocalServers()
    url = await servers.start(embedding)
    texts = [f"text number {at}" for at in range(10)] + ["", "text number 3"]
    async with Http() as http:
        embedder = open_embedder(
            "ollama/nomic", http=http, environment=environment(url), options=ClientEmbeddings(model="m", batch=4)
        )
        with recording() as calls:
            found = await embedder.embed(texts, kind="document")
            again = await embedder.embed(texts[:3], kind="query")
    await servers.close()
    assert found == [tuple(vector_of(text or " ")) for text in texts]
    assert again == found[:3]
    assert len(calls) == 3, "11 distinct texts in batches of 4, each requested once"
    assert {call.role for call in calls} == {"embedding"} and calls[0].endpoint == "ollama/nomic.embedding"
    assert [call.usage.input_tokens for call in calls if call.usage] == [4, 4, 3]
    assert calls[0].cost_usd == "0"


async def test_embedding_requests_have_the_documented_body(plays: Plays) -> None:
    endpoint = await plays({"data": [{"index": 0, "embedding": [1, 2]}]})
    async with Http() as http:
        embedder = open_embedder("ollama/nomic", http=http, environment=environment(endpoint.url))
        assert await embedder.embed(["a"], kind="document") == [(1.0, 2.0)]
    assert endpoint.requests[0][0] == "/v1/embeddings"
    assert endpoint.bodies == [{"model": "nomic", "input": ["a"], "encoding_format": "float"}]


async def test_google_embeds_several_texts_per_request(plays: Plays) -> None:
    endpoint = await plays({"embeddings": [{"values": [1, 2]}, {"values": [3, 4]}]})
    async with Http() as http:
        embedder = open_embedder(
            "google/gemini-embedding-001",
            http=http,
            environment=environment(endpoint.url),
            options=ClientEmbeddings(model="m", dimensions=2),
        )
        assert await embedder.embed(["a", "b"], kind="document") == [(1.0, 2.0), (3.0, 4.0)]
    assert endpoint.requests[0][0] == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert endpoint.bodies[0]["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "b"}]},
        "outputDimensionality": 2,
    }


async def test_prefixes_are_added_by_kind(plays: Plays) -> None:
    endpoint = await plays({"data": [{"index": 0, "embedding": [1, 2]}]})
    options = ClientEmbeddings(model="m", query_prefix="query: ", document_prefix="passage: ")
    async with Http() as http:
        embedder = open_embedder("ollama/e5", http=http, environment=environment(endpoint.url), options=options)
        await embedder.embed(["a"], kind="query")
        await embedder.embed(["a"], kind="document")
    assert [body["input"] for body in endpoint.bodies] == [["query: a"], ["passage: a"]]


async def test_normalized_vectors_have_length_1(plays: Plays) -> None:
    endpoint = await plays({"data": [{"index": 0, "embedding": [3, 4]}, {"index": 1, "embedding": [0, 0]}]})
    async with Http() as http:
        embedder = open_embedder(
            "ollama/e5",
            http=http,
            environment=environment(endpoint.url),
            options=ClientEmbeddings(model="m", normalize=True),
        )
        one, zero = await embedder.embed(["a", "?"], kind="document")
    assert math.isclose(math.hypot(*one), 1.0) and zero == (0.0, 0.0)


async def test_a_dimension_other_than_configured_is_a_MappingError(plays: Plays) -> None:
    endpoint = await plays({"data": [{"index": 0, "embedding": [1, 2]}]})
    async with Http() as http:
        embedder = open_embedder(
            "ollama/e5",
            http=http,
            environment=environment(endpoint.url),
            options=ClientEmbeddings(model="m", dimensions=3),
        )
        with pytest.raises(MappingError, match="dimension 2, expected 3"):
            await embedder.embed(["a"], kind="document")
    assert endpoint.bodies[0]["dimensions"] == 3


async def test_a_refused_dimensions_parameter_is_omitted_and_the_result_checked(plays: Plays) -> None:
    endpoint = await plays(
        (400, {"error": "this model does not support specifying dimensions"}),
        {"data": [{"index": 0, "embedding": [1, 2]}]},
    )
    async with Http() as http:
        embedder = open_embedder(
            "ollama/e5",
            http=http,
            environment=environment(endpoint.url),
            options=ClientEmbeddings(model="m", dimensions=2),
        )
        assert await embedder.embed(["a"], kind="document") == [(1.0, 2.0)]
    assert ["dimensions" in body for body in endpoint.bodies] == [True, False]


@each_row(
    "body",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [2]}]},
    ],
)
async def test_a_response_with_another_number_of_vectors_is_a_MappingError(plays: Plays, body: object) -> None:
    endpoint = await plays(body)
    async with Http() as http:
        embedder = open_embedder("ollama/e5", http=http, environment=environment(endpoint.url))
        with pytest.raises(MappingError):
            await embedder.embed(["a"], kind="document")


async def test_vectors_of_different_dimensions_in_one_run_are_refused(plays: Plays) -> None:
    endpoint = await plays({"data": [{"index": 0, "embedding": [1, 2]}]}, {"data": [{"index": 0, "embedding": [1]}]})
    async with Http() as http:
        embedder = open_embedder("ollama/e5", http=http, environment=environment(endpoint.url))
        await embedder.embed(["a"], kind="document")
        with pytest.raises(MappingError, match="dimension 1, expected 2"):
            await embedder.embed(["b"], kind="document")


async def test_a_rejected_embedding_batch_is_not_retried(plays: Plays) -> None:
    endpoint = await plays((400, {"error": "too long"}))
    async with Http() as http:
        embedder = open_embedder("ollama/e5", http=http, environment=environment(endpoint.url))
        with pytest.raises(Rejected):
            await embedder.embed(["a"], kind="document")
    assert len(endpoint.bodies) == 1


async def test_embeddings_of_the_fault_server_are_close_for_similar_texts(fault_server: Callable[..., str]) -> None:
    url = fault_server()
    async with Http() as http:
        embedder = open_embedder("ollama/bag", http=http, environment=environment(url))
        one, two, three = await embedder.embed(["red car", "a red car", "blue boat"], kind="document")
    assert len(one) == 64
    assert math.dist(one, two) < math.dist(one, three)


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(1, 20)), max_size=40))
def test_VectorCache_returns_stored_vectors_within_its_size(entries: list[tuple[str, int]]) -> None:
    cache = VectorCache(400)
    put: dict[str, tuple[float, ...]] = {}
    for text, size in entries:
        vector = tuple(float(at) for at in range(size))
        put.setdefault(text, vector)
        if cache.get(text) is None:
            put[text] = vector
        cache.put(text, vector)
        assert cache._bytes <= 400
        found = cache.get(text)
        assert found is None or found == put[text]
