"""Store memories in PostgreSQL with the pgvector extension, and search them by cosine distance.

The config names the database and the index::

    adapter: bench.providers.pgvector:Pgvector
    local: {url: "${PGVECTOR_URL}", index: exact}

The database is contacted only when it is first needed. If it is unreachable, only the corpora of this provider fail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Self

import psycopg
from anyio import CancelScope, Lock, Semaphore

from bench.config.file import ConfigModel
from bench.errors import ConfigError
from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers.adapters import local_of
from bench.providers.embedding import question_vector, required_embedder
from bench.providers.endpoints import Traffic, endpoints_of
from bench.providers.postgres import Connection, Database, json_body, storable, vector_literal
from bench.providers.protocol import Durability, OnUnknown, ProviderContext, Waiting
from bench.providers.statements import statements
from bench.untyped_values import instant, number

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

SQL = statements(__file__, "pgvector.sql")
CONNECTIONS = 8


class PgvectorLocal(ConfigModel):
    """The settings under ``local:`` of a pgvector config."""

    url: str
    """URL of the database; a password in it must be an environment variable"""
    index: Literal["exact", "hnsw"] = "exact"
    """hnsw is approximate and needs client_embeddings.dimensions"""


class Pgvector:
    """A provider that stores all namespaces in one table. A stored memory with the same id is replaced."""

    durability: Durability = "service"
    on_unknown: OnUnknown = "repeat"
    wait = Waiting()

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        self._http = context.http
        self._endpoints = endpoints_of(config)
        self._local = local_of(config, PgvectorLocal)
        self._embedder = required_embedder(config, context.embedder)
        self._database = Database.resolve(config.name, self._local.url, context, where=config.place("local", "url"))
        self._dimensions = config.client_embeddings.dimensions if config.client_embeddings else None
        if self._local.index == "hnsw" and self._dimensions is None:
            raise ConfigError(
                'index "hnsw" needs client_embeddings.dimensions',
                where=config.place("local", "index"),
                hint='add "dimensions", or write index: exact',
            )
        self._idle: list[Connection] = []
        self._free = Semaphore(CONNECTIONS)
        self._made = False
        self._making = Lock()  # keeps true that the table is made once, before any other statement

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        with CancelScope(shield=True):  # an open connection would outlive the run
            while self._idle:
                await self._idle.pop().close()

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Embed the memories, and store them in one transaction."""
        vectors = await self._embedder.embed([memory.content for memory in memories], kind="document")
        rows = [
            (space.namespace, memory.id, storable(memory.content), json_body(_metadata(memory)), vector_literal(vector))
            for memory, vector in zip(memories, vectors, strict=True)
        ]
        async with self._run("add") as connection, connection.transaction(), connection.cursor() as cursor:
            await cursor.executemany(SQL["put"], rows)
        return Ingested(ids={memory.id: (memory.id,) for memory in memories})

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return "ready", because a row can be found as soon as it is committed."""
        return Readiness(state="ready")

    async def search(self, space: Space, query: Query) -> Found:
        """Return the k memories nearest to the question by cosine. Memories at equal distance are ordered by id.

        A blank question finds nothing.
        """
        if not query.text.strip():
            return Found(requested=query.k)
        wanted = vector_literal(query.embedding or await question_vector(self._embedder, query.text))
        sql = self._sized("search_index") if self._local.index == "hnsw" else SQL["search"]
        hits = await self._hits("search", sql, {"wanted": wanted, "ns": space.namespace, "k": query.k})
        return Found(hits=hits, requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        """Delete all memories of the namespace; return how many there were."""
        async with self._run("manage") as connection:
            return (await connection.execute(SQL["clear"], (space.namespace,))).rowcount

    async def count(self, space: Space) -> int:
        """Return the number of memories in the namespace."""
        async with self._run("status") as connection:
            row = await (await connection.execute(SQL["count"], (space.namespace,))).fetchone()
        return int(str(row[0])) if row else 0

    async def delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories with these ids."""
        async with self._run("manage") as connection:
            await connection.execute(SQL["delete"], (space.namespace, list(memory_ids)))

    async def update(self, space: Space, memories: Sequence[Memory]) -> None:
        """Replace the stored memories that have the same ids."""
        await self.ingest(space, memories)

    async def list(self, space: Space, session_id: str | None = None) -> list[Hit]:
        """Return all memories of the namespace, or only those of one session, ordered by id."""
        return [*await self._hits("search", SQL["list"], {"ns": space.namespace, "session": session_id})]

    async def upstream_version(self) -> str:
        """Return the versions of PostgreSQL and of the pgvector extension."""
        async with self._run("status") as connection:
            row = await (await connection.execute(SQL["version"])).fetchone()
        return f"PostgreSQL {row[0]}, vector {row[1]}" if row else "PostgreSQL"

    async def _hits(self, traffic: Traffic, sql: str, values: Mapping[str, object]) -> tuple[Hit, ...]:
        async with self._run(traffic) as connection:
            rows = await (await connection.execute(sql, values)).fetchall()
        return tuple(_hit(row) for row in rows)

    def _sized(self, name: str) -> str:
        return SQL[name].format(dimensions=self._dimensions, index=f"bench_memories_cosine_{self._dimensions}")

    @asynccontextmanager
    async def _run(self, traffic: Traffic) -> AsyncIterator[Connection]:
        """Yield a database connection, within the run's limits for this kind of request.

        After an error, the connection is closed and not used again.
        """
        async with self._http.admit(self._endpoints[traffic], "SQL"), self._free:
            connection = None
            try:
                connection = self._idle.pop() if self._idle else await self._connect()
                yield connection
                self._idle.append(connection)
            except psycopg.Error as error:
                raise self._database.failure_of(error) from error
            finally:
                if connection is not None and connection not in self._idle:
                    with CancelScope(shield=True):
                        await connection.close()

    async def _connect(self) -> Connection:
        connection = await self._database.connect()
        try:
            async with self._making:
                if not self._made:
                    await self._make(connection)
                    self._made = True
        except BaseException:  # a cancelled one would stay open as well
            with CancelScope(shield=True):
                await connection.close()
            raise
        return connection

    async def _make(self, connection: Connection) -> None:
        """Create the extension, the table and the configured index if they do not exist."""
        async with connection.transaction():
            await connection.execute(SQL["lock"])
            await connection.execute(SQL["create_extension"])
            await connection.execute(SQL["create"])
            if self._local.index == "hnsw":
                await connection.execute(self._sized("create_index"))


def _hit(row: Sequence[object]) -> Hit:
    memory_id, content, metadata, score = row[0], row[1], row[2], row[3]
    when = metadata.get("when") if isinstance(metadata, dict) else None
    return Hit(
        id=str(memory_id),
        content=str(content),
        score=number(str(score)),
        source_ids=(str(memory_id),),
        when=instant(when),
    )


def _metadata(memory: Memory) -> dict[str, object]:
    when = memory.when.isoformat() if memory.when else None
    return {"bench_id": memory.id, "session": memory.session_id, "when": when}
