"""The contract of an adapter whose library is in another environment: executed there, reported as JSON on stdout.

One process examines several settings, because the library takes seconds to import:

.servers/mem0/bin/python -m tests.fleet.library mem0-library http://127.0.0.1:1234 /tmp/x '{"infer": false}' '{}'
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import anyio

from bench.config.file import Source
from bench.config.provider.file import load_provider
from bench.http import Http
from bench.model import Memory, Query, Space
from bench.models import open_embedder
from bench.providers import ProviderContext, open_provider
from bench.providers.doctor import examine
from bench.settings import Environment

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "providers"
KEY = "sk-fake-0123456789abcdef"


async def main(name: str, url: str, folder: Path, settings: list[dict[str, object]]) -> list[dict[str, object]]:
    """Examine the shipped config with each of these ``local:``, in a folder of its own."""
    return [await examined(name, url, folder / str(number), local) for number, local in enumerate(settings)]


async def examined(name: str, url: str, folder: Path, local: dict[str, object]) -> dict[str, object]:
    """Examine the shipped config with a changed ``local:``, then open it once more over what it left."""
    folder.mkdir()
    tree = json.loads(json.dumps(Source.read(CONFIGS / f"{name}.yaml").tree, default=str))
    tree["local"] = {**tree.get("local", {}), **local}
    config = load_provider(Source.parse(json.dumps(tree), CONFIGS / f"{name}.yaml"))
    environment = Environment({"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY})
    async with Http(concurrency=4) as http:
        settings, embedder = config.client_embeddings, None
        if settings is not None:
            embedder = open_embedder(settings.model, http=http, environment=environment, options=settings)
        context = ProviderContext(http=http, environment=environment, run_dir=folder, embedder=embedder)
        report = (await examine(config, context)).as_json()
        space = Space(namespace="restart", run_id="r", benchmark="b", corpus="c")
        async with open_provider(config, context) as provider:
            await provider.ingest(space, [Memory(id="m1", content="Ana moved to Lisbon.")])
            durability = provider.durability
        async with open_provider(config, context) as provider:
            hits = (await provider.search(space, Query(text="Ana moved to Lisbon.", k=3))).hits
    return {**report, "durability": durability, "after_restart": [list(hit.source_ids) for hit in hits]}


if __name__ == "__main__":
    logging.disable()
    reports = anyio.run(
        main, sys.argv[1], sys.argv[2], Path(sys.argv[3]), [json.loads(local) for local in sys.argv[4:]]
    )
    print(json.dumps(reports))
