"""Run mem0 as a library in this process.

The package ``mem0ai`` makes its own model calls, and keeps a vector store in the run's folder.

A run has one ``Memory`` object of mem0, and each namespace is one ``user_id``. The library blocks, so all calls run in
one separate thread::

    type: local
    adapter: bench.providers.mem0_library:Mem0Library
    local: {infer: true, store: qdrant, llm: gpt-4o-mini, embedder: text-embedding-3-small, dimensions: 1536}
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import Field

from bench.config.file import ConfigModel
from bench.errors import AuthError, CallError, RateLimited, Rejected, Unavailable
from bench.events import redact
from bench.model import Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers.adapters import local_of
from bench.providers.declarative.variables import BENCH_ID, MemoryFormat
from bench.providers.endpoints import Traffic, endpoints_of
from bench.providers.protocol import Durability, ProviderContext, Waiting
from bench.untyped_values import instant, number

# read when the library is imported: it would report its use, and keep a file in the home folder
os.environ.setdefault("MEM0_TELEMETRY", "False")
os.environ.setdefault("MEM0_DIR", str(Path(tempfile.gettempdir()) / "bench-mem0"))

from mem0 import Memory as Mem0
from mem0.exceptions import MemoryError as Mem0Error
from openai import APIConnectionError, APIStatusError, OpenAIError

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

Result = TypeVar("Result")

WHEN = "when"
PARTS = {"spacy": "entity search (spacy)", "fastembed": "keyword search (fastembed)"}
"""optional Python module -> feature of mem0 that needs this module"""
MAX_ITEMS = 10_000
"""largest number of memories that ``count`` can report"""


class Mem0Local(ConfigModel):
    """The settings under ``local:``. One endpoint serves the language model and the embedding model."""

    infer: bool = True
    """False stores messages unchanged, without a model"""
    store: Literal["qdrant", "chroma"] = "qdrant"
    llm: str = "gpt-4o-mini"
    embedder: str = "text-embedding-3-small"
    dimensions: int = Field(default=1536, ge=1)
    base_url: str = "https://api.openai.com/v1"
    key: str = "OPENAI_API_KEY"
    """environment variable with the key"""


class Mem0Library:
    """A provider that calls the mem0 library in this process."""

    durability: Durability = "file"
    wait = Waiting()

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        self._name = config.name
        self._http = context.http
        self._endpoints = endpoints_of(config)
        self._local = local_of(config, Mem0Local)
        self._folder = context.run_dir / config.name
        self._base_url = context.environment.resolve(self._local.base_url, where=config.place("local", "base_url"))
        self._key = context.environment.require(self._local.key, user=config.name).get_secret_value()
        self._shape = MemoryFormat()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=config.name)
        self._memory: Any = None

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._memory = await self._run("manage", lambda: Mem0.from_config(self._settings(self._folder)))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        memory, self._memory = self._memory, None
        self._thread.submit(_close, memory)
        self._thread.shutdown(wait=True)

    def _settings(self, folder: Path) -> dict[str, object]:
        local = self._local
        place: dict[str, object] = {"collection_name": "bench", "path": str(folder / local.store)}
        if local.store == "qdrant":
            place |= {"embedding_model_dims": local.dimensions, "on_disk": True}
        openai = {"api_key": self._key, "openai_base_url": self._base_url}
        embedder = {"model": local.embedder, "embedding_dims": local.dimensions, **openai}
        return {
            "llm": {"provider": "openai", "config": {"model": local.llm, "temperature": 0, **openai}},
            "embedder": {"provider": "openai", "config": embedder},
            "vector_store": {"provider": local.store, "config": place},
            "history_db_path": str(folder / "history.sqlite"),
        }

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Send each memory to mem0, with its turns as messages.

        The result maps the id of each memory to the ids that mem0 returned for it.
        """
        ids: dict[str, tuple[str, ...]] = {}
        for memory in memories:
            metadata = {BENCH_ID: memory.id, **({WHEN: memory.when.isoformat()} if memory.when else {})}
            messages = [_message(one) for one in self._shape.messages(memory)]
            response = await self._run("add", self._adding(space, messages, metadata))
            ids[memory.id] = tuple(str(one["id"]) for one in response["results"])
        return Ingested(ids=ids)

    def _adding(self, space: Space, messages: list[dict[str, str]], metadata: dict[str, str]) -> Callable[[], Any]:
        infer = self._local.infer
        return lambda: self._memory.add(messages, user_id=space.namespace, metadata=metadata, infer=infer)

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Return "ready", because mem0 has stored everything when an add returns."""
        return Readiness(state="ready")

    async def search(self, space: Space, query: Query) -> Found:
        """Return the first k hits in mem0's order. A blank question finds nothing, because mem0 would reject it."""
        if not query.text.strip():
            return Found(requested=query.k)
        filters = {"user_id": space.namespace}
        response = await self._run(
            "search", lambda: self._memory.search(query.text, filters=filters, top_k=query.k, threshold=0.0)
        )
        hits = tuple(_hit(row) for row in response["results"])
        return Found(hits=hits[: query.k], requested=query.k, returned=len(hits))

    async def clear(self, space: Space) -> int | None:
        """Delete all memories of the namespace. Return None, because mem0 does not report their number."""
        await self._run("manage", lambda: self._memory.delete_all(user_id=space.namespace))
        return None

    async def count(self, space: Space) -> int:
        """Return the number of memories in the namespace, at most 10,000."""
        filters = {"user_id": space.namespace}
        response = await self._run("status", lambda: self._memory.get_all(filters=filters, top_k=MAX_ITEMS))
        return len(response["results"])

    async def upstream_version(self) -> str:
        """Return the version of mem0, and the features that are off because a package is missing."""
        off = [what for module, what in PARTS.items() if find_spec(module) is None]
        return f"mem0ai {version('mem0ai')}" + (f" without {' and '.join(off)}" if off else "")

    async def _run(self, traffic: Traffic, work: Callable[[], Result]) -> Result:
        """Run a function in mem0's own thread, within the run's limits for this kind of request."""
        async with self._http.admit(self._endpoints[traffic], "mem0ai"):
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
            except (Mem0Error, OpenAIError, ValueError, OSError) as error:
                raise failure_of(self._name, error) from error


def failure_of(name: str, error: BaseException) -> CallError:
    """Convert an error of mem0 to a CallError.

    The innermost cause of ``error``, such as a failed model call, decides the class of the result.
    """
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = redact(f"{name}: {type(root).__name__}: {root}")[:500]
    if isinstance(root, APIStatusError):
        if root.status_code in (401, 403):
            return AuthError(text)
        if root.status_code == 429:
            return RateLimited(text)
        return Unavailable(text) if root.status_code >= 500 else Rejected(text)
    return Unavailable(text) if isinstance(root, APIConnectionError | OSError) else Rejected(text)


def _message(turn: object) -> dict[str, str]:
    assert isinstance(turn, dict)
    return {"role": str(turn["role"]), "content": str(turn["content"])}


def _hit(row: dict[str, Any]) -> Hit:
    metadata = row.get("metadata") or {}
    when, source = metadata.get(WHEN), metadata.get(BENCH_ID)
    return Hit(
        id=str(row["id"]),
        content=str(row["memory"]),
        score=number(row.get("score")),
        source_ids=(str(source),) if source else (),
        when=instant(when),
    )


def _close(memory: Any) -> None:
    if memory is None:
        return
    client = getattr(memory.vector_store, "client", None)
    if client is not None and hasattr(client, "close"):
        client.close()
    memory.close()
