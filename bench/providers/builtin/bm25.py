"""Search memories by BM25 with SQLite FTS5. Every retrieval table shows this provider for comparison.

The query joins the distinct words of the question with OR. Text in a script without spaces is split into characters and
pairs of characters (``bench.metrics.answers.text_normalization``). Hits with equal scores are in the order in which
they were stored. A memory that shares no word with the question is not returned::

    expression("Where does Ana's sister live?")     # '"where" OR "does" OR "ana" OR "s" OR "sister" OR "live"'
"""

from __future__ import annotations

from bench.metrics.answers.text_normalization import index_terms
from bench.model import Hit, Query, Space
from bench.providers.builtin.base import BuiltInProvider
from bench.providers.builtin.namespace_file import NamespaceFile


def expression(text: str) -> str:
    """Return the FTS5 search expression for a question; "" if the question has no word."""
    return " OR ".join(f'"{token}"' for token in index_terms(text))


class Bm25(BuiltInProvider):
    """The provider ``builtin:bm25``: finds memories that share words with the question."""

    full_text = True

    async def hits(self, space: Space, store: NamespaceFile, query: Query) -> list[Hit]:
        """Return the k best hits. FTS5 gives negative scores; their signs are changed, so that higher is better."""
        wanted = expression(query.text)
        if not wanted:
            return []
        rows = await store.match(wanted, query.k)
        return [row.hit(None if row.score is None else -row.score) for row in rows]

    async def upstream_version(self) -> str:
        """Return the version of SQLite."""
        import sqlite3

        return f"sqlite {sqlite3.sqlite_version}"
