"""The built-in providers: search, restart, clearing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.errors import ConfigError
from bench.model import Memory, Query, Space
from bench.providers import Counts, Deletes, Lists, Updates
from bench.providers.adapters import builtin_config, provider_class
from bench.providers.builtin.bm25 import expression
from tests.contract.running import opened

SPACE = Space(namespace="bench-x/../y", run_id="r", benchmark="b", corpus="c")
WHEN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
MEMORIES = [
    Memory(id="a", content="Ana moved to Lisbon, Ana works at the harbour", when=WHEN, session_id="s1"),
    Memory(id="b", content="Bo moved to Porto", session_id="s2"),
    Memory(id="c", content="Nothing of note", session_id="s2"),
    Memory(id="d", content="Bo moved to Porto", session_id="s3"),
]


def ask(text: str, k: int = 10, key: str = "q") -> Query:
    return Query(text=text, k=k, key=key)


def test_expression_quotes_the_distinct_words_of_a_question() -> None:
    assert expression("Where does Ana's  ANA live?") == '"where" OR "does" OR "ana" OR "s" OR "live"'
    assert expression("?! --") == ""
    assert expression('AND "NEAR" (x*)') == '"and" OR "near" OR "x"'


async def test_bm25_ranks_by_words_and_then_by_insertion_order(tmp_path: Path) -> None:
    async with opened(builtin_config("bm25"), tmp_path) as provider:
        await provider.ingest(SPACE, MEMORIES)
        found = await provider.search(SPACE, ask("who moved to porto"))
        assert [hit.id for hit in found.hits] == ["b", "d", "a"]
        assert found.hits[0].score == found.hits[1].score
        assert found.hits[0].score is not None and found.hits[2].score is not None
        assert found.hits[0].score > found.hits[2].score
        assert (found.requested, found.returned, found.hits[0].source_ids) == (10, 3, ("b",))
        assert found.hits[2].when == WHEN
        assert [hit.id for hit in (await provider.search(SPACE, ask("moving harbours", 1))).hits] == ["a"]
        assert (await provider.search(SPACE, ask("???"))).hits == ()


async def test_the_store_of_any_namespace_is_in_the_folder_of_the_provider(tmp_path: Path) -> None:
    async with opened(builtin_config("bm25"), tmp_path / "run") as provider:
        await provider.ingest(SPACE, MEMORIES)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(path.parent == tmp_path / "run" / "bm25" for path in files)


@pytest.mark.parametrize("name", ["bm25", "full-context", "random"])
async def test_a_store_is_available_after_a_restart(name: str, tmp_path: Path) -> None:
    async with opened(builtin_config(name), tmp_path) as provider:
        assert provider.durability == "file"
        await provider.ingest(SPACE, MEMORIES)
        before = await provider.search(SPACE, ask("Ana moved"))
    async with opened(builtin_config(name), tmp_path) as provider:
        assert await provider.search(SPACE, ask("Ana moved")) == before


@pytest.mark.parametrize("name", ["bm25", "full-context"])
async def test_a_repeated_batch_is_stored_once(name: str, tmp_path: Path) -> None:
    async with opened(builtin_config(name), tmp_path) as provider:
        assert provider.on_unknown == "repeat"
        await provider.ingest(SPACE, MEMORIES)
        before = await provider.search(SPACE, ask("moved porto"))
        await provider.ingest(SPACE, MEMORIES[1:3])
        assert await provider.search(SPACE, ask("moved porto")) == before
        assert isinstance(provider, Counts)
        assert await provider.count(SPACE) == 4


async def test_bm25_deletes_and_lists_by_memory_id(tmp_path: Path) -> None:
    async with opened(builtin_config("bm25"), tmp_path) as provider:
        assert isinstance(provider, Deletes) and isinstance(provider, Lists)
        assert not isinstance(provider, Updates) and "update_memory" not in provider.capabilities.operations
        await provider.ingest(SPACE, MEMORIES)
        await provider.delete(SPACE, ["b", "unknown"])
        assert [hit.id for hit in (await provider.search(SPACE, ask("moved"))).hits] == ["d", "a"]
        assert [hit.id for hit in await provider.list(SPACE)] == ["a", "c", "d"]
        assert [hit.id for hit in await provider.list(SPACE, "s3")] == ["d"]


async def test_clear_removes_one_namespace_and_may_be_repeated(tmp_path: Path) -> None:
    other = Space(namespace="other", run_id="r", benchmark="b", corpus="c")
    async with opened(builtin_config("bm25"), tmp_path) as provider:
        await provider.ingest(SPACE, MEMORIES)
        await provider.ingest(other, MEMORIES[:1])
        assert [await provider.clear(SPACE), await provider.clear(SPACE)] == [4, 0]
        assert (await provider.search(SPACE, ask("Ana"))).hits == ()
        assert len((await provider.search(other, ask("Ana"))).hits) == 1
        await provider.ingest(SPACE, MEMORIES[:1])
        assert len((await provider.search(SPACE, ask("Ana"))).hits) == 1


async def test_full_context_returns_all_memories_in_order(tmp_path: Path) -> None:
    async with opened(builtin_config("full-context"), tmp_path) as provider:
        assert provider.unbounded
        await provider.ingest(SPACE, MEMORIES)
        found = await provider.search(SPACE, ask("anything", 1))
        assert [hit.id for hit in found.hits] == ["a", "b", "c", "d"]


async def test_random_draws_by_seed_and_question_without_repetition(tmp_path: Path) -> None:
    many = [Memory(id=f"m{i}", content=str(i)) for i in range(40)]
    async with opened(builtin_config("random"), tmp_path) as provider:
        assert not provider.keeps_store
        await provider.ingest(SPACE, many)
        draws = [
            tuple(hit.id for hit in (await provider.search(SPACE, ask("x", 10, key))).hits)
            for key in ("q1", "q1", "q2")
        ]
        assert draws[0] == draws[1] != draws[2]
        assert all(len(set(draw)) == 10 for draw in draws)
        assert len((await provider.search(SPACE, ask("x", 99))).hits) == 40


async def test_no_memory_returns_no_hits(tmp_path: Path) -> None:
    async with opened(builtin_config("no-memory"), tmp_path) as provider:
        await provider.ingest(SPACE, MEMORIES)
        found = await provider.search(SPACE, ask("Ana"))
        assert (found.hits, found.ids_available) == ((), True)
    assert not list(tmp_path.rglob("*.sqlite"))


async def test_vector_ranks_by_exact_cosine_and_reads_its_file_after_a_restart(
    fault_server: Callable[..., str], tmp_path: Path
) -> None:
    url = fault_server()
    variables = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "k" * 8}
    async with opened(builtin_config("vector"), tmp_path, variables) as provider:
        await provider.ingest(SPACE, MEMORIES)
        found = await provider.search(SPACE, ask("Bo moved to Porto"))
        assert [hit.id for hit in found.hits[:2]] == ["b", "d"]
        assert found.hits[0].score == pytest.approx(1.0, abs=1e-6)
        scores = [hit.score or 0.0 for hit in found.hits]
        assert scores == sorted(scores, reverse=True)
    async with opened(builtin_config("vector"), tmp_path, variables) as provider:
        assert await provider.search(SPACE, ask("Bo moved to Porto")) == found
        await provider.delete(SPACE, ["b"])  # type: ignore[attr-defined]
        assert "b" not in [hit.id for hit in (await provider.search(SPACE, ask("Bo moved to Porto"))).hits]


async def test_vector_without_embedder_is_a_ConfigError(tmp_path: Path) -> None:
    from bench.http import Http
    from bench.providers import ProviderContext, open_provider
    from bench.settings import Environment

    async with Http() as http:
        context = ProviderContext(http=http, environment=Environment({}), run_dir=tmp_path)
        with pytest.raises(ConfigError, match="needs an embedding model"):
            async with open_provider(builtin_config("vector"), context):
                pass


async def test_many_namespaces_use_at_most_8_open_files(tmp_path: Path) -> None:
    async with opened(builtin_config("bm25"), tmp_path) as provider:
        for index in range(30):
            space = Space(namespace=f"n{index}", run_id="r", benchmark="b", corpus="c")
            await provider.ingest(space, MEMORIES[:1])
        assert len(provider.stores._open) <= 8  # type: ignore[attr-defined]
        for index in range(30):
            space = Space(namespace=f"n{index}", run_id="r", benchmark="b", corpus="c")
            assert len((await provider.search(space, ask("Ana"))).hits) == 1


async def test_concurrent_searches_share_a_store(tmp_path: Path) -> None:
    import anyio

    async with opened(builtin_config("bm25"), tmp_path) as provider:
        await provider.ingest(SPACE, MEMORIES)
        found: list[int] = []

        async def search() -> None:
            found.append(len((await provider.search(SPACE, ask("moved"))).hits))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(search)
        assert found == [3] * 50


def test_oracle_has_no_provider_class() -> None:
    with pytest.raises(ConfigError, match="part of the engine"):
        provider_class(builtin_config("oracle"))
