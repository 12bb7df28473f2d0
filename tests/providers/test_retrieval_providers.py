"""Retrieval providers in this process: rows by id, a file of SQL, a required model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from bench.http import Http
from bench.model import Memory, Query, Space
from bench.processor_time import cpu_timer
from bench.providers import Provider, ProviderContext, open_provider
from bench.settings import Environment
from tests.rows import each_row

SPACE = Space(namespace="ns", run_id="r", benchmark="b", corpus="c")
MEMORIES = [Memory(id=f"m{at}", content=f"note {at} about Lisbon", session_id=f"s{at % 2}") for at in range(4)]


class Lengths:
    """An embedder whose vector is the length of the text."""

    name = "acme/lengths"

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[tuple[float, ...]]:
        return [(float(len(text)), 1.0) for text in texts]


def config(folder: Path, adapter: str = "openrouter_rag:OpenrouterRag", local: str = "{}") -> ProviderConfig:
    text = f"name: mine\ntype: local\nadapter: bench.providers.{adapter}\nlocal: {local}\n"
    vectors = "client_embeddings: {model: acme/lengths}\n"
    return load_provider(Source.parse(text + vectors, folder / "mine.yaml"))


def context(folder: Path) -> ProviderContext:
    return ProviderContext(http=Http(), environment=Environment({}), run_dir=folder, embedder=Lengths())


async def test_chunks_are_listed_deleted_and_replaced_by_memory_id(tmp_path: Path) -> None:
    async with open_provider(config(tmp_path), context(tmp_path)) as provider:
        await provider.ingest(SPACE, MEMORIES)
        assert [hit.id for hit in await listed(provider)] == ["m0#0", "m1#0", "m2#0", "m3#0"]
        assert [hit.id for hit in await listed(provider, "s1")] == ["m1#0", "m3#0"]
        await provider.delete(SPACE, ["m1", "unknown"])  # type: ignore[attr-defined]
        await provider.update(SPACE, [replace(MEMORIES[2], content="changed")])  # type: ignore[attr-defined]
        assert [(hit.source_ids, hit.content) for hit in await listed(provider)] == [
            (("m0",), "note 0 about Lisbon"),
            (("m3",), "note 3 about Lisbon"),
            (("m2",), "changed"),
        ]
        assert await provider.count(SPACE) == 3  # type: ignore[attr-defined]
    async with open_provider(config(tmp_path), context(tmp_path)) as again:
        assert await again.count(SPACE) == 3  # type: ignore[attr-defined]
        assert [await again.clear(SPACE), await again.clear(SPACE)] == [3, 0]


async def test_the_processor_time_of_adds_and_searches_is_measured(tmp_path: Path) -> None:
    async with open_provider(config(tmp_path), context(tmp_path)) as provider:
        with cpu_timer() as adding:
            await provider.ingest(SPACE, MEMORIES)
        with cpu_timer() as searching:
            await provider.search(SPACE, Query(text="Lisbon", k=3))
    assert adding.us and searching.us


async def listed(provider: Provider, session: str | None = None) -> list[object]:
    found: list[object] = await provider.list(SPACE, session)  # type: ignore[attr-defined]
    return found


async def test_an_empty_namespace_has_no_hits_and_nothing_to_delete(tmp_path: Path) -> None:
    async with open_provider(config(tmp_path), context(tmp_path)) as provider:
        await provider.delete(SPACE, ["m1"])  # type: ignore[attr-defined]
        assert (await provider.search(SPACE, Query(text="Lisbon", k=3))).hits == ()
        await provider.ingest(SPACE, MEMORIES)
        assert (await provider.search(SPACE, Query(text=" ", k=3))).hits == ()
        assert list(tmp_path.glob("mine/*")) == [tmp_path / "mine/ns.jsonl"]


@pytest.mark.parametrize("adapter", ["aqrag:Aqrag", "contextual_retrieval:ContextualRetrieval"])
async def test_searching_needs_no_language_model_but_ingest_does(tmp_path: Path, adapter: str) -> None:
    async with open_provider(config(tmp_path, adapter), context(tmp_path)) as provider:
        assert (await provider.search(SPACE, Query(text="Lisbon", k=3))).hits == ()
        with pytest.raises(ConfigError, match="mine needs a language model"):
            await provider.ingest(SPACE, MEMORIES)


async def test_a_missing_SQL_schema_file_is_a_ConfigError(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    local = "{database: {type: postgres, connectionString: 'postgresql://127.0.0.1:1/x', schema: setup.sql}}"
    with pytest.raises(ConfigError) as caught:
        async with open_provider(config(tmp_path, local=local), context(tmp_path)):
            pass
    assert (caught.value.message, caught.value.hint) == (
        "no such file: setup.sql",
        "correct the path, which is relative to the config",
    )
    (tmp_path / "setup.sql").write_text("SELECT 1;", encoding="utf-8")
    async with open_provider(config(tmp_path, local=local), context(tmp_path)) as provider:
        assert provider.durability == "service"  # nothing is asked of a database before something is needed


@each_row(
    ("local", "message"),
    [
        ("{database: {type: postgres}}", 'a database of type "postgres" needs "connectionString"'),
        ("{chunking: {size: 10, overlap: 10}}", '"overlap" must be smaller than "size"'),
        ("{chunking: {size: 0}}", "local.chunking.size"),
        ("{retrieval: {strategy: best}}", "retrieval.strategy"),
        ("{retrieval: {weights: {chunk: -1}}}", "weights.chunk"),
    ],
)
async def test_invalid_local_settings_are_refused(tmp_path: Path, local: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_provider(config(tmp_path, local=local), context(tmp_path)):
            pass
    assert message.removeprefix("local.") in str(caught.value)
