"""Servers that no attempt can reach: the lane stops at once, and the message has a hint."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bench.errors import IdentityError
from tests.contract.servers import free_port
from tests.http.test_environment import self_signed
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.small_world import World

MODEL = """
apiVersion: bench/v1
name: local
dialect: openai
base_url: "${LOCAL_URL}"
"""
CA = "set SSL_CERT_FILE to the CA's PEM file"


@pytest.fixture
async def private_ca(tmp_path: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """The address of a server with an untrusted certificate, and the paths of the requests that reached it."""
    got: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        got.append(request.path)
        return web.json_response({})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*self_signed(tmp_path))
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    yield f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", got
    await runner.cleanup()


def stopped(world: World, run_id: str) -> str:
    """Return the message with which the job was stopped."""
    ((message,),) = world.query(run_id, "select message from event where kind like 'job_stopped%'")
    return str(message)


async def test_a_model_behind_a_private_ca_stops_its_job_after_one_attempt(
    world_on: WorldOn, private_ca: tuple[str, list[str]]
) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=9)
    world.write("configs/models/local.yaml", MODEL)
    world.variables["LOCAL_URL"] = private_ca[0]
    outcome = await world.run(providers="bm25", answering_model="local/m", concurrency=1)
    assert outcome.exit_code != 0 and private_ca[1] == []
    assert stopped(world, outcome.run_id).endswith(CA)
    assert len(world.query(outcome.run_id, "select 1 from phase where phase = 4")) == 1


async def test_a_provider_behind_a_private_ca_stops_its_lane_and_no_other(
    world_on: WorldOn, private_ca: tuple[str, list[str]]
) -> None:
    world = await world_on(MemoryStub(), corpora=3, items=2)
    world.variables["FAULT_URL"] = private_ca[0]
    outcome = await world.run(providers=["faulty", "bm25"], ingest_concurrency=1)
    assert stopped(world, outcome.run_id).endswith(CA)
    good = world.query(outcome.run_id, "select count(*) from score where outcome = 'ok'")
    assert good == [(6,)], "bm25 continued"


@pytest.mark.parametrize("address", ["http://no-such-host.invalid", "https://127.0.0.1:PLAIN"])
async def test_an_unknown_host_or_a_server_without_tls_stops_the_lane(address: str, world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=3, items=2)
    world.variables["FAULT_URL"] = address.replace("PLAIN", str(world.url).rpartition(":")[2])
    try:
        socket.getaddrinfo("no-such-host.invalid", 80)
    except socket.gaierror as error:
        if error.errno != socket.EAI_NONAME:
            pytest.skip("the name server is away")
    outcome = await world.run(providers="faulty", ingest_concurrency=1)
    assert stopped(world, outcome.run_id)
    assert outcome.exit_code != 0


async def test_a_server_that_refuses_connections_does_not_stop_the_job(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=2)
    world.variables["FAULT_URL"] = "http://127.0.0.1:9"
    outcome = await world.run(providers="faulty")
    assert world.query(outcome.run_id, "select 1 from event where kind like 'job_stopped%'") == []


async def test_a_refused_connection_fails_the_items_and_another_address_needs_a_new_run(world_on: WorldOn) -> None:
    world = await world_on(MemoryStub(), corpora=1, items=2)
    right, wrong = world.variables["FAULT_URL"], f"http://127.0.0.1:{free_port()}"
    world.variables["FAULT_URL"] = wrong
    outcome = await world.run(providers="faulty", run_id="r")
    assert (outcome.status, outcome.exit_code) == ("complete", 4)
    assert world.query("r", "select 1 from event where kind like 'job_stopped%'") == []
    ((text,),) = world.query("r", "select distinct text from message where text like '%nothing listens%'")
    assert text.endswith(f"nothing listens on {wrong.removeprefix('http://')}")
    world.variables["FAULT_URL"] = right
    with pytest.raises(IdentityError, match="base_url"):
        await world.resume("r")
