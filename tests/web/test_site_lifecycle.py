"""A site from its start to its end: address, token, recovered runs, signals."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from bench.errors import Locked, UsageError
from bench.settings import Environment
from bench.web.app import OpenSite, Settings, open_site, serve_until_signal, warm_up
from bench.web.openapi import openapi_document
from tests.full_journal import ItemData, write_run
from tests.small_journal import record


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_ends_a_site_with_its_exit_code(tmp_path: Path, number: signal.Signals, code: int) -> None:
    seen: list[OpenSite] = []

    def stop_when_open(site: OpenSite) -> None:
        seen.append(site)
        os.kill(os.getpid(), number)

    with anyio.fail_after(30):
        assert await serve_until_signal(Settings(workspace=tmp_path, port=0), stop_when_open) == code
    (site,) = seen
    assert site.url == site.login.rstrip("/") and site.url.startswith("http://127.0.0.1:") and site.secret is None


async def test_a_service_has_a_login_address_and_lists_the_runs_that_it_continues(tmp_path: Path) -> None:
    from bench.web.service import OrderStore, RunOrder

    with OrderStore.open(tmp_path) as orders:
        orders.add(RunOrder(run_id="later", request={"benchmarks": ["nope"]}))
    async with open_site(Settings(workspace=tmp_path, port=0, runs=True, max_runs=0)) as site:
        assert site.secret is not None and site.secret.fresh
        assert site.login == f"{site.url}/login?token={site.secret.token}"
        assert site.recovered == ("later",)
        with pytest.raises(Locked):
            async with open_site(Settings(workspace=tmp_path, port=0, runs=True)):
                pass
        async with open_site(Settings(workspace=tmp_path, port=0)) as reading:
            assert reading.url != site.url, "a read-only site can be open at the same time"
        assert site.site.service is not None
        site.site.service.queue.clear()
    async with open_site(Settings(workspace=tmp_path, port=0, runs=True, max_runs=0)) as again:
        assert again.secret is not None and not again.secret.fresh and again.secret.token == site.secret.token
        assert again.site.service is not None
        again.site.service.queue.clear()


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
async def test_a_host_that_other_machines_reach_needs_a_token_file(tmp_path: Path, host: str, runs: bool) -> None:
    with pytest.raises(UsageError) as refused:
        async with open_site(Settings(workspace=tmp_path, host=host, port=0, runs=runs)):
            pass
    assert str(refused.value) == f"{host} can be reached from other machines: a token is needed"
    assert refused.value.hint == (
        "name a token file with --token-file or MEMORYBENCH_TOKEN_FILE, or listen on 127.0.0.1"
    )
    assert not list(tmp_path.iterdir()), "no file was written"


async def test_a_token_file_flag_overrides_the_environment_variable(tmp_path: Path) -> None:
    named, flag = tmp_path / "named", tmp_path / "flag"
    environment = Environment(values={"MEMORYBENCH_TOKEN_FILE": str(named)})
    async with open_site(Settings(workspace=tmp_path, environment=environment, port=0)) as site:
        assert site.secret is not None and named.read_text().strip() == site.secret.token
    async with open_site(Settings(workspace=tmp_path, environment=environment, port=0, token_file=flag)) as site:
        assert site.secret is not None and flag.read_text().strip() == site.secret.token
    assert named.read_text() != flag.read_text()


async def test_warm_up_imports_modules_and_ignores_broken_configs(tmp_path: Path) -> None:
    broken = tmp_path / "configs" / "benchmarks" / "bad.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("x: [")
    await warm_up(tmp_path)
    await warm_up(tmp_path / "nowhere")
    assert {"bench.receipt.verification.verify", "bench.report.comparison.formats"} <= sys.modules.keys()
    assert openapi_document.cache_info().currsize == 1


async def test_a_site_closes_while_an_event_stream_is_open(tmp_path: Path) -> None:
    import aiohttp

    from bench.journal import Journal, RunState

    folder = await write_run(tmp_path, "r1", [(record("x"), [ItemData(item="q1")])], planned=3, state=RunState.RUNNING)
    async with Journal.resume(folder) as journal, aiohttp.ClientSession() as session:
        await journal.set_state(RunState.RUNNING)
        with anyio.fail_after(20):
            async with open_site(Settings(workspace=tmp_path, port=0)) as site:
                answer = await session.get(f"{site.url}/api/v1/runs/r1/events")
                assert (await answer.content.readline()).startswith(b"id: ")
        answer.close()
