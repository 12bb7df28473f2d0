"""A provider file built from a base and changes, opened with the recorder."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.model import Ingested, Memory, Query, Space
from bench.providers import Provider, merge_captures
from tests.contract.running import opened
from tests.fakes.recorder import Service, recorder

BASE: dict[str, object] = {
    "name": "acme",
    "type": "hosted",
    "connection": {"baseUrl": "${ACME_URL}"},
    "endpoints": {
        "add": {"method": "POST", "path": "/add", "body": {"text": "$.content", "user": "$.runTag"}},
        "search": {
            "method": "POST",
            "path": "/search",
            "body": {"q": "$.query", "user": "$.runTag", "n": "$.k"},
            "response": {"results": "$.results", "contentField": "$.text"},
        },
        "clear": {"method": "DELETE", "path": "/users/${runTag}", "treat_as_ok": [404]},
    },
    "rateLimit": {"maxRetries": 2, "retryDelayMs": 1},
}
SPACE = Space(namespace="ns/1 ü", run_id="r1", benchmark="bm", corpus="c1", attempt=2)


def changed(changes: Mapping[str, object]) -> dict[str, object]:
    """Return the base with dotted keys set; a key set to ``...`` is removed."""
    tree = copy.deepcopy(BASE)
    for path, value in changes.items():
        node: object = tree
        *parents, last = path.split(".")
        for part in parents:
            assert isinstance(node, dict)
            node = node.setdefault(part, {})
        assert isinstance(node, dict)
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return tree


def declared(changes: Mapping[str, object], folder: Path = Path("/nowhere")) -> ProviderConfig:
    return load_provider(Source.parse(json.dumps(changed(changes)), folder / "acme.json"))


@dataclass(slots=True)
class Playing:
    """An open provider, the service behind it and a namespace."""

    provider: Provider
    service: Service
    space: Space = SPACE

    async def add(self, *contents: str, **fields: object) -> Ingested:
        """Ingest memories ``m0``, ``m1``, ... and add their captures to the space."""
        memories = [Memory(id=f"m{i}", content=text, **fields) for i, text in enumerate(contents)]  # type: ignore[arg-type]
        return await self.ingest(*memories)

    async def ingest(self, *memories: Memory) -> Ingested:
        got = await self.provider.ingest(self.space, memories)
        self.take(got.captures)
        return got

    def take(self, captures: Mapping[str, object]) -> None:
        space = self.space
        self.space = Space(
            namespace=space.namespace,
            run_id=space.run_id,
            benchmark=space.benchmark,
            corpus=space.corpus,
            attempt=space.attempt,
            captures=merge_captures(space.captures, captures),
        )

    async def search(self, text: str = "who?", k: int = 3, **fields: object):  # type: ignore[no-untyped-def]
        return await self.provider.search(self.space, Query(text=text, k=k, **fields))  # type: ignore[arg-type]

    def body(self, call: str, index: int = 0) -> object:
        return self.service.of(call)[index].json


@asynccontextmanager
async def playing(
    changes: Mapping[str, object] | None = None,
    answers: Mapping[str, object] | None = None,
    variables: Mapping[str, str] | None = None,
    folder: Path = Path("/nowhere"),
) -> AsyncIterator[Playing]:
    """Open a changed provider with a service that gives these responses."""
    config = declared(changes or {})
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(recorder({"POST /search": {"results": []}, **(answers or {})}))
        known = {"ACME_URL": service.url + "/", **(variables or {})}
        yield Playing(await stack.enter_async_context(opened(config, folder, known)), service)
