"""MemOS: one user and cube per namespace, an envelope around every answer, errors with status 200."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.fakes.fields import Fault, many, mapping, of, optional, table, text, whole
from tests.fakes.frame import Called, Fake, Key, Refusal, Reply, Route, alike, best
from tests.fakes.mem0 import MESSAGES, contents
from tests.fakes.shelf import Doc


class Memos(Fake):
    """Without ``relativity: 0`` hits that are little alike are dropped silently."""

    auth = Key("Authorization", "Bearer ", optional=True)
    variables: ClassVar[Mapping[str, str]] = {"MEMOS_URL": "URL", "MEMOS_API_KEY": "KEY"}

    def routes(self) -> Mapping[str, Route]:
        return {
            "POST /product/add": self.add,
            "POST /product/search": self.search,
            "POST /product/scheduler/wait": self.wait,
            "POST /product/delete_memory": self.delete,
        }

    def refused(self, faults: list[Fault], tree: object) -> Refusal:
        return Refusal(422, {"code": 422, "message": f"{faults[0].name}: {faults[0].message}", "data": None})

    def unauthorized(self) -> Refusal:
        return Refusal(401, {"code": 401, "message": "Invalid API key", "data": None})

    async def add(self, call: Called) -> Reply:
        body = call.body(
            table(
                user_id=text(empty=False),
                writable_cube_ids=many(text(), least=1),
                messages=MESSAGES,
                async_mode=optional(text("async", "sync")),
                info=optional(mapping()),
                session_id=optional(text()),
            )
        )
        cubes, info = body["writable_cube_ids"], body.get("info")
        assert isinstance(cubes, list)
        kept = dict(info) if isinstance(info, dict) else {}
        docs = [self.shelf.put(cubes[0], Doc(content=one, metadata=kept)) for one in contents(body)]
        rows = [{"memory": doc.content, "memory_id": doc.id, "memory_type": "LongTermMemory"} for doc in docs]
        return 200, {"code": 200, "message": "Memory added successfully", "data": rows}

    async def wait(self, call: Called) -> Reply:
        asked = call.ask(
            table(user_name=of(str, int), timeout_seconds=optional(of(int)), poll_interval=optional(of(str)))
        )
        docs = self.shelf.all(str(asked["user_name"]))
        ready = [self.shelf.asked(doc) for doc in docs].count(False) == 0
        data = {"running_tasks": 0 if ready else 1, "timed_out": not ready, "user_name": asked["user_name"]}
        return 200, {"message": "idle" if ready else "timeout", "data": data}

    async def search(self, call: Called) -> Reply:
        body = call.body(
            table(
                user_id=text(empty=False),
                query=text(),
                readable_cube_ids=many(text(), least=1),
                top_k=optional(whole(most=1000)),
                mode=optional(text("fast", "fine", "mixture")),
                relativity=optional(of(int, float)),
            )
        )
        if not str(body["query"]).strip():
            return 200, {"code": 400, "message": "query must not be empty", "data": None}
        cubes = body["readable_cube_ids"]
        assert isinstance(cubes, list)
        least, k = float(str(body.get("relativity", 0.45))), int(str(body.get("top_k", 10)))
        docs = best(self.shelf.visible(cubes[0]), lambda doc: alike(str(body["query"]), doc.content), k)
        rows = [_row(score, doc) for score, doc in docs if score >= least]
        data = {"text_mem": [{"cube_id": cubes[0], "memories": rows}], "act_mem": [], "para_mem": []}
        return 200, {"code": 200, "message": "Search completed successfully", "data": data}

    async def delete(self, call: Called) -> Reply:
        body = call.body(table(writable_cube_ids=many(text(), least=1), memory_ids=many(text())))
        cubes, ids = body["writable_cube_ids"], body["memory_ids"]
        assert isinstance(cubes, list) and isinstance(ids, list)
        for one in ids:
            self.shelf.spaces.get(cubes[0], {}).pop(one, None)
        return 200, {"code": 200, "message": "Memories deleted successfully", "data": {"status": "success"}}


def _row(score: float, doc: Doc) -> dict[str, object]:
    metadata = {"memory_type": "LongTermMemory", "relativity": score, "info": doc.metadata, "sources": []}
    return {"id": doc.id, "memory": doc.content, "metadata": metadata}
