"""Engram's two tools over stdio: chunks with ids of its own, a duplicate check that swallows, a strict schema.

``python engram.py`` speaks MCP on stdin and stdout.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Annotated, Literal

from mcp.server import MCPServer
from pydantic import Field

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.frame import alike, best

ALIKE = 0.75
server = MCPServer("engram")
chunks: list[dict[str, str]] = []


def found(query: str, domain: str | None, most: int) -> list[tuple[float, dict[str, str]]]:
    rows = [one for one in chunks if domain in (None, one["domain"])]
    return best(rows, lambda one: alike(query, one["content"]), most)


@server.tool(name="engram-ingest", structured_output=False)
def ingest(
    content: str,
    source: str | None = None,
    domain: str | None = None,
    topic: str | None = None,
    tags: str | None = None,
    type: Literal["fact", "preference", "decision", "context", "correction"] | None = None,  # noqa: A002
    skipDedupe: bool = False,
) -> str:
    """Save a memory; a similar one is saved only if the caller requests it."""
    if os.environ.get("STORAGE_BACKEND", "file") != "file":
        raise ValueError("only files")
    twins = [] if skipDedupe else [one for score, one in found(content, None, 5) if score >= ALIKE]
    if twins:
        return json.dumps({"ingested": 0, "duplicate": True, "similar": twins})
    chunk = {"id": str(uuid.uuid4()), "content": content, "source": source or "", "domain": domain or ""}
    chunks.append(chunk)
    return json.dumps({"ingested": 1, "memory": {**chunk, "type": "fact", "layer": "semantic"}})


@server.tool(name="engram-search", structured_output=False)
def search(
    query: str, maxResults: Annotated[int, Field(ge=1, le=500)] = 10, domain: str | None = None, tag: str | None = None
) -> str:
    """Search memories of a domain."""
    rows = [{**one, "score": round(score, 3), "tier": "short-term"} for score, one in found(query, domain, maxResults)]
    return json.dumps({"total": len(rows), "selected": len(rows), "results": rows})


if __name__ == "__main__":
    server.run()
