"""Zep: v4 (graphs by uuid, background tasks) and v3 (graphs by name)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import ClassVar

from tests.fakes.fields import UUID, Fault, instant, mapping, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

LONGEST = 10_000
STAMP = "2026-11-27T10:00:00Z"


class Zep(Fake):
    """v4: adding and deleting are tasks; an edge names the episodes it came from."""

    auth = Key("Authorization", "Api-Key ")
    variables: ClassVar[Mapping[str, str]] = {"ZEP_API_URL": "URL", "ZEP_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.graphs: dict[str, str] = {}
        self.repeats: dict[str, Reply] = {}

    def routes(self) -> Mapping[str, Route]:
        graph = "/api/v4/graphs/{graph}"
        return {
            "POST /api/v4/graphs": self.create,
            f"GET {graph}": self.get,
            f"DELETE {graph}": self.clear,
            f"POST {graph}/episodes": self.add,
            f"GET {graph}/episodes/{{uuid}}": self.episode,
            f"POST {graph}/episodes/list": self.listed,
            f"POST {graph}/search/edges": self.edges,
            f"POST {graph}/search/episodes": self.episodes,
            "GET /api/v4/tasks/{uuid}": self.task,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        one = faults[0]
        return _error(400, "validation_failed", f"{one.name}: {one.message}")

    def unauthorized(self) -> Refusal:
        return _error(401, "unauthorized", "invalid key")

    def unknown(self) -> Refusal:
        return _error(404, "not_found", "no such route")

    async def create(self, call: Called) -> Reply:
        body = call.body(table(name=text(empty=False), time_zone=optional(text())))
        return self._once(call, lambda: self._made(str(body["name"])))

    def _made(self, name: str) -> Reply:
        graph = str(uuid.uuid4())
        self.graphs[graph] = name
        self.shelf.spaces[graph] = {}
        return 201, {"uuid": graph, "name": name, "type": "standard", "created_at": STAMP}

    def _once(self, call: Called, work: Callable[[], Reply]) -> Reply:
        """A repeated Idempotency-Key gets the first answer and does nothing; an empty one is refused."""
        key = call.headers.get("Idempotency-Key", str(uuid.uuid4()))
        if not key:
            raise _error(400, "validation_failed", "Idempotency-Key is empty")
        if key not in self.repeats:
            self.repeats[key] = work()
        return self.repeats[key]

    def _graph(self, call: Called) -> str:
        graph = call.parts[0]
        if list(text(pattern=UUID)(graph, ())):
            error = {"code": "invalid_identifier", "message": "a uuid is needed", "param": "graph_uuid"}
            raise Refusal(400, {"error": {**error, "request_id": "r-1"}})
        if graph not in self.shelf.spaces:
            raise _error(404, "not_found", "graph not found")
        return graph

    async def get(self, call: Called) -> Reply:
        graph = self._graph(call)
        return 200, {"uuid": graph, "name": self.graphs[graph], "type": "standard", "created_at": STAMP}

    async def clear(self, call: Called) -> Reply:
        del self.shelf.spaces[self._graph(call)]
        return 202, {"task": {"uuid": str(uuid.uuid4()), "type": "delete_graph", "status": "pending"}}

    async def task(self, call: Called) -> Reply:
        return 200, {"uuid": call.parts[0], "type": "delete_graph", "status": "succeeded"}

    async def add(self, call: Called) -> Reply:
        graph = self._graph(call)
        body = call.body(
            table(
                data=text(most=LONGEST, empty=False),
                type=text("text", "message", "json"),
                metadata=optional(mapping(str, int, float, bool)),
                reference_time=optional(instant()),
            )
        )
        return self._once(call, lambda: self._stored(graph, body))

    def _stored(self, graph: str, body: dict[str, object]) -> Reply:
        when, metadata = body.get("reference_time"), body.get("metadata")
        doc = Doc(
            content=str(body["data"]),
            when=str(when) if when else None,
            metadata=dict(metadata) if isinstance(metadata, dict) else {},
        )
        self.shelf.put(graph, doc)
        task = {"uuid": str(uuid.uuid4()), "type": "add_episode", "status": "pending"}
        return 202, {"episode": _episode(graph, doc) | {"processed": False}, "task": task}

    async def episode(self, call: Called) -> Reply:
        graph = self._graph(call)
        doc = self.shelf.spaces[graph].get(call.parts[1])
        if doc is None:
            raise _error(404, "not_found", "episode not found")
        return 200, _episode(graph, doc) | {"processed": self.shelf.asked(doc)}

    async def listed(self, call: Called) -> Reply:
        asked = call.ask(table(page_size=optional(whole(most=100)), cursor=optional(text())))
        call.body(table())
        graph = self._graph(call)
        rows = [_episode(graph, doc) for doc in self.shelf.all(graph)]
        return 200, {"items": rows[: int(str(asked.get("page_size", 10)))]}

    def _found(self, call: Called) -> list[tuple[float, Doc]]:
        graph = self._graph(call)
        asked = call.ask(table(page_size=optional(whole(most=100)), cursor=optional(text())))
        body = call.body(table(query=text(), reranker=optional(text("rrf", "mmr", "cross_encoder"))))
        k = int(str(asked.get("page_size", 10)))
        return best(self.shelf.visible(graph), lambda doc: alike(str(body["query"]), doc.content), k)

    async def edges(self, call: Called) -> Reply:
        return 200, {"items": [_edge(score, doc) for score, doc in self._found(call)]}

    async def episodes(self, call: Called) -> Reply:
        graph = call.parts[0]
        return 200, {"items": [_episode(graph, doc) | {"score": score} for score, doc in self._found(call)]}


def _error(status: int, code: str, message: str) -> Refusal:
    return Refusal(status, {"error": {"code": code, "message": message}})


def _episode(graph: str, doc: Doc) -> dict[str, object]:
    return {
        "uuid": doc.id,
        "graph_uuid": graph,
        "content": doc.content,
        "source": "text",
        "metadata": doc.metadata,
        "reference_time": doc.when,
        "created_at": STAMP,
        "processed": doc.ready,
    }


def _edge(score: float, doc: Doc) -> dict[str, object]:
    return {
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, doc.id)),
        "fact": doc.content,
        "valid_at": doc.when,
        "invalid_at": None,
        "episode_uuids": [doc.id],
        "score": score,
    }


class ZepV3(Fake):
    """v3: graphs by name."""

    auth = Key("Authorization", "Api-Key ")
    variables: ClassVar[Mapping[str, str]] = {"ZEP_API_URL": "URL", "ZEP_API_KEY": "KEY"}

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /api/v2/graph/create": self.create,
            "POST /api/v2/graph": self.add,
            "GET /api/v2/graph/episodes/{uuid}": self.episode,
            "POST /api/v2/graph/search": self.search,
            "DELETE /api/v2/graph/{id}": self.clear,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        return Refusal(400, {"message": f"{faults[0].name}: {faults[0].message}"})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"message": "unauthorized"})

    async def create(self, call: Called) -> Reply:
        body = call.body(table(graph_id=text(empty=False), name=optional(text()), description=optional(text())))
        graph = str(body["graph_id"])
        if graph in self.shelf.spaces:
            raise Refusal(409, {"message": "graph already exists"})
        self.shelf.spaces[graph] = {}
        return 201, {"graph_id": graph, "created_at": STAMP}

    def _space(self, graph: object) -> str:
        if graph not in self.shelf.spaces:
            raise Refusal(404, {"message": "graph not found"})
        return str(graph)

    async def add(self, call: Called) -> Reply:
        body = call.body(
            table(graph_id=text(), data=text(most=LONGEST, empty=False), type=text("text", "message", "json"))
        )
        graph = self._space(body["graph_id"])
        doc = self.shelf.put(graph, Doc(content=str(body["data"])))
        return 202, {"uuid": doc.id, "content": doc.content, "created_at": STAMP, "processed": False}

    async def episode(self, call: Called) -> Reply:
        doc = self.shelf.find(call.parts[0])
        if doc is None:
            raise Refusal(404, {"message": "episode not found"})
        return 200, {"uuid": doc.id, "content": doc.content, "created_at": STAMP, "processed": self.shelf.asked(doc)}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                graph_id=text(),
                query=text(),
                scope=optional(text("edges", "nodes", "episodes")),
                limit=optional(whole(most=50)),
            )
        )
        graph = self._space(body["graph_id"])
        k = int(str(body.get("limit", 10)))
        docs = best(self.shelf.visible(graph), lambda doc: alike(str(body["query"]), doc.content), k)
        edges = [{"uuid": f"e-{doc.id}", "fact": doc.content, "episodes": [doc.id]} for _, doc in docs]
        return 200, {"edges": edges}

    async def clear(self, call: Called) -> Reply:
        del self.shelf.spaces[self._space(call.parts[0])]
        return 200, {"message": "graph deleted"}
