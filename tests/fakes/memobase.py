"""Memobase: a user per namespace, chat blobs that wait in a buffer until it is flushed, gists to search."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, mapping, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.mem0 import MESSAGES
from tests.fakes.shelf import Doc


class Memobase(Fake):
    """Every answer is an envelope; an error may come with status 200."""

    background = False
    auth = Key("Authorization", "Bearer ")
    variables: ClassVar[Mapping[str, str]] = {"MEMOBASE_URL": "URL", "MEMOBASE_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.buffered: dict[str, list[Doc]] = {}

    def routes(self) -> Mapping[str, Route]:
        return {
            "GET /api/v1/healthcheck": self.health,
            "POST /api/v1/users": self.create,
            "GET /api/v1/users/{user}": self.get,
            "DELETE /api/v1/users/{user}": self.clear,
            "POST /api/v1/blobs/insert/{user}": self.insert,
            "POST /api/v1/users/buffer/{user}/chat": self.flush,
            "GET /api/v1/users/event_gist/search/{user}": self.search,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        return Refusal(422, _envelope(None, 422, f"{faults[0].name}: {faults[0].message}"))

    def unauthorized(self) -> Refusal:
        return Refusal(401, _envelope(None, 401, "Unauthorized"))

    async def health(self, call: Called) -> Reply:
        return 200, _envelope(None)

    async def create(self, call: Called) -> Reply:
        body = call.body(table(id=optional(text(pattern=r"[0-9a-f-]{36}")), data=optional(mapping())))
        user = str(body.get("id", uuid.uuid4()))
        if user in self.shelf.spaces:
            raise Refusal(500, _envelope(None, 500, f"duplicate key value: {user}"))
        self.shelf.spaces[user] = {}
        return 200, _envelope({"id": user})

    def _user(self, call: Called) -> str:
        if call.parts[0] not in self.shelf.spaces:
            raise Refusal(404, _envelope(None, 404, f"User {call.parts[0]} not found"))
        return call.parts[0]

    async def get(self, call: Called) -> Reply:
        return 200, _envelope({"id": self._user(call), "data": {}})

    async def clear(self, call: Called) -> Reply:
        del self.shelf.spaces[self._user(call)]
        return 200, _envelope(None)

    async def insert(self, call: Called) -> Reply:
        call.ask(table(wait_process=optional(text("true", "false"))))
        user = self._user(call)
        blob = table(messages=MESSAGES)
        body = call.body(table(blob_type=text("chat", "doc"), blob_data=blob, fields=optional(mapping())))
        data = body["blob_data"]
        assert isinstance(data, dict)
        docs = [Doc(content=one["content"]) for one in data["messages"]]
        self.buffered.setdefault(user, []).extend(docs)
        return 200, _envelope({"id": str(uuid.uuid4()), "chat_results": []})

    async def flush(self, call: Called) -> Reply:
        call.ask(table(wait_process=optional(text("true", "false"))))
        user = self._user(call)
        for doc in self.buffered.pop(user, []):
            self.shelf.put(user, doc)
        return 200, _envelope([])

    async def search(self, call: Called) -> Reply:
        asked = call.ask(
            table(
                query=of(str, int),
                topk=optional(whole(most=1000)),
                similarity_threshold=optional(of(int, str)),
                time_range_in_days=optional(of(int)),
            )
        )
        user, query = self._user(call), str(asked["query"])
        if not query:
            return 200, _envelope(None, 400, "query is empty")
        least = float(str(asked.get("similarity_threshold", 0.2)))
        docs = best(self.shelf.visible(user), lambda doc: alike(query, doc.content), int(str(asked.get("topk", 10))))
        gists = [
            {
                "id": doc.id,
                "gist_data": {"content": doc.content},
                "similarity": score,
                "created_at": "2026-11-28T01:00:00Z",
            }
            for score, doc in docs
            if score >= least
        ]
        return 200, _envelope({"gists": gists})


def _envelope(data: object, errno: int = 0, errmsg: str = "") -> dict[str, object]:
    return {"data": data, "errno": errno, "errmsg": errmsg}
