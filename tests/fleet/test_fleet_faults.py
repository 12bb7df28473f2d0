"""Each shipped config with a faulty service: rate limits, errors, timeouts, malformed and lost answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from bench.errors import AuthError, CallError, MappingError, QuotaError, Rejected, Unavailable
from bench.model import Query, Space
from bench.providers import Prepares
from tests.fakes.frame import Fake, busy, lost, responds, stalled, torn
from tests.fleet.fleet import FAKES, opened_at, quick
from tests.fleet.test_fleet_captures import MEMORY, _filled

SEARCHES = {
    "supermemory": "POST /ns/{ns}/search",
    "supermemory-v4": "POST /v4/search",
    "mem0": "POST /v3/memories/search/",
    "mem0-oss": "POST /search",
    "zep": "POST /api/v4/graphs/{graph}/search/edges",
    "zep-v3": "POST /api/v2/graph/search",
    "letta": "GET /v1/agents/{agent}/archival-memory/search",
    "graphiti": "POST /search",
    "hindsight": "POST /v1/default/banks/{bank}/memories/recall",
    "agent-memory-server": "POST /v1/long-term-memory/search",
    "qdrant": "POST /collections/{name}/points/query",
    "weaviate": "POST /v1/graphql",
    "pinecone": "POST /query",
    "openai-vector-stores": "POST /vector_stores/{store}/search",
    "cognee": "POST /api/v1/search",
    "memos": "POST /product/search",
    "memobase": "GET /api/v1/users/event_gist/search/{user}",
}
QUERY = Query(text="Where does user-a live now?", k=3)
SPACE = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c")


def date_in(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def test_each_fake_has_a_search_route() -> None:
    assert set(SEARCHES) == set(FAKES)


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_search_repeats_transient_failures_and_raises_permanent_ones(name: str, tmp_path: Path) -> None:
    route = SEARCHES[name]
    async with (
        FAKES[name]().running() as fake,
        opened_at(name, fake, tmp_path, {"connection.timeout": 400}) as provider,
    ):
        space = await _filled(provider, SPACE)
        for passing in (busy("0"), busy(date_in(-1)), responds(500), responds(503), lost):
            fake.play(route, passing)
            assert (await provider.search(space, QUERY)).requested == 3
        fails: list[tuple[list[object], type[CallError]]] = [
            ([torn], MappingError),
            ([responds(402)], QuotaError),
            ([responds(403)], AuthError),
            ([responds(404 if name != "cognee" else 400)], Rejected),
            ([responds(503)] * 3, Unavailable),
        ]
        for faults, error in fails:
            fake.play(route, *faults)  # type: ignore[arg-type]
            with pytest.raises(error):
                await provider.search(space, QUERY)
        assert fake.faults[route] == []


@pytest.mark.parametrize("name", ["mem0", "hindsight"])
async def test_a_service_that_does_not_answer_raises_Unavailable_at_the_timeout(name: str, tmp_path: Path) -> None:
    changes = {"connection.timeout": 100, "rateLimit.maxRetries": 0}
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path, changes) as provider:
        fake.play(SEARCHES[name], stalled(30))
        with pytest.raises(Unavailable) as caught:
            await provider.search(SPACE, QUERY)
        assert caught.value.kind == "timeout"


ADDS = {
    "supermemory": "POST /ns/{ns}/document",
    "mem0": "POST /v3/memories/add/",
    "zep": "POST /api/v4/graphs/{graph}/episodes",
    "qdrant": "PUT /collections/{name}/points",
    "pinecone": "POST /vectors/upsert",
}
REPEATS = {"zep", "qdrant", "pinecone"}
"""an idempotency key, or an upsert"""


@pytest.mark.parametrize("name", sorted(ADDS))
async def test_an_add_without_an_answer_is_repeated_only_if_it_is_idempotent(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        space = SPACE
        if isinstance(provider, Prepares):
            captures = await provider.prepare(space)
            space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures=captures)
        fake.play(ADDS[name], lost)
        if name in REPEATS:
            await provider.ingest(space, [MEMORY])
        else:
            with pytest.raises(Unavailable):
                await provider.ingest(space, [MEMORY])
        assert sum(map(len, fake.shelf.spaces.values())) == 1


@pytest.mark.parametrize(
    "name", ["supermemory", "supermemory-v4", "mem0", "hindsight", "openai-vector-stores", "cognee"]
)
async def test_failed_processing_is_reported_as_failed_not_pending(name: str, tmp_path: Path) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        fake.shelf.failing = True
        space = SPACE
        if isinstance(provider, Prepares):
            captures = await provider.prepare(space)
            space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures=captures)
        ingested = await provider.ingest(space, [MEMORY])
        space = Space(
            namespace="Bench_n", run_id="r", benchmark="b", corpus="c", captures={**space.captures, **ingested.captures}
        )
        if name == "cognee":
            await provider.finish(space, ingested)  # type: ignore[attr-defined]
        assert (await provider.ready(space, ingested)).state == "failed"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("memos", {"code": 500, "message": "the cube is broken", "data": None}),
        ("memobase", {"data": None, "errno": 500, "errmsg": "the cube is broken"}),
        ("weaviate", {"data": {"Get": None}, "errors": [{"message": "the cube is broken"}]}),
    ],
)
async def test_an_error_in_a_response_with_status_200_raises_Rejected(
    name: str, answer: object, tmp_path: Path
) -> None:
    async with FAKES[name]().running() as fake, opened_at(name, fake, tmp_path) as provider:
        space = await _filled(provider, SPACE)
        fake.play(SEARCHES[name], responds(200, answer))
        with pytest.raises(Rejected, match="the cube is broken"):
            await provider.search(space, QUERY)


async def test_hindsight_is_polled_until_it_is_healthy(tmp_path: Path) -> None:
    async with FAKES["hindsight"]().running() as fake:
        fake.play("GET /health", responds(503))
        async with opened_at("hindsight", fake, tmp_path) as provider:
            await provider.search(SPACE, QUERY)
        assert fake.faults["GET /health"] == []


async def test_an_exhausted_plan_of_mem0_raises_QuotaError(tmp_path: Path) -> None:
    async with FAKES["mem0"]().running() as fake, opened_at("mem0", fake, tmp_path) as provider:
        fake.play(ADDS["mem0"], responds(413, {"error": "quota exceeded"}))
        with pytest.raises(QuotaError):
            await provider.ingest(SPACE, [MEMORY])


async def test_a_memory_is_not_found_before_it_is_processed(tmp_path: Path) -> None:
    for name in sorted(FAKES):
        fake: Fake = FAKES[name]()
        if not fake.background or name in ("agent-memory-server", "pinecone", "cognee"):
            continue
        fake.shelf.rounds = 3
        async with fake.running(), opened_at(name, fake, tmp_path) as provider:
            space = await _filled(provider, SPACE)
            assert (await provider.search(space, Query(text=MEMORY.content, k=3))).hits == (), name


def test_each_verified_level_names_its_upstream() -> None:
    for name in FAKES:
        verified = quick(name).verified
        assert verified is not None and verified.upstream != "bench"
