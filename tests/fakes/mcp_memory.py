"""A small MCP memory server over stdio: substring search, namespaces, one tool that answers in plain text.

``python mcp_memory.py`` speaks MCP on stdin and stdout, ``python mcp_memory.py PORT`` on ``/mcp`` of that port.
"""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer

server = MCPServer("memory")
spaces: dict[str, dict[str, str]] = {}


@server.tool()
def remember(namespace: str, items: list[dict[str, str]]) -> dict[str, int]:
    """Store memories by id."""
    print("remembering", len(items), file=sys.stderr, flush=True)
    if any(not item["content"] for item in items):
        raise ValueError("content is empty")
    spaces.setdefault(namespace, {}).update({item["id"]: item["content"] for item in items})
    return {"stored": len(items)}


@server.tool()
def recall(namespace: str, query: str, limit: int) -> dict[str, list[dict[str, str]]]:
    """Find memories that share a word with the query, most words first."""
    words = set(query.lower().split())
    rows = [(len(words & set(text.lower().split())), key, text) for key, text in spaces.get(namespace, {}).items()]
    found = sorted((row for row in rows if row[0]), key=lambda row: -row[0])[:limit]
    return {"memories": [{"id": key, "text": text} for _, key, text in found]}


@server.tool(structured_output=False)
def recall_text(namespace: str, query: str) -> str:
    """The same as plain text."""
    return "\n".join(row["text"] for row in recall(namespace, query, 99)["memories"])


@server.tool()
def recall_wrapped(namespace: str, query: str) -> str:
    """The same, also as structured content: an object with the key ``result``."""
    return recall_text(namespace, query)


@server.tool(structured_output=False)
def recall_parts(namespace: str, query: str) -> list[str]:
    """The same as one text per memory."""
    return [row["text"] for row in recall(namespace, query, 99)["memories"]]


@server.tool()
def forget(namespace: str) -> dict[str, int]:
    """Remove a namespace."""
    return {"forgotten": len(spaces.pop(namespace, {}))}


@server.tool()
def size(namespace: str) -> dict[str, int]:
    """Count a namespace."""
    return {"size": len(spaces.get(namespace, {}))}


@server.tool()
def die() -> str:
    """End without an answer."""
    os._exit(1)


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
