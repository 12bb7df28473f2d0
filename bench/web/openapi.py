"""The OpenAPI document of the API, the same in ``explore`` and ``serve``.

Example::

    document()["paths"]["/api/v1/runs"]["post"]["summary"]
"""

from __future__ import annotations

import re
from functools import cache

from bench.version import __version__
from bench.web.kept import Json

PATHS: tuple[tuple[str, str, str, tuple[str, ...], int], ...] = (
    ("get", "/runs", "All runs of the workspace, newest first", (), 200),
    ("post", "/runs", "Start a run: the body is a run file's content", (), 202),
    ("get", "/runs/{run_id}", "One run: state, progress, jobs, digests, numbers", (), 200),
    ("post", "/runs/{run_id}/pause", "Stop cleanly; a later resume goes on", (), 202),
    ("post", "/runs/{run_id}/resume", "Go on with a run", (), 202),
    ("post", "/runs/{run_id}/cancel", "Stop cleanly and leave it stopped", (), 202),
    ("get", "/runs/{run_id}/results", "The numbers, as bench results --json", (), 200),
    (
        "get",
        "/runs/{run_id}/items",
        "A page of items x providers",
        ("cursor", "limit", "benchmark", "provider", "type", "state", "q", "sort"),
        200,
    ),
    ("get", "/runs/{run_id}/items/{item}", "Everything of one item", ("provider",), 200),
    ("get", "/runs/{run_id}/events", "Live updates (text/event-stream, Last-Event-ID resumes)", (), 200),
    (
        "get",
        "/compare",
        "Two or more jobs RUN:PROVIDER compared",
        ("a", "b", "job", "metric", "benchmark", "force"),
        200,
    ),
    (
        "get",
        "/leaderboard",
        "Comparable results side by side",
        ("view", "benchmark", "provider_type", "model", "type"),
        200,
    ),
    ("get", "/receipts", "Receipts with their verification", (), 200),
    ("get", "/configs", "Every config with its problems", (), 200),
    ("get", "/configs/{kind}/{name}", "One config with its text", (), 200),
    ("get", "/openapi.json", "This document", (), 200),
    ("get", "/healthz", "The process answers", (), 200),
    ("get", "/readyz", "The workspace can be used", (), 200),
    ("get", "/metrics", "Prometheus metrics", (), 200),
)
OPEN = ("/healthz", "/readyz")


@cache
def document() -> Json:
    """The whole document."""
    from bench.config.described import Described
    from bench.config.run import RunRequest

    paths: dict[str, Json] = {}
    for method, path, summary, query, status in PATHS:
        paths.setdefault(f"/api/v1{path}", {})[method] = _operation(method, path, summary, query, status)
    schema = RunRequest.model_json_schema(ref_template="#/components/schemas/{model}", schema_generator=Described)
    parts = schema.pop("$defs", {})
    return {
        "openapi": "3.1.0",
        "info": {"title": "bench", "version": __version__, "description": "Runs, results and receipts of a workspace."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**parts, "RunRequest": schema, "Error": _error_schema()},
        },
    }


def _operation(method: str, path: str, summary: str, query: tuple[str, ...], status: int) -> Json:
    names = re.findall(r"{(\w+)}", path)
    text: Json = {"type": "string"}
    found: Json = {
        "operationId": method + re.sub(r"\W+", "_", path).rstrip("_"),
        "summary": summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": text} for name in names),
            *({"name": name, "in": "query", "required": False, "schema": text} for name in query),
        ],
        "responses": {str(status): {"description": "as asked"}, "default": _error_answer()},
    }
    if path in OPEN:
        found["security"] = []
    if (method, path) == ("post", "/runs"):
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RunRequest"}}},
        }
    return found


def _error_answer() -> Json:
    schema = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {"description": "what was wrong, and what to do", "content": {"application/json": schema}}


def _error_schema() -> Json:
    texts = {name: {"type": "string"} for name in ("kind", "message", "hint")}
    inner = {"type": "object", "properties": texts, "required": list(texts)}
    return {"type": "object", "properties": {"error": inner}, "required": ["error"]}
