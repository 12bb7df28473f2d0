"""Store chunks in PostgreSQL with the pgvector extension, and search them by exact cosine.

Each batch is written in one transaction. The driver comes with the extra ``[pgvector]``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict

import psycopg
from anyio import CancelScope, Lock

from bench.processor_time import wall_timed
from bench.providers.embedding import Vector
from bench.providers.postgres import Connection, Database, json_body, storable, vector_literal
from bench.providers.rag.index import Piece, Similarities
from bench.providers.statements import statements

SQL = statements(__file__, "postgres.sql")


class PostgresIndex:
    """A ChunkIndex in PostgreSQL. It has one connection, which only one call uses at a time."""

    def __init__(self, database: Database, schema: str | None) -> None:
        self._database = database
        self._schema = schema
        self._connection: Connection | None = None
        self._lock = Lock()
        """ensures that the connection runs one transaction at a time"""

    async def put(self, namespace: str, pieces: Sequence[Piece]) -> None:
        """Store the chunks and their vectors in one transaction. Chunks with existing ids are replaced."""
        rows = [(namespace, storable(one.id), storable(one.memory), _body(one)) for one in pieces]
        vectors = [
            (namespace, storable(one.id), kind, vector_literal(v)) for one in pieces for kind, v in _vectors(one)
        ]
        async with self._transaction() as connection, connection.cursor() as cursor:
            await cursor.executemany(SQL["drop"], [row[:2] for row in rows])
            await cursor.executemany(SQL["put_piece"], rows)
            await cursor.executemany(SQL["put_vector"], vectors)

    async def pieces(self, namespace: str) -> Mapping[str, Piece]:
        """Return all chunks of the namespace by id, in the order in which they were stored."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(SQL["pieces"], (namespace,))).fetchall()
        found = [_piece(row[0]) for row in rows]
        return {piece.id: piece for piece in found}

    async def similarities(self, namespace: str, vector: Vector) -> Similarities:
        """Return for each chunk its exact cosine with ``vector``, and the cosine of its best generated question."""
        values = {"ns": namespace, "wanted": vector_literal(vector)}
        async with self._transaction() as connection:
            rows = await (await connection.execute(SQL["alike"], values)).fetchall()
        return Similarities(
            chunks={str(key): float(str(score)) for key, kind, score in rows if kind == "chunk"},
            questions={str(key): float(str(score)) for key, kind, score in rows if kind == "question"},
        )

    async def delete(self, namespace: str, memories: Sequence[str]) -> None:
        """Delete all chunks of the memories with these ids."""
        async with self._transaction() as connection:
            await connection.execute(SQL["forget"], (namespace, list(memories)))

    async def clear(self, namespace: str) -> int:
        """Delete the namespace; return how many chunks it had."""
        async with self._transaction() as connection:
            return (await connection.execute(SQL["clear"], (namespace,))).rowcount

    async def close(self) -> None:
        """Close the connection, even if the task is canceled. An open connection would outlive the run."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with CancelScope(shield=True):
                await connection.close()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        async with self._lock:
            try:
                with wall_timed():
                    connection = self._connection or await self._connect()
                    async with connection.transaction():
                        yield connection
            except psycopg.Error as error:
                await self.close()
                raise self._database.failure_of(error) from error

    async def _connect(self) -> Connection:
        connection = await self._database.connect()
        self._connection = connection
        async with connection.transaction():
            await connection.execute(SQL["lock"])
            if self._schema is not None:
                await connection.execute(self._schema.encode())
            for name in ("create_extension", "create_pieces", "create_vectors", "create_index"):
                await connection.execute(SQL[name])
        return connection


def _vectors(piece: Piece) -> list[tuple[str, Vector]]:
    return [("chunk", piece.vector), *(("question", vector) for vector in piece.question_vectors)]


def _body(piece: Piece) -> str:
    return json_body({**asdict(piece), "vector": [], "question_vectors": []})


def _piece(row: object) -> Piece:
    assert isinstance(row, dict)
    lists = {name: tuple(row[name]) for name in ("questions", "flags", "vector", "question_vectors")}
    return Piece(**{**row, **lists})
