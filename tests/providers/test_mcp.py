"""MCP servers as providers, with a real server over stdio."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed", allow_module_level=True)

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError, Rejected, Unavailable
from bench.http import recording
from bench.model import Memory, Query, Space
from bench.providers.doctor import examine
from tests import forked
from tests.contract.running import context_for, opened
from tests.contract.servers import free_port
from tests.fakes.recorder import recorder

SERVER = Path(__file__).resolve().parents[1] / "fakes" / "mcp_memory.py"
TEXT = f"""\
name: remote
type: mcp
mcp: {{command: ["{sys.executable}", "{SERVER}"]}}
endpoints:
  add:
    tool: remember
    body:
      namespace: $.runTag
      items: {{$each: $.items, $do: {{id: "@.id", content: "@.content"}}}}
  search:
    tool: recall
    body: {{namespace: $.runTag, query: $.query, limit: $.k}}
    response: {{results: $.memories, contentField: $.text, id_from: [{{field: $.id}}]}}
  count: {{tool: size, body: {{namespace: $.runTag}}, value: $.size}}
  clear: {{tool: forget, body: {{namespace: $.runTag}}}}
ingest: {{batch: {{max_items: 10}}, on_unknown: repeat}}
"""
SPACE = Space(namespace="ns", run_id="r", benchmark="b", corpus="c")


def config(folder: Path, old: str = "", new: str = "") -> ProviderConfig:
    assert old in TEXT
    return read(TEXT.replace(old, new) if old else TEXT, folder)


def read(text: str, folder: Path) -> ProviderConfig:
    """Return the config of the text; the server that it starts is a fork."""
    forks = f'"{forked.client("mcp_memory", str(SERVER))}"'
    text = text.replace(f'"{sys.executable}", "{SERVER}"', forks)
    return load_provider(Source.parse(text, folder / "remote.yaml"))


async def test_an_MCP_server_passes_the_doctor(tmp_path: Path) -> None:
    remote = config(tmp_path)
    async with context_for(remote, tmp_path, {}) as context:
        report = await examine(remote, context)
    assert report.ok, report.as_json()
    assert "remembering" in (tmp_path / "remote.stderr.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", ["recall_text", "recall_wrapped", "recall_parts"])
async def test_plain_text_of_a_tool_is_one_hit_per_line(tool: str, tmp_path: Path) -> None:
    old = "response: {results: $.memories, contentField: $.text, id_from: [{field: $.id}]}"
    changed = TEXT.replace(old, "response: {text: true, id_from: [{content_hash: true}]}")
    changed = changed.replace("tool: recall", f"tool: {tool}").replace(", limit: $.k}", "}")
    remote = read(changed, tmp_path)
    async with opened(remote, tmp_path) as provider:
        got = await provider.ingest(
            SPACE, [Memory(id="a", content="Ana likes tea"), Memory(id="b", content="Bo likes tea")]
        )
        where = Space(namespace="ns", run_id="r", benchmark="b", corpus="c", captures=got.captures)
        found = await provider.search(where, Query(text="tea Bo", k=5))
        nothing = await provider.search(where, Query(text="coffee", k=5))
    assert (nothing.hits, nothing.unmapped) == ((), 0)
    assert [(hit.content, hit.source_ids) for hit in found.hits] == [
        ("Bo likes tea", ("b",)),
        ("Ana likes tea", ("a",)),
    ]


async def test_a_missing_tool_is_reported_with_the_similar_and_all_tools(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'remote.yaml:\d+:5: .* no tool "recal".*did you mean "recall"') as caught:
        async with opened(config(tmp_path, "tool: recall\n", "tool: recal\n"), tmp_path):
            pass
    assert "remember" in (caught.value.hint or "")


async def test_a_tool_error_is_Rejected_and_a_stopped_server_Unavailable(tmp_path: Path) -> None:
    remote = config(tmp_path, "count: {tool: size, body: {namespace: $.runTag}, value: $.size}", "count: {tool: die}")
    async with opened(remote, tmp_path) as provider:
        with recording() as calls, pytest.raises(Rejected, match="Error executing tool remember"):
            await provider.ingest(SPACE, [Memory(id="a", content="")])
        assert [(call.endpoint, call.outcome) for call in calls] == [("remote.add", "rejected")]
        with pytest.raises(Unavailable, match="tool die: the MCP server has ended"):
            await provider.count(SPACE)  # type: ignore[attr-defined]
        with pytest.raises(Unavailable):
            await provider.search(SPACE, Query(text="x", k=1))


async def test_error_when_can_read_isError(tmp_path: Path) -> None:
    rule = "errors: {error_when: [{path: $.isError, equals: true, kind: quota, message: $.text}]}\n"
    remote = read(TEXT + rule, tmp_path)
    async with opened(remote, tmp_path) as provider:
        with pytest.raises(Exception, match="Error executing tool remember") as caught:
            await provider.ingest(SPACE, [Memory(id="a", content="")])
    assert type(caught.value).__name__ == "QuotaError"


async def test_an_MCP_server_that_does_not_start_is_a_ConfigError(tmp_path: Path) -> None:
    remote = config(tmp_path, f'"{SERVER}"', '"-c", "raise SystemExit(3)"')
    with pytest.raises(ConfigError, match=r"remote.yaml:3:1: the MCP server of remote does not start"):
        async with opened(remote, tmp_path):
            pass


async def test_rate_limits_apply_to_tools(tmp_path: Path) -> None:
    limited = TEXT + "limits: {search: {rps: 5, burst: 1}}\n"
    async with opened(read(limited, tmp_path), tmp_path) as provider:
        started = time.perf_counter()
        with recording() as calls:
            for _ in range(5):
                await provider.search(SPACE, Query(text="x", k=1))
    # a late start may use half a call of slack, so that the rate is not lower than allowed
    assert time.perf_counter() - started > (4 - 0.5) / 20
    assert sum(call.limiter_us for call in calls) > 50_000 and all(call.provider_us > 0 for call in calls)


async def test_the_last_output_of_an_MCP_server_is_part_of_the_error(tmp_path: Path) -> None:
    words = '"-c", "raise SystemExit(\'cannot open the store\')"'
    with pytest.raises(ConfigError, match=r"does not start: .*\n  cannot open the store") as caught:
        async with opened(config(tmp_path, f'"{SERVER}"', words), tmp_path):
            pass
    assert "remote.stderr.log" in (caught.value.hint or "")


async def test_an_unreachable_MCP_URL_is_named(tmp_path: Path) -> None:
    text = TEXT.replace(TEXT.splitlines()[2], f'mcp: {{url: "http://127.0.0.1:{free_port()}/mcp"}}')
    with pytest.raises(ConfigError, match=r"the MCP server of remote is not reachable at http://127") as caught:
        async with opened(read(text, tmp_path), tmp_path):
            pass
    assert "mcp.url" in (caught.value.hint or "")


async def test_the_URL_of_an_MCP_server_with_a_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    text = TEXT.replace(TEXT.splitlines()[2], 'mcp: {url: "${WHERE}/mcp"}')
    where = f"http://me:hunter22@127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match="contains a user name or password") as caught:
        async with opened(read(text, tmp_path), tmp_path, {"WHERE": where}):
            pass
    assert (caught.value.where or "").endswith("remote.yaml:3:7")
    assert "hunter22" not in f"{caught.value}{caught.value.hint}"


async def test_an_MCP_server_that_stops_during_a_call_does_not_cancel_other_tasks(tmp_path: Path) -> None:
    port = free_port()
    process = forked.Popen([sys.executable, str(SERVER), str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_until_open(port)
        text = TEXT.replace(TEXT.splitlines()[2], f'mcp: {{url: "http://127.0.0.1:{port}/mcp"}}')
        text = text.replace("count: {tool: size, body: {namespace: $.runTag}, value: $.size}", "count: {tool: die}")
        async with opened(read(text, tmp_path), tmp_path) as provider:
            await provider.ingest(SPACE, [Memory(id="a", content="Ana likes tea")])
            for _ in range(2):
                with pytest.raises(Unavailable, match="the MCP server has ended"):
                    await provider.count(SPACE)  # type: ignore[attr-defined]
            await anyio.sleep(0)  # this task was not cancelled
    finally:
        process.kill()
        process.wait(timeout=120)


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, r"refuses requests at .* \(status 401\)"), (503, r"not reachable at .* \(status 503\)")],
)
async def test_an_MCP_server_that_refuses_is_reported_with_its_status(
    status: int, message: str, tmp_path: Path
) -> None:
    async with recorder({"POST /mcp": (status, {"error": "no"})}) as service:
        text = TEXT.replace(
            TEXT.splitlines()[2], f'mcp: {{url: "{service.url}/mcp"}}\nauth: {{type: bearer, envVar: KEY}}'
        )
        config = read(text, tmp_path)
        with pytest.raises(ConfigError, match=message):
            async with opened(config, tmp_path, {"KEY": "sk-remote-0123456789abcdef"}):
                pass


async def test_an_MCP_URL_receives_the_headers_and_key_of_the_config(tmp_path: Path) -> None:
    async with recorder({"POST /mcp": (401, {"error": "no"})}) as service:
        block = f'mcp: {{url: "{service.url}/mcp"}}\nauth: {{type: bearer, envVar: KEY}}\n'
        text = TEXT.replace(TEXT.splitlines()[2], block + 'connection: {headers: {X-Org: "${ORG:-tea}"}}')
        with pytest.raises(ConfigError):
            async with opened(read(text, tmp_path), tmp_path, {"KEY": "sk-a-9"}):
                pass
        sent = service.seen[0].headers
        assert (sent["X-Org"], sent["Authorization"]) == ("tea", "Bearer sk-a-9")


def test_an_mcp_endpoint_needs_a_tool(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'type "mcp" needs "tool" in endpoints\.clear'):
        config(tmp_path, "clear: {tool: forget, body: {namespace: $.runTag}}", "clear: {method: DELETE, path: /x}")


async def test_an_MCP_server_behind_a_URL_is_a_working_provider(tmp_path: Path) -> None:
    port = free_port()
    process = forked.Popen([sys.executable, str(SERVER), str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_until_open(port)
        old = TEXT.splitlines()[2]
        text = TEXT.replace(
            old, f'mcp: {{url: "http://127.0.0.1:{port}/mcp"}}\nauth: {{type: bearer, envVar: REMOTE_KEY}}'
        )
        remote = read(text, tmp_path)
        async with opened(remote, tmp_path, {"REMOTE_KEY": "sk-remote-0123456789abcdef"}) as provider:
            got = await provider.ingest(SPACE, [Memory(id="a", content="Ana likes tea")])
            where = Space(namespace="ns", run_id="r", benchmark="b", corpus="c", captures=got.captures)
            assert [hit.id for hit in (await provider.search(where, Query(text="tea", k=3))).hits] == ["a"]
    finally:
        process.terminate()
        process.wait(timeout=120)


def wait_until_open(port: int) -> None:
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the server did not start")
