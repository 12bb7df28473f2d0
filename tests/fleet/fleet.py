"""The shipped configs pointed at their fakes, without pauses.

Example::

    async with opened_at("mem0", fake, folder) as provider:
        await provider.search(space, Query(text="Where does Ana live?", k=3))
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.providers import Provider, ProviderContext, open_provider
from tests.contract.running import context_for
from tests.fakes.agent_memory import AgentMemory
from tests.fakes.cognee import Cognee
from tests.fakes.embeddings import Embeddings
from tests.fakes.frame import Fake
from tests.fakes.graphiti import Graphiti
from tests.fakes.hindsight import Hindsight
from tests.fakes.letta import Letta
from tests.fakes.mem0 import Mem0, Mem0Oss
from tests.fakes.memobase import Memobase
from tests.fakes.memos import Memos
from tests.fakes.pinecone import Pinecone
from tests.fakes.qdrant import Qdrant
from tests.fakes.supermemory import Supermemory, SupermemoryV4
from tests.fakes.vector_stores import VectorStores
from tests.fakes.weaviate import Weaviate
from tests.fakes.zep import Zep, ZepV3

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "providers"

FAKES: dict[str, Callable[[], Fake]] = {
    "supermemory": Supermemory,
    "supermemory-v4": SupermemoryV4,
    "mem0": Mem0,
    "mem0-oss": Mem0Oss,
    "zep": Zep,
    "zep-v3": ZepV3,
    "letta": Letta,
    "graphiti": Graphiti,
    "hindsight": Hindsight,
    "agent-memory-server": AgentMemory,
    "qdrant": Qdrant,
    "weaviate": Weaviate,
    "pinecone": Pinecone,
    "openai-vector-stores": VectorStores,
    "cognee": Cognee,
    "memos": Memos,
    "memobase": Memobase,
}


def quick(name: str, changes: Mapping[str, object] | None = None) -> ProviderConfig:
    """Return a shipped config without rate limits and pauses; ``changes`` sets dotted keys."""
    path = CONFIGS / f"{name}.yaml"
    tree = json.loads(json.dumps(Source.read(path).tree, default=str))
    tree.pop("limits", None)
    tree["rateLimit"] = {"retryDelayMs": 1, "maxRetries": 2}
    for wait in (tree.get("wait"), tree["endpoints"].get("clear", {}).get("wait")):
        if isinstance(wait, dict):
            wait |= {"interval_ms": 5, "settle_ms": 0, "timeout_s": 20}
        elif wait is not None:
            tree["wait"] = {"interval_ms": 5, "timeout_s": 20}
    for dotted, value in (changes or {}).items():
        node = tree
        *parents, last = dotted.split(".")
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = value
    return load_provider(Source.parse(json.dumps(tree), path))


@asynccontextmanager
async def context_at(config: ProviderConfig, fake: Fake, folder: Path, **more: str) -> AsyncIterator[ProviderContext]:
    """Yield the context of a provider whose environment points to the fake, and to an embedder if it needs one."""
    async with AsyncExitStack() as stack:
        variables = {**fake.environment(), **more}
        if config.client_embeddings is not None:
            variables |= (await stack.enter_async_context(Embeddings().running())).environment()
        yield await stack.enter_async_context(context_for(config, folder, variables))


@asynccontextmanager
async def opened_at(
    name: str, fake: Fake, folder: Path, changes: Mapping[str, object] | None = None, **more: str
) -> AsyncIterator[Provider]:
    """Yield the open provider of a shipped config, connected to the fake."""
    config = quick(name, changes)
    async with context_at(config, fake, folder, **more) as context, open_provider(config, context) as provider:
        yield provider
