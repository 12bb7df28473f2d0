"""Weaviate: classes, batches with a result for each object, GraphQL whose errors come with status 200."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import UUID, Fault, many, mapping, optional, table, text, vector, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, best, cosine
from tests.fakes.shelf import Doc

CLASS = r"[A-Z][_0-9A-Za-z]*"
GET = re.compile(
    r"\{\s*Get\s*\{\s*(\w+)\s*\(\s*nearVector:\s*\{\s*vector:\s*(\[[^\]]*\])\s*\}\s*,\s*limit:\s*(\d+)\s*\)\s*"
    r"\{([\w\s]*)_additional\s*\{\s*id\s+distance\s*\}\s*\}\s*\}\s*\}"
)
MOST = 10_000


class Weaviate(Fake):
    """A class holds objects with the vectors that came with them."""

    background = False
    auth = Key("Authorization", "Bearer ", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"WEAVIATE_URL": "URL", "WEAVIATE_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        """contents that a batch refuses inside its 200"""

    def routes(self) -> Mapping[str, Route]:
        return {
            "GET /v1/.well-known/ready": self.ready,
            "GET /v1/meta": self.meta,
            "POST /v1/schema": self.create,
            "GET /v1/schema/{name}": self.get,
            "DELETE /v1/schema/{name}": self.clear,
            "POST /v1/batch/objects": self.batch,
            "GET /v1/objects": self.objects,
            "POST /v1/graphql": self.graphql,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        return _error(422, f"{faults[0].kind}: {faults[0].name}")

    def unauthorized(self) -> Refusal:
        return _error(401, "anonymous access not enabled")

    async def ready(self, call: Called) -> Reply:
        return 200, {}

    async def meta(self, call: Called) -> Reply:
        return 200, {"hostname": "http://[::]:8080", "modules": {}, "version": "1.32.0"}

    async def create(self, call: Called) -> Reply:
        properties = many(table(name=text(), dataType=many(text("text", "date", "int", "number", "boolean"))))
        config = optional(mapping())
        body = call.body(
            table(
                {"class": text(pattern=CLASS)}, vectorizer=text("none"), properties=properties, vectorIndexConfig=config
            )
        )
        name = str(body["class"])
        if name in self.shelf.spaces:
            raise _error(422, f'class name "{name}" already exists')
        self.shelf.spaces[name] = {}
        return 200, body

    async def get(self, call: Called) -> Reply:
        if call.parts[0] not in self.shelf.spaces:
            raise Refusal(404, None)
        return 200, {"class": call.parts[0]}

    async def clear(self, call: Called) -> Reply:
        self.shelf.spaces.pop(call.parts[0], None)
        return 200, None

    async def batch(self, call: Called) -> Reply:
        one = table({"class": text(pattern=CLASS)}, id=text(pattern=UUID), properties=mapping(), vector=vector())
        body = call.body(table(objects=many(one, least=1)))
        objects = body["objects"]
        assert isinstance(objects, list)
        return 200, [self._put(one) for one in objects]

    def _put(self, one: dict[str, object]) -> dict[str, object]:
        properties = one["properties"]
        assert isinstance(properties, dict) and isinstance(one["vector"], list)
        problem = None
        if one["class"] not in self.shelf.spaces:
            problem = f"class {one['class']} not found"
        elif properties.get("content") in self.refuses:
            problem = "vector lengths don't match"
        if problem is not None:
            return one | {"result": {"status": "FAILED", "errors": {"error": [{"message": problem}]}}}
        doc = Doc(id=str(one["id"]), content="", vector=one["vector"], metadata=properties)
        self.shelf.replace(str(one["class"]), doc)
        return one | {"result": {"status": "SUCCESS"}}

    async def objects(self, call: Called) -> Reply:
        asked = call.ask(table({"class": text()}, limit=optional(whole(most=MOST))))
        name = str(asked["class"])
        if name not in self.shelf.spaces:
            raise _error(422, f"class {name} not found")
        rows = [{"class": name, "id": doc.id} for doc in self.shelf.all(name)]
        return 200, {"objects": rows[: int(str(asked.get("limit", 25)))], "totalResults": len(rows)}

    async def graphql(self, call: Called) -> Reply:
        """Return every error with status 200."""
        body = call.body(table(query=text()))
        found = GET.fullmatch(str(body["query"]).strip())
        if found is None:
            return _graphql_error("Syntax Error GraphQL request")
        name, wanted, limit, fields = found.groups()
        if name not in self.shelf.spaces:
            return _graphql_error(f'Cannot query field "{name}" on type "GetObjectsObj".')
        if int(limit) > MOST:
            return _graphql_error("query maximum results exceeded")
        asked = json.loads(wanted)
        unknown = set(fields.split()) - {"bench_id", "content", "when"}
        if unknown:
            return _graphql_error(f'Cannot query field "{unknown.pop()}" on type "{name}".')
        docs = self.shelf.all(name)
        if any(len(doc.vector) != len(asked) for doc in docs):
            return _graphql_error("vector lengths don't match")
        rows = [
            {key: doc.metadata.get(key) for key in fields.split()}
            | {"_additional": {"id": doc.id, "distance": 1 - score}}
            for score, doc in best(docs, lambda doc: cosine(asked, doc.vector), int(limit))
        ]
        return 200, {"data": {"Get": {name: rows}}}


def _graphql_error(message: str) -> Reply:
    return 200, {"data": {"Get": None}, "errors": [{"locations": [{"column": 1, "line": 1}], "message": message}]}


def _error(status: int, message: str) -> Refusal:
    return Refusal(status, {"error": [{"message": message}]})
