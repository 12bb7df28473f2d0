"""Provider classes: files, modules, entry points, their ``local`` block, and errors of broken ones."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from bench.model import Memory, Query, Space
from bench.providers import adapters, description
from bench.providers.adapters import builtin_config, declared_capabilities, plugin_config, provider_class
from bench.providers.doctor import examine
from tests.contract.running import context_for, opened
from tests.distributions import install
from tests.providers.declared import declared

SPACE = Space(namespace="ns", run_id="r", benchmark="b", corpus="c")

OWN = '''
"""A provider of forty lines: keeps lists in memory and finds by common words."""
from bench.config.file import ConfigModel
from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import Batching, Capabilities, Waiting
from bench.providers.adapters import declared_capabilities, local_of


class OwnLocal(ConfigModel):
    least: int = 1


class Own:
    version, durability, on_unknown = "1", "process", "repeat"
    keeps_store, unbounded = True, False
    wait, batching = Waiting(), Batching(max_items=2)

    def __init__(self, config, context):
        self.name, self.capabilities = config.name, declared_capabilities(config)
        self.least = local_of(config, OwnLocal).least
        self.spaces = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        self.spaces.setdefault(space.namespace, {}).update({one.id: one for one in memories})
        return Ingested(ids={one.id: (one.id,) for one in memories})

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        words = set(query.text.lower().split())
        rank = lambda one: len(words & set(one.content.lower().split()))
        known = sorted(self.spaces.get(space.namespace, {}).values(), key=rank, reverse=True)
        good = [one for one in known if rank(one) >= self.least]
        hits = tuple(Hit(id=one.id, content=one.content, source_ids=(one.id,), when=one.when) for one in good)
        return Found(hits=hits[: query.k], requested=query.k, returned=len(hits))

    async def clear(self, space):
        return len(self.spaces.pop(space.namespace, {}))

    async def delete(self, space, memory_ids):
        for one in memory_ids:
            self.spaces.get(space.namespace, {}).pop(one, None)
'''


def own(folder: Path, text: str = OWN, extra: str = "") -> ProviderConfig:
    (folder / "own.py").write_text(textwrap.dedent(text), encoding="utf-8")
    tree = f"name: acme\ntype: local\nadapter: ./own.py:Own\n{extra}"
    return load_provider(Source.parse(tree, folder / "acme.yaml"))


async def test_a_class_in_a_file_next_to_the_config_is_a_provider(tmp_path: Path) -> None:
    config = own(tmp_path)
    async with opened(config, tmp_path) as provider:
        await provider.ingest(SPACE, [Memory(id="a", content="Ana lives here")])
        assert (await provider.search(SPACE, Query(text="where is Ana", k=1))).hits[0].id == "a"
    assert declared_capabilities(config).operations == {"add_memory", "retrieve_memory", "delete_memory"}


async def test_a_class_in_a_file_next_to_the_config_passes_the_doctor(tmp_path: Path) -> None:
    config = own(tmp_path)
    async with context_for(config, tmp_path, {}) as context:
        report = await examine(config, context)
    assert report.ok, report.as_json()
    assert json.loads(json.dumps(report.as_json()))["provider"] == "acme"


async def test_the_local_block_is_checked_by_the_class_with_its_place(tmp_path: Path) -> None:
    assert (await _least(own(tmp_path, extra="local: {least: 2}\n"), tmp_path)) == 2
    with pytest.raises(ConfigError, match=r'acme.yaml:5:3: unknown field "leest".*did you mean "least"'):
        await _least(own(tmp_path, extra="local:\n  leest: 2\n"), tmp_path)


async def _least(config: ProviderConfig, folder: Path) -> int:
    async with opened(config, folder) as provider:
        return int(provider.least)  # type: ignore[attr-defined]


async def test_local_durability_overrides_the_durability_of_the_class(tmp_path: Path) -> None:
    async with opened(own(tmp_path, extra="local: {durability: file}\n"), tmp_path) as provider:
        assert provider.durability == "file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere_at_all\nclass Own: ...\n", "own.py cannot be imported: ModuleNotFoundError"),
        ("raise RuntimeError('no')\nclass Own: ...\n", "own.py cannot be imported: RuntimeError: no"),
        ("class Own: ...\n", "lacks __aenter__, __aexit__, ingest, ready, search, clear"),
    ],
)
def test_a_broken_adapter_file_is_a_ConfigError_at_its_line(text: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / message[:6].strip()
    folder.mkdir()
    with pytest.raises(ConfigError, match=message) as caught:
        provider_class(own(folder, text))
    assert "acme.yaml:3:1" in str(caught.value)


def test_an_adapter_file_is_imported_again_only_if_it_changed(tmp_path: Path) -> None:
    first = provider_class(own(tmp_path))
    assert provider_class(own(tmp_path)) is first
    second = provider_class(own(tmp_path, OWN.replace('"1"', '"2"')))
    assert (first.version, second.version) == ("1", "2")  # type: ignore[attr-defined]


def test_an_adapter_module_that_is_not_installed_is_named() -> None:
    config = declared({"type": "local", "adapter": "nowhere_at_all:Thing", "endpoints": ..., "connection": ...})
    with pytest.raises(ConfigError, match="cannot import nowhere_at_all"):
        provider_class(config)


def test_provider_plugins_are_found_by_name_and_a_broken_one_does_not_hide_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = ("plugged = bench.providers.builtin.bm25:Bm25", "broken = nowhere_at_all:Thing")
    install(tmp_path, "acme-memory", adapters.ENTRY_POINT_GROUP, *points)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = plugin_config("plugged")
    assert found is not None
    assert provider_class(found).__name__ == "Bm25"  # type: ignore[attr-defined]
    assert plugin_config("unknown") is None
    names = [row["name"] for row in description.list_entries([])]
    assert {"plugged", "broken", "bm25"} <= set(names)
    broken = plugin_config("broken")
    assert broken is not None
    with pytest.raises(ConfigError, match="nowhere_at_all"):
        provider_class(broken)


def test_a_provider_name_of_two_distributions_is_refused_and_listed_with_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        "acme-memory",
        adapters.ENTRY_POINT_GROUP,
        "shared = acme:Memory",
        "own = acme:Memory",
        "bm25 = acme:Memory",
    )
    install(tmp_path, "rival-memory", adapters.ENTRY_POINT_GROUP, "shared = rival:Memory")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        plugin_config("shared")
    assert caught.value.message.startswith('bench.providers: "shared" is registered by ')
    assert {"acme-memory", "rival-memory"} <= set(caught.value.message.split())
    assert caught.value.hint == "uninstall one of the two distributions"
    own = plugin_config("own")
    assert own is not None and own.adapter == "acme:Memory"
    rows = {str(row["name"]): row for row in description.list_entries([])}
    assert rows["shared"] == {"name": "shared", "problem": caught.value.message}
    assert rows["bm25"]["problem"] == "refused in a run, because an installed plug-in has the same name"
    assert rows["bm25"]["displayName"] == "BM25"
    assert "problem" not in rows["random"]


def test_the_list_has_a_row_per_provider_with_its_required_variables(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "configs" / "providers"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("name: bad\ntype: cloud\n", encoding="utf-8")
    rows = {str(row["name"]): row for row in description.list_entries(Catalog.load(tmp_path).providers())}
    assert '"hosted"' in str(rows["bad"]["problem"])
    chroma, bm25 = rows["chroma"], rows["bm25"]
    assert (chroma["type"], chroma["first_class"], chroma["needs"]) == ("docker", True, [])
    assert rows["pgvector"]["needs"] == ["PGVECTOR_URL"]
    assert bm25["verified"] == {"level": "live", "date": "2026-11-27", "upstream": "bench"}
    assert bm25["aliases"] == ["local-baseline", "LocalBaseline"]
    assert {"bm25", "vector", "full-context", "oracle", "random", "no-memory"} <= set(rows)
    assert json.dumps(list(rows.values()))


def test_detailed_entry_shows_variables_and_embedding_model() -> None:
    config = declared({"auth": {"type": "bearer", "envVar": "ACME_KEY"}})
    shown = description.detailed_entry(config, embedding=None)
    assert shown["variables"] == {"ACME_KEY": True, "ACME_URL": True}
    assert shown["needs"] == ["ACME_KEY", "ACME_URL"]
    assert config.client_embeddings is None
    assert description.embedding_model(builtin_config("vector")) == "openai/text-embedding-3-small"


def test_importing_bench_providers_loads_no_heavy_library() -> None:
    import subprocess
    import sys

    heavy = ("aiohttp", "pydantic", "aiosqlite", "psycopg")
    code = (
        f"import sys, bench.providers, bench.config.builtin_providers; print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
