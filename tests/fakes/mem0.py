"""Mem0: the hosted platform (v3, events to poll) and the open-source REST server (synchronous)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, flag, many, mapping, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

MESSAGES = many(table(role=text("user", "assistant", "system"), content=text()), least=1)


def contents(body: dict[str, object]) -> list[str]:
    messages = body["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if message["content"].strip()]


class Mem0(Fake):
    """The platform: an add is an event; nothing can be found before it has succeeded."""

    auth = Key("Authorization", "Token ")
    variables: ClassVar[Mapping[str, str]] = {"MEM0_API_URL": "URL", "MEM0_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, list[Doc]] = {}

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /v3/memories/add/": self.add,
            "GET /v1/event/{id}/": self.event,
            "POST /v3/memories/search/": self.search,
            "POST /v3/memories/": self.listed,
            "DELETE /v1/memories/": self.clear,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        if any(one.name in ("filters", "user_id") for one in faults):
            return Refusal(400, {"error": "filters must hold at least one entity id"})
        return Refusal(400, {"error": "; ".join(f"{one.name}: {one.message}" for one in faults)})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"detail": "invalid key"})

    async def add(self, call: Called) -> Reply:
        body = call.body(
            table(
                messages=MESSAGES,
                user_id=text(empty=False),
                metadata=optional(mapping()),
                timestamp=optional(whole(least=0, most=2**33)),
                infer=optional(flag()),
            )
        )
        metadata = body.get("metadata")
        kept = dict(metadata) if isinstance(metadata, dict) else {}
        docs = [Doc(content=content, metadata=kept) for content in contents(body)]
        for doc in docs:
            self.shelf.put(str(body["user_id"]), doc)
        if body.get("infer") is False:
            for doc in docs:
                doc.pending = 0
            return 200, {"message": "Memories stored", "status": "SUCCEEDED", "results": _results(docs)}
        event = str(uuid.uuid4())
        self.events[event] = docs
        return 200, {"event_id": event, "status": "PENDING"}

    async def event(self, call: Called) -> Reply:
        docs = self.events.get(call.parts[0])
        if docs is None:
            raise Refusal(404, {"detail": "Not found."})
        ready = [self.shelf.asked(doc) for doc in docs].count(False) == 0
        failed = any(doc.failed for doc in docs)
        status = "FAILED" if failed else "SUCCEEDED" if ready else "PENDING"
        rows = _results(docs) if status == "SUCCEEDED" else []
        return 200, {"id": call.parts[0], "event_type": "ADD", "status": status, "results": rows}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                query=text(),
                filters=table(user_id=text(empty=False)),
                top_k=optional(whole(most=1000)),
                threshold=optional(of(int, float)),
                rerank=optional(flag()),
            )
        )
        least = float(str(body.get("threshold", 0.1)))
        space = _user(body)
        docs = best(
            self.shelf.visible(space),
            lambda doc: alike(str(body["query"]), doc.content),
            int(str(body.get("top_k", 10))),
        )
        return 200, {"results": [_platform_row(score, doc, space) for score, doc in docs if score >= least]}

    async def listed(self, call: Called) -> Reply:
        call.ask(table(page=optional(whole()), page_size=optional(whole(most=200))))
        body = call.body(table(filters=table(user_id=text(empty=False))))
        docs = self.shelf.all(_user(body))
        return 200, {"count": len(docs), "next": None, "previous": None, "results": []}

    async def clear(self, call: Called) -> Reply:
        asked = call.ask(table(user_id=of(str, int)))
        self.shelf.spaces.pop(str(asked["user_id"]), None)
        event = str(uuid.uuid4())
        self.events[event] = []
        return 200, {"message": "Delete in progress", "event_id": event}


def _user(body: dict[str, object]) -> str:
    filters = body["filters"]
    assert isinstance(filters, dict)
    return str(filters["user_id"])


def _results(docs: list[Doc]) -> list[dict[str, object]]:
    return [{"id": doc.id, "event": "ADD", "data": {"memory": doc.content}} for doc in docs]


def _platform_row(score: float, doc: Doc, user: str) -> dict[str, object]:
    return {
        "id": doc.id,
        "memory": doc.content,
        "score": score,
        "metadata": doc.metadata,
        "user_id": user,
        "categories": None,
        "created_at": "2023-05-08T13:56:00Z",
    }


class Mem0Oss(Fake):
    """The open-source server: synchronous, ``limit`` is silently ignored, a bearer key is no key."""

    background = False
    auth = Key("X-API-Key", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"MEM0_OSS_URL": "URL", "MEM0_OSS_API_KEY": "KEY"}

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /memories": self.add,
            "GET /memories": self.listed,
            "DELETE /memories": self.clear,
            "DELETE /memories/{id}": self.delete,
            "POST /search": self.search,
        }

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"detail": "Invalid API key."})

    def bearer(self, call: Called) -> None:
        if "Authorization" in call.headers:
            raise Refusal(401, {"detail": "Invalid or expired token."})

    async def add(self, call: Called) -> Reply:
        self.bearer(call)
        body = call.body(
            table(
                messages=MESSAGES,
                user_id=optional(text(empty=False)),
                agent_id=optional(text()),
                run_id=optional(text()),
                metadata=optional(mapping()),
                infer=optional(flag()),
            )
        )
        metadata = body.get("metadata")
        kept = dict(metadata) if isinstance(metadata, dict) else {}
        docs = [self.shelf.put(str(body.get("user_id")), Doc(content=one, metadata=kept)) for one in contents(body)]
        return 200, {"results": [{"id": doc.id, "memory": doc.content, "event": "ADD"} for doc in docs]}

    async def search(self, call: Called) -> Reply:
        self.bearer(call)
        body = call.body(
            table(
                query=text(),
                filters=optional(mapping()),
                user_id=optional(text()),
                top_k=optional(whole(most=1000)),
                limit=optional(of(int)),
                threshold=optional(of(int, float)),
            )
        )
        filters = body.get("filters") or {key: body[key] for key in ("user_id",) if key in body}
        assert isinstance(filters, dict)
        if not {"user_id", "agent_id", "run_id"} & set(filters):
            example = "filters={'user_id': 'u1'}"
            detail = f"filters must contain at least one of: user_id, agent_id, run_id. Example: {example}"
            raise Refusal(400, {"detail": detail})
        docs = best(
            self.shelf.visible(str(filters["user_id"])),
            lambda doc: alike(str(body["query"]), doc.content),
            int(str(body.get("top_k", 20))),
        )
        return 200, {"results": [_oss_row(doc, str(filters["user_id"]), score) for score, doc in docs]}

    async def listed(self, call: Called) -> Reply:
        self.bearer(call)
        asked = call.ask(table(user_id=of(str, int), top_k=optional(whole(most=1000))))
        user = str(asked["user_id"])
        return 200, {
            "results": [_oss_row(doc, user) for doc in self.shelf.all(user)[: int(str(asked.get("top_k", 20)))]]
        }

    async def clear(self, call: Called) -> Reply:
        self.bearer(call)
        asked = call.ask(table(user_id=of(str, int)))
        self.shelf.spaces.pop(str(asked["user_id"]), None)
        return 200, {"message": "All relevant memories deleted"}

    async def delete(self, call: Called) -> Reply:
        raise Refusal(404, {"detail": f"Memory with id {call.parts[0]} not found"})


def _oss_row(doc: Doc, user: str, score: float | None = None) -> dict[str, object]:
    stamp = "2026-11-27T22:31:58.733200+00:00"
    row: dict[str, object] = {"id": doc.id, "memory": doc.content, "metadata": doc.metadata}
    row |= {} if score is None else {"score": score}
    return {**row, "created_at": stamp, "updated_at": stamp, "user_id": user}
