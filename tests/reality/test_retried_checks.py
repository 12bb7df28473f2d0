"""An HTML page with status 200 in response to a check (probe, status, sentinel) does not fail a corpus."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import PROVIDER, WAITING

SENTINEL = PROVIDER.replace(
    '  count: {method: GET, path: /v1/memories, query: {namespace: "$.runTag"}, value: "$.count"}\n', ""
)


@pytest.mark.parametrize(
    ("base", "extra", "check"),
    [(PROVIDER, "", "count"), (PROVIDER, WAITING, "status"), (PROVIDER, WAITING, "search"), (SENTINEL, "", "search")],
)
async def test_one_html_page_in_response_to_a_check_is_retried_and_fails_no_item(
    base: str, extra: str, check: str, world_on: WorldOn
) -> None:
    def page(call: int, _request: web.Request, _body: object) -> web.Response | None:
        return web.Response(text="<html>one moment</html>", content_type="text/html") if call == 1 else None

    stub = MemoryStub({check: page})
    world = await world_on(stub, corpora=1, items=3)
    world.provider("faulty", base=base, extra=extra)
    outcome = await world.run(providers="faulty", concurrency=1)
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("ok",)]
    assert stub.calls("add") == 3


async def test_unreadable_status_calls_fail_the_corpus_and_a_resume_sends_no_add_again(
    world_on: WorldOn,
) -> None:
    broken = True

    def page(_call: int, _request: web.Request, _body: object) -> web.Response | None:
        return web.Response(text="<html>down</html>", content_type="text/html") if broken else None

    stub = MemoryStub({"status": page})
    world = await world_on(stub, corpora=1, items=3)
    world.provider("faulty", extra=WAITING)
    outcome = await world.run(providers="faulty")
    assert world.query(outcome.run_id, "select distinct outcome from score") == [("mapping",)]
    broken = False
    again = await world.resume(outcome.run_id)
    assert again.exit_code == 0 and stub.calls("add") == 3
