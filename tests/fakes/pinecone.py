"""Pinecone: vectors by namespace of one index; what was written can be found a little later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, flag, many, mapping, optional, table, text, vector, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, best, cosine
from tests.fakes.shelf import Doc

VERSION = "2026-07"
METADATA_BYTES = 40_960


class Pinecone(Fake):
    """Eventually consistent; the API version is a header."""

    auth = Key("Api-Key")
    variables: ClassVar[Mapping[str, str]] = {"PINECONE_INDEX_HOST": "URL", "PINECONE_API_KEY": "KEY"}

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /vectors/upsert": self.upsert,
            "POST /query": self.query,
            "POST /vectors/delete": self.delete,
            "GET /namespaces/{name}": self.namespace,
            "POST /describe_index_stats": self.stats,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        one = faults[0]
        return Refusal(400, {"code": 3, "message": f"{one.name}: {one.message}", "details": []})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"code": 16, "message": "Unauthorized", "details": []})

    def _versioned(self, call: Called) -> None:
        if call.headers.get("X-Pinecone-Api-Version") != VERSION:
            raise Refusal(400, {"code": 3, "message": "unsupported API version", "details": []})

    async def upsert(self, call: Called) -> Reply:
        self._versioned(call)
        one = table(
            id=text(empty=False, most=512), values=vector(), metadata=optional(mapping(str, int, float, bool, list))
        )
        body = call.body(table(vectors=many(one, least=1, most=100), namespace=optional(text())))
        vectors = body["vectors"]
        assert isinstance(vectors, list)
        for row in vectors:
            if len(repr(row.get("metadata")).encode()) > METADATA_BYTES:
                raise Refusal(400, {"code": 3, "message": "metadata size exceeds the limit", "details": []})
            doc = Doc(id=row["id"], content="", vector=row["values"], metadata=row.get("metadata", {}))
            self.shelf.replace(str(body.get("namespace", "")), doc)
        return 200, {"upsertedCount": len(vectors)}

    async def query(self, call: Called) -> Reply:
        self._versioned(call)
        body = call.body(
            table(
                vector=vector(),
                topK=whole(most=10_000),
                includeMetadata=optional(flag()),
                includeValues=optional(flag()),
                namespace=optional(text()),
                filter=optional(mapping()),
            )
        )
        space, asked = str(body.get("namespace", "")), body["vector"]
        assert isinstance(asked, list)
        for doc in self.shelf.all(space):
            self.shelf.asked(doc)
        docs = best(self.shelf.visible(space), lambda doc: cosine(asked, doc.vector), int(str(body["topK"])))
        shown = bool(body.get("includeMetadata"))
        matches = [
            {"id": doc.id, "score": score} | ({"metadata": doc.metadata} if shown else {}) for score, doc in docs
        ]
        return 200, {"matches": matches, "namespace": space, "usage": {"readUnits": 1}}

    async def delete(self, call: Called) -> Reply:
        self._versioned(call)
        body = call.body(table(deleteAll=optional(flag()), ids=optional(many(text())), namespace=optional(text())))
        if self.shelf.spaces.pop(str(body.get("namespace", "")), None) is None:
            raise Refusal(404, {"code": 5, "message": "Namespace not found", "details": []})
        return 200, {}

    async def namespace(self, call: Called) -> Reply:
        self._versioned(call)
        if call.parts[0] not in self.shelf.spaces:
            raise Refusal(404, {"code": 5, "message": "Namespace not found", "details": []})
        return 200, {"name": call.parts[0], "record_count": str(len(self.shelf.all(call.parts[0])))}

    async def stats(self, call: Called) -> Reply:
        self._versioned(call)
        call.body(table(filter=optional(mapping())))
        spaces = {name: {"vectorCount": len(docs)} for name, docs in self.shelf.spaces.items()}
        return 200, {"namespaces": spaces, "dimension": 64, "indexFullness": 0, "totalVectorCount": 0}
