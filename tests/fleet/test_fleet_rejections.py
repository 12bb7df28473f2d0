"""Fakes reject what the real services reject: wrong fields, keys and methods, and too large a k.

The requests are those of the shipped configs, each made wrong in one place. Where the real service takes such a
request silently, the test has a comment.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from bench.errors import AuthError, Rejected
from bench.model import Memory, Query, Space
from bench.providers import Finishes, Prepares, Provider, merge_captures
from tests.fakes.frame import SECRET, Called, Fake
from tests.fleet.fleet import FAKES, opened_at

MEMORY = Memory(id="m1", content="Ana lives in Lisbon.")
WITHOUT_KEY = {"graphiti", "agent-memory-server"}
WITHOUT_K = {"hindsight"}
"""a budget of tokens instead"""
FORMS = {"cognee"}
"""adds are forms: a JSON body is rejected, fields have their own test"""

DROPPED = ("content-length", "host", "idempotency-key")


@asynccontextmanager
async def filled(name: str, fake: Fake, folder: Path) -> AsyncIterator[tuple[Provider, Space]]:
    """A namespace with one memory."""
    async with opened_at(name, fake, folder) as provider:
        space = Space(namespace="Bench_r1", run_id="r1", benchmark="b", corpus="c")
        if isinstance(provider, Prepares):
            space = _with(space, await provider.prepare(space))
        ingested = await provider.ingest(space, [MEMORY])
        space = _with(space, merge_captures(space.captures, ingested.captures))
        if isinstance(provider, Finishes):
            await provider.finish(space, ingested)
        seen = await provider.ready(space, ingested)
        yield provider, _with(space, merge_captures(space.captures, seen.captures))


def _with(space: Space, captures: object) -> Space:
    assert isinstance(captures, dict)
    return Space(namespace=space.namespace, run_id="r1", benchmark="b", corpus="c", captures=captures)


async def again(call: Called, body: object = None, **changes: str) -> tuple[int, object]:
    """Send a recorded call again with another body, method, path or header."""
    url = call.fake.url + changes.get("path", call.path)
    headers = {name: value for name, value in call.headers.items() if name.lower() not in DROPPED}
    headers |= {name.replace("_", "-"): value for name, value in changes.items() if name not in ("path", "method")}
    data = call.raw if body is None else json.dumps(body).encode()
    params = [(name, value) for name, values in call.query.items() for value in values]
    async with (
        aiohttp.ClientSession() as session,
        session.request(changes.get("method", call.method), url, data=data, headers=headers, params=params) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


def writes(fake: Fake) -> list[Called]:
    """The calls with a JSON object as body."""
    return [one for one in fake.seen if one.raw[:1] == b"{"]


async def recorded(name: str, fake: Fake, folder: Path) -> list[Called]:
    """Return the calls of an add and a search."""
    async with filled(name, fake, folder) as (provider, space):
        await provider.search(space, Query(text="Where does Ana live?", k=3))
    return list(fake.seen)


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_fake_rejects_unknown_and_missing_fields(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake:
        await recorded(name, fake, tmp_path)
        for call in writes(fake):
            body = call.json
            assert isinstance(body, dict)
            if name == "weaviate" and call.path == "/v1/graphql":
                continue
            status, output = await again(call, {**body, "surprise": 1})
            assert 400 <= status < 500, (call.path, status, output)
            needed = [field for field in body if 400 <= (await again(call, _without(body, field)))[0] < 500]
            assert needed or call.path.endswith(("/config", "/count", "/list")) or not body or _all_optional(call)


def _without(body: dict[str, object], field: str) -> dict[str, object]:
    return {key: value for key, value in body.items() if key != field}


def _all_optional(call: Called) -> bool:
    """Tell whether the real service requires no field of the body."""
    return call.path in ("/v1/agents/", "/vector_stores", "/api/v1/users") or call.method == "PUT"


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_fake_rejects_unknown_query_parameters(name: str, tmp_path: Path) -> None:
    """Only for services that read parameters."""
    async with FAKES[name]().running() as fake:
        await recorded(name, fake, tmp_path)
        for call in {one.path: one for one in fake.seen if one.query}.values():
            odd = Called(
                **{key: getattr(call, key) for key in call.__dataclass_fields__}
                | {"query": {**call.query, "surprise": ["1"]}}
            )
            status, output = await again(odd)
            assert 400 <= status < 500, (call.path, status, output)


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_fake_rejects_unknown_fields_inside_lists(name: str, tmp_path: Path) -> None:
    """Elements of a batch are checked like the root."""
    async with FAKES[name]().running() as fake:
        await recorded(name, fake, tmp_path)
        for call in writes(fake):
            body = call.json
            assert isinstance(body, dict)
            for field, value in body.items():
                if isinstance(value, list) and value and isinstance(value[0], dict):
                    status, output = await again(call, {**body, field: [{**value[0], "surprise": 1}]})
                    assert 400 <= status < 500, (call.path, field, status, output)


@pytest.mark.parametrize("name", sorted(set(FAKES) - WITHOUT_KEY))
async def test_fake_rejects_a_wrong_key_and_the_AuthError_names_the_variable(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake:
        calls = await recorded(name, fake, tmp_path)
        key = fake.auth
        assert key is not None
        for wrong in (f"Wrong {SECRET}", f"{key.prefix}sk-other"):
            status, _ = await again(calls[-1], **{key.header.replace("-", "_"): wrong})
            assert status == 401
        with pytest.raises(AuthError) as caught:
            variable = next(name for name, value in fake.variables.items() if value == "KEY")
            async with opened_at(name, fake, tmp_path, **{variable: "sk-wrong-0123456789"}) as provider:
                space = Space(namespace="Bench_r2", run_id="r1", benchmark="b", corpus="c")
                if isinstance(provider, Prepares):
                    space = _with(space, await provider.prepare(space))
                await provider.search(space, Query(text="x", k=1))
        assert variable in str(caught.value) and "sk-wrong" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(FAKES) - WITHOUT_K))
async def test_k_above_max_k_is_limited_before_sending_and_rejected_by_the_fake(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake:
        async with filled(name, fake, tmp_path) as (provider, space):
            most = provider.capabilities.max_k
            assert most is not None
            found = await provider.search(space, Query(text="Where does Ana live?", k=most + 1))
            assert found.requested == most
        search = fake.seen[-1]
        async with opened_at(name, fake, tmp_path, {"capabilities.max_k": 1_000_000}) as provider:
            with pytest.raises(Rejected):
                await provider.search(space, Query(text="Where does Ana live?", k=most + 1))
        assert fake.seen[-1].path == search.path


async def test_fake_of_hindsight_rejects_a_token_budget_above_the_maximum(tmp_path: Path) -> None:
    async with FAKES["hindsight"]().running() as fake:
        calls = await recorded("hindsight", fake, tmp_path)
        body = calls[-1].json
        assert isinstance(body, dict)
        assert (await again(calls[-1], {**body, "max_tokens": 10_000_000}))[0] == 422


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_fake_rejects_a_wrong_method_and_an_unknown_path(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake:
        await recorded(name, fake, tmp_path)
        call = fake.seen[-1]
        status, _ = await again(call, method="PATCH")
        assert status == 405
        status, _ = await again(call, path="/v0/memories")
        assert status == 404


@pytest.mark.parametrize("path", ["/v3/memories/add", "/v3/memories/search"])
async def test_fake_of_mem0_requires_the_trailing_slash(path: str, tmp_path: Path) -> None:
    async with FAKES["mem0"]().running() as fake:
        calls = await recorded("mem0", fake, tmp_path)
        assert (await again(calls[-1], path=path))[0] == 404


async def test_fake_rejects_a_form_with_a_missing_or_unknown_field() -> None:
    for name, path, good in (
        ("cognee", "/api/v1/add", {"data": "x", "datasetName": "d"}),
        ("openai-vector-stores", "/files", {"file": "x", "purpose": "assistants"}),
    ):
        async with FAKES[name]().running() as fake, aiohttp.ClientSession() as session:
            assert fake.auth is not None
            headers = {fake.auth.header: fake.auth.prefix + SECRET}
            for fields in ({**good, "surprise": "1"}, {key: good[key] for key in list(good)[1:]}):
                form = aiohttp.FormData(default_to_multipart=True)
                for field, value in fields.items():
                    form.add_field(field, value, filename="m.txt" if field in ("data", "file") else None)
                async with session.post(fake.url + path, data=form, headers=headers) as answer:
                    assert answer.status in (400, 422)


@pytest.mark.parametrize("name", ["qdrant", "weaviate"])
async def test_fake_rejects_a_vector_of_another_size(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, filled(name, fake, tmp_path) as (provider, space):
        with pytest.raises(Rejected, match=r"(?i)vector"):
            await provider.search(space, Query(text="x", k=1, embedding=(0.1, 0.2)))
