"""A memory system of one file that fails where a test wants it and records its calls.

Example::

    store = ScriptedStore.install(world, on_unknown="probe")
    store.fails("ingest", at=2, error="Unavailable", effect=True)     # the third call stores; its answer is lost
    store.calls("ingest")                                             # the calls in order
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.small_world import World

ADAPTER = '''
import json
from pathlib import Path

import bench.errors
from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import Batching, Capabilities, Waiting

HERE = Path(__file__).parent
OPERATIONS = frozenset({"add_memory", "retrieve_memory", "delete_memory"})


class Store:
    name, version, durability = "scripted", "1", "@durability@"
    capabilities, keeps_store, unbounded = Capabilities(operations=OPERATIONS, clear=@clear@), True, False
    on_unknown = "@on_unknown@"
    wait, batching = Waiting(@wait@), Batching()

    def __init__(self, config, context):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    def stored(self):
        path = HERE / "store.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def store(self, spaces):
        (HERE / "store.json").write_text(json.dumps(spaces))

    def record(self, call, **what):
        """Record a call and return its planned fault, if any."""
        path = HERE / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        number = sum(json.loads(line)["call"] == call for line in lines)
        path.write_text("\\n".join([*lines, json.dumps({"call": call, **what})]))
        faults = json.loads((HERE / "faults.json").read_text()) if (HERE / "faults.json").exists() else []
        return next((one for one in faults if one["call"] == call and one["at"] in (number, None)), None)

    def fail(self, fault):
        if fault is not None and fault["error"]:
            raise getattr(bench.errors, fault["error"])("planned fault")

    async def ingest(self, space, memories):
        fault = self.record("ingest", namespace=space.namespace, ids=[one.id for one in memories])
        if fault is None or fault["effect"]:
            spaces = self.stored()
            spaces.setdefault(space.namespace, []).extend([one.id, one.content] for one in memories)
            self.store(spaces)
        self.fail(fault)
        return Ingested(ids={one.id: (one.id,) for one in memories})

    async def ready(self, space, ingested):
        self.fail(self.record("ready", namespace=space.namespace, ids=sorted(ingested.ids)))
        return Readiness(state="ready")

    async def search(self, space, query):
        self.fail(self.record("search", text=query.text))
        words = set(query.text.lower().replace("?", "").split())
        held = self.stored().get(space.namespace, [])
        ranked = sorted(held, key=lambda one: -len(words & set(one[1].lower().split())))
        found = [one for one in ranked if words & set(one[1].lower().split())]
        hits = tuple(Hit(id=name, content=text, source_ids=(name,)) for name, text in found[: query.k])
        return Found(hits=hits, requested=query.k, returned=len(found))

    async def clear(self, space):
        self.fail(self.record("clear", namespace=space.namespace))
        spaces = self.stored()
        gone = spaces.pop(space.namespace, [])
        self.store(spaces)
        return len(gone)

    async def delete(self, space, ids):
        fault = self.record("delete", ids=sorted(ids))
        if fault is None or fault["effect"]:
            spaces = self.stored()
            spaces[space.namespace] = [one for one in spaces.get(space.namespace, []) if one[0] not in ids]
            self.store(spaces)
        self.fail(fault)
@count@
'''
COUNT = """
    async def count(self, space):
        self.fail(self.record("count"))
        return len(self.stored().get(space.namespace, []))
"""


@dataclass(frozen=True)
class ScriptedStore:
    """The provider ``scripted`` of a workspace."""

    folder: Path

    @classmethod
    def install(
        cls,
        world: World,
        *,
        on_unknown: str = "reset",
        durability: str = "service",
        wait: str = "",
        counts: bool = True,
        clears: bool = True,
    ) -> ScriptedStore:
        values = {"on_unknown": on_unknown, "durability": durability, "wait": wait, "clear": str(clears)}
        text = ADAPTER.replace("@count@", COUNT if counts else "")
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        world.write("configs/providers/scripted.py", text)
        world.write(
            "configs/providers/scripted.yaml",
            "name: scripted\ntype: local\nadapter: ./scripted.py:Store\nrateLimit: {maxRetries: 2}\n",
        )
        return cls(world.workspace / "configs/providers")

    def fails(self, call: str, *, at: int | None, error: str, effect: bool = False) -> None:
        """Let one call fail, counted from 0 over all processes; ``at`` None = all calls.

        ``effect`` = the call takes effect nevertheless; an empty ``error`` = the call reports no error.
        """
        path = self.folder / "faults.json"
        known = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*known, {"call": call, "at": at, "error": error, "effect": effect}]))

    def heal(self) -> None:
        (self.folder / "faults.json").unlink(missing_ok=True)

    def calls(self, *names: str) -> list[dict[str, Any]]:
        """Return the recorded calls in order."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [one for one in map(json.loads, lines) if not names or one["call"] in names]

    def forget_calls(self) -> None:
        (self.folder / "calls.jsonl").unlink(missing_ok=True)

    @property
    def held(self) -> dict[str, list[str]]:
        """Namespace -> stored texts."""
        path = self.folder / "store.json"
        spaces = json.loads(path.read_text()) if path.exists() else {}
        return {name: [text for _, text in held] for name, held in spaces.items() if held}
