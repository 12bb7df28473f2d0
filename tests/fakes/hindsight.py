"""Hindsight: a bank per namespace, operations to poll, a token budget instead of a number of hits."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, flag, instant, many, mapping, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

STAMP = "2026-11-27T22:40:43.866254+00:00"
MOST_TOKENS = 100_000


class Hindsight(Fake):
    """A document id that is sent again replaces the document."""

    auth = Key("Authorization", "Bearer ", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"HINDSIGHT_API_URL": "URL", "HINDSIGHT_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.operations: dict[str, list[Doc]] = {}

    def routes(self) -> Mapping[str, Route]:
        bank = "/v1/default/banks/{bank}"
        return {
            "GET /health": self.health,
            "GET /version": self.version,
            f"PUT {bank}": self.create,
            f"PATCH {bank}/config": self.configure,
            f"POST {bank}/memories": self.add,
            f"GET {bank}/operations/{{id}}": self.operation,
            f"POST {bank}/memories/recall": self.recall,
            f"GET {bank}/stats": self.stats,
            f"DELETE {bank}": self.clear,
        }

    async def health(self, call: Called) -> Reply:
        return 200, {"status": "healthy", "database": "connected"}

    async def version(self, call: Called) -> Reply:
        return 200, {"api_version": "1.1.0", "features": {"observations": True}}

    async def create(self, call: Called) -> Reply:
        body = call.body(table(name=optional(text()), mission=optional(text())))
        self.shelf.spaces.setdefault(call.parts[0], {})
        mood = {"skepticism": 3, "literalism": 3, "empathy": 3}
        return 200, {"bank_id": call.parts[0], "name": body.get("name"), "disposition": mood, "mission": ""}

    async def configure(self, call: Called) -> Reply:
        body = call.body(table(updates=mapping()))
        return 200, {"bank_id": call.parts[0], "config": body["updates"], "overrides": body["updates"]}

    async def add(self, call: Called) -> Reply:
        item = table(
            content=text(empty=False),
            document_id=optional(text(empty=False)),
            timestamp=optional(instant()),
            metadata=optional(mapping(str)),
            tags=optional(many(text())),
            context=optional(text()),
        )
        body = call.body(table({"items": many(item, least=1), "async": optional(flag())}))
        items = body["items"]
        assert isinstance(items, list)
        docs = [self._put(call.parts[0], one) for one in items]
        operation = str(uuid.uuid4()) if body.get("async") else None
        if operation is None:
            for doc in docs:
                doc.pending = 0
        else:
            self.operations[operation] = docs
        head = {"success": True, "bank_id": call.parts[0], "items_count": len(docs)}
        return 200, {**head, "async": bool(operation), "operation_id": operation, "operation_ids": None}

    def _put(self, bank: str, item: dict[str, object]) -> Doc:
        when, metadata = item.get("timestamp"), item.get("metadata")
        doc = Doc(
            id=str(item.get("document_id", uuid.uuid4())),
            content=str(item["content"]),
            when=str(when) if when else STAMP,
            metadata=dict(metadata) if isinstance(metadata, dict) else {},
        )
        return self.shelf.replace(bank, doc)

    async def operation(self, call: Called) -> Reply:
        docs = self.operations.get(call.parts[1])
        if docs is None:
            return 200, {"operation_id": call.parts[1], "status": "not_found", "error_message": None}
        ready = [self.shelf.asked(doc) for doc in docs].count(False) == 0
        failed = any(doc.failed for doc in docs)
        status = "failed" if failed else "completed" if ready else "pending"
        return 200, {"operation_id": call.parts[1], "status": status, "error_message": None, "child_operations": []}

    async def recall(self, call: Called) -> Reply:
        body = call.body(
            table(
                query=text(),
                budget=optional(text("low", "mid", "high")),
                max_tokens=optional(whole(most=MOST_TOKENS)),
                include=optional(mapping()),
                types=optional(many(text())),
                tags=optional(many(text())),
            )
        )
        query = str(body["query"])
        if not re.search(r"\w", query):
            raise _no_word(query)
        docs = best(self.shelf.visible(call.parts[0]), lambda doc: alike(query, doc.content), 1000)
        rows = [_row(call.parts[0], score, doc) for score, doc in _within(docs, int(str(body.get("max_tokens", 4096))))]
        return 200, {"results": rows, "trace": None, "entities": None, "chunks": None}

    async def stats(self, call: Called) -> Reply:
        count = len(self.shelf.all(call.parts[0]))
        return 200, {"bank_id": call.parts[0], "total_nodes": count, "total_documents": count}

    async def clear(self, call: Called) -> Reply:
        gone = self.shelf.spaces.pop(call.parts[0], {})
        message = f"Bank '{call.parts[0]}' and all associated data deleted successfully"
        return 200, {"success": True, "message": message, "deleted_count": len(gone)}


def _no_word(query: str) -> Refusal:
    message = "Value error, query must contain at least one word character after normalization"
    fault = Fault("value", ("body", "query"), query)
    return Refusal(422, {"detail": [{"type": "value_error", "loc": list(fault.place), "msg": message, "input": query}]})


def _within(docs: list[tuple[float, Doc]], tokens: int) -> list[tuple[float, Doc]]:
    kept: list[tuple[float, Doc]] = []
    for score, doc in docs:
        tokens -= len(doc.content) // 4
        if tokens < 0:
            break
        kept.append((score, doc))
    return kept


def _row(bank: str, score: float, doc: Doc) -> dict[str, object]:
    scores = {"final": score * 1.1, "reranker": None, "semantic": score, "keyword": 0.1}
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, doc.id)),
        "text": doc.content,
        "type": "world",
        "occurred_start": None,
        "mentioned_at": doc.when,
        "document_id": doc.id,
        "metadata": doc.metadata,
        "chunk_id": f"{bank}_{doc.id}_0",
        "scores": scores,
    }
