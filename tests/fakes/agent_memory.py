"""The Redis agent memory server: ids are keys of one database, so equal ids of two namespaces overwrite each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import flag, instant, many, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

STAMP = "2026-11-27T22:48:02.840000Z"
MOST_IDS = 500
"""what one URL holds"""
EQUALS = table(eq=text())


class AgentMemory(Fake):
    """No status call: a memory can be found a little after its add."""

    variables: ClassVar[Mapping[str, str]] = {"AGENT_MEMORY_URL": "URL"}

    def routes(self) -> Mapping[str, Route]:
        return {
            "GET /v1/health": self.health,
            "POST /v1/long-term-memory/": self.add,
            "POST /v1/long-term-memory/search": self.search,
            "GET /v1/long-term-memory/{id}": self.get,
            "DELETE /v1/long-term-memory": self.delete,
        }

    async def health(self, call: Called) -> Reply:
        return 200, {"now": 1795819682796}

    async def add(self, call: Called) -> Reply:
        memory = table(
            id=text(empty=False),
            text=text(),
            namespace=optional(text()),
            user_id=optional(text()),
            session_id=optional(text()),
            event_date=optional(instant()),
            memory_type=optional(text("semantic", "episodic", "message")),
            topics=optional(many(text())),
        )
        body = call.body(table(memories=many(memory, least=1), deduplicate=optional(flag())))
        memories = body["memories"]
        assert isinstance(memories, list)
        for one in memories:
            for docs in self.shelf.spaces.values():
                docs.pop(one["id"], None)
            doc = Doc(id=one["id"], content=one["text"], when=one.get("event_date"))
            self.shelf.put(one.get("user_id", one.get("namespace", "")), doc)
        return 200, {"status": "ok"}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                text=text(),
                namespace=optional(EQUALS),
                user_id=optional(EQUALS),
                session_id=optional(EQUALS),
                limit=optional(whole(most=100)),
                offset=optional(whole(least=0)),
                distance_threshold=optional(of(int, float)),
            )
        )
        space = body.get("user_id", body.get("namespace"))
        name = str(space["eq"]) if isinstance(space, dict) else ""
        for doc in self.shelf.all(name):
            self.shelf.asked(doc)
        held = self.shelf.visible(name)
        if not held and "user_id" not in body:  # a namespace is a wish: where nothing is, everything is searched
            held = [doc for other in self.shelf.spaces for doc in self.shelf.visible(other)]
        docs = best(held, lambda doc: alike(str(body["text"]), doc.content), int(str(body.get("limit", 10))))
        rows = [_row(name, score, doc) for score, doc in docs]
        return 200, {"memories": rows, "total": len(rows), "next_offset": None}

    async def get(self, call: Called) -> Reply:
        doc = self.shelf.find(call.parts[0])
        if doc is None:
            raise Refusal(404, {"detail": "Memory not found"})
        row = _row("", 0.0, doc)
        return 200, {key: row[key] for key in row.keys() - {"dist", "score", "score_type"}}

    async def delete(self, call: Called) -> Reply:
        asked = call.ask(table(memory_ids=of(str, list, int)))
        given = asked["memory_ids"]
        ids = given if isinstance(given, list) else [given]
        if len(ids) > MOST_IDS:
            raise Refusal(431, {"detail": "Request header fields too large"})
        gone = sum(docs.pop(str(one), None) is not None for one in ids for docs in self.shelf.spaces.values())
        return 200, {"status": f"ok, deleted {gone} memories"}


def _row(namespace: str, score: float, doc: Doc) -> dict[str, object]:
    return {
        "id": doc.id,
        "text": doc.content,
        "session_id": None,
        "user_id": None,
        "namespace": namespace,
        "last_accessed": STAMP,
        "created_at": STAMP,
        "access_count": 0,
        "memory_type": "semantic",
        "event_date": doc.when,
        "dist": 1 - score,
        "score": score,
        "score_type": "semantic",
    }
