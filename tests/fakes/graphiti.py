"""Graphiti's REST server: a queue per process, facts that name the episodes they came from.

``keeps`` plays a backend that confirms a deletion but deletes nothing; a client's own uuid ends the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import instant, many, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Reply, Route, alike, best
from tests.fakes.shelf import Doc


class Graphiti(Fake):
    """No key; an add answers 202 before anything is stored."""

    variables: ClassVar[Mapping[str, str]] = {"GRAPHITI_URL": "URL"}

    def __init__(self) -> None:
        super().__init__()
        self.keeps = False
        self.poisoned = False

    def routes(self) -> Mapping[str, Route]:
        return {
            "GET /healthcheck": self.health,
            "POST /messages": self.add,
            "GET /episodes/{group}": self.episodes,
            "POST /search": self.search,
            "DELETE /group/{group}": self.clear,
        }

    async def health(self, call: Called) -> Reply:
        return 200, {"status": "healthy"}

    async def add(self, call: Called) -> Reply:
        message = table(
            uuid=optional(text()),
            name=optional(text()),
            role_type=text("user", "assistant", "system"),
            role=text(),
            content=text(),
            timestamp=optional(instant()),
            source_description=optional(text()),
        )
        body = call.body(table(group_id=text(empty=False), messages=many(message)))
        messages = body["messages"]
        assert isinstance(messages, list)
        for one in messages:
            self.poisoned = self.poisoned or "uuid" in one
            if not self.poisoned:
                doc = Doc(content=one["content"], when=one.get("timestamp"), metadata={"name": one.get("name", "")})
                self.shelf.put(str(body["group_id"]), doc)
        return 202, {"message": "Messages added to processing queue", "success": True}

    async def episodes(self, call: Called) -> Reply:
        """An episode can be listed when the queue has reached it."""
        asked = call.ask(table(last_n=whole(most=100_000)))
        docs = [doc for doc in self.shelf.all(call.parts[0]) if self.shelf.asked(doc)]
        return 200, [_episode(call.parts[0], doc) for doc in docs[-int(str(asked["last_n"])) :]]

    async def search(self, call: Called) -> Reply:
        body = call.body(table(group_ids=optional(many(text())), query=text(), max_facts=optional(whole(most=10_000))))
        groups = body.get("group_ids")
        docs = [doc for group in (groups if isinstance(groups, list) else []) for doc in self.shelf.visible(group)]
        found = best(docs, lambda doc: alike(str(body["query"]), doc.content), int(str(body.get("max_facts", 10))))
        return 200, {"facts": [_fact(doc) for _, doc in found]}

    async def clear(self, call: Called) -> Reply:
        if not self.keeps:
            self.shelf.spaces.pop(call.parts[0], None)
        return 200, {"message": "Group deleted", "success": True}


def _episode(group: str, doc: Doc) -> dict[str, object]:
    return {
        "uuid": doc.id,
        "name": doc.metadata["name"],
        "group_id": group,
        "labels": [],
        "source": "message",
        "content": f"user(user): {doc.content}",
        "valid_at": doc.when,
        "entity_edges": [],
        "episode_metadata": None,
    }


def _fact(doc: Doc) -> dict[str, object]:
    return {
        "uuid": f"fact-{doc.id}",
        "name": "RELATES_TO",
        "fact": doc.content,
        "valid_at": doc.when,
        "invalid_at": None,
        "expired_at": None,
        "episodes": [doc.id],
    }
