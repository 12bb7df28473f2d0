"""A user's provider with a store in process memory; tests copy this file into a workspace."""

from __future__ import annotations

import anyio

from bench.model import Found, Hit, Ingested, Readiness
from bench.providers import Batching, Capabilities, Waiting


class Forgetful:
    """Store all memories in a dictionary of this process."""

    name, version, durability = "forgetful", "1", "process"
    capabilities, keeps_store, unbounded, on_unknown = Capabilities(), True, False, "reset"
    wait, batching = Waiting(), Batching()

    def __init__(self, config, context):
        self.spaces = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    async def ingest(self, space, memories):
        self.spaces.setdefault(space.namespace, []).extend(memories)
        return Ingested()

    async def ready(self, space, ingested):
        return Readiness(state="ready")

    async def search(self, space, query):
        await anyio.sleep(0.1)
        words = set(query.text.lower().split())
        kept = [m for m in self.spaces.get(space.namespace, []) if words & set(m.content.lower().split())]
        hits = tuple(Hit(id=m.id, content=m.content, source_ids=(m.id,)) for m in kept[: query.k])
        return Found(hits=hits, requested=query.k, returned=len(kept))

    async def clear(self, space):
        return len(self.spaces.pop(space.namespace, []))
