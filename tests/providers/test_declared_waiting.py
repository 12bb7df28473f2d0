"""Waiting until a service is ready, and until a namespace is cleared."""

from __future__ import annotations

from typing import Any

import pytest

from bench.errors import IngestFailed, MappingError, NotCleared, NotReady
from bench.model import Ingested, Memory
from bench.providers import Prepares
from tests.providers.declared import SPACE, playing
from tests.rows import each_row

STATUS = {
    "endpoints.add.response": {"ids": "$.job"},
    "wait": {
        "request": {"method": "GET", "path": "/jobs/${jobId}"},
        "until": {"$.s": "done"},
        "fail_on": {"$.s": ["failed"]},
    },
}
NS = "ns%2F1%20%C3%BC"


async def test_without_wait_a_provider_is_ready_at_once() -> None:
    async with playing() as play:
        assert play.provider.wait.by == "nothing"
        assert (await play.provider.ready(play.space, await play.add("x"))).state == "ready"


@pytest.mark.parametrize("wait", ["sentinel", {}, {"timeout_s": 5}])
async def test_wait_without_request_uses_a_sentinel(wait: object) -> None:
    async with playing({"wait": wait}) as play:
        assert play.provider.wait.by == "sentinel"


async def test_wait_settings_are_available_to_the_engine() -> None:
    wait = {"interval_ms": 100, "max_interval_ms": 900, "timeout_s": 7, "settle_ms": 50}
    async with playing({"wait": wait}) as play:
        rule = play.provider.wait
        assert (rule.interval_s, rule.max_interval_s, rule.timeout_s, rule.settle_s) == (0.1, 0.9, 7, 0.05)


async def test_every_job_must_be_done_and_a_finished_job_is_not_requested_again() -> None:
    answers = {
        "POST /add": [{"job": "j0"}, {"job": "j1"}],
        "GET /jobs/j0": {"s": "done"},
        "GET /jobs/j1": [{"s": "queued"}, {"s": "done"}],
    }
    async with playing(STATUS, answers) as play:
        jobs = (*(await play.add("a")).jobs, *(await play.add("b")).jobs)
        everything = Ingested(ids={"m0": ("m0",)}, jobs=jobs)
        first = await play.provider.ready(play.space, everything)
        assert (first.state, first.detail) == ("pending", '1 of 2 jobs ready; j1: "$.s" is queued')
        assert (await play.provider.ready(play.space, everything)).state == "ready"
        assert play.service.calls().count("GET /jobs/j0") == 1


async def test_a_failed_job_is_reported_as_failed() -> None:
    changes = {**STATUS, "wait": {**STATUS["wait"], "until": {"$.s": ["done", "failed"]}}}  # type: ignore[dict-item]
    async with playing(changes, {"POST /add": {"job": "j0"}, "GET /jobs/j0": {"s": "failed", "why": "bad"}}) as play:
        seen = await play.provider.ready(play.space, await play.add("a"))
        assert seen.state == "failed"
        assert "j0" in seen.detail and "bad" in seen.detail


async def test_all_conditions_of_until_must_hold() -> None:
    changes = {**STATUS, "wait": {**STATUS["wait"], "until": {"$.s": "done", "$.dream": "done"}}}  # type: ignore[dict-item]
    async with playing(changes, {"POST /add": {"job": "j0"}, "GET /jobs/j0": {"s": "done", "dream": "queued"}}) as play:
        assert (await play.provider.ready(play.space, await play.add("a"))).state == "pending"


async def test_a_missing_status_field_is_a_MappingError() -> None:
    async with playing(STATUS, {"POST /add": {"job": "j0"}, "GET /jobs/j0": {"state": "done"}}) as play:
        got = await play.add("a")
        with pytest.raises(MappingError, match=r'wait.until "\$.s": nothing there'):
            await play.provider.ready(play.space, got)


async def test_a_missing_job_id_is_a_MappingError() -> None:
    async with playing(STATUS, {"POST /add": {"ok": 1}}) as play:
        with pytest.raises(MappingError, match=r'add.response.ids "\$.job": nothing there'):
            await play.add("a")


async def test_checking_many_jobs_stops_at_the_first_pending_ones() -> None:
    answers = {
        "POST /add": {"jobs": [f"j{i}" for i in range(40)]},
        **{f"GET /jobs/j{i}": {"s": "done" if i < 16 else "queued"} for i in range(40)},
    }
    async with playing({**STATUS, "endpoints.add.response": {"ids": "$.jobs"}}, answers) as play:
        seen = await play.provider.ready(play.space, await play.add("a"))
        assert seen.detail == '16 of 40 jobs ready; j16: "$.s" is queued'
        assert len([call for call in play.service.calls() if "jobs" in call]) == 32


