"""Evidence for the level of each config: fakes answer captured calls, configs send and read such calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from bench.errors import NotCleared
from bench.model import Hit, Memory, Message, Query, Space
from bench.providers import Prepares, Provider, merge_captures
from tests.contract.running import opened
from tests.fakes.frame import SECRET, Fake, responds
from tests.fakes.recorder import Service, recorder
from tests.fleet.captures import Capture, captures, identities, misfits
from tests.fleet.fleet import FAKES, opened_at, quick

SYSTEMS = {
    "supermemory": 2,
    "mem0": 1,
    "mem0-oss": 0,
    "zep": 1,
    "letta": 0,
    "graphiti": 0,
    "hindsight": 2,
    "agent-memory-server": 0,
}
"""system -> looks at the status that its capture shows as pending"""

NOT_PLAYED = {"letta/08_passages_search", "hindsight/12_list", "hindsight/18_clear_memories"}
"""calls that no config makes"""


def of(shared: Path, system: str) -> dict[str, Capture]:
    """Captures by their number."""
    return {one.name.partition("_")[0]: one for one in captures(shared, system)}


def headers_of(fake: Fake, capture: Capture) -> dict[str, str]:
    """The captured headers with a key that fits the captured answer."""
    given = {name: value for name, value in capture.headers.items() if "<" not in value}
    key = fake.auth
    if key is None:
        return given
    foreign = "authorization" in capture.headers and key.header != "Authorization"
    refused = capture.status == 401 and not foreign
    return (
        given | {key.header: "wrong" if refused else key.prefix + SECRET} | ({"Authorization": "x"} if foreign else {})
    )


@pytest.mark.parametrize("system", SYSTEMS)
async def test_fake_answers_captured_calls_with_captured_status_and_structure(system: str, shared: Path) -> None:
    known: dict[str, str] = {}
    async with FAKES[system]().running() as fake, aiohttp.ClientSession() as session:
        fake.shelf.rounds = SYSTEMS[system]
        if hasattr(fake, "keeps"):
            fake.keeps = True
        for capture in captures(shared, system):
            if f"{system}/{capture.name}" in NOT_PLAYED:
                continue
            if capture.status == 413:
                fake.play(f"{capture.method} {capture.path}", responds(413, capture.answer))
            sent = json.dumps([capture.path, capture.body])
            for theirs, mine in known.items():
                sent = sent.replace(theirs, mine)
            path, body = json.loads(sent)
            data = None if body is None else json.dumps(body).encode()
            call = session.request(capture.method, fake.url + path, data=data, headers=headers_of(fake, capture))
            async with call as answer:
                output = await answer.json(content_type=None)
                assert (capture.name, answer.status) == (capture.name, capture.status), output
                assert list(misfits(output, capture.answer)) == [], capture.name
            known |= dict(identities(output, capture.answer))


MEMORY = Memory(
    id="s1:t1",
    content="user-a moved to Lisbon in May 2023 for a new job.",
    when=None,
    messages=(Message(content="user-a moved to Lisbon in May 2023 for a new job.", role="user"),),
)

CALLS: dict[str, dict[str, str]] = {
    "supermemory": {
        "01": r"/ns/[^/]+/document",
        "07": r"/ns/[^/]+/search",
        "03": "/ns/.+/document/.+",
        "08": "/ns/[^/]+",
    },
    "mem0": {"01": "/v3/memories/add/", "05": "/v3/memories/search/", "02": "/v1/event/.+/", "09": "/v1/memories/"},
    "mem0-oss": {"01": "/memories", "04": "/search", "16": "/memories"},
    "zep": {
        "01": "/api/v4/graphs",
        "02": ".+/episodes",
        "03": ".+/episodes/.+",
        "05": ".+/search/edges",
        "07": ".+/graphs/.+",
    },
    "letta": {
        "02": "/v1/agents/",
        "03": ".+/archival-memory",
        "05": ".+/archival-memory/search",
        "11": "/v1/agents/[^/]+",
    },
    "graphiti": {"01": "/messages", "02": "/episodes/.+", "03": "/search", "06": "/group/.+"},
    "hindsight": {
        "02": ".+/banks/[^/]+",
        "05": ".+/memories",
        "06": ".+/operations/.+",
        "10": ".+/recall",
        "19": ".+/banks/[^/]+",
    },
    "agent-memory-server": {"02": "/v1/long-term-memory/", "03": ".+/search", "09": "/v1/long-term-memory"},
}
"""capture -> the path at which the config must make such a call"""

OURS = {"timestamp", "date", "created_at", "model", "embedding", "reference_time", "user_id"}
"""what a config may send beyond its capture: a date where that one memory had none, models by name, whose it is"""


@pytest.mark.parametrize("system", CALLS)
async def test_config_sends_calls_like_the_captured_ones(system: str, shared: Path, tmp_path: Path) -> None:
    found = of(shared, system)
    async with FAKES[system]().running() as fake:
        async with opened_at(system, fake, tmp_path) as provider:
            space = await _filled(provider, Space(namespace="bench-run1-q1", run_id="r", benchmark="b", corpus="c"))
            await provider.search(space, Query(text="Where does user-a live now?", k=3))
            await provider.clear(space)
        for number, path in CALLS[system].items():
            capture = found[number]
            calls = fake.calls(capture.method, path)
            assert calls, f"no call like {capture.name}"
            names = {name.lower() for name in calls[0].headers}
            assert set(capture.headers) - {"idempotency-key", "x-api-key", "authorization"} <= names
            if capture.body is not None:
                odd = [
                    one for one in misfits(calls[0].json, capture.body) if one.split()[0].rpartition(".")[2] not in OURS
                ]
                assert odd == [], capture.name


async def _filled(provider: Provider, space: Space) -> Space:
    if isinstance(provider, Prepares):
        space = _with(space, await provider.prepare(space))
    ingested = await provider.ingest(space, [MEMORY])
    space = _with(space, ingested.captures)
    return _with(space, (await provider.ready(space, ingested)).captures)


def _with(space: Space, more: Mapping[str, object]) -> Space:
    return Space(
        namespace=space.namespace,
        run_id=space.run_id,
        benchmark=space.benchmark,
        corpus=space.corpus,
        captures=merge_captures(space.captures, more),
    )


async def hits_of(
    system: str, capture: Capture, url_name: str, folder: Path, held: Mapping[str, object]
) -> tuple[Hit, ...]:
    """Let the shipped config read one captured answer."""
    path = capture.path.partition("?")[0]
    answers: dict[str, object] = {f"{capture.method} {path}": capture.answer}
    async with recorder(answers) as service:
        variables = {**dict.fromkeys(FAKES[system]().variables, SECRET), url_name: service.url}
        async with opened(quick(system), folder, variables) as provider:
            space = Space(namespace="bench-run1-q1", run_id="r", benchmark="b", corpus="c", captures=held)
            found = await provider.search(space, Query(text="Where does user-a live now?", k=3))
            return found.hits


async def test_recorded_hits_of_mem0_oss_keep_order_scores_and_ids(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "mem0-oss")["04"]
    hits = await hits_of("mem0-oss", capture, "MEM0_OSS_URL", tmp_path, {"$sent": ["s1:t1", "s2:t1"]})
    assert [hit.source_ids for hit in hits] == [("s1:t1",), ("s1:t1",), ("s2:t1",)]
    assert [round(hit.score or 0, 2) for hit in hits] == [0.64, 0.49, 0.20]
    assert hits[1].content == "user-a adopted a grey cat named Miso."


async def test_recorded_hits_of_letta_map_to_memories_by_tag(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "letta")["05"]
    agent = capture.path.split("/")[3]
    held = {"$sent": ["s1:t1", "s2:t1"], "agentId": agent}
    hits = await hits_of("letta", capture, "LETTA_BASE_URL", tmp_path, held)
    assert [hit.source_ids for hit in hits] == [("s1:t1",), ("s2:t1",)]
    assert (
        hits[0].score is None and hits[0].when is not None and hits[0].when.isoformat() == "2023-05-01T00:00:00+00:00"
    )


async def test_recorded_facts_of_graphiti_map_to_memories_by_episode(shared: Path, tmp_path: Path) -> None:
    found = of(shared, "graphiti")
    async with (
        recorder({"GET /episodes/bench-run1-q1": [found["02"].answer], "POST /search": found["03"].answer}) as service,
        opened(quick("graphiti"), tmp_path, {"GRAPHITI_URL": service.url}) as provider,
    ):
        space = Space(namespace="bench-run1-q1", run_id="r", benchmark="b", corpus="c")
        ingested = await provider.ingest(space, [MEMORY, Memory(id="s2:t1", content="user-b avoids peanuts.")])
        seen = await provider.ready(space, ingested)
        assert seen.state == "ready"
        space = _with(_with(space, ingested.captures), seen.captures)
        hits = (await provider.search(space, Query(text="Where does user-a live now?", k=3))).hits
    assert [(hit.source_ids, hit.when) for hit in hits] == [(("s1:t1",), None)]


async def test_scores_of_hindsight_can_exceed_one(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "hindsight")["11"]
    held = {"$sent": ["s1:t1", "s2:t1", "s2:t2"]}
    hits = await hits_of("hindsight", capture, "HINDSIGHT_API_URL", tmp_path, held)
    assert [hit.source_ids for hit in hits] == [("s2:t1",), ("s2:t2",)]
    assert hits[0].score is not None and hits[0].score > 1


async def test_hindsight_is_pending_until_its_operation_is_completed(shared: Path, tmp_path: Path) -> None:
    found = of(shared, "hindsight")
    polls = [found[number].answer for number in ("06", "07", "09")]
    operation = found["06"].path.rpartition("/")[2]
    answers = {
        "POST /v1/default/banks/bench-run1-q1/memories": found["05"].answer,
        f"GET /v1/default/banks/bench-run1-q1/operations/{operation}": polls,
    }
    async with (
        recorder(answers) as service,
        opened(quick("hindsight"), tmp_path, {"HINDSIGHT_API_URL": service.url}) as provider,
    ):
        space = Space(namespace="bench-run1-q1", run_id="r", benchmark="b", corpus="c")
        ingested = await provider.ingest(space, [MEMORY])
        states = [(await provider.ready(space, ingested)).state for _ in range(3)]
    assert ingested.jobs == (operation,) and states == ["pending", "pending", "ready"]


async def test_distances_of_the_agent_memory_server_are_converted_to_similarities(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "agent-memory-server")["03"]
    held = {"$sent": ["a", "b"], "memories": {"s1:t1": "a", "s2:t1": "b"}}
    hits = await hits_of("agent-memory-server", capture, "AGENT_MEMORY_URL", tmp_path, held)
    assert [hit.source_ids for hit in hits] == [("a",), ("b",)]
    assert [round(hit.score or 0, 3) for hit in hits] == [0.528, 0.1]
    assert hits[0].when is not None and hits[1].when is None


async def test_documented_hits_of_hosted_systems_map_to_memories(shared: Path, tmp_path: Path) -> None:
    supermemory = await hits_of(
        "supermemory", _at(shared, "supermemory", "07"), "SUPERMEMORY_API_URL", tmp_path, {"$sent": ["m-1"]}
    )
    assert [hit.content for hit in supermemory] == ["user-a lives in Lisbon", "user-a moved to Lisbon for a new job."]
    mem0 = await hits_of("mem0", _at(shared, "mem0", "05"), "MEM0_API_URL", tmp_path, {"$sent": ["m-1"]})
    assert [(hit.source_ids, hit.score) for hit in mem0] == [(("m-1",), 0.81), (("m-1",), 0.44)]
    edges = _at(shared, "zep", "05")
    graph, episode = edges.path.split("/")[4], "7c9e6679-7425-40de-944b-e07fc1f90b01"
    held = {"$sent": ["m-1"], "graphUuid": graph, "episodes": {episode: "m-1"}}
    zep = await hits_of("zep", edges, "ZEP_API_URL", tmp_path, held)
    assert [(hit.source_ids, hit.content) for hit in zep] == [(("m-1",), "user-a lives in Lisbon")]


def _at(shared: Path, system: str, number: str) -> Capture:
    """A capture as if it had been asked for in the namespace of these tests."""
    one = of(shared, system)[number]
    path = one.path.replace("bench-ns-1", "bench-run1-q1")
    return Capture(**{name: getattr(one, name) for name in one.__slots__} | {"path": path})


async def test_zep_searches_episodes_if_searchKind_is_episodes(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "zep")["06"]
    graph = capture.path.split("/")[4]
    async with recorder({f"POST {capture.path.partition('?')[0]}": capture.answer}) as service:
        variables = {"ZEP_API_URL": service.url, "ZEP_API_KEY": SECRET}
        async with opened(quick("zep", {"vars.searchKind": "episodes"}), tmp_path, variables) as provider:
            held = {"$sent": ["m-1"], "graphUuid": graph}
            space = Space(namespace="n", run_id="r", benchmark="b", corpus="c", captures=held)
            hits = (await provider.search(space, Query(text="x", k=3))).hits
    assert [(hit.source_ids, hit.content) for hit in hits] == [(("m-1",), "user-a moved to Lisbon for a new job.")]


async def test_rejected_documents_of_a_supermemory_batch_are_matched_by_id(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "supermemory")["02"]
    changes = {
        "endpoints.add": {
            "method": "POST",
            "path": "/ns/${runTag}/document/batch",
            "body": {"documents": {"$each": "$.items", "$do": {"content": "@.content", "id": "@.id"}}},
            "response": {"ids": "$.results[*].id"},
            "partial": {
                "items": "$.results",
                "id": "$.id",
                "failed_when": {"$.status": ["error"]},
                "message": "$.error",
            },
        },
        "ingest.batch": {"max_items": 600},
    }
    async with recorder({capture.method + " " + capture.path: capture.answer}) as service:
        variables = {"SUPERMEMORY_API_URL": service.url, "SUPERMEMORY_API_KEY": SECRET}
        async with opened(quick("supermemory", changes), tmp_path, variables) as provider:
            space = Space(namespace="bench-ns-1", run_id="r", benchmark="b", corpus="c")
            texts = {"m-1": "one", "m-2": "", "m-3": "three"}
            ingested = await provider.ingest(space, [Memory(id=key, content=text) for key, text in texts.items()])
    assert dict(ingested.rejected) == {"m-2": "content is empty"}
    assert set(ingested.ids) == {"m-1", "m-3"} and ingested.jobs == ("m-1", "m-3")
    assert _body(service, capture) == capture.body


def _body(service: Service, capture: Capture) -> object:
    return service.of(f"{capture.method} {capture.path}")[0].json


async def test_supermemory_is_pending_while_it_processes_a_document(shared: Path, tmp_path: Path) -> None:
    found = of(shared, "supermemory")
    answers = {
        "POST /ns/bench-ns-1/document": found["01"].answer,
        "GET /ns/bench-ns-1/document/m-1": [found[number].answer for number in ("03", "04", "05")],
    }
    async with recorder(answers) as service:
        variables = {"SUPERMEMORY_API_URL": service.url, "SUPERMEMORY_API_KEY": SECRET}
        async with opened(quick("supermemory"), tmp_path, variables) as provider:
            space = Space(namespace="bench-ns-1", run_id="r", benchmark="b", corpus="c")
            ingested = await provider.ingest(space, [Memory(id="m-1", content="one")])
            states = [(await provider.ready(space, ingested)).state for _ in range(3)]
    assert states == ["pending", "pending", "ready"]


async def test_clear_of_graphiti_that_deletes_nothing_raises_NotCleared(tmp_path: Path) -> None:
    async with FAKES["graphiti"]().running() as fake:
        fake.keeps = True  # type: ignore[attr-defined]
        async with opened_at("graphiti", fake, tmp_path, {"endpoints.verify_clear.timeout_s": 0.3}) as provider:
            space = await _filled(provider, Space(namespace="n", run_id="r", benchmark="b", corpus="c"))
            with pytest.raises(NotCleared):
                await provider.clear(space)


async def test_a_message_with_a_client_uuid_blocks_the_queue_of_graphiti(shared: Path, tmp_path: Path) -> None:
    capture = of(shared, "graphiti")["09"]
    async with FAKES["graphiti"]().running() as fake, aiohttp.ClientSession() as session:
        async with session.post(fake.url + capture.path, json=capture.body) as answer:
            assert answer.status == 202
        async with opened_at("graphiti", fake, tmp_path) as provider:
            space = Space(namespace="n", run_id="r", benchmark="b", corpus="c")
            ingested = await provider.ingest(space, [MEMORY])
            assert (await provider.ready(space, ingested)).detail == "0 of 1 memory there"


async def test_equal_ids_in_two_namespaces_of_the_agent_memory_server_are_separate(tmp_path: Path) -> None:
    async with (
        FAKES["agent-memory-server"]().running() as fake,
        opened_at("agent-memory-server", fake, tmp_path) as provider,
    ):
        spaces = [Space(namespace=name, run_id="r", benchmark="b", corpus="c") for name in ("n1", "n2")]
        filled = [await _filled(provider, space) for space in spaces]
        for space in filled:
            hits = (await provider.search(space, Query(text=MEMORY.content, k=3))).hits
            assert [hit.source_ids for hit in hits] == [("s1:t1",)]
        await provider.clear(filled[0])
        assert not (await provider.search(filled[0], Query(text=MEMORY.content, k=3))).hits
        assert (await provider.search(filled[1], Query(text=MEMORY.content, k=3))).hits


async def test_clear_of_a_vector_store_deletes_its_files(tmp_path: Path) -> None:
    async with FAKES["openai-vector-stores"]().running() as fake:
        async with opened_at("openai-vector-stores", fake, tmp_path) as provider:
            space = await _filled(provider, Space(namespace="n", run_id="r", benchmark="b", corpus="c"))
            assert len(fake.files) == 1  # type: ignore[attr-defined]
            await provider.clear(space)
        assert fake.files == {} and fake.shelf.spaces == {}  # type: ignore[attr-defined]


async def test_rejected_objects_of_a_weaviate_batch_are_rejected_memories(tmp_path: Path) -> None:
    async with FAKES["weaviate"]().running() as fake:
        fake.refuses = {"bad"}  # type: ignore[attr-defined]
        async with opened_at("weaviate", fake, tmp_path) as provider:
            assert isinstance(provider, Prepares)
            space = Space(namespace="Bench_n", run_id="r", benchmark="b", corpus="c")
            await provider.prepare(space)
            ingested = await provider.ingest(space, [Memory(id="m1", content="good"), Memory(id="m2", content="bad")])
    assert set(ingested.ids) == {"m1"} and dict(ingested.rejected) == {"m2": "vector lengths don't match"}
