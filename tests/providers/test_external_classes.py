"""Provider classes of others: optional parts, and errors when a class breaks the Protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError, PluginFault
from bench.model import Ingested, Memory, Query, Space
from bench.providers import Provider, Versioned
from tests.contract.running import opened
from tests.rows import each_row

SPACE = Space(namespace="ns", run_id="r", benchmark="b", corpus="c")
GOOD = """\
import time, anyio
from bench.model import Found, Hit, Ingested, Readiness


class Failure(Exception):
    pass


class Own:
    def __init__(self, config, context):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        return Ingested(ids={one.id: (one.id,) for one in memories})

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        await anyio.sleep(0.001)
        return Found(hits=(Hit(id="a", content=query.text),), requested=query.k, returned=1)

    async def clear(self, space):
        return None
"""


def config(folder: Path, old: str = "", new: str = "") -> ProviderConfig:
    assert old in GOOD
    (folder / "own.py").write_text(GOOD.replace(old, new) if old else GOOD, encoding="utf-8")
    return load_provider(Source.parse("name: acme\ntype: local\nadapter: ./own.py:Own\n", folder / "acme.yaml"))


@asynccontextmanager
async def changed(folder: Path, old: str = "", new: str = "") -> AsyncIterator[Provider]:
    async with opened(config(folder, old, new), folder) as provider:
        yield provider


async def test_a_class_with_four_methods_is_a_complete_provider(tmp_path: Path) -> None:
    async with changed(tmp_path) as provider:
        assert provider.name == "acme" and provider.version.startswith("config:")
        assert (provider.durability, provider.keeps_store, provider.unbounded) == ("process", True, False)
        assert provider.on_unknown == "reset" and provider.wait.by == "status" and provider.batching.max_items == 1
        assert provider.capabilities.operations == {"add_memory", "retrieve_memory"}
        found = await provider.search(SPACE, Query(text="x", k=1))
        assert [hit.content for hit in found.hits] == ["x"]


@pytest.mark.parametrize("method", ["def version", "async def version", "async def upstream_version"])
async def test_a_method_version_reports_the_version_of_the_memory_system(method: str, tmp_path: Path) -> None:
    new = f"{method}(self):\n        return '2.1'\n\n    async def clear"
    async with changed(tmp_path, "async def clear", new) as provider:
        assert isinstance(provider, Versioned) and await provider.upstream_version() == "2.1"
        assert provider.version.startswith("config:")


async def test_the_value_types_of_the_protocol_are_imported_from_bench_providers(tmp_path: Path) -> None:
    async with changed(tmp_path, "from bench.model import", "from bench.providers import") as provider:
        assert (await provider.search(SPACE, Query(text="x", k=1))).returned == 1


FIND = 'return Found(hits=(Hit(id="a", content=query.text),), requested=query.k, returned=1)'


@each_row(
    ("old", "new", "message"),
    [
        (FIND, "return None", r"own\.py:Own: search returned None; expected bench\.model\.Found"),
        (FIND, "return []", r"search returned a list; expected bench\.model\.Found"),
        (FIND, 'return Found(hits=("Ana",), requested=1, returned=1)',
         r"a hit that is a str; expected a bench\.model\.Hit"),
        ("async def search", "def search", r"search is not a coroutine"),
        ('return Readiness(state="ready")', "return True", r"ready returned a bool; expected bench\.model\.Readiness"),
        ("return Ingested(ids={one.id: (one.id,) for one in memories})", "pass",
         r"ingest returned None; expected bench\.model\.Ingested"),
        ("async def clear(self, space):\n        return None", "async def clear(self, space):\n        return 'ok'",
         r"clear returned a str; expected builtins\.int or None"),
    ],
)  # fmt: skip
async def test_a_wrong_return_value_names_method_and_expected_type(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    new = new.replace("def search(self, space, query):\n        await anyio.sleep(0.001)", "def search(self)")
    text = "await anyio.sleep(0.001)\n        "
    if new == "def search":
        old, new = f"async def search(self, space, query):\n        {text}", "def search(self, space, query):\n        "
    async with changed(tmp_path, old, new) as provider:
        with pytest.raises(PluginFault, match=message) as caught:
            await provider.ingest(SPACE, [Memory(id="a", content="x")])
            await provider.ready(SPACE, Ingested())
            await provider.search(SPACE, Query(text="x", k=1))
            await provider.clear(SPACE)
    assert caught.value.kind == "plugin" and caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("        pass\n\n    async def __aenter__", "        raise Failure('no room')\n\n    async def __aenter__",
         r"acme\.yaml:3:1: adapter \./own\.py:Own cannot be created: Failure: no room \(own\.py:\d+, in __init__\)"),
        ("(self):\n        return self", "(self):\n        raise Failure('away')",
         r"cannot be opened: Failure: away \(own\.py:\d+, in __aenter__\)"),
        ("async def __aexit__", "async def leave", r"own\.py:Own is not a provider: the class lacks __aexit__"),
    ],
)  # fmt: skip
async def test_a_class_that_cannot_be_opened_is_a_ConfigError_with_its_line(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with changed(tmp_path, old, new):
            pass


async def test_an_exception_of_a_provider_method_is_raised_unchanged(tmp_path: Path) -> None:
    async with changed(tmp_path, FIND, "raise Failure('no such thing')") as provider:
        with pytest.raises(Exception, match="no such thing") as caught:
            await provider.search(SPACE, Query(text="x", k=1))
    assert type(caught.value).__name__ == "Failure"