async def test_namespace_scope_counts_the_sent_memories() -> None:
    changes = {
        "wait": {
            "request": {"method": "GET", "path": "/episodes", "query": {"n": "$.sent"}},
            "count_at_least": "$.episodes",
        }
    }
    answers = {"GET /episodes": [{"episodes": [1]}, {"episodes": [1, 2]}]}
    async with playing(changes, answers) as play:
        everything = Ingested(ids={"m0": (), "m1": ()})
        assert (await play.provider.ready(play.space, everything)).state == "pending"
        assert (await play.provider.ready(play.space, everything)).state == "ready"
        assert play.service.seen[0].query == [("n", "2")]


async def test_ids_from_the_status_call_are_captured() -> None:
    changes = {
        "wait": {
            "request": {"method": "GET", "path": "/episodes"},
            "count_at_least": "$.episodes",
            "id_map": {"name": "episodes", "key": "$.episodes[*].uuid", "value": "$.episodes[*].name"},
        },
        "endpoints.search.response.id_from": [{"captured": "episodes", "field": "$.e"}],
    }
    answers = {
        "GET /episodes": {"episodes": [{"uuid": "u0", "name": "m0"}]},
        "POST /search": {"results": [{"text": "fact", "e": ["u0"]}]},
    }
    async with playing(changes, answers) as play:
        got = await play.add("a")
        seen = await play.provider.ready(play.space, got)
        assert dict(seen.captures) == {"episodes": {"u0": "m0"}}
        play.take(seen.captures)
        assert (await play.search()).hits[0].source_ids == ("m0",)


async def test_a_resumed_provider_waits_for_the_jobs_of_all_sessions() -> None:
    """R7: job ids come from the journal, not from this process."""
    answers = {f"GET /jobs/j{i}": {"s": "done"} for i in range(10)}
    async with playing(STATUS, answers) as play:
        everything = Ingested(ids={}, jobs=tuple(f"j{i}" for i in range(10)))
        assert (await play.provider.ready(play.space, everything)).state == "ready"
        assert sorted(play.service.calls()) == [f"GET /jobs/j{i}" for i in range(10)]


# ------------------------------------------------------------------ clear


async def test_clearing_a_missing_namespace_succeeds() -> None:
    async with playing(answers={f"DELETE /users/{NS}": (404, {})}) as play:
        assert await play.provider.clear(play.space) is None


async def test_clear_receives_every_stored_id() -> None:
    changes = {"endpoints.clear": {"method": "DELETE", "path": "/m", "query": {"id": "$.ids"}}}
    async with playing(changes) as play:
        await play.ingest(Memory(id="m0", content="a"))
        await play.ingest(Memory(id="m1", content="b"))
        await play.provider.clear(play.space)
        assert play.service.seen[-1].query == [("id", "m0"), ("id", "m1")]


AGENT = {"name": "agent", "method": "POST", "path": "/agents", "capture": {"agent": "$.id"}}
LISTED = {"method": "GET", "path": "/agents", "results": "$", "match": {"$.name": "$.runTag"}}
OF_AGENT: dict[str, object] = {
    "endpoints.clear": {"method": "DELETE", "path": "/agents/${agent}"},
    "endpoints.verify_clear": {"method": "GET", "path": "/agents/${agent}", "ok_status": [404]},
}


async def test_clear_looks_for_what_a_lost_setup_created() -> None:
    changes = {"setup": [{**AGENT, "existing": LISTED}], **OF_AGENT}
    answers = {"GET /agents": [[{"id": "a7", "name": SPACE.namespace}]], "GET /agents/a7": (404, {})}
    async with playing(changes, {**answers, "DELETE /agents/a7": {}}) as play:
        assert await play.provider.clear(SPACE) is None
        assert play.service.calls() == ["GET /agents", "DELETE /agents/a7", "GET /agents/a7"]
    async with playing(changes, {"GET /agents": [[]]}) as play:
        assert await play.provider.clear(SPACE) is None
        assert play.service.calls() == ["GET /agents"], "what is not there is cleared"


async def test_a_404_means_that_the_looked_up_object_does_not_exist_yet() -> None:
    lookup = {"method": "GET", "path": "/agents/${runTag}"}
    answers = {f"GET /agents/{NS}": (404, {}), "POST /agents": {"id": "a7"}}
    async with playing({"setup": [{**AGENT, "existing": lookup}], **OF_AGENT}, answers) as play:
        assert isinstance(play.provider, Prepares)
        assert await play.provider.prepare(SPACE) == {"agent": "a7"}
        assert play.service.calls() == [f"GET /agents/{NS}", "POST /agents"]


