"""Supermemory, v5 (a namespace in the path) and v4 (a container tag in the body), as their clients use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Check, Fault, flag, instant, many, mapping, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc

TAG = r"[A-Za-z0-9._-]{1,100}"
MOST = 100


class _Supermemory(Fake):
    """The common part of both versions: the key and the form of errors."""

    auth = Key("Authorization", "Bearer ")
    variables: ClassVar[Mapping[str, str]] = {"SUPERMEMORY_API_URL": "URL", "SUPERMEMORY_API_KEY": "KEY"}

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        error = [{"path": list(one.place[1:]), "message": _said(one)} for one in faults]
        return Refusal(400, {"success": False, "error": error, "data": tree})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"error": "Unauthorized"})

    def unknown(self) -> Refusal:
        return Refusal(404, {"error": "not found"})

    def found(self, space: str, query: object, limit: object) -> Reply:
        docs = best(self.shelf.visible(space), lambda doc: alike(str(query), doc.content), int(str(limit)))
        return 200, {"results": [_row(score, doc) for score, doc in docs], "searchTime": 41}


def _said(fault: Fault) -> str:
    return {"missing": "required", "unknown": "unrecognized key"}.get(fault.kind, "invalid")


def _row(score: float, doc: Doc) -> dict[str, object]:
    return {
        "metadata": doc.metadata,
        "isLatest": True,
        "isInference": False,
        "system": {},
        "id": f"chk-{doc.id}",
        "chunk": doc.content,
        "similarity": score,
    }


class Supermemory(_Supermemory):
    """v5: writing the same id again appends."""

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /ns/{ns}/document": self.add,
            "POST /ns/{ns}/document/batch": self.batch,
            "GET /ns/{ns}/document/{id}": self.status,
            "POST /ns/{ns}/search": self.search,
            "POST /ns/{ns}/list/documents": self.listed,
            "GET /ns/{ns}": self.get,
            "DELETE /ns/{ns}": self.clear,
        }

    document: ClassVar[dict[str, Check]] = {
        "content": text(empty=False),
        "id": text(pattern=r"[A-Za-z0-9._:#-]{1,100}"),
        "metadata": optional(mapping(str, int, float, bool)),
        "date": optional(instant()),
        "dreaming": optional(text("instant", "scheduled", "off")),
    }

    async def add(self, call: Called) -> Reply:
        return 200, self._put(call.parts[0], call.body(table(self.document)))

    def _put(self, space: str, body: dict[str, object]) -> dict[str, object]:
        known = self.shelf.spaces.get(space, {}).get(str(body["id"]))
        content = f"{known.content}\n{body['content']}" if known else str(body["content"])
        metadata = body.get("metadata")
        doc = Doc(id=str(body["id"]), content=content, metadata=dict(metadata) if isinstance(metadata, dict) else {})
        self.shelf.replace(space, doc)
        return {"id": doc.id, "status": "queued"}

    async def batch(self, call: Called) -> Reply:
        """Return accepted documents before failed ones."""
        lax = {**self.document, "content": text()}
        body = call.body(table(documents=many(table(lax), least=1, most=600)))
        documents = body["documents"]
        assert isinstance(documents, list)
        good = [self._put(call.parts[0], one) for one in documents if one["content"]]
        bad = [
            {"id": one["id"], "status": "error", "error": "content is empty"} for one in documents if not one["content"]
        ]
        return 200, {"results": [*good, *bad], "count": len(good), "failed": len(bad)}

    async def status(self, call: Called) -> Reply:
        doc = self.shelf.spaces.get(call.parts[0], {}).get(call.parts[1])
        if doc is None:
            raise Refusal(404, {"error": "document not found"})
        status, dreaming = ("queued", "dreaming") if doc.pending > 1 else ("done", "dreaming")
        if self.shelf.asked(doc):
            status, dreaming = "done", "done"
        if doc.failed:
            status = "failed"
        system = {"status": status, "dreamingStatus": dreaming}
        return 200, {"id": doc.id, "type": "text", "title": None, "metadata": doc.metadata, "system": system}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                query=text(),
                limit=optional(whole(most=MOST)),
                threshold=optional(of(int, float)),
                searchMode=optional(text("memories", "hybrid", "documents")),
                rerank=optional(text("none", "fast", "quality")),
            )
        )
        return self.found(call.parts[0], body["query"], body.get("limit", 10))

    async def listed(self, call: Called) -> Reply:
        call.body(table(page=optional(whole()), limit=optional(whole(most=MOST))))
        self._there(call)
        total = len(self.shelf.all(call.parts[0]))
        return 200, {"documents": [], "pagination": {"currentPage": 1, "totalItems": total, "totalPages": 1}}

    async def get(self, call: Called) -> Reply:
        self._there(call)
        return 200, {"namespace": call.parts[0]}

    async def clear(self, call: Called) -> Reply:
        self._there(call)
        gone = len(self.shelf.spaces.pop(call.parts[0]))
        counts = {"deletedDocumentsCount": gone, "deletedMemoriesCount": gone}
        return 200, {"status": "deleted", "namespace": call.parts[0], **counts}

    def _there(self, call: Called) -> None:
        if call.parts[0] not in self.shelf.spaces:
            raise Refusal(404, {"error": "namespace not found"})


class SupermemoryV4(_Supermemory):
    """v4: documents by container tag."""

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /v3/documents": self.add,
            "GET /v3/documents/{id}": self.status,
            "POST /v4/search": self.search,
            "DELETE /v3/documents/bulk": self.clear,
        }

    async def add(self, call: Called) -> Reply:
        body = call.body(
            table(
                content=text(empty=False),
                containerTag=text(pattern=TAG),
                customId=optional(text(pattern=r"[A-Za-z0-9._:-]{1,100}")),
                metadata=optional(mapping(str, int, float, bool)),
            )
        )
        metadata = body.get("metadata")
        doc = Doc(content=str(body["content"]), metadata=dict(metadata) if isinstance(metadata, dict) else {})
        self.shelf.put(str(body["containerTag"]), doc)
        return 200, {"id": doc.id, "status": "queued"}

    async def status(self, call: Called) -> Reply:
        doc = self.shelf.find(call.parts[0])
        if doc is None:
            raise Refusal(404, {"error": "Document not found"})
        done = self.shelf.asked(doc)
        status = "failed" if doc.failed else "done" if done else "queued"
        return 200, {"id": doc.id, "status": status, "dreamingStatus": "done" if done else "dreaming"}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                q=text(),
                containerTag=optional(text(pattern=TAG)),
                limit=optional(whole(most=MOST)),
                threshold=optional(of(int, float)),
                searchMode=optional(text("memories", "hybrid", "documents")),
                rerank=optional(flag()),
            )
        )
        return self.found(str(body.get("containerTag", "")), body["q"], body.get("limit", 10))

    async def clear(self, call: Called) -> Reply:
        body = call.body(table(containerTags=many(text(pattern=TAG), least=1)))
        tags = body["containerTags"]
        assert isinstance(tags, list)
        gone = sum(len(self.shelf.spaces.pop(tag, {})) for tag in tags)
        return 200, {"success": True, "deletedCount": gone}
