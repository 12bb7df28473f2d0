"""Calls and retries in the run log: calls only with -v, and never a key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import events
from bench.errors import Rejected
from bench.events import redactor
from bench.http import Endpoint, Http, Request, Retry

SECRET = "tok-55512-quite-secret"
ENDPOINT = Endpoint(name="p.search", role="provider", retry=Retry(delay_s=0.01))


def lines(path: Path) -> list[dict[str, object]]:
    events.close()
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


async def traffic(url: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    request = Request("POST", f"{url}/v1/search", json={"query": "x", "namespace": "n"}, headers=headers)
    async with Http(random=random.Random(1)) as http:
        with pytest.raises(Rejected):
            await http.call(ENDPOINT, request)


@pytest.mark.parametrize("verbose", [True, False])
async def test_w4_calls_are_logged_only_with_verbose_and_never_with_the_key(
    fault_server: Callable[..., str], tmp_path: Path, verbose: bool
) -> None:
    redactor.learn(SECRET)
    url = fault_server("search:status:code=429,calls=1", "search:echo_auth:code=400,skip=1")
    path = tmp_path / "run.log"
    events.configure(verbose=verbose, quiet=True, log_file=path)
    await traffic(url)
    logged = lines(path)
    assert SECRET not in path.read_text()
    assert [line["event"] for line in logged if line["event"] in ("call", "retry")] == (
        ["call", "retry", "call"] if verbose else ["retry"]
    )
