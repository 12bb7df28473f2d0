"""Unreadable numbers, dates and headers of a provider count as unknown, and a good response is used."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from aiohttp import web

from bench.journal import Reader
from bench.report.fold import fold
from bench.untyped_values import instant, number, whole_number
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row
from tests.small_world import World

HUGE = "9" * 400
FEEDBACK = "limits: {feedback: {remaining: X-Remaining, reset: X-Reset}}\n"
DATED = 'scoreField: "$.score", when: "$.at"'


async def states(world: World, **flags: object) -> tuple[set[str], list[tuple[Any, ...]]]:
    """Return the outcomes of the items, and (outcome, status) of every search in the call log."""
    outcome = await world.run(providers="faulty", max_error_rate=1, **flags)
    ended = world.query(outcome.run_id, "select distinct outcome from score")
    log = world.query(outcome.run_id, "select outcome, status from call where endpoint = 'faulty.search'")
    return {row[0] for row in ended}, log


@pytest.mark.parametrize(
    "retry_after",
    [
        "Thu, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        HUGE,
        "9" * 5000,
        "9" * 300 + "s",
        "-5",
        "soon",
        "١٢",
        "Thu, 32 Foo 2024 99:99:99 +9999",
    ],
)
async def test_a_429_with_an_unreadable_retry_after_is_retried(retry_after: str, world_on: WorldOn) -> None:
    def busy(call: int, _request: web.Request, _body: object) -> web.Response | None:
        return web.Response(status=429, headers={"Retry-After": retry_after}) if call % 2 else None

    world = await world_on(MemoryStub({"search": busy}), corpora=1, items=1)
    ended, log = await states(world, isolation="off")
    assert ended == {"ok"}
    assert [row for row in log if row[0] == "rate_limited"], "the refused attempt is in the call log"


@pytest.mark.parametrize("remaining", ["9" * 5000, "-1", "1.5", "many", "²"])
@pytest.mark.parametrize("reset", ["9" * 5000, "Thu, 01 Jan 99999999999 00:00:00 GMT", "never"])
async def test_an_unreadable_rate_limit_header_does_not_fail_the_item(
    remaining: str, reset: str, world_on: WorldOn
) -> None:
    stub = MemoryStub()

    def telling(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        headers = {"X-Remaining": remaining, "X-Reset": reset}
        return web.json_response(stub.usual("search", request, body), headers=headers)

    stub.answers = {"search": telling}
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", extra=FEEDBACK)
    assert (await states(world))[0] == {"ok"}


@pytest.mark.parametrize(
    ("score", "at"),
    [
        (HUGE, '"2024-01-01"'),
        ("-1e999", "null"),
        ("NaN", '"soon"'),
        ('"high"', '"9999-12-31T23:59:59-14:00"'),
        (f'"{"9" * 5000}"', HUGE),
        ("0.5", f'"{"1" * 100_000}"'),
    ],
)
async def test_an_unreadable_score_or_date_of_a_hit_is_noted_and_the_item_scored(
    score: str, at: str, world_on: WorldOn
) -> None:
    stub = MemoryStub()

    def odd(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        text = json.dumps(stub.usual("search", request, body)).replace(
            '"score": ', f'"at": {at}, "score": {score}, "s": '
        )
        return web.Response(text=text, content_type="application/json")

    stub.answers = {"search": odd}
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", **{'scoreField: "$.score"': DATED})
    outcome = await world.run(providers="faulty")
    assert {row[0] for row in world.query(outcome.run_id, "select outcome from score")} == {"ok"}
    async with Reader.open(world.workspace / "checkpoints" / outcome.run_id) as reader:
        (job,) = (await fold(reader)).jobs
    assert job.valid and any("could not be read" in note for note in job.notes)


async def test_hits_ordered_by_an_unreadable_score_are_a_mapping_error(world_on: WorldOn) -> None:
    stub = MemoryStub()

    def odd(_call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        return web.Response(
            text=json.dumps(stub.usual("search", request, body)).replace('"score": ', f'"score": {HUGE}')
        )

    stub.answers = {"search": odd}
    world = await world_on(stub, corpora=1, items=2)
    world.provider("faulty", **{'scoreField: "$.score"': 'score: {field: "$.score", order: desc}'})
    assert (await states(world, isolation="off"))[0] == {"mapping"}


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw"])
async def test_a_truncated_compressed_response_is_retried(coding: str, world_on: WorldOn) -> None:
    stub = MemoryStub()

    def packed(call: int, request: web.Request, body: dict[str, object]) -> web.Response:
        text = json.dumps({**stub.usual("search", request, body), "pad": list(range(2000))}).encode()
        raw = zlib.compressobj(wbits=-15)
        body_bytes = {"gzip": gzip.compress(text), "deflate": zlib.compress(text)}.get(coding) or (
            raw.compress(text) + raw.flush()
        )
        cut = len(body_bytes) // 2 if call % 2 else len(body_bytes)
        headers = {"Content-Encoding": "deflate" if coding == "raw" else coding}
        return web.Response(body=body_bytes[:cut], headers=headers, content_type="application/json")

    stub.answers = {"search": packed}
    world = await world_on(stub, corpora=1, items=1)
    ended, log = await states(world, isolation="off")
    assert ended == {"ok"}
    assert {row[0] for row in log} == {"ok", "unavailable"}


async def test_a_compressed_response_above_the_size_limit_is_an_error(world_on: WorldOn) -> None:
    bomb = gzip.compress(b" " * 20_000_000)

    def packed(_call: int, _request: web.Request, _body: object) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    world = await world_on(MemoryStub({"search": packed}), corpora=1, items=1)
    outcome = await world.run(providers="faulty", max_error_rate=1, isolation="off")
    (message,) = world.query(outcome.run_id, "select distinct text from message where text like '%larger than%'")
    assert "8388608 bytes" in message[0]


@pytest.mark.parametrize("count", [HUGE, '"many"', "-1", "1.5", "true", "NaN"])
async def test_a_count_that_is_not_a_whole_number_is_a_mapping_error(count: str, world_on: WorldOn) -> None:
    def odd(_call: int, _request: web.Request, _body: object) -> web.Response:
        return web.Response(text=f'{{"count": {count}}}', content_type="application/json")

    world = await world_on(MemoryStub({"count": odd}), corpora=1, items=1)
    assert (await states(world))[0] == {"mapping"}


@each_row("value", [10**400, "9" * 5000, "1e999", float("nan"), float("inf"), None, True, [], {}, "x", ""])
def test_a_value_that_is_not_a_number_is_read_as_none(value: object) -> None:
    assert (number(value), whole_number(value), instant(value)) == (None, None, None)


def test_whole_number_reads_several_spellings() -> None:
    assert [whole_number(one) for one in (50, 50.0, "50", "50.0", " 7 ", 0.5, -1, "-1")] == [
        50,
        50,
        50,
        50,
        7,
        None,
        None,
        None,
    ]
