"""Letta: an agent per namespace, its archival memory, tags that carry the memory id."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, flag, instant, many, mapping, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

STAMP = "2026-11-27T22:44:58.924508Z"
FLOATS = 4096


class Letta(Fake):
    """Synchronous; every answer to an add carries the whole vector."""

    background = False
    auth = Key("Authorization", "Bearer ", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"LETTA_BASE_URL": "URL", "LETTA_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        """agent -> its name, which need not be unique"""

    def routes(self) -> Mapping[str, Route]:
        memory = "/v1/agents/{agent}/archival-memory"
        return {
            "GET /v1/health/": self.health,
            "POST /v1/agents/": self.create,
            "GET /v1/agents/": self.agents,
            "DELETE /v1/agents/{agent}": self.clear,
            "GET /v1/agents/{agent}": self.get,
            f"POST {memory}": self.add,
            f"GET {memory}": self.listed,
            f"GET {memory}/search": self.search,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        shown = [{"type": one.fastapi, "loc": one.place, "msg": one.message, "input": one.value} for one in faults]
        return Refusal(422, {"trace_id": "", "detail": str(shown)})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"detail": "Unauthorized"})

    async def health(self, call: Called) -> Reply:
        return 200, {"version": "0.16.8", "status": "ok"}

    async def create(self, call: Called) -> Reply:
        body = call.body(
            table(
                name=optional(text(empty=False)),
                model=optional(text(pattern=r"[^/]+/.+")),
                embedding=optional(text(pattern=r"[^/]+/.+")),
                memory_blocks=optional(many(mapping())),
                llm_config=optional(mapping()),
                include_base_tools=optional(flag()),
                tags=optional(many(text())),
            )
        )
        agent = f"agent-{uuid.uuid4()}"
        self.shelf.spaces[agent] = {}
        self.names[agent] = str(body.get("name", ""))
        return 200, {"id": agent, "name": body.get("name"), "created_at": STAMP, "agent_type": "letta_v1_agent"}

    async def agents(self, call: Called) -> Reply:
        asked = call.ask(table(name=optional(of(str)), limit=optional(whole(most=1000))))
        return 200, [{"id": one, "name": name} for one, name in self.names.items() if asked.get("name") in (None, name)]

    def _agent(self, call: Called) -> str:
        if call.parts[0] not in self.shelf.spaces:
            raise Refusal(404, {"trace_id": "", "detail": f"Agent not found: {call.parts[0]}"})
        return call.parts[0]

    async def get(self, call: Called) -> Reply:
        return 200, {"id": self._agent(call)}

    async def clear(self, call: Called) -> Reply:
        agent = self._agent(call)
        del self.shelf.spaces[agent], self.names[agent]
        return 200, {"message": f"Agent id={agent} successfully deleted"}

    async def add(self, call: Called) -> Reply:
        body = call.body(table(text=text(empty=False), tags=optional(many(text())), created_at=optional(instant())))
        when = str(body["created_at"]) if "created_at" in body else STAMP
        doc = Doc(id=f"passage-{uuid.uuid4()}", content=str(body["text"]), when=when)
        doc.metadata["tags"] = body.get("tags", [])
        self.shelf.put(self._agent(call), doc)
        row = {"id": doc.id, "text": doc.content, "tags": doc.metadata["tags"], "created_at": when, "metadata": {}}
        return 200, [{**row, "embedding": [0.0078125] * FLOATS}]

    async def listed(self, call: Called) -> Reply:
        asked = call.ask(table(limit=optional(whole(most=1000))))
        docs = self.shelf.all(self._agent(call))[: int(str(asked.get("limit", 50)))]
        return 200, [{"id": doc.id, "text": doc.content, "tags": doc.metadata["tags"]} for doc in docs]

    async def search(self, call: Called) -> Reply:
        asked = call.ask(table(query=of(str, int), top_k=optional(whole(most=1000)), tags=optional(of(str, list))))
        k = int(str(asked.get("top_k", 10)))
        docs = best(self.shelf.visible(self._agent(call)), lambda doc: alike(str(asked["query"]), doc.content), k)
        rows = [
            {"id": doc.id, "timestamp": doc.when, "content": doc.content, "tags": doc.metadata["tags"]}
            for _, doc in docs
        ]
        return 200, {"results": rows, "count": len(rows)}