@pytest.mark.parametrize("ok", [[], [404]])
async def test_a_404_of_a_list_is_an_error_that_names_the_remedy(ok: list[int]) -> None:
    changes = {"setup": [{**AGENT, "existing": {**LISTED, "treat_as_ok": ok}}], **OF_AGENT}
    async with playing(changes, {"GET /agents": (404, {}), "POST /agents": {"id": "a7"}}) as play:
        assert isinstance(play.provider, Prepares)
        if ok:
            assert await play.provider.prepare(SPACE) == {"agent": "a7"}
            return
        with pytest.raises(MappingError, match=r"setup\.agent\.existing: GET /agents -> 404.*treat_as_ok: \[404\]"):
            await play.provider.prepare(SPACE)


async def test_clear_repeats_an_idempotent_setup_to_learn_what_to_clear() -> None:
    changes = {"setup": [{**AGENT, "idempotent": True}], **OF_AGENT}
    answers = {"POST /agents": {"id": "a7"}, "DELETE /agents/a7": {}, "GET /agents/a7": (404, {})}
    async with playing(changes, answers) as play:
        assert await play.provider.clear(SPACE) is None
        assert play.service.calls() == ["POST /agents", "DELETE /agents/a7", "GET /agents/a7"]


async def test_clear_fails_if_a_lost_setup_cannot_be_looked_for() -> None:
    async with playing({"setup": [AGENT], **OF_AGENT}) as play:
        with pytest.raises(NotCleared, match=r"setup\.agent"):
            await play.provider.clear(SPACE)
        assert play.service.calls() == []


async def test_clear_existing_finds_what_a_lost_add_created() -> None:
    clear = {"method": "DELETE", "path": "/sets/${set}", "capture": {"set": "$.id"}}
    existing = {"endpoints.clear": {**clear, "existing": {**LISTED, "path": "/sets"}}}
    add = {"endpoints.add.capture": {"set": "$.set"}, **existing}
    answers = {"GET /sets": [[{"id": "s1", "name": SPACE.namespace}]], "DELETE /sets/s1": {}}
    async with playing(add, answers) as play:
        await play.provider.clear(SPACE)
        assert play.service.calls() == ["GET /sets", "DELETE /sets/s1"]


async def test_a_captured_null_is_a_MappingError() -> None:
    changes = {"setup": [AGENT], **OF_AGENT}
    async with playing(changes, {"POST /agents": {"id": None}}) as play:
        assert isinstance(play.provider, Prepares)
        with pytest.raises(MappingError, match=r"setup\.agent\.capture\.agent.*is null"):
            await play.provider.prepare(SPACE)


async def test_clear_waits_for_its_own_job() -> None:
    clear = {
        "method": "DELETE",
        "path": "/m",
        "response": {"ids": "$.job"},
        "wait": {
            "request": {"method": "GET", "path": "/jobs/${jobId}"},
            "until": {"$.s": "done"},
            "fail_on": {"$.s": "failed"},
            "interval_ms": 1,
            "timeout_s": 0.5,
        },
    }
    answers = {"DELETE /m": {"job": "c1"}, "GET /jobs/c1": [{"s": "busy"}, {"s": "done"}]}
    async with playing({"endpoints.clear": clear}, answers) as play:
        await play.provider.clear(play.space)
        assert play.service.calls() == ["DELETE /m", "GET /jobs/c1", "GET /jobs/c1"]
    for answer, error in (({"s": "failed"}, IngestFailed), ({"s": "busy"}, NotReady)):
        async with playing({"endpoints.clear": clear}, {"DELETE /m": {"job": "c1"}, "GET /jobs/c1": answer}) as play:
            with pytest.raises(error):
                await play.provider.clear(play.space)


@each_row(
    ("verify", "left", "gone"),
    [
        ({"empty": "$.n"}, {"n": 2}, {"n": 0}),
        ({"empty": "$.items"}, {"items": [1]}, {"items": []}),
        ({"empty": "$.items"}, {"items": [1]}, {}),
        ({"empty": "$.items"}, {"items": [1]}, {"items": None}),
        ({"ok_status": [404]}, {"id": 1}, (404, {})),
    ],
)
async def test_verify_clear_is_repeated_until_nothing_is_left(
    verify: dict[str, object], left: object, gone: object
) -> None:
    def within(seconds: float) -> dict[str, Any]:
        return {"endpoints.verify_clear": {"method": "GET", "path": "/m", "timeout_s": seconds, **verify}}

    async with playing(within(60), {"GET /m": [left, gone]}) as play:
        await play.provider.clear(play.space)
        assert play.service.calls().count("GET /m") == 2
    async with playing(within(0.3), {"GET /m": left}) as play:
        with pytest.raises(NotCleared, match=r"still contains data 0.3 s after the service reported"):
            await play.provider.clear(play.space)
