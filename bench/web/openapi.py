"""Create the OpenAPI document of the API. It is the same for ``bench explore`` and ``bench serve``.

Example::

    openapi_document(ENDPOINTS)["paths"]["/api/v1/runs"]["post"]["summary"]
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from bench.untyped_values import Json
from bench.version import __version__
from bench.web.security import Handler

OPEN = ("/healthz", "/readyz")


class ApiEndpoint(NamedTuple):
    """One HTTP method of one path of the API."""

    method: str
    path: str
    summary: str
    handler: Handler
    query: str = ""
    """names of the query parameters, separated by spaces"""
    status: int = 200
    """HTTP status of a successful response"""


@cache
def openapi_document(endpoints: tuple[ApiEndpoint, ...]) -> Json:
    """Return the OpenAPI document that describes these endpoints."""
    from bench.config.json_schema import DescribedJsonSchema
    from bench.config.run import RunRequest

    paths: dict[str, Json] = {}
    for one in endpoints:
        paths.setdefault(f"/api/v1{one.path}", {})[one.method] = _operation(one)
    schema = RunRequest.model_json_schema(
        ref_template="#/components/schemas/{model}", schema_generator=DescribedJsonSchema
    )
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


def _operation(endpoint: ApiEndpoint) -> Json:
    method, path, text = endpoint.method, endpoint.path, {"type": "string"}
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    found: Json = {
        "operationId": method + re.sub(r"\W+", "_", path).rstrip("_"),
        "summary": endpoint.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"{(\w+)}", path)),
            *({"name": name, "in": "query", "required": False, "schema": text} for name in endpoint.query.split()),
        ],
        "responses": {
            str(endpoint.status): {"description": "success"},
            "default": {"description": "what was wrong, and what to do", "content": {"application/json": error}},
        },
    }
    if path in OPEN:
        found["security"] = []
    if (method, path) == ("post", "/runs"):
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RunRequest"}}},
        }
    return found


def _error_schema() -> Json:
    texts = {name: {"type": "string"} for name in ("kind", "message", "hint")}
    inner = {"type": "object", "properties": texts, "required": list(texts)}
    return {"type": "object", "properties": {"error": inner}, "required": ["error"]}
