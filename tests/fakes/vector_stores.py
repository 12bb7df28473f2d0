"""OpenAI's vector stores: a file is uploaded, attached to a store, and indexed in the background."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from email import message_from_bytes
from typing import ClassVar

from tests.fakes.fields import Fault, flag, mapping, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.shelf import Doc


def form_of(call: Called) -> dict[str, tuple[str, str | None]]:
    """A multipart body: field -> text and file name."""
    head = f"Content-Type: {call.headers.get('Content-Type', '')}\r\n\r\n".encode()
    fields: dict[str, tuple[str, str | None]] = {}
    for part in message_from_bytes(head + call.raw).walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            fields[name] = (payload.decode(), part.get_filename())
    return fields


class VectorStores(Fake):
    """Deleting a store leaves its files."""

    auth = Key("Authorization", "Bearer ")
    variables: ClassVar[Mapping[str, str]] = {"OPENAI_BASE_URL": "URL", "OPENAI_API_KEY": "KEY"}

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, object] = {}
        """store -> its name, oldest first; names need not be unique"""
        self.files: dict[str, tuple[str, str]] = {}
        """file id -> name and content"""

    def routes(self) -> Mapping[str, Route]:
        store = "/vector_stores/{store}"
        return {
            "POST /vector_stores": self.create,
            "GET /vector_stores": self.listed,
            f"GET {store}": self.get,
            f"DELETE {store}": self.clear,
            f"POST {store}/files": self.attach,
            f"GET {store}/files/{{file}}": self.status,
            f"POST {store}/search": self.search,
            "POST /files": self.upload,
            "DELETE /files/{file}": self.delete_file,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        one = faults[0]
        wording = {"missing": "Missing required parameter", "unknown": "Unknown parameter"}
        message = f"{wording.get(one.kind, 'Invalid value for')}: '{one.name}'."
        return _error(400, message, param=one.name)

    def unauthorized(self) -> Refusal:
        return _error(401, "Incorrect API key provided.", code="invalid_api_key")

    async def create(self, call: Called) -> Reply:
        body = call.body(
            table(name=optional(text()), metadata=optional(mapping(str)), expires_after=optional(mapping()))
        )
        store = f"vs_{uuid.uuid4().hex}"
        self.shelf.spaces[store] = {}
        self.names[store] = body.get("name")
        return 200, self._store(store) | {"name": body.get("name")}

    async def listed(self, call: Called) -> Reply:
        asked = call.ask(
            table(limit=optional(whole(most=100)), order=optional(text("asc", "desc")), after=optional(text()))
        )
        newest = list(reversed(self.names)) if asked.get("order", "desc") == "desc" else list(self.names)
        rows = [self._store(one) | {"name": self.names[one]} for one in newest[: int(str(asked.get("limit", 20)))]]
        return 200, {"object": "list", "data": rows, "has_more": len(self.names) > len(rows)}

    def _store(self, store: str) -> dict[str, object]:
        docs = self.shelf.all(store)
        done = sum(doc.ready for doc in docs)
        counts = {"in_progress": len(docs) - done, "completed": done, "failed": 0, "cancelled": 0, "total": len(docs)}
        return {"id": store, "object": "vector_store", "status": "completed", "file_counts": counts}

    def _known(self, call: Called) -> str:
        if call.parts[0] not in self.shelf.spaces:
            raise _error(404, f"Vector store with id '{call.parts[0]}' not found.")
        return call.parts[0]

    async def get(self, call: Called) -> Reply:
        return 200, self._store(self._known(call))

    async def clear(self, call: Called) -> Reply:
        store = self._known(call)
        del self.shelf.spaces[store], self.names[store]
        return 200, {"id": store, "object": "vector_store.deleted", "deleted": True}

    async def upload(self, call: Called) -> Reply:
        fields = form_of(call)
        for name in ("purpose", "file"):
            if name not in fields:
                raise _error(400, f"Missing required parameter: '{name}'.", param=name)
        unknown = set(fields) - {"purpose", "file", "expires_after"}
        if unknown or fields["purpose"][0] != "assistants":
            raise _error(400, "Invalid value.", param=(unknown or {"purpose"}).pop())
        content, filename = fields["file"]
        if filename is None or not re.search(r"\.(txt|md|pdf|json)$", filename):
            raise _error(400, "Invalid extension.", param="file")
        file = f"file-{uuid.uuid4().hex}"
        self.files[file] = (filename, content)
        return 200, {"id": file, "object": "file", "bytes": len(content), "filename": filename, "purpose": "assistants"}

    async def attach(self, call: Called) -> Reply:
        store = self._known(call)
        body = call.body(table(file_id=text(), attributes=optional(mapping(str, int, float, bool))))
        file = str(body["file_id"])
        if file not in self.files:
            raise _error(404, f"No such File object: {file}")
        attributes = body.get("attributes")
        doc = Doc(
            id=file, content=self.files[file][1], metadata=dict(attributes) if isinstance(attributes, dict) else {}
        )
        self.shelf.put(store, doc)
        return 200, self._file(store, doc, "in_progress")

    def _file(self, store: str, doc: Doc, status: str) -> dict[str, object]:
        head = {"id": doc.id, "object": "vector_store.file", "vector_store_id": store, "last_error": None}
        return {**head, "status": status, "attributes": doc.metadata}

    async def status(self, call: Called) -> Reply:
        store = self._known(call)
        doc = self.shelf.spaces[store].get(call.parts[1])
        if doc is None:
            raise _error(404, "No such file in the store.")
        ready = self.shelf.asked(doc)
        return 200, self._file(store, doc, "failed" if doc.failed else "completed" if ready else "in_progress")

    async def search(self, call: Called) -> Reply:
        store = self._known(call)
        body = call.body(
            table(
                query=text(),
                max_num_results=optional(whole(most=50)),
                rewrite_query=optional(flag()),
                filters=optional(mapping()),
                ranking_options=optional(mapping()),
            )
        )
        k = int(str(body.get("max_num_results", 10)))
        docs = best(self.shelf.visible(store), lambda doc: alike(str(body["query"]), doc.content), k)
        return 200, {"object": "vector_store.search_results.page", "data": [self._hit(*pair) for pair in docs]}

    def _hit(self, score: float, doc: Doc) -> dict[str, object]:
        """A long file comes back as several pieces of text."""
        pieces = doc.content.split("\n") if doc.content.count("\n") == 1 else [doc.content]
        return {
            "file_id": doc.id,
            "filename": self.files[doc.id][0],
            "score": score,
            "attributes": doc.metadata,
            "content": [{"type": "text", "text": piece} for piece in pieces],
        }

    async def delete_file(self, call: Called) -> Reply:
        if self.files.pop(call.parts[0], None) is None:
            raise _error(404, f"No such File object: {call.parts[0]}")
        return 200, {"id": call.parts[0], "object": "file", "deleted": True}


def _error(status: int, message: str, *, param: str | None = None, code: str | None = None) -> Refusal:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Refusal(status, {"error": error})
