"""MCP servers: Engram's config against its fake, and a real memory server from npm."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed", allow_module_level=True)

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError, Rejected
from bench.model import Memory, Query, Space
from bench.providers import merge_captures
from bench.providers.doctor import examine
from tests import forked
from tests.contract import servers
from tests.contract.running import context_for, opened
from tests.fleet.captures import misfits
from tests.fleet.fleet import CONFIGS

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "engram.py"
SPACE = Space(namespace="ns", run_id="r", benchmark="b", corpus="c")


def engram(changes: dict[str, object] | None = None) -> ProviderConfig:
    tree = json.loads(json.dumps(Source.read(CONFIGS / "engram.yaml").tree, default=str))
    tree["mcp"] = {"command": [str(forked.client("engram", str(FAKE)))]}
    for name, value in (changes or {}).items():
        tree["endpoints"][name] |= value
    return load_provider(Source.parse(json.dumps(tree), CONFIGS / "engram.yaml"))


async def test_engram_fulfills_the_contract(tmp_path: Path) -> None:
    config = engram()
    async with context_for(config, tmp_path, {}) as context:
        report = await examine(config, context)
    outcomes = {one.name: one.outcome for one in report.checks}
    assert report.ok, report.as_json()
    skipped = [name for name, outcome in outcomes.items() if outcome == "skip"]
    assert skipped == ["dates come back", "clear"], "its hits carry no date, and it has no tool that deletes"


async def test_engram_needs_ENGRAM_DATA_DIR_and_uses_file_storage(tmp_path: Path) -> None:
    config = load_provider(CONFIGS / "engram.yaml")
    assert config.mcp is not None and config.mcp.command is not None and "STORAGE_BACKEND=file" in config.mcp.command
    with pytest.raises(ConfigError, match="ENGRAM_DATA_DIR"):
        async with opened(config, tmp_path):
            pass


async def test_engram_rejects_a_missing_field_and_a_k_above_the_maximum(tmp_path: Path) -> None:
    async with opened(engram({"add": {"body": {"source": "$.id"}}}), tmp_path) as provider:
        with pytest.raises(Rejected, match="content"):
            await provider.ingest(SPACE, [Memory(id="m1", content="x")])
    async with opened(engram({"search": {"body": {"query": "$.query", "maxResults": 501}}}), tmp_path) as provider:
        with pytest.raises(Rejected, match="maxResults"):
            await provider.search(SPACE, Query(text="x", k=3))


async def test_engram_stores_duplicates_because_its_duplicate_check_is_off(tmp_path: Path) -> None:
    async with opened(engram(), tmp_path) as provider:
        space = SPACE
        for key in ("m1", "m2"):
            got = await provider.ingest(space, [Memory(id=key, content="Ana lives in Lisbon.")])
            space = _with(space, got.captures)
        hits = (await provider.search(space, Query(text="Ana lives in Lisbon.", k=5))).hits
    assert [hit.source_ids for hit in hits] == [("m1",), ("m2",)]


def _with(space: Space, captures: object) -> Space:
    assert isinstance(captures, dict)
    merged = merge_captures(space.captures, captures)
    return Space(namespace=space.namespace, run_id="r", benchmark="b", corpus="c", captures=merged)


RUBBISH = "print('starting up!', flush=True)\nprint('{not json', flush=True)\n"


async def test_invalid_lines_on_stdout_of_a_server_are_skipped_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "loud.py"
    script.write_text(RUBBISH + FAKE.read_text(encoding="utf-8").replace("from __future__ import annotations\n", ""))
    text = script.read_text(encoding="utf-8").replace("Path(__file__).resolve().parents[2]", repr(str(servers.ROOT)))
    script.write_text(text, encoding="utf-8")
    config = engram()
    loud = config.model_copy(update={"mcp": config.mcp.model_copy(update={"command": (sys.executable, str(script))})})  # type: ignore[union-attr]
    async with opened(loud, tmp_path) as provider:
        await provider.ingest(SPACE, [Memory(id="m1", content="x")])
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "starting up!" in warning.getMessage() and warning.exc_info is None


async def test_a_server_that_prints_only_invalid_lines_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.providers.declarative.mcp_channel.START_S", 1.0)
    config = engram()
    command = (sys.executable, "-c", RUBBISH + "import time; time.sleep(30)")
    loud = config.model_copy(update={"mcp": config.mcp.model_copy(update={"command": command})})  # type: ignore[union-attr]
    with pytest.raises(
        ConfigError, match=r'(?s)does not start: no answer within 1 s.*it printed "starting up!" on stdout'
    ):
        async with opened(loud, tmp_path):
            pass


MEMORY = """
name: server-memory
type: mcp
mcp: {command: [env, "MEMORY_FILE_PATH=${MEMORY_FILE}", "${MEMORY_COMMAND}"]}
endpoints:
  add:
    tool: create_entities
    body: {entities: {$each: $.items, $do: {name: "@.id", entityType: $.runTag, observations: ["@.content"]}}}
  search:
    tool: search_nodes
    body: {query: $.query}
    response: {results: $.entities, contentField: "$.observations[*]", id_from: [{field: $.name}]}
  clear: {tool: delete_entities, body: {entityNames: $.ids}}
ingest: {batch: {max_items: 10}, on_unknown: repeat}
capabilities: {max_tokens: 100000}
"""


async def test_a_real_memory_server_adds_finds_by_substring_and_clears(shared: Path, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed: the MCP server from npm cannot run")
    servers.require("server-memory")
    config = load_provider(Source.parse(MEMORY, tmp_path / "server-memory.yaml"))
    variables = {
        "MEMORY_COMMAND": str(servers.script_of("server-memory")),
        "MEMORY_FILE": str(tmp_path / "memory.jsonl"),
    }
    texts = {"s1:t1": "user-a moved to Lisbon in May 2023 for a new job.", "s2:t1": "user-b is allergic to peanuts."}
    async with opened(config, tmp_path, variables) as provider:
        got = await provider.ingest(SPACE, [Memory(id=key, content=text) for key, text in texts.items()])
        space = _with(SPACE, got.captures)
        hits = (await provider.search(space, Query(text="Lisbon", k=5))).hits
        assert [(hit.source_ids, hit.content) for hit in hits] == [(("s1:t1",), texts["s1:t1"])]
        assert (await provider.search(space, Query(text="Where does user-a live now?", k=5))).hits == ()
        await provider.clear(space)
        assert (await provider.search(space, Query(text="Lisbon", k=5))).hits == ()


@pytest.mark.parametrize("number", ["03_add", "04_search", "05_search_question", "06_delete"])
def test_recorded_answers_contain_the_fields_that_the_paths_read(number: str, shared: Path) -> None:
    capture = json.loads((shared / "captures" / "mcp-memory" / f"{number}.json").read_text(encoding="utf-8"))
    result = capture["response"]["result"]
    if number != "06_delete":
        wanted = {"entities": [{"name": "", "observations": [""]}]}
        assert list(misfits(wanted, result["structuredContent"])) == []
    assert result["content"][0]["type"] == "text"
