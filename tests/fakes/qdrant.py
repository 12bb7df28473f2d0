"""Qdrant: collections of one vector size, points whose ids are numbers or UUIDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import UUID, Fault, flag, many, mapping, of, optional, table, text, vector, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, best, cosine
from tests.fakes.shelf import Doc


class Qdrant(Fake):
    """Exact cosine over what was upserted."""

    background = False
    auth = Key("api-key", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"QDRANT_URL": "URL", "QDRANT_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}

    def routes(self) -> Mapping[str, Route]:
        collection = "/collections/{name}"
        return {
            "GET /": self.version,
            "GET /readyz": self.ready,
            f"PUT {collection}": self.create,
            f"GET {collection}": self.get,
            f"DELETE {collection}": self.clear,
            f"PUT {collection}/points": self.upsert,
            f"POST {collection}/points/query": self.query,
            f"POST {collection}/points/count": self.count,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        one = faults[0]
        if one.kind == "dimension":
            return _error(400, f"Wrong input: Vector dimension error: expected dim: {self.sizes}, got {one.value}")
        return _error(400, f"Format error in JSON body: {one.kind} field `{one.name}`")

    def unauthorized(self) -> Refusal:
        return _error(401, "Must provide an API key or an Authorization bearer token")

    async def version(self, call: Called) -> Reply:
        return 200, {"title": "qdrant - vector search engine", "version": "1.15.3", "commit": "0"}

    async def ready(self, call: Called) -> Reply:
        return 200, "all shards are ready"

    async def create(self, call: Called) -> Reply:
        distance = text("Cosine", "Euclid", "Dot", "Manhattan")
        body = call.body(table(vectors=table(size=whole(most=65_536), distance=distance)))
        if call.parts[0] in self.sizes:
            raise _error(409, f"Wrong input: Collection `{call.parts[0]}` already exists!")
        vectors = body["vectors"]
        assert isinstance(vectors, dict)
        self.sizes[call.parts[0]] = int(vectors["size"])
        return _good(True)

    def _name(self, call: Called) -> str:
        if call.parts[0] not in self.sizes:
            raise _error(404, f"Not found: Collection `{call.parts[0]}` doesn't exist!")
        return call.parts[0]

    async def get(self, call: Called) -> Reply:
        return _good({"status": "green", "points_count": len(self.shelf.all(self._name(call)))})

    async def clear(self, call: Called) -> Reply:
        self.shelf.spaces.pop(call.parts[0], None)
        return _good(self.sizes.pop(call.parts[0], None) is not None)

    async def upsert(self, call: Called) -> Reply:
        call.ask(table(wait=optional(text("true", "false"))))
        name = self._name(call)
        point = table(id=text(pattern=UUID), vector=vector(self.sizes[name]), payload=optional(mapping()))
        body = call.body(table(points=many(point, least=1)))
        points = body["points"]
        assert isinstance(points, list)
        for one in points:
            self.shelf.replace(name, Doc(id=one["id"], content="", vector=one["vector"], metadata=one["payload"]))
        return _good({"operation_id": 1, "status": "completed"})

    async def query(self, call: Called) -> Reply:
        name = self._name(call)
        body = call.body(
            table(
                query=vector(self.sizes[name]),
                limit=optional(whole(most=10_000)),
                with_payload=optional(flag()),
                score_threshold=optional(of(int, float)),
            )
        )
        asked = body["query"]
        assert isinstance(asked, list)
        docs = best(self.shelf.all(name), lambda doc: cosine(asked, doc.vector), int(str(body.get("limit", 10))))
        points = [
            {"id": doc.id, "version": 1, "score": score}
            | ({"payload": doc.metadata} if body.get("with_payload") else {})
            for score, doc in docs
        ]
        return _good({"points": points})

    async def count(self, call: Called) -> Reply:
        call.body(table(exact=optional(flag()), filter=optional(mapping())))
        return _good({"count": len(self.shelf.all(self._name(call)))})


def _good(result: object) -> Reply:
    return 200, {"result": result, "status": "ok", "time": 0.001}


def _error(status: int, text_: str) -> Refusal:
    return Refusal(status, {"status": {"error": text_}, "time": 0.0})
