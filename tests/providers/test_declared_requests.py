"""Each key of a request changes what the service receives (scenario P9)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.errors import AuthError, ConfigError, MappingError, Rejected, Unavailable
from bench.model import Memory, Message
from bench.providers import Counts, Deletes, Finishes, Lists, Prepares, Updates, Versioned
from tests.providers.declared import playing
from tests.rows import each_row

NS = "ns%2F1%20%C3%BC"
WHEN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
KEY = "sk-acme-0123456789abcdef"


async def test_the_namespace_is_encoded_in_a_path_and_unchanged_in_a_body() -> None:
    async with playing() as play:
        await play.add("Ana lives in Lisbon")
        await play.provider.clear(play.space)
        assert play.body("POST /add") == {"text": "Ana lives in Lisbon", "user": "ns/1 ü"}
        assert play.service.calls()[-1] == f"DELETE /users/{NS}"


async def test_every_variable_of_the_run_can_be_sent() -> None:
    names = ["runTag", "userId", "namespace", "runId", "benchmarkId", "corpusId", "attempt"]
    async with playing({"endpoints.add.body": {name: f"$.{name}" for name in names}}) as play:
        await play.add("x")
        ns = "ns/1 ü"
        assert play.body("POST /add") == dict(zip(names, [ns, ns, ns, "r1", "bm", "c1", 2], strict=True))


async def test_fields_of_a_memory_are_sent_with_their_types() -> None:
    names = [
        "id",
        "content",
        "when",
        "role",
        "speaker",
        "sessionId",
        "messages",
        "metadata",
        "uuid",
        "index",
        "embedding",
    ]
    async with playing({"endpoints.add.body": {name: f"$.{name}" for name in names}}) as play:
        turn = Message(content="hi", role="user", when=WHEN)
        await play.ingest(
            Memory(
                id="m1",
                content="c",
                when=WHEN,
                role="assistant",
                speaker="Ana",
                session_id="s",
                messages=(turn,),
                metadata={"lang": "en", "deep": {"a": 1}},
            )
        )
        body = play.body("POST /add")
    assert isinstance(body, dict)
    assert len(body.pop("uuid")) == 36
    assert body == {
        "id": "m1",
        "content": "c",
        "when": "2023-05-08T13:56:00Z",
        "role": "assistant",
        "speaker": "Ana",
        "sessionId": "s",
        "messages": [{"content": "hi", "role": "user", "speaker": None, "when": "2023-05-08T13:56:00Z"}],
        "metadata": {"lang": "en", "bench_id": "m1"},
        "index": 0,
        "embedding": None,
    }


@each_row(
    ("changes", "header", "value"),
    [
        ({"auth": {"type": "bearer", "envVar": "K"}}, "Authorization", f"Bearer {KEY}"),
        ({"auth": {"type": "token", "envVar": "K"}}, "Authorization", f"Token {KEY}"),
        ({"auth": {"type": "apikey", "envVar": "K"}}, "X-API-Key", KEY),
        ({"auth": {"type": "bearer", "envVar": "K", "prefix": "Api-Key "}}, "Authorization", f"Api-Key {KEY}"),
        ({"auth": {"type": "apikey", "envVar": "K", "header": "api-key"}}, "api-key", KEY),
        (
            {"auth": {"type": "basic", "envVar": "K", "user": "me"}},
            "Authorization",
            "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode(),
        ),
        (
            {"auth": [{"type": "apikey", "envVar": "K"}, {"type": "bearer", "envVar": "J"}]},
            "Authorization",
            "Bearer jj",
        ),
        ({"connection.headers": {"X-Client": "bench-${V:-1}"}}, "X-Client", "bench-1"),
        ({"endpoints.add.headers": {"X-Run": "${runId}", "X-K": "$.id"}}, "X-Run", "r1"),
        ({"endpoints.add.headers": {"X-Id": "$.id"}}, "X-Id", "m0"),
    ],
)
async def test_auth_and_headers_are_sent(changes: dict[str, object], header: str, value: str) -> None:
    async with playing(changes, variables={"K": KEY, "J": "jj"}) as play:
        await play.add("x")
        assert play.service.of("POST /add")[0].headers[header] == value


async def test_a_key_in_the_query_is_sent_and_never_shown_in_an_error() -> None:
    changes = {"auth": {"type": "query", "param": "key", "envVar": "K"}, "endpoints.add.query": {"v": "2"}}
    async with playing(changes, {"POST /add": (422, {"echo": KEY})}, {"K": KEY}) as play:
        with pytest.raises(Rejected) as caught:
            await play.add("x")
        assert play.service.of("POST /add")[0].query == [("key", KEY), ("v", "2")]
        assert KEY not in str(caught.value)


async def test_an_auth_error_names_the_variable_of_the_key() -> None:
    async with playing(
        {"auth": {"type": "bearer", "envVar": "ACME_KEY"}}, {"POST /add": (401, {})}, {"ACME_KEY": KEY}
    ) as play:
        with pytest.raises(AuthError, match=r"acme.*401.*ACME_KEY"):
            await play.add("x")


async def test_a_missing_key_stops_before_any_call_unless_optional() -> None:
    auth = {"type": "bearer", "envVar": "ABSENT_KEY"}
    with pytest.raises(ConfigError, match="ABSENT_KEY"):
        async with playing({"auth": auth}):
            pass
    async with playing({"auth": {**auth, "optional": True}}) as play:
        await play.add("x")
        assert "Authorization" not in play.service.of("POST /add")[0].headers


async def test_a_missing_variable_of_baseUrl_is_named() -> None:
    with pytest.raises(ConfigError, match="NOWHERE_URL"):
        async with playing({"connection.baseUrl": "${NOWHERE_URL}/v1"}):
            pass


async def test_vars_are_constants_in_paths() -> None:
    async with playing({"vars": {"db": "/api/v2/a b"}, "endpoints.add.path": "${db}/add/${id}"}) as play:
        await play.add("x")
        assert play.service.calls() == ["POST /api/v2/a%20b/add/m0"]


async def test_query_lists_repeat_and_null_values_can_be_omitted() -> None:
    query = {"id": "$.items[*].id", "w": {"$omit_if_null": "$.when"}, "n": "$.index", "t": "a ${runId}"}
    async with playing({"endpoints.add.query": query}) as play:
        await play.add("x")
        assert play.service.of("POST /add")[0].query == [("id", "m0"), ("n", "0"), ("t", "a r1")]


async def test_sessionId_scoping_sends_the_namespace_as_session() -> None:
    changes = {
        "scoping.strategy": "sessionId",
        "endpoints.add.body": {"s": "$.sessionId"},
        "endpoints.search.body": {"s": "$.sessionId", "n": "$.k"},
    }
    async with playing(changes) as play:
        await play.add("x", session_id="s1")
        await play.search()
        assert play.body("POST /add") == {"s": "ns/1 ü"}
        assert play.body("POST /search") == {"s": "ns/1 ü", "n": 3}


async def test_every_search_variable_can_be_sent() -> None:
    names = ["query", "k", "limit", "queryWhen", "threshold", "includeChunks", "queryEmbedding"]
    async with playing({"endpoints.search.body": {name: f"$.{name}" for name in names}}) as play:
        await play.search("who?", 7, when=WHEN, threshold=0.3, include_chunks=True)
        values = ["who?", 7, 7, "2023-05-08T13:56:00Z", 0.3, True, None]
        assert play.body("POST /search") == dict(zip(names, values, strict=True))


async def test_max_k_is_sent_instead_of_a_larger_k() -> None:
    async with playing(
        {"capabilities.max_k": 2}, {"POST /search": {"results": [{"text": str(i)} for i in range(9)]}}
    ) as play:
        found = await play.search(k=5)
        assert play.body("POST /search") == {"q": "who?", "user": "ns/1 ü", "n": 2}
        assert (found.requested, found.returned, len(found.hits)) == (2, 9, 5)


async def test_timestamp_and_metadata_values_apply() -> None:
    body = {"w": "$.when", "m": "$.metadata"}
    changes = {"ingest.timestamp": "unix", "capabilities.metadata_values": "strings", "endpoints.add.body": body}
    async with playing(changes) as play:
        await play.add("x", when=WHEN, metadata={"n": 1})
        assert play.body("POST /add") == {"w": 1683554160, "m": {"n": "1", "bench_id": "m0"}}


async def test_a_batch_is_sent_as_columns() -> None:
    changes = {
        "ingest.batch": {"max_items": 9},
        "endpoints.add.body": {"ids": {"$column": "id"}, "docs": {"$column": "content"}},
    }
    async with playing(changes) as play:
        assert play.provider.batching.max_items == 9
        await play.add("x", "y")
        assert play.body("POST /add") == {"ids": ["m0", "m1"], "docs": ["x", "y"]}


async def test_a_memory_above_max_bytes_is_rejected_before_any_call() -> None:
    async with playing({"ingest.batch": {"max_bytes": 5}}) as play:
        with pytest.raises(Rejected, match="m0 has 6 bytes"):
            await play.add("äöü")
        assert play.service.calls() == []


async def test_the_idempotency_header_is_the_same_on_a_retry() -> None:
    flaky = [(503, {}), (200, {})]
    async with playing({"endpoints.add.idempotency": {"header": "X-Once"}}, {"POST /add": list(flaky)}) as play:
        await play.add("x")
        keys = [one.headers["X-Once"] for one in play.service.of("POST /add")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize(("idempotent", "calls"), [(None, 1), (False, 1), (True, 2)])
async def test_add_is_retried_only_if_it_is_idempotent(idempotent: bool | None, calls: int) -> None:
    changes = {} if idempotent is None else {"endpoints.add.idempotent": idempotent}
    async with playing(changes, {"POST /add": [(503, {}), (200, {})]}) as play:
        if calls == 1:
            with pytest.raises(Exception, match="503"):
                await play.add("x")
        else:
            await play.add("x")
        assert len(play.service.of("POST /add")) == calls


async def test_status_overrides_and_maxRetries_apply() -> None:
    async with playing({"errors.status": {"409": "retry"}}, {"POST /add": [(409, {}), (200, {})]}) as play:
        await play.add("x")
        assert len(play.service.seen) == 2
    async with playing({"rateLimit": {"maxRetries": 0}}, {"POST /search": [(503, {}), (200, {})]}) as play:
        with pytest.raises(Exception, match="503"):
            await play.search()


async def test_the_timeout_of_a_call_overrides_the_connection() -> None:
    async with playing({"connection.timeout": 9000, "endpoints.add.timeout": 123}) as play:
        call = play.provider._add_operation.steps[0]  # type: ignore[attr-defined]
        assert (call.timeout_s, call.endpoint.timeouts.attempt_s) == (0.123, 9.0)


async def test_limits_and_delays_are_applied_to_the_endpoints() -> None:
    changes = {
        "limits": {
            "add": {"rpm": 120, "burst": 3, "concurrency": 4},
            "search": {"rps": 9, "tpm": 1000},
            "status": {"concurrency": 1},
            "feedback": {"remaining": "X-Left", "reset": "X-Reset"},
        },
        "rateLimit": {"addDelayMs": 100, "batchDelayMs": 250, "searchDelayMs": 50, "maxRetries": 5, "retryDelayMs": 10},
    }
    async with playing(changes) as play:
        ends = play.provider._connection.endpoints  # type: ignore[attr-defined]
    assert (ends["add"].limits.rate, ends["add"].limits.burst, ends["add"].limits.concurrency) == (2.0, 3, 4)
    assert (ends["add"].limits.min_interval_s, ends["search"].limits.min_interval_s) == (0.25, 0.05)
    assert (ends["search"].limits.rps, ends["search"].limits.tpm) == (9, 1000)
    assert ends["status"].limits.concurrency == 1
    assert ends["search"].limits.feedback.remaining == "X-Left"
    assert (ends["add"].retry.max_retries, ends["add"].retry.delay_s) == (5, 0.01)
    assert {name: end.name for name, end in ends.items()} == {name: f"acme.{name}" for name in ends}


async def test_multipart_sends_a_file() -> None:
    changes: dict[str, object] = {
        "endpoints.add.body": ...,
        "endpoints.add.multipart": {
            "purpose": "assistants",
            "file": {"filename": "${id}.txt", "content": "$.content", "type": "text/plain"},
        },
    }
    async with playing(changes) as play:
        await play.add("Ana \U0001f408")
        seen = play.service.of("POST /add")[0]
    assert seen.headers["Content-Type"].startswith("multipart/form-data")
    text = seen.body.decode()
    assert 'filename="m0.txt"' in text
    assert "Ana \U0001f408" in text
    assert "text/plain" in text
    assert "assistants" in text


async def test_a_null_body_is_sent_as_null_and_delete_may_have_a_body() -> None:
    async with playing({"endpoints.add.body": None, "endpoints.clear.body": {"u": "$.userId"}}) as play:
        await play.add("x")
        await play.provider.clear(play.space)
        assert play.service.seen[0].body == b"null"
        assert play.service.seen[1].json == {"u": "ns/1 ü"}


async def test_captures_of_setup_are_used_by_later_calls() -> None:
    changes = {
        "setup": [
            {
                "name": "bank",
                "method": "PUT",
                "path": "/banks",
                "body": {"n": "$.runTag"},
                "capture": {"bank": "$.id"},
                "treat_as_ok": [409],
            },
            {"name": "files", "method": "POST", "path": "/banks/${bank}/files", "capture": {"files": ["$.ids[*]"]}},
        ],
        "endpoints.add.path": "/banks/${bank}/add",
    }
    answers = {"PUT /banks": {"id": "b/7"}, "POST /banks/b%2F7/files": {"ids": ["f1", "f2"]}}
    async with playing(changes, answers) as play:
        assert isinstance(play.provider, Prepares)
        captured = await play.provider.prepare(play.space)
        assert captured == {"bank": "b/7", "files": ["f1", "f2"]}
        play.take(captured)
        await play.add("x")
        assert play.service.calls()[-1] == "POST /banks/b%2F7/add"


async def test_a_capture_that_matches_nothing_is_a_MappingError() -> None:
    changes = {"setup": [{"name": "bank", "method": "PUT", "path": "/banks", "capture": {"bank": "$.id"}}]}
    async with playing(changes, {"PUT /banks": {"uid": 1}}) as play:
        with pytest.raises(MappingError, match=r'setup.bank.capture.bank "\$.id": nothing there; body: \{"uid": 1\}'):
            await play.provider.prepare(play.space)  # type: ignore[attr-defined]


async def test_steps_run_in_order_and_use_earlier_captures() -> None:
    steps = [
        {
            "method": "POST",
            "path": "/files",
            "body": {"t": "$.content"},
            "capture": {"fileId": "$.id", "files": ["$.id"]},
        },
        {"method": "POST", "path": "/stores/s/files", "body": {"f": "$.fileId", "id": "$.id"}},
    ]
    changes = {
        "endpoints.add": {"steps": steps, "response": {"ids": "$.job"}},
        "wait": {"request": {"method": "GET", "path": "/jobs/${jobId}"}, "until": {"$.s": "ok"}},
    }
    answers = {"POST /files": [{"id": "f1"}, {"id": "f2"}], "POST /stores/s/files": [{"job": "j1"}, {"job": "j2"}]}
    async with playing(changes, answers) as play:
        one, two = await play.add("x"), await play.add("y")
        assert play.service.calls() == ["POST /files", "POST /stores/s/files"] * 2
        assert play.body("POST /stores/s/files", 1) == {"f": "f2", "id": "m0"}
        assert (one.jobs, two.jobs) == (("j1",), ("j2",))
        assert play.space.captures["files"] == ["f1", "f2"]


async def test_for_each_repeats_a_call() -> None:
    changes = {
        "teardown": [{"name": "files", "method": "DELETE", "path": "/files/${each}", "for_each": "$.files"}],
        "endpoints.add.capture": {"files": ["$.id"]},
    }
    async with playing(changes, {"POST /add": [{"id": "f1"}, {"id": "f/2"}]}) as play:
        await play.provider.clear(play.space)
        assert play.service.calls() == [f"DELETE /users/{NS}"]
        await play.add("x")
        await play.add("y")
        await play.provider.clear(play.space)
        assert play.service.calls()[-3:] == [f"DELETE /users/{NS}", "DELETE /files/f1", "DELETE /files/f%2F2"]


async def test_finish_is_called_once_and_may_return_jobs() -> None:
    changes = {
        "endpoints.finish": {
            "method": "POST",
            "path": "/cognify",
            "body": {"u": "$.runTag"},
            "response": {"ids": "$.job"},
        }
    }
    async with playing(changes, {"POST /cognify": {"job": 7}}) as play:
        assert isinstance(play.provider, Finishes)
        ended = await play.provider.finish(play.space, await play.add("x"))
        assert ended.jobs == ("7",)


async def test_optional_operations_exist_only_if_the_config_has_them() -> None:
    async with playing() as play:
        for protocol in (Prepares, Finishes, Counts, Versioned, Deletes, Updates, Lists):
            assert not isinstance(play.provider, protocol)
    calls = {
        "endpoints.count": {
            "method": "GET",
            "path": "/count",
            "query": {"u": "$.runTag"},
            "value": "$.n",
            "treat_as_ok": [404],
        },
        "endpoints.version": {"method": "GET", "path": "/version", "value": "$.v"},
        "endpoints.delete": {"method": "DELETE", "path": "/m/${id}"},
        "endpoints.update": {"method": "PATCH", "path": "/m/${id}", "body": {"text": "$.content"}},
        "endpoints.list": {
            "method": "GET",
            "path": "/m",
            "query": {"s": {"$omit_if_null": "$.sessionId"}},
            "response": {"results": "$", "contentField": "$"},
        },
    }
    answers = {
        "GET /count": [{"n": 3}, {"n": [1, 2]}, (404, {})],
        "GET /version": {"v": "1.2"},
        "GET /m": lambda _: ["a", "b"],
    }
    async with playing(calls, answers) as play:
        provider = play.provider
        assert isinstance(provider, Counts) and isinstance(provider, Versioned) and isinstance(provider, Deletes)
        assert isinstance(provider, Updates) and isinstance(provider, Lists)
        assert [await provider.count(play.space) for _ in range(3)] == [3, 2, 0]
        assert await provider.upstream_version() == "1.2"
        await provider.delete(play.space, ["a", "b"])
        await provider.update(play.space, [Memory(id="a", content="new")])
        hits = await provider.list(play.space, "s1")
        assert [hit.content for hit in hits] == ["a", "b"]
        assert play.service.calls()[-4:] == ["DELETE /m/a", "DELETE /m/b", "PATCH /m/a", "GET /m"]
        assert play.service.seen[-1].query == [("s", "s1")]
        assert provider.capabilities.operations >= {"delete_memory", "update_memory", "list_memories"}


async def test_delete_with_ids_is_one_call() -> None:
    changes = {"endpoints.delete": {"method": "POST", "path": "/delete", "body": {"ids": "$.ids"}}}
    async with playing(changes) as play:
        await play.provider.delete(play.space, ["a", "b"])  # type: ignore[attr-defined]
        assert play.body("POST /delete") == {"ids": ["a", "b"]}


async def test_health_is_awaited_until_the_service_is_ready() -> None:
    changes = {"endpoints.health": {"method": "GET", "path": "/health", "value": "$.ok"}}
    async with playing(changes, {"GET /health": [(503, {}), (200, {"ok": True})]}) as play:
        assert play.service.calls() == []
        await play.search()
        await play.search()
        assert play.service.calls() == ["GET /health"] * 2 + ["POST /search"] * 2
    changes["endpoints.health"] = {"method": "GET", "path": "/health", "ready_timeout_s": 0.3}
    async with playing(changes, {"GET /health": (503, {})}) as play:
        with pytest.raises(Unavailable, match=r"acme still returns status 503 after 0\.3 s"):
            await play.search()


async def test_client_embeddings_embeds_stored_texts_and_queries(fault_server, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    changes = {
        "client_embeddings": {"model": "openai/text-embedding-3-small", "dimensions": 8, "query_prefix": "q: "},
        "endpoints.add.body": {"e": "$.embedding"},
        "endpoints.search.body": {"e": "$.queryEmbedding", "n": "$.k"},
    }
    variables = {"OPENAI_BASE_URL": f"{fault_server()}/v1", "OPENAI_API_KEY": KEY}
    async with playing(changes, variables=variables) as play:
        await play.add("Ana")
        await play.search("Ana")
        stored, asked = play.body("POST /add"), play.body("POST /search")
    assert isinstance(stored, dict) and isinstance(asked, dict)
    assert len(stored["e"]) == len(asked["e"]) == 8
    assert stored["e"] != asked["e"]


@each_row(
    ("changes", "attribute", "wanted"),
    [
        ({"ingest.order": "parallel"}, "batching.order", "parallel"),
        ({"ingest.order": "parallel", "limits.namespace_serial": True}, "batching.order", "serial"),
        ({"ingest.split": {"max_chars": 9, "overlap": 2}}, "batching.split_chars", 9),
        ({"ingest.split": {"max_chars": 9, "overlap": 2}}, "batching.split_overlap", 2),
        ({"ingest.batch": {"max_chars": 70, "max_bytes": 90}}, "batching.max_chars", 70),
        ({"ingest.batch": {"max_chars": 70, "max_bytes": 90}}, "batching.max_bytes", 90),
        ({"ingest.on_unknown": "probe"}, "on_unknown", "probe"),
        ({"capabilities.supportsChunks": True}, "capabilities.supports_chunks", True),
        ({"capabilities.supportsBatch": True}, "capabilities.supports_batch", True),
        ({"capabilities.supportsMetadata": True}, "capabilities.supports_metadata", True),
        ({"capabilities.supportsRerank": True}, "capabilities.supports_rerank", True),
        ({"capabilities.timestamps": False}, "capabilities.timestamps", False),
        ({"capabilities.scores": False}, "capabilities.scores", False),
        ({"capabilities.ids": False}, "capabilities.ids", False),
        ({"capabilities.max_tokens": 4096}, "capabilities.max_tokens", 4096),
        ({"connection.connect_timeout": 1234}, "_connection.endpoints.add.timeouts.connect_s", 1.234),
        ({"connection.max_response_bytes": 99}, "_connection.endpoints.search.max_response_bytes", 99),
    ],
)
async def test_settings_are_available_to_the_engine(changes: dict[str, object], attribute: str, wanted: object) -> None:
    async with playing(changes) as play:
        found: object = play.provider
        for part in attribute.split("."):
            found = found[part] if isinstance(found, dict) else getattr(found, part)
        assert found == wanted


async def test_capabilities_ids_false_means_hits_have_no_ids() -> None:
    answers = {"POST /search": {"results": [{"text": "a", "id": "m0"}]}}
    async with playing({"capabilities.ids": False}, answers) as play:
        await play.add("a")
        assert not (await play.search()).ids_available
