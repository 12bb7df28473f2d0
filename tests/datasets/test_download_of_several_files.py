"""Downloads of several files: each has its path, is resumed, and is named in errors."""

from __future__ import annotations

import pytest

from bench.config.benchmark.config import BenchmarkConfig, config_sha256
from bench.config.catalog import Catalog
from bench.errors import ConfigError, DataError
from tests.datasets.conftest import Workspace
from tests.datasets.hub import BODY, run

YAML = """
name: two
version: "1"
data:
  type: local
  path: datasets/two/a.json
  localPath: datasets/two/a.json
{fetch}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: contains}}
metrics: [accuracy]
"""
FETCH = """
  fetch:
    datasets/two/a.json: hf:acme/set/main/a.json
    datasets/two/deep/b.json: hf:acme/set/main/b.json
"""


@pytest.fixture
def two(workspace: Workspace, config: object) -> BenchmarkConfig:
    workspace.yaml("two", YAML.format(fetch=FETCH))
    return Catalog.load(workspace.root).benchmark("two")


async def test_all_files_of_a_benchmark_are_downloaded_to_their_paths_once(hub, two, workspace) -> None:
    server, url = hub
    server.break_after = 300_000
    outcome = await run(two, workspace.root, url)
    assert (outcome.state, outcome.size) == ("downloaded", 2 * len(BODY))
    for name in ("a.json", "deep/b.json"):
        assert (workspace.root / "datasets/two" / name).read_bytes() == BODY
    assert server.requests[0][0] == "/datasets/acme/set/resolve/main/main/a.json"
    assert any(requested and requested.startswith("bytes=") for requested in server.requested_ranges)
    requests = len(server.requests)
    assert (await run(two, workspace.root, url)).state == "up to date"
    assert len(server.requests) == requests


async def test_an_unavailable_file_of_several_is_named_in_the_hint(hub, two, workspace) -> None:
    server, url = hub
    server.status = 404
    with pytest.raises(DataError) as refused:
        await run(two, workspace.root, url)
    assert "datasets/two/a.json" in str(refused.value.hint)


def test_download_URLs_do_not_change_config_sha256(two, workspace) -> None:
    digest = config_sha256(two)
    workspace.yaml("two", YAML.format(fetch=""))
    assert config_sha256(Catalog.load(workspace.root).benchmark("two")) == digest


@pytest.mark.parametrize("pair", ["../a.json: hf:acme/set/a.json", "a.json: acme"])
def test_fetch_refuses_a_path_outside_the_workspace_and_an_invalid_source(workspace, pair) -> None:
    workspace.yaml("two", YAML.format(fetch=f"  fetch:\n    {pair}"))
    with pytest.raises(ConfigError):
        Catalog.load(workspace.root).benchmark("two")
