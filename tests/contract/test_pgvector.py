"""pgvector beyond the contract suite: rows by id, unusual text, and a database that is not running."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from bench.config.file import Source
from bench.config.provider.file import load_provider
from bench.errors import ConfigError, Unavailable
from bench.http import recording
from bench.model import Memory, Query, Space
from bench.providers import Provider
from tests.contract.running import opened
from tests.contract.servers import free_port
from tests.contract.test_contract import embeddings

SPACE = Space(namespace="pg-one", run_id="r", benchmark="b", corpus="c")


@asynccontextmanager
async def pgvector(
    root: Path, folder: Path, fault_url: str, url: str, old: str = "", new: str = ""
) -> AsyncIterator[Provider]:
    text = (root / "configs/providers/pgvector.yaml").read_text(encoding="utf-8")
    config = load_provider(Source.parse(text.replace(old, new) if old else text, folder / "pgvector.yaml"))
    async with opened(config, folder, {**embeddings(fault_url), "PGVECTOR_URL": url}) as provider:
        yield provider


async def test_pgvector_updates_deletes_and_lists_rows_by_id_and_session(
    postgres_url: str, root: Path, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    async with pgvector(root, tmp_path, fault_server(), postgres_url) as provider:
        memories = [Memory(id=f"m{i}", content=f"note {i} \0 \ud800", session_id=f"s{i % 2}") for i in range(4)]
        with recording() as calls:
            await provider.ingest(SPACE, memories)
        assert [call.endpoint for call in calls if call.role == "provider"] == ["pgvector.add"]
        await provider.delete(SPACE, ["m0"])  # type: ignore[attr-defined]
        await provider.update(SPACE, [replace(memories[1], content="changed")])  # type: ignore[attr-defined]
        listed = await provider.list(SPACE, "s1")  # type: ignore[attr-defined]
        assert [(hit.id, hit.content) for hit in listed] == [("m1", "changed"), ("m3", "note 3 \ufffd ?")]
        assert await provider.count(SPACE) == 3  # type: ignore[attr-defined]
        assert (await provider.search(SPACE, Query(text="changed", k=1))).hits[0].id == "m1"
        assert [await provider.clear(SPACE), await provider.clear(SPACE)] == [3, 0]


async def test_call_to_a_stopped_database_is_unavailable_and_shows_no_password(
    root: Path, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    url = f"postgresql://bench:hunter2secret@127.0.0.1:{free_port()}/none"
    async with pgvector(root, tmp_path, fault_server(), url) as provider:
        with pytest.raises(Unavailable) as caught:
            await provider.ingest(SPACE, [Memory(id="a", content="x")])
        assert "hunter2secret" not in str(caught.value)


async def test_unknown_pgvector_key_and_hnsw_without_dimensions_are_config_errors(
    postgres_url: str, root: Path, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    for new, text in (("indx: exact", 'did you mean "index"'), ("index: hnsw", "needs client_embeddings.dimensions")):
        with pytest.raises(ConfigError, match=text):
            async with pgvector(root, tmp_path, fault_server(), postgres_url, "index: exact", new):
                pass
