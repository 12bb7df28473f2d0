"""The journal's schema by numbers: ``PRAGMA user_version`` says which one a file has.

A migration is one numbered entry of ``MIGRATIONS``; it runs in one transaction together with its
record, so a file is always of exactly one version. Never edit an entry that was released: add one.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiosqlite

from bench.journal.sql import blocks

APPLICATION_ID = 0x4D424A31
"""the bytes ``MBJ1`` in the header of every journal"""

MIGRATIONS: Mapping[int, str] = {1: blocks("schema")["schema"]}
VERSION = max(MIGRATIONS)


async def migrate(connection: aiosqlite.Connection, migrations: Mapping[int, str] = MIGRATIONS) -> int:
    """Bring a file to the newest version, a transaction a step; returns the version it had."""
    async with connection.execute("PRAGMA user_version") as cursor:
        row = await cursor.fetchone()
    found = int(row[0]) if row else 0
    for number in sorted(migrations):
        if number > found:
            # executescript commits first, so the transaction is part of the script
            await connection.executescript(
                f"BEGIN IMMEDIATE;\n{migrations[number]}\nPRAGMA user_version = {number};\nCOMMIT;"
            )
    return found
