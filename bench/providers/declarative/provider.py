"""The class ``Declarative``: a provider whose calls are described by a YAML file.

If the file has no call for an optional operation, the provider has no method for this operation. So
``isinstance(provider, Counts)`` depends on the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from bench.errors import ConfigError
from bench.model import Embedder, Found, Hit, Ingested, Memory, Query, Readiness, Space
from bench.providers.batching import with_split_rule
from bench.providers.declarative.clear import ClearOperation
from bench.providers.declarative.http_channel import HttpChannel
from bench.providers.declarative.ingest import AddOperation, AddResponseReader, run_steps
from bench.providers.declarative.request import Channel, CompiledCall, ProviderConnection
from bench.providers.declarative.response import ResponsePath, compact, may_be_a_page, reports_more
from bench.providers.declarative.search import HitReader, SearchOperation
from bench.providers.declarative.setup import SetupOperation
from bench.providers.declarative.status_poller import StatusPoller, read_count, wait_rule
from bench.providers.declarative.variables import MemoryFormat, space_variables
from bench.providers.embedding import required_embedder
from bench.providers.protocol import (
    AtLeast,
    Batching,
    Capabilities,
    Durability,
    OnUnknown,
    ProviderContext,
    merge_captures,
)
from bench.visible_text import counted

if TYPE_CHECKING:
    from bench.config.provider.calls import Endpoints, RequestSection
    from bench.config.provider.config import ProviderConfig


class Declarative:
    """A provider whose calls are all described by one config file."""

    keeps_store = True
    unbounded = False

    def __init__(self, config: ProviderConfig, context: ProviderContext) -> None:
        if config.endpoints is None:
            raise ConfigError(f"{config.name} has no endpoints", where=config.place("type"), hint="add endpoints")
        self.config = config
        self.name = config.name
        self.version = f"config:{config.sha256[:12]}"
        self.durability: Durability = "service"
        self.capabilities: Capabilities = Capabilities.declared_in(config)
        self.on_unknown: OnUnknown = config.ingest.on_unknown
        self.wait = wait_rule(config.wait)
        self.batching = batching_rules(config)
        self._memory_format = MemoryFormat(
            timestamp=config.ingest.timestamp,
            metadata_values=config.capabilities.metadata_values,
            session_scoped=config.scoping.strategy == "sessionId",
        )
        self._connection = ProviderConnection.from_config(config, context, _channel(config, context))
        embedder = required_embedder(config, context.embedder) if config.client_embeddings else None
        self._compile(config.endpoints, embedder)

    def _compile(self, endpoints: Endpoints, embedder: Embedder | None) -> None:
        connection, config = self._connection, self.config
        self._search_operation = SearchOperation.compile(
            connection, config, endpoints.search, self._memory_format, embedder
        )
        self._add_operation = AddOperation.compile(
            connection,
            endpoints.add,
            "add",
            memory_format=self._memory_format,
            embedder=embedder,
            max_bytes=config.ingest.batch.max_bytes,
            hashes=self._search_operation.reader.sources.hashes,
        )
        if self.on_unknown == "reset" and all(step.idempotent for step in self._add_operation.steps):
            self.on_unknown = "repeat"  # its adds are repeated after a lost answer anyway, so a crash is no other case
        self._setup_operation = SetupOperation.compile(connection, config, embedder)
        self._clear_operation = ClearOperation.compile(connection, config, self._setup_operation)
        gives_ids = endpoints.add.response.ids is not None or (
            endpoints.finish is not None and endpoints.finish.response.ids is not None
        )
        self._status_poller = (
            StatusPoller.compile(connection, config.wait, "wait", gives_ids=gives_ids) if config.wait else None
        )
        self._offer(endpoints)

    def _offer(self, endpoints: Endpoints) -> None:
        """Add the optional provider methods for which the config has a call."""
        if self._setup_operation.calls:
            self.prepare = self._prepare
        if endpoints.finish is not None:
            self._finish_reader = AddResponseReader.compile(endpoints.finish.response, "finish.response")
            self._finish_steps = self._steps("finish", endpoints.finish.steps or (endpoints.finish,))
            self.finish = self._finish
        if endpoints.count is not None:
            self._count_call = self._connection.call("count", endpoints.count, traffic="status", check_kind="change")
            self._count_path = ResponsePath.at("count.value", endpoints.count.value)
            self.count = self._count
        if endpoints.version is not None:
            self._version_call = self._connection.call("version", endpoints.version, traffic="status")
            self._version_path = ResponsePath.at("version.value", endpoints.version.value)
            self.upstream_version = self._upstream_version
        if endpoints.delete is not None:
            self._delete_call = self._connection.call("delete", endpoints.delete, traffic="manage")
            self.delete = self._delete
        if endpoints.update is not None:
            update = self._connection.call("update", endpoints.update, traffic="add", check_kind="add")
            self._update_operation = replace(
                self._add_operation, steps=(update,), reader=AddResponseReader(None, None), failures=None
            )
            self.update = self._update
        if endpoints.list is not None:
            self._list_call = self._connection.call(
                "list", endpoints.list, traffic="search", check_kind="search", reads_text=endpoints.list.response.text
            )
            self._list_reader = HitReader.compile(
                endpoints.list.response,
                "list.response",
                connection=self._connection,
                session_scoped=self._memory_format.session_scoped,
            )
            self.list = self._list

    def _steps(self, key: str, calls: Sequence[RequestSection]) -> tuple[CompiledCall, ...]:
        return tuple(self._connection.call(key, call, traffic="add", check_kind="change") for call in calls)

    def _values(self, space: Space) -> dict[str, object]:
        return space_variables(space, self._connection.constants, session_scoped=self._memory_format.session_scoped)

    async def __aenter__(self) -> Self:
        await self._connection.channel.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._connection.channel.__aexit__(*exc)

    async def ingest(self, space: Space, memories: Sequence[Memory]) -> Ingested:
        """Send one batch of memories by ``endpoints.add``."""
        return await self._add_operation.ingest(space, memories)

    def assumed(self, space: Space, memories: Sequence[Memory], given: Mapping[str, Sequence[str]]) -> Ingested:
        """Return the result of a batch that is stored although its response was lost."""
        return self._add_operation.assumed(space, memories, given)

    async def ready(self, space: Space, ingested: Ingested) -> Readiness:
        """Send ``wait.request`` once and return whether the ingested memories can be searched.

        Without ``wait.request``, return ready; the engine then searches for a known memory until it is found.
        """
        if self._status_poller is None:
            return Readiness(state="ready")
        return await self._status_poller.poll(self._values(space), jobs=ingested.jobs, sent=list(ingested.ids))

    async def search(self, space: Space, query: Query) -> Found:
        """Search by ``endpoints.search`` and return at most k hits."""
        return await self._search_operation.search(space, query)

    async def clear(self, space: Space) -> int | None:
        """Run ``endpoints.clear``, ``verify_clear`` and ``teardown``.

        Return None, because the number of deleted memories is unknown.
        """
        await self._clear_operation.clear(space)
        return None

    async def _prepare(self, space: Space) -> Mapping[str, object]:
        return await self._setup_operation.prepare(self._values(space))

    async def _finish(self, space: Space, ingested: Ingested) -> Ingested:
        values = self._values(replace(space, captures=merge_captures(space.captures, ingested.captures)))
        answers, captures = await run_steps(self._finish_steps, {**values, "sent": len(ingested.ids)})
        id_map = self._finish_reader.id_map
        if id_map is not None:
            captures = merge_captures(captures, {id_map.name: id_map.read(answers, list(ingested.ids))})
        return Ingested(jobs=self._finish_reader.job_ids(answers), captures=captures)

    async def _count(self, space: Space) -> int:
        answer = await self._count_call.send(self._values(space))
        if not answer.ok:
            return 0
        count = read_count(answer, self._count_path)
        return AtLeast(count) if may_be_a_page(answer.tree, count) else count

    async def _upstream_version(self) -> str:
        answer = await self._version_call.send(self._connection.constants)
        try:
            json.loads(answer.response.body)
        except ValueError:
            return answer.response.text.strip()
        return compact(answer.value(self._version_path))

    async def _delete(self, space: Space, memory_ids: Sequence[str]) -> None:
        """Delete the memories: in one call if the call uses the variable ``ids``, otherwise in one call per id."""
        values = self._values(space)
        if "ids" in self._delete_call.uses():
            await self._delete_call.each({**values, "ids": list(memory_ids)})
            return
        for memory_id in memory_ids:
            await self._delete_call.each({**values, "id": memory_id})

    async def _update(self, space: Space, memories: Sequence[Memory]) -> None:
        if "items" in self._update_operation.steps[0].uses():
            await self._update_operation.ingest(space, memories)
            return
        for memory in memories:
            await self._update_operation.ingest(space, [memory])

    async def _list(self, space: Space, session_id: str | None = None) -> list[Hit]:
        answer = await self._list_call.send({**self._values(space), "sessionId": session_id})
        hits = list(self._list_reader.read(answer, space).hits)
        if answer.ok and not self._list_reader.plain and reports_more(answer.tree, len(hits)):
            raise answer.error(
                "list",
                f"the service returned {counted(len(hits), 'memor(y|ies)')}, but reports that its list is longer",
            )
        return hits


def batching_rules(config: ProviderConfig) -> Batching:
    """Return how memories are grouped into batches for this service."""
    batch = config.ingest.batch
    serial = config.limits.namespace_serial or config.ingest.order == "serial"
    own = Batching(
        max_items=batch.max_items,
        max_bytes=batch.max_bytes,
        max_chars=batch.max_chars,
        order="serial" if serial else "parallel",
        embeds=config.client_embeddings.batch if config.client_embeddings else 0,
    )
    return with_split_rule(config.ingest, own)


def _channel(config: ProviderConfig, context: ProviderContext) -> Channel:
    if config.type == "mcp":
        try:
            from bench.providers.declarative.mcp_channel import McpChannel
        except ImportError as error:
            raise ConfigError(
                f'type "mcp" needs the Python package "mcp": {error}',
                where=config.place("type"),
                hint="pip install 'memorybench[mcp]'",
            ) from error
        return McpChannel.from_config(config, context)
    return HttpChannel.from_config(config, context)
